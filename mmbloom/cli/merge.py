"""``mmbloom merge``: the union of filter files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.cli import output
from mmbloom.cli.failures import CommandError, force_is_an_option
from mmbloom.cli.options import check_output

if TYPE_CHECKING:
    import argparse

    from mmbloom import BloomFilter

DESCRIPTION = """\
Write the union of filter files: exactly the filter of the keys of all of them.
They must have been built alike: the same --capacity, --fpr, --layout, --seed
and --key-form. A union that by estimate exceeds the capacity is refused, unless
--overfill; then its false-positive rate is higher than asked for, and 'mmbloom
info' tells it. Metadata are those of the first FILE. Memory: twice the payload.
"""
EPILOG = """\
example:
  mmbloom merge monday.mmb tuesday.mmb -o week.mmb
"""

_BUILD_ALIKE = "Build them with the same --capacity, --fpr, --layout, --seed and --key-form"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filters", nargs="+", metavar="FILE", help="a filter file")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the filter file to write"
    )
    parser.add_argument("--overfill", action="store_true", help="unite even past the capacity")
    parser.add_argument(
        "--force", action="store_true", help="replace the output if it exists; readers keep the old"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no summary")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Unite the files in memory, and write the result."""
    from mmbloom import BloomFilter

    check_output(arguments.output)
    with _union(arguments.filters) as union, force_is_an_option(arguments):
        if not arguments.overfill:
            _refuse_overfill(union, arguments.output)
        union.save(arguments.output, if_exists="replace" if arguments.force else "raise")
    with BloomFilter.open(arguments.output) as merged:
        facts = merged.info()
    if arguments.json:
        output.print_json(facts)
    elif not arguments.quiet:
        _print_summary(facts)
    return 0


def _union(paths: list[str]) -> BloomFilter:
    from mmbloom import BloomFilter, IncompatibleError

    with BloomFilter.open(paths[0], advice="normal") as first:
        union = first.copy()
    for path in paths[1:]:
        with BloomFilter.open(path, advice="normal") as other:
            try:
                union = union | other
            except IncompatibleError as exc:
                message = f"{paths[0]} and {path} differ in {exc.field}: {exc.left} and {exc.right}"
                raise CommandError(f"{message}. {_BUILD_ALIKE}") from exc
    return union


def _refuse_overfill(union: BloomFilter, path: str) -> None:
    if union.keys_added > union.capacity:
        raise CommandError(
            f"{path}: the union has about {union.keys_added:,} keys, and the files are sized for "
            f"{union.capacity:,}. Build them with a larger --capacity, or add --overfill and "
            "accept a higher rate"
        )


def _print_summary(facts: dict[str, Any]) -> None:
    count = output.count_text
    output.print_rows(
        [
            ("file", f"{facts['path']}, {output.size_text(facts['file_bytes'])}"),
            ("keys", f"about {count(facts['keys_added'])} of {count(facts['capacity'])}"),
            ("fpr", f"{output.rate_text(facts['expected_fpr'])}; sized for {facts['fpr']:g}"),
        ]
    )
