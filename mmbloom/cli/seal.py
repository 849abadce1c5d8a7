"""``mmbloom seal``: a filter file is finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.cli import output
from mmbloom.cli.failures import CommandError

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Finish a filter file that 'mmbloom create' or 'mmbloom build --kind counting'
made: add its checksums, and mark it as final. A sealed file can be published
and verified, and never changes again; this cannot be undone.
"""
EPILOG = """\
example:
  mmbloom seal crawl.mmb
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filter", metavar="FILE", help="the filter file")
    parser.add_argument("-q", "--quiet", action="store_true", help="no summary")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Seal the file and say what it holds."""
    import mmbloom

    with mmbloom.open(arguments.filter) as found:
        if found.sealed:
            raise CommandError(f"{arguments.filter}: already sealed")
    mmbloom.open_writable(arguments.filter).seal()
    with mmbloom.open(arguments.filter) as found:
        facts = found.info()
    if arguments.json:
        output.print_json(facts)
    elif not arguments.quiet:
        count = output.count_text
        output.print_rows(
            [
                ("file", f"{facts['path']}, {output.size_text(facts['file_bytes'])}, sealed"),
                ("keys", f"{count(facts['keys_added'])} of {count(facts['capacity'])}"),
                ("fpr", output.rate_text(facts["expected_fpr"])),
            ]
        )
    return 0
