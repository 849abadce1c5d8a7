"""What the options of commands have in common: the parser, numbers, and the shape of lists."""

from __future__ import annotations

import argparse
import re
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from mmbloom.cli import output, streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmbloom.build.sources import KeyList


_MARK = "\0"
_HASH_COUNT = re.compile(rb"[0-9A-Fa-f]{32,128}:[0-9]+")
_LOOKED_AT_LINES, _LOOKED_AT_BYTES = 20, 1 << 12
_HELP_COLUMNS = 80  # as the descriptions; to ask for the terminal's, argparse loads shutil and lzma


class UsageError(Exception):
    """Options that do not go together: what the parser cannot see."""


class Parser(argparse.ArgumentParser):
    """An argument parser that answers a mistake in two lines, not with the whole usage."""

    def __init__(self, prog: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=_HELP_COLUMNS),
            allow_abbrev=False,  # a script that abbreviates breaks when an option is added
        )

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the help is; exit with 2."""
        message = message.removeprefix("argument ")
        self.exit(2, f"{self.prog}: error: {message}\nSee '{self.prog} --help'.\n")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse options and names in any order, as in "check FILE -v KEY"; behind -- are names.

        parse_intermixed_args() of Python 3.11 loses a -- that comes first, so the words behind it
        are marked instead, with what no argument of a process can hold.
        """
        words = list(argv)
        if "--" in words:
            first = words.index("--")
            words[first:] = [_MARK + word for word in words[first + 1 :]]
        found = self.parse_intermixed_args(words)
        for name, value in vars(found).items():
            if isinstance(value, str):
                setattr(found, name, value.removeprefix(_MARK))
            elif isinstance(value, list):
                setattr(found, name, [word.removeprefix(_MARK) for word in value])
        return found

    def option_of(self, parameter: str) -> str:
        """Return the option that sets a parameter of the Python interface, or else its name."""
        options = {
            action.dest: action.option_strings[-1]
            for action in self._actions
            if action.option_strings
        }
        return options.get(parameter, parameter)


def count(text: str) -> int:
    """Parse a number of keys: 1000000, 1_000_000 or 1e6."""
    try:
        return int(text)
    except ValueError:
        number = _float(text)
        if number is None or not number.is_integer():  # infinity and NaN are no integers either
            message = f"expected a whole number, for instance 1000000 or 1e6, found {text!r}"
            raise argparse.ArgumentTypeError(message) from None
        return int(number)


def seed(text: str) -> int | str:
    """Parse a seed: a number, or the word random. Both are checked where a filter is made."""
    try:
        return int(text)
    except ValueError:
        return text


def rate(text: str) -> float:
    """Parse a false-positive rate. Its range is checked where a filter is made."""
    number = _float(text)
    if number is None:
        percent = _float(text.removesuffix("%"))
        hint = "" if percent is None else f" (did you mean {percent / 100:g}?)"
        message = f"expected a number such as 0.001, found {text!r}{hint}"
        raise argparse.ArgumentTypeError(message)
    return number


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def add_list_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which part of a line is the key."""
    parser.add_argument(
        "--delimiter",
        metavar="C",
        type=lambda text: "\t" if text == "\\t" else text,
        help="the character between the fields of a line, for instance ',' or '\\t'; the key is "
        "the first field, or the one of --field. Without it the whole line is the key. Lines are "
        "split at each C: quotes have no meaning, and a header line is a key. For CSV with quotes "
        "use Python's csv module or pyarrow.csv",
    )
    parser.add_argument("--field", type=int, metavar="N", help="which field is the key, from 1")
    parser.add_argument(
        "--hibp",
        action="store_true",
        help="lines are HASH:count, as in breach lists, and the key is the digest HASH in "
        "hexadecimal: --delimiter : --field 1 and the key form hex",
    )


def check_output(path: str) -> None:
    """Refuse "-" as a file to write: a filter is written here and there, not front to end.

    Raises:
        UsageError: it is "-".
    """
    if path == "-":
        raise UsageError("a filter cannot be written to standard output: for a file '-' give ./-")


def resolve_hibp(arguments: argparse.Namespace) -> None:
    """Set the options that --hibp stands for.

    Raises:
        UsageError: one of them is there as well.
    """
    if arguments.hibp:
        if arguments.delimiter is not None or arguments.field is not None:
            raise UsageError("--hibp has --delimiter and --field in it: leave those out")
        arguments.delimiter = ":"


def open_list(path: str, arguments: argparse.Namespace) -> KeyList:
    """Open one list as the options say."""
    from mmbloom import read_list

    return read_list(path, delimiter=arguments.delimiter, field=arguments.field)


def suggest_hibp(prog: str, name: str, data: bytes, arguments: argparse.Namespace) -> None:
    """Say so if the first block of a list, read as whole lines, looks like HASH:count.

    Such keys are never asked for: the answers would all be "definitely not".
    """
    if arguments.quiet or arguments.delimiter is not None:
        return
    lines = data[:_LOOKED_AT_BYTES].split()[:_LOOKED_AT_LINES]
    if lines and all(map(_HASH_COUNT.fullmatch, lines)):
        text = "the lines look like HASH:count; did you mean --hibp?"
        streams.complain(f"{prog}: note: {output.printable(name)}: {text}")
