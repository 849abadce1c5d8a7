"""Errors in the words of somebody who typed a command: flags, not keyword arguments."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from mmbloom.cli import output
from mmbloom.errors import KeyValueError, MmbloomError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator


class CommandError(MmbloomError):
    """What a command refuses in words of its own."""


def text_of(exc: Exception) -> str:
    """Return what to print for an error."""
    if isinstance(exc, MemoryError):
        return "out of memory"
    if type(exc).__str__ is OSError.__str__ and isinstance(exc, OSError) and exc.strerror:
        where = "" if exc.filename is None else f"{exc.filename or repr('')}: "
        return output.printable(where + exc.strerror)
    return output.printable(str(exc))


@contextmanager
def force_is_an_option(arguments: argparse.Namespace) -> Iterator[None]:
    """Let the refusal to replace a file name the option that replaces it."""
    try:
        yield
    except FileExistsError as exc:
        if not arguments.force:
            exc.strerror = "exists, and is never replaced unasked: choose another, or add --force"
        raise


@contextmanager
def hibp_is_an_option(arguments: argparse.Namespace) -> Iterator[None]:
    """Let the refusal of a key that is not hexadecimal tell what a list of HASH:count needs."""
    try:
        yield
    except KeyValueError as exc:
        if arguments.delimiter is not None:
            raise
        raise KeyValueError(f"{exc}. If the lines are HASH:count, add --hibp") from exc
