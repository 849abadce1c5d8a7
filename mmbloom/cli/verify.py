"""``mmbloom verify``: read a file whole and compare it with its checksums."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mmbloom.cli import output
from mmbloom.cli.progress import progress

if TYPE_CHECKING:
    import argparse

NAME = "verify"
HELP = "read filter files whole and compare them with their checksums"
DESCRIPTION = """\
Read filter files whole and compare them with their checksums. A damaged file is reported with the MiB that has changed.
Opening a file checks its header, its length and up to 8 of its keys, and costs nothing; this reads every byte.
Exit code: 0 all files are sound, 2 some is not.
"""
EPILOG = """\
example:
  mmbloom verify /srv/filters/*.mmb
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filters", nargs="+", metavar="FILE", help="a filter file")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Verify every file; return 2 if one is damaged."""
    from mmbloom import MmbloomError  # noqa: PLC0415 - loads only when used

    results = []
    for path in arguments.filters:
        try:
            checked = _verify(path)
        except (MmbloomError, OSError) as exc:
            results.append({"path": path, "sound": False, "error": str(exc)})
            sys.stderr.write(f"mmbloom: error: {exc}\n")
            continue
        results.append({"path": path, "sound": True, "checked_bytes": checked})
        if not arguments.json:
            found = f"{output.size_text(checked)} match their checksums" if checked else _UNSEALED
            sys.stdout.write(f"{path}: sound: {found}\n")
    if arguments.json:
        output.print_json(results)
    return 0 if all(result["sound"] for result in results) else 2


_UNSEALED = "header and canaries only: a file that is still written has no checksums yet"


def _verify(path: str) -> int:
    from mmbloom import BloomFilter  # noqa: PLC0415 - loads only when used

    with BloomFilter.open(path, advice="normal") as found, progress(unit="bytes") as report:
        return found.verify(progress=lambda done, total: report("verify", done, total))
