"""``mmbloom verify``: read files whole and compare them with their checksums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.cli import failures, output, streams
from mmbloom.cli.progress import progress

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Read whole filter files and compare them with their checksums. For a damaged
file the MiB that has changed is named. Opening a file checks only its header,
its length and up to 8 of its keys.
Exit code: 0 all files are sound, 2 some are not.
"""
EPILOG = """\
example:
  mmbloom verify filters/*.mmb
"""

_UNSEALED = "header and known keys only: a file that is not sealed yet has no checksums"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filters", nargs="+", metavar="FILE", help="a filter file")
    parser.add_argument("-q", "--quiet", action="store_true", help="name damaged files only")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Verify every file; return 2 if one is damaged."""
    from mmbloom import MmbloomError

    results: list[dict[str, Any]] = []
    for path in arguments.filters:
        try:
            checked = _verify(path, quiet=arguments.quiet)
        except (MmbloomError, OSError) as exc:
            message = failures.text_of(exc)
            results.append({"path": path, "sound": False, "error": message})
            streams.flush()  # so that the lines of both streams come in the order of the files
            streams.complain(f"mmbloom verify: error: {message}")
            continue
        results.append({"path": path, "sound": True, "checked_bytes": checked})
        if not (arguments.json or arguments.quiet):
            found = f"{output.size_text(checked)} match their checksums" if checked else _UNSEALED
            streams.write(f"{output.printable(path)}: sound: {found}\n")
    sound = all(result["sound"] for result in results)
    if arguments.json:
        output.print_json({"sound": sound, "files": results})
    return 0 if sound else 2


def _verify(path: str, *, quiet: bool) -> int:
    from mmbloom import open as open_filter

    with (
        open_filter(path, advice="normal") as found,
        progress(quiet=quiet) as show,
    ):
        return found.verify(progress=show)
