"""``mmbloom merge``: the union of filter files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.cli import output

if TYPE_CHECKING:
    import argparse

NAME = "merge"
HELP = "unite filter files with equal parameters"
DESCRIPTION = """\
Write the union of filter files: exactly the filter of the keys of all of them. Their parameters (layout, size, probes, seed,
key form) must be equal, so build them with the same --capacity and --fpr. A union that by estimate exceeds the capacity is
refused, unless --overfill; then its rate is higher than asked for, and 'mmbloom info' tells it.
"""
EPILOG = """\
example:
  mmbloom merge monday.mmb tuesday.mmb -o week.mmb
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filters", nargs="+", metavar="FILE", help="a filter file")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the filter file to write")
    parser.add_argument("--overfill", action="store_true", help="unite even past the capacity")
    parser.add_argument("--force", action="store_true", help="replace the output if it exists")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Unite the files in memory, and write the result."""
    from mmbloom import BloomFilter, CapacityError  # noqa: PLC0415 - loads only when used

    with BloomFilter.open(arguments.filters[0], advice="normal") as first:
        union = first.copy()
    for path in arguments.filters[1:]:
        with BloomFilter.open(path, advice="normal") as other:
            union = union | other
    with union:
        if union.keys_added > union.capacity and not arguments.overfill:
            raise CapacityError(f"the union of about {union.keys_added} keys", union.capacity)
        union.save(arguments.output, if_exists="replace" if arguments.force else "raise")
    with BloomFilter.open(arguments.output) as merged:
        facts = merged.info()
    if arguments.json:
        output.print_json(facts)
        return 0
    output.print_rows(
        [
            ("file", f"{arguments.output}, {output.size_text(facts['file_bytes'])}"),
            ("keys", f"about {output.count_text(facts['keys_added'])} of {output.count_text(facts['capacity'])}"),
            ("fpr", f"{output.rate_text(facts['expected_fpr'])}; sized for {facts['fpr']:g}"),
        ]
    )
    return 0
