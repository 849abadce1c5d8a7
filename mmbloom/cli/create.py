"""``mmbloom create``: an empty filter file, to add keys to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.cli import output
from mmbloom.cli.options import add_metadata, check_output, count, metadata_of, rate, seed

if TYPE_CHECKING:
    import argparse

    from mmbloom import BloomFilter, CountingBloomFilter

DESCRIPTION = """\
Make an empty filter file for N keys. 'mmbloom add' adds keys to it, and
'mmbloom seal' finishes it. An existing file is never replaced. The file has its
full size from the start; its size depends on N and the rate only.
"""
EPILOG = """\
examples:
  mmbloom create crawl.mmb --capacity 1e6
  mmbloom create denied.mmb --capacity 1e6 --kind counting    # keys can leave
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    import mmbloom

    parser.add_argument("path", metavar="FILE", help="the filter file to make")
    parser.add_argument(
        "--capacity",
        required=True,
        type=count,
        metavar="N",
        help="number of distinct keys to make room for, for instance 1e6",
    )
    parser.add_argument(
        "--fpr",
        type=rate,
        default=mmbloom.DEFAULT_FPR,
        metavar="P",
        help="false-positive rate with N keys in the filter (default %(default)s)",
    )
    parser.add_argument(
        "--kind",
        choices=_classes(),
        default="bloom",
        help="bloom (the default), or counting: four times the size, and keys can be removed",
    )
    parser.add_argument(
        "--layout",
        default="auto",
        metavar="NAME",
        help="where the bits of a key lie (default: auto). 'mmbloom plan' compares the layouts",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="seed of the hash (default 0), or random"
    )
    parser.add_argument(
        "--key-form",
        default="raw",
        metavar="FORM",
        help="raw (the default), or hex: keys are digests in hexadecimal, upper or lower case",
    )
    parser.add_argument(
        "--overfill",
        action="store_true",
        help="accept more than N keys later, at a rising false-positive rate",
    )
    add_metadata(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="no summary")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make the file and say what it is."""
    check_output(arguments.path)
    made = _classes()[arguments.kind].create(
        arguments.path,
        capacity=arguments.capacity,
        fpr=arguments.fpr,
        layout=arguments.layout,
        seed=arguments.seed,
        key_form=arguments.key_form,
        metadata=metadata_of(arguments) or None,
        overfill=arguments.overfill,
    )
    with made:
        facts = made.info()
    if arguments.json:
        output.print_json(facts)
    elif not arguments.quiet:
        output.print_rows(
            [
                ("file", f"{facts['path']}, {output.size_text(facts['file_bytes'])}"),
                ("kind", f"{facts['kind']}, layout {facts['layout']}"),
                ("keys", f"0 of {output.count_text(facts['capacity'])}"),
                ("fpr", f"{output.rate_text(facts['fpr'])} when full"),
            ]
        )
    return 0


def _classes() -> dict[str, type[BloomFilter | CountingBloomFilter]]:
    """Return the classes of filters that begin empty, by the name of the kind."""
    from mmbloom import BloomFilter, CountingBloomFilter

    return {each.kind: each for each in (BloomFilter, CountingBloomFilter)}
