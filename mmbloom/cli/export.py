"""``mmbloom export``: a counting filter becomes a read-only Bloom filter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mmbloom.cli import output
from mmbloom.cli.failures import CommandError, force_is_an_option, not_counting
from mmbloom.cli.options import check_output

if TYPE_CHECKING:
    import argparse

    from mmbloom.storage.publish import IfExists

DESCRIPTION = """\
Write the Bloom filter that gives the same answers as a counting filter, sealed
and a quarter of the size, to be served. The counting filter stays as it is.
With --force the new file is the next generation of an existing one, and readers
that follow the path change to it.
"""
EPILOG = """\
examples:
  mmbloom export denied.mmb -o served.mmb
  mmbloom export denied.mmb -o served.mmb --force    # after keys came or left
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filter", metavar="FILE", help="the counting filter")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the Bloom filter to write"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace the output if it exists; readers keep the old"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no summary")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the Bloom filter and say what it is."""
    from mmbloom import CountingBloomFilter, WrongKindError

    check_output(arguments.output)
    try:
        found = CountingBloomFilter.open(arguments.filter, advice="normal")
    except WrongKindError as exc:
        raise not_counting(arguments.filter, exc.found, "export") from exc
    if os.path.exists(arguments.output) and os.path.samefile(arguments.filter, arguments.output):
        raise CommandError(
            f"{arguments.output}: the counting filter itself, which would be lost: choose another "
            "--output"
        )
    if_exists: IfExists = "replace" if arguments.force else "raise"
    with found, force_is_an_option(arguments):
        written = found.to_bloom(arguments.output, if_exists=if_exists)
    with written:
        facts = written.info()
    if arguments.json:
        output.print_json(facts)
    elif not arguments.quiet:
        count = output.count_text
        output.print_rows(
            [
                ("file", f"{facts['path']}, {output.size_text(facts['file_bytes'])}"),
                ("keys", f"{count(facts['keys_added'])} of {count(facts['capacity'])}"),
                ("fpr", f"{output.rate_text(facts['expected_fpr'])}; {facts['fpr']:g} when full"),
                ("generation", facts["generation"]),
            ]
        )
    return 0
