"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from mmbloom.build.sources import KeyList


def add_list_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which part of a line is the key."""
    parser.add_argument(
        "--delimiter",
        metavar="C",
        help="one character between the fields of a line; the first field is the key. ':' for HASH:count lists",
    )
    parser.add_argument("--field", type=int, metavar="N", help="which field is the key, from 1 (with --delimiter)")


def count(text: str) -> int:
    """Parse a number of keys: 1000000, 1_000_000 or 1e6. argparse names this function in its error message."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():  # false for infinity and NaN too
            raise
        return int(number)


def open_list(path: str, arguments: argparse.Namespace) -> KeyList:
    """Open one list as the options say."""
    from mmbloom import read_list  # noqa: PLC0415 - loads only when used

    return read_list(path, delimiter=arguments.delimiter, field=arguments.field)
