"""``mmbloom check``: which keys may be in a filter."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mmbloom.cli import output
from mmbloom.cli.options import add_list_options, open_list

if TYPE_CHECKING:
    import argparse

    from mmbloom import BloomFilter

NAME = "check"
HELP = "print the keys that may be in a filter"
DESCRIPTION = """\
Print the keys that may be in a filter: those given as arguments, else the lines of standard input or of --list.
A line is printed whole and unchanged. A printed key may be a false positive, at the filter's rate; one that is not printed
is definitely not in it. Exit code: 0 some key may be in, 1 none is, 2 error.
"""
EPILOG = """\
examples:
  mmbloom check passwords.mmb hunter2 && echo 'choose another password'
  mmbloom check seen.mmb < urls.txt > seen-before.txt
  mmbloom check seen.mmb -v < urls.txt > new.txt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("filter", metavar="FILE", help="the filter file")
    parser.add_argument("keys", nargs="*", metavar="KEY", help="keys to look up")
    parser.add_argument("--list", default="-", metavar="LIST", help="read keys from this list (default: standard input)")
    add_list_options(parser)
    parser.add_argument(
        "-v", "--invert", action="store_true", help="print the keys that are definitely not in, instead"
    )
    parser.add_argument("-c", "--count", action="store_true", help="print how many lines it would be")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing; the exit code tells")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look up every key; return 0 if a line was selected."""
    from mmbloom import BloomFilter  # noqa: PLC0415 - loads only when used

    with BloomFilter.open(arguments.filter) as found:
        keys, selected = (_check_keys if arguments.keys else _check_list)(found, arguments)
    if arguments.json:
        maybe = keys - selected if arguments.invert else selected
        output.print_json({"keys": keys, "maybe": maybe, "definitely_not": keys - maybe})
    elif arguments.count and not arguments.quiet:
        sys.stdout.write(f"{selected}\n")
    return 0 if selected else 1


def _prints_lines(arguments: argparse.Namespace) -> bool:
    return not (arguments.count or arguments.quiet or arguments.json)


def _check_keys(found: BloomFilter, arguments: argparse.Namespace) -> tuple[int, int]:
    """Look up the keys of the command line; return how many there are and how many were selected."""
    wanted = not arguments.invert
    # Arguments that are no UTF-8 arrive as surrogates: back to the bytes that were typed.
    selected = [key for key in arguments.keys if (key.encode(errors="surrogateescape") in found) == wanted]
    if _prints_lines(arguments):
        for key in selected:
            sys.stdout.buffer.write(key.encode(errors="surrogateescape") + b"\n")
    return len(arguments.keys), len(selected)


def _check_list(found: BloomFilter, arguments: argparse.Namespace) -> tuple[int, int]:
    """Look up the lines of a list; return how many there are and how many were selected."""
    num_keys = num_selected = 0
    wanted = not arguments.invert
    with open_list(arguments.list, arguments) as lines_of_list:
        for lines in lines_of_list:
            maybe = found.contains_many(lines)
            num_maybe = int(maybe.sum())
            num_keys += len(maybe)
            num_selected += num_maybe if wanted else len(maybe) - num_maybe
            if _prints_lines(arguments):
                sys.stdout.buffer.write(lines.select(maybe, wanted=wanted))
    return num_keys, num_selected
