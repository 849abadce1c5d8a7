"""``mmbloom digest``: what open(expected_digest=...) compares with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.cli import output, streams

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Print the SHA-256 of filter files. A program that opens a file with
expected_digest='sha256:...' refuses every other file. The checksums within the
file, which 'mmbloom verify' compares, find damage, not malice.
"""
EPILOG = """\
example:
  mmbloom digest passwords.mmb
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filters", nargs="+", metavar="FILE", help="a filter file")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one digest a file."""
    from mmbloom import file_digest

    digests = []
    for path in arguments.filters:
        digests.append({"path": path, "digest": file_digest(path)})
        if not arguments.json:
            streams.write(f"{digests[-1]['digest']}  {output.printable(path)}\n")
    if arguments.json:
        output.print_json({"files": digests})
    return 0
