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

    from mmbloom import Filter, FilterStack
    from mmbloom.keys.lines import Lines
    from mmbloom.keys.records import Records

DESCRIPTION = """\
Print the keys that may be in a filter. The keys are each KEY, or else the lines
of --list or of standard input. A text line is printed whole; of a table, CSV or
JSON only the key is printed. A printed key may be a false positive, at the rate
that 'mmbloom info' shows; a key that is not printed is definitely not in the
filter. Answers are printed as lines arrive, so the command works in a pipe.
FILE can be the manifest of a stack (FilterStack.save() in Python).
Exit code: 0 if a key was selected, 1 if none was, 2 error.
"""
EPILOG = """\
examples:
  mmbloom check passwords.mmb hunter2 && echo 'choose another password'
  mmbloom check seen.mmb < urls.txt > seen-before.txt
  mmbloom check seen.mmb -v < urls.txt > new.txt
  mmbloom check pwned.mmb --hibp --list suspects.txt    # lines are HASH:count
  mmbloom check denied.mmb --times example.org          # of a counting filter
  mmbloom check all.stack hunter2                       # of a stack of filters
"""

# Importing NumPy, as contains_many() does, takes ten times as long as looking up a few keys.
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
    parser.add_argument(
        "filter", metavar="FILE", help="the filter file, or the manifest of a stack"
    )
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
    with _open(arguments.filter) as found:
        refuse_hibp_of_text(arguments, _key_form(found))
        estimate = getattr(found, "count_estimate", None)
        if arguments.times and estimate is None:
            kind = getattr(found, "kind", "stack of")
            raise not_counting(arguments.filter, kind, "check --times")
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
            if estimate is not None and arguments.keys:
                facts["times"] = {word: estimate(os.fsencode(word)) for word in tally.maybe_keys}
            output.print_json(facts | {"expected_fpr": found.expected_fpr()})
    if arguments.count and not (arguments.quiet or arguments.json):
        streams.write(f"{tally.selected}\n")
    return 0 if tally.selected else 1


def _open(path: str) -> Filter | FilterStack:
    """Open a filter, or the stack of a manifest."""
    import mmbloom

    try:
        return mmbloom.open(path)
    except mmbloom.FormatError:
        if not os.path.isfile(path):
            raise
        with open(path, "rb") as file:
            if file.read(1) != b"{":  # the first byte of a manifest, and of no filter
                raise
    return mmbloom.FilterStack.open(path)


def _key_form(found: Filter | FilterStack) -> str:
    return found.members[0].key_form if hasattr(found, "members") else found.key_form


def _prints_keys(arguments: argparse.Namespace) -> bool:
    return not (arguments.count or arguments.quiet or arguments.json)


def _check_keys(found: Filter | FilterStack, arguments: argparse.Namespace) -> _Tally:
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


def _times(found: Filter | FilterStack, key: bytes, arguments: argparse.Namespace) -> bytes:
    estimate = getattr(found, "count_estimate", None)
    return b"%d " % estimate(key) if arguments.times and estimate is not None else b""


def _check_list(found: Filter | FilterStack, arguments: argparse.Namespace) -> _Tally:
    """Look up the lines of a list, a block at a time."""
    if arguments.list is None and os.isatty(0) and sys.stderr.isatty():
        streams.complain("keys, one a line; Ctrl-D ends:")
    num_keys = num_selected = 0
    wanted = not arguments.invert
    with open_list(arguments.list or "-", arguments) as blocks, hibp_is_an_option(arguments):
        for number, lines in enumerate(blocks):
            if number == 0 and _key_form(found) == "raw":  # else it is refused, with this hint
                suggest_hibp("mmbloom check", blocks.name, blocks.sample(lines), arguments)
            maybe, num_maybe = _answers(found, lines, arguments)
            num_keys += len(maybe)
            num_selected += num_maybe if wanted else len(maybe) - num_maybe
            if _prints_keys(arguments):
                streams.write(lines.select(maybe, wanted=wanted))
                streams.flush()  # a pipe may be slow, and its reader waits for these answers
            if arguments.quiet and num_selected:
                break
    return _Tally(num_keys, num_selected)


def _answers(
    found: Filter | FilterStack, lines: Lines | Records, arguments: argparse.Namespace
) -> tuple[bytearray | memoryview, int]:
    """Return one byte a key, 1 for maybe, and how many are."""
    is_plain = _key_form(found) == "raw" and not arguments.hibp and not has_list_options(arguments)
    if is_plain and len(lines.data) <= _FEW_BYTES and not hasattr(lines, "offsets"):
        keys = (line.removesuffix(b"\r") for line in bytes(lines.data).split(b"\n"))
        few = bytearray(key in found for key in keys if key)
        return few, few.count(1)
    import numpy as np

    maybe = found.contains_many(lines)
    return maybe.data, int(np.count_nonzero(maybe))
