"""``mmbloom check``: which keys may be in a filter."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from mmbloom.cli import output, streams
from mmbloom.cli.failures import hibp_is_an_option, not_counting, refuse_hibp_of_text
from mmbloom.cli.options import (
    UsageError,
    add_list_options,
    has_list_options,
    open_list,
    resolve_hibp,
    suggest_hibp,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from mmbloom.filters.handle import FilterHandle
    from mmbloom.keys.lines import Lines
    from mmbloom.keys.records import Records

DESCRIPTION = """\
Print the keys that may be in a filter: those given as KEY, else the lines of
standard input or of --list. A line is printed whole; of a table, CSV or JSON
the key. A printed key may be a false positive, at the rate that 'mmbloom info'
tells; one that is not printed is definitely not in. Answers come as the lines
do, so it works in a pipe.
Exit code: 0 some key may be in (with -v: some is not), 1 none, 2 error.
"""
EPILOG = """\
examples:
  mmbloom check passwords.mmb hunter2 && echo 'choose another password'
  mmbloom check seen.mmb < urls.txt > seen-before.txt
  mmbloom check seen.mmb -v < urls.txt > new.txt
  mmbloom check pwned.mmb --hibp --list suspects.txt    # lines are HASH:count
  mmbloom check denied.mmb --times example.org          # of a counting filter
"""

# Importing NumPy takes ten times as long as the rest of a look-up of a few keys. A block of that
# size goes straight to the engine, without contains_many() and its reading ahead of cold files.
_FEW_BYTES = 4096


class _Tally(NamedTuple):
    """How many keys there were, how many are selected for printing, and which were "maybe".

    The latter of keys on the command line only: a list may be long.
    """

    keys: int
    selected: int
    maybe_keys: Sequence[str] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filter", metavar="FILE", help="the filter file")
    parser.add_argument("keys", nargs="*", default=[], metavar="KEY", help="keys to look up")
    parser.add_argument(
        "--list",
        metavar="LIST",
        help="read keys from this list, compressed or not (default: standard input)",
    )
    add_list_options(parser)
    parser.add_argument(
        "-v", "--invert", action="store_true", help="select the keys that are definitely not in"
    )
    parser.add_argument(
        "-c", "--count", action="store_true", help="print how many keys are selected"
    )
    parser.add_argument(
        "--times",
        action="store_true",
        help="print 'N KEY' for each KEY selected: it was added at most N times more than it was "
        "removed; 15 stands for 15 and more (counting filters only)",
    )
    parser.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="print nothing, end at the first key selected; the exit code tells",
    )
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look up every key; return 0 if a key was selected."""
    from mmbloom import CountingBloomFilter
    from mmbloom import open as open_filter

    resolve_hibp(arguments)
    if arguments.keys and (arguments.list or has_list_options(arguments)):
        raise UsageError("KEY is looked up as it is: leave out the options that are for lists")
    if arguments.times and not arguments.keys:
        raise UsageError("--times is for keys that are given as KEY")
    if "" in arguments.keys:  # "not found" would be taken for an answer
        raise UsageError(
            "KEY is empty: is a variable of the shell unset? A list can hold the empty key, as a "
            "field: printf ',\\n' | mmbloom check FILE --delimiter ,"
        )
    with open_filter(arguments.filter) as found:
        refuse_hibp_of_text(arguments, found.key_form)
        if arguments.times and not isinstance(found, CountingBloomFilter):
            raise not_counting(arguments.filter, found.kind, "check --times")
        tally = (_check_keys if arguments.keys else _check_list)(found, arguments)
        if arguments.json and not arguments.quiet:
            maybe = tally.keys - tally.selected if arguments.invert else tally.selected
            facts: dict[str, Any] = {
                "keys": tally.keys,
                "maybe": maybe,
                "definitely_not": tally.keys - maybe,
            }
            if arguments.keys:
                facts["maybe_keys"] = tally.maybe_keys
            if isinstance(found, CountingBloomFilter) and arguments.keys:
                words = tally.maybe_keys
                facts["times"] = {word: found.count_estimate(os.fsencode(word)) for word in words}
            output.print_json(facts | {"expected_fpr": found.expected_fpr()})
    if arguments.count and not (arguments.quiet or arguments.json):
        streams.write(f"{tally.selected}\n")
    return 0 if tally.selected else 1


def _prints_keys(arguments: argparse.Namespace) -> bool:
    return not (arguments.count or arguments.quiet or arguments.json)


def _check_keys(found: FilterHandle, arguments: argparse.Namespace) -> _Tally:
    """Look up the keys of the command line, as the bytes that were typed."""
    from mmbloom import KeyValueError

    selected = 0
    maybe_keys = []
    for word in arguments.keys:
        key = os.fsencode(word)
        try:
            maybe = key in found
        except KeyValueError as exc:
            reason = str(exc).removeprefix("key: ")
            raise KeyValueError(
                f"{word!r}: {reason}. This filter holds digests: give that of the key"
            ) from exc
        if maybe:
            maybe_keys.append(word)
        if maybe != arguments.invert:
            selected += 1
            if _prints_keys(arguments):
                streams.write(_times(found, key, arguments) + key + b"\n")
    return _Tally(len(arguments.keys), selected, maybe_keys)


def _times(found: FilterHandle, key: bytes, arguments: argparse.Namespace) -> bytes:
    from mmbloom import CountingBloomFilter

    if arguments.times and isinstance(found, CountingBloomFilter):
        return b"%d " % found.count_estimate(key)
    return b""


def _check_list(found: FilterHandle, arguments: argparse.Namespace) -> _Tally:
    """Look up the lines of a list, a block at a time."""
    if arguments.list is None and os.isatty(0) and sys.stderr.isatty():
        streams.complain("keys, one a line; Ctrl-D ends:")
    num_keys = num_selected = 0
    wanted = not arguments.invert
    with open_list(arguments.list or "-", arguments) as blocks, hibp_is_an_option(arguments):
        for number, lines in enumerate(blocks):
            if number == 0 and found.key_form == "raw":  # else it is refused, with this hint
                suggest_hibp("mmbloom check", blocks.name, blocks.sample(lines), arguments)
            maybe, num_maybe = _answers(found, lines)
            num_keys += len(maybe)
            num_selected += num_maybe if wanted else len(maybe) - num_maybe
            if _prints_keys(arguments):
                streams.write(lines.select(maybe, wanted=wanted))
                streams.flush()  # a pipe may be slow, and its reader waits for these answers
            if arguments.quiet and num_selected:
                break
    return _Tally(num_keys, num_selected)


def _answers(found: FilterHandle, lines: Lines | Records) -> tuple[bytearray | memoryview, int]:
    """Return one byte a key, 1 for maybe, and how many are."""
    if len(lines.data) <= _FEW_BYTES:
        few = bytearray(len(lines.batch))
        del few[found._contains_batch(lines.batch, few) :]
        return few, few.count(1)
    import numpy as np

    maybe = found.contains_many(lines)
    return maybe.data, int(np.count_nonzero(maybe))
