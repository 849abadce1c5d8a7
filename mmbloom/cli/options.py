"""What the options of commands have in common: the parser, numbers, and the shape of lists."""

from __future__ import annotations

import argparse
import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from mmbloom.cli import output, streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmbloom.sources.bad_lines import OnError
    from mmbloom.sources.list_reader import ListReader
    from mmbloom.sources.source import KeyBlock, Source


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


def size(text: str) -> int:
    """Parse a number of bytes: 512M, 8G, 1.5GiB; K, M, G and T are powers of 1024."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        message = f"expected a size such as 512M or 8G, found {text!r}"
        raise argparse.ArgumentTypeError(message)
    return int(float(match[1]) * 1024 ** ("KMGT".index(match[2].upper()) + 1 if match[2] else 0))


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def add_list_options(parser: argparse.ArgumentParser, *, on_error: bool = False) -> None:
    """Add the options that say what a list is, and what in it is a key.

    With *on_error* also what a bad line does, for commands that can go on without it.
    """
    group = parser.add_argument_group("lists")
    group.add_argument(
        "--delimiter",
        metavar="C",
        type=lambda text: "\t" if text == "\\t" else text,
        help="the character between the fields of a line, for instance ',' or '\\t'; the key is "
        "the first field, or the one of --field. Without it the whole line is the key. Lines are "
        "split at each C: quotes have no meaning, and a header line is a key; with --format csv "
        "both are understood",
    )
    group.add_argument("--field", type=int, metavar="N", help="which field is the key, from 1")
    group.add_argument(
        "--hibp",
        action="store_true",
        help="lines are HASH:count, as in breach lists, and the key is the digest HASH in "
        "hexadecimal: --delimiter : --field 1 and the key form hex",
    )
    group.add_argument("--comment", metavar="C", help="ignore lines that start with C")
    group.add_argument(
        "--blank",
        choices=("skip", "key", "bad"),
        default="skip",
        help="what an empty line is: ignored (skip, the default), the empty key, or a bad line",
    )
    group.add_argument(
        "--format",
        metavar="NAME",
        help="text, csv, tsv, jsonl (an object a line), parquet, arrow, or ranges (a folder of the "
        "range files of a breach list). Default: tables and folders are recognised; with --column "
        "the file name decides (.csv, .tsv, .jsonl, .ndjson, compressed or not); else text",
    )
    group.add_argument(
        "--column",
        metavar="NAME|N",
        type=lambda text: int(text) if text.isdecimal() else text,
        help="which column of a table or field of an object is the key: its name, or a number from "
        "1. Without it a table must have only one. Integers of a table are keys of 8 bytes, which "
        "text does not find",
    )
    group.add_argument(
        "--no-header",
        dest="header",
        action="store_const",
        const=False,
        help="the first record of a CSV is a key (the default if --column is a number)",
    )
    group.add_argument(
        "--header",
        dest="header",
        action="store_const",
        const=True,
        help="the first record of a CSV names the columns (the default if --column is a name)",
    )
    if on_error:
        group.add_argument(
            "--on-error",
            choices=("raise", "skip", "count"),
            default="raise",
            help="what a bad line does: end the command (raise, the default), or be left out, with "
            "the first 5 shown (skip) or just counted (count)",
        )


def has_list_options(arguments: argparse.Namespace) -> bool:
    """Tell whether an option was given that says what a list is."""
    given = (arguments.delimiter, arguments.field, arguments.comment, arguments.format)
    others = (arguments.column, arguments.header)
    return any(value is not None for value in given + others) or arguments.blank != "skip"


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
            raise UsageError("--hibp already implies --delimiter and --field")
        arguments.delimiter = ":"


def open_list(path: str, arguments: argparse.Namespace) -> ListReader:
    """Open one list as the options say."""
    from mmbloom import read_list

    return read_list(path, **_asked_for(arguments))


def open_lists(prog: str, paths: Sequence[str], arguments: argparse.Namespace) -> ListReader:
    """Open lists and patterns as the options say, to be read one after the other.

    What looks wrong about a list is noted on standard error, in the name of the command *prog*. A
    list without keys is an error.
    """
    from mmbloom import read_lists

    def look(source: Source, block: KeyBlock) -> None:
        if getattr(arguments, "key_form", None) != "hex":  # that refuses such a key, with this hint
            suggest_hibp(prog, source.name, source.sample(block), arguments)
        if source.note and not arguments.quiet:
            streams.complain(f"{prog}: note: {output.printable(source.note)}")

    on_error: OnError = getattr(arguments, "on_error", "raise")
    return read_lists(paths, **_asked_for(arguments), on_error=on_error, watch=look)


def _asked_for(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ("delimiter", "field", "comment", "blank", "format", "column", "header")
    return {name: getattr(arguments, name) for name in names} | {"digests": arguments.hibp}


def suggest_hibp(prog: str, name: str, lines: bytes, arguments: argparse.Namespace) -> None:
    """Say so if the keys of the first lines of a list, read whole, look like hexadecimal digests.

    As HASH:count they are never asked for; as text they are only found in the case that they have.
    """
    if arguments.quiet:
        return
    words = lines[:_LOOKED_AT_BYTES].split()[:_LOOKED_AT_LINES]
    text = ""
    if arguments.delimiter is None and words and all(map(_HASH_COUNT.fullmatch, words)):
        text = "the lines look like HASH:count; did you mean --hibp?"
    elif _builds_text(arguments) and words and all(map(_HASH_COUNT.match, words)):
        text = (
            "the keys look like hexadecimal digests, and are taken as text, in the case that they "
            "have; did you mean --hibp?"
        )
    if text:
        streams.complain(f"{prog}: note: {output.printable(name)}: {text}")


def _builds_text(arguments: argparse.Namespace) -> bool:
    """Tell whether the first field before a colon becomes a key as it is."""
    is_first = arguments.delimiter == ":" and arguments.field in {None, 1}
    return is_first and hasattr(arguments, "key_form")


def add_metadata(parser: argparse.ArgumentParser) -> None:
    """Add the option --meta."""
    parser.add_argument(
        "--meta",
        dest="metadata",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="store a fact in the file; VALUE is JSON, or else text (can be repeated)",
    )


def metadata_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what --meta gave.

    Raises:
        UsageError: a value is not NAME=VALUE, or a name is repeated.
    """
    metadata: dict[str, Any] = {}
    for pair in arguments.metadata:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"--meta: expected NAME=VALUE, found {pair!r}")
        if name in metadata:
            raise UsageError(f"--meta: {name!r} is given twice")
        try:
            metadata[name] = json.loads(value)
        except (ValueError, RecursionError):
            metadata[name] = value
    return metadata
