"""Errors in the words of somebody who typed a command: flags, not keyword arguments."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from mmbloom import KINDS, KeyValueError, MmbloomError, ParameterError
from mmbloom.cli import output, streams

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from mmbloom import ListReader


class CommandError(MmbloomError):
    """What a command refuses in words of its own."""


def text_of(exc: Exception) -> str:
    """Return what to print for an error."""
    if isinstance(exc, MemoryError) and not isinstance(exc, MmbloomError):
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
            exc.strerror = "already exists; choose another name, or add --force to replace it"
        raise


def show_bad_lines(prog: str, lists: ListReader, arguments: argparse.Namespace) -> None:
    """Say on standard error which lines were left out: the first of them, if they were kept."""
    if not arguments.quiet:
        for message in lists.bad.first:
            streams.complain(f"{prog}: left out: {output.printable(message)}")
        more = lists.bad.num_bad - len(lists.bad.first)
        if lists.bad.first and more:
            streams.complain(f"{prog}: left out: {output.count_text(more)} more")


def refuse_hibp_of_text(arguments: argparse.Namespace, key_form: str) -> None:
    """Refuse --hibp for a filter whose keys are no digests: all answers would be "definitely not".

    Raises:
        CommandError: the key form is not hex.
    """
    if arguments.hibp and key_form != "hex":
        raise CommandError(
            f"{arguments.filter}: --hibp needs a filter of the key form hex, this one is "
            f"{key_form}: build it with --hibp, or use --delimiter : to compare the digests as "
            "text, upper and lower case apart"
        )


def kind_is_fixed(path: str, kind: str, command: str) -> CommandError:
    """Return the error of a *command* that changes or unites filters, for a kind that cannot be."""
    why = KINDS[kind].why_fixed
    return CommandError(f"{path}: 'mmbloom {command}' cannot take a {kind} filter: {why}")


def not_counting(path: str, kind: str, command: str) -> CommandError:
    """Return the error of a *command* for counting filters that is given another kind."""
    return CommandError(
        f"{path}: 'mmbloom {command}' needs a counting filter, and this is a {kind} filter. "
        "'mmbloom build --kind counting' builds one from lists"
    )


@contextmanager
def sealing_is_a_command(path: str) -> Iterator[None]:
    """Let the refusal to publish *path*, which is not sealed, name what writes a sealed file."""
    try:
        yield
    except ParameterError as exc:
        if (exc.name, exc.found) != ("new", path) or not exc.hint:
            raise
        raise CommandError(
            f"{path}: not sealed, and only sealed files can be published. 'mmbloom seal {path}' "
            f"seals it. 'mmbloom merge {path} -o NEW' writes a sealed copy of a Bloom filter, "
            f"'mmbloom export {path} -o NEW' the sealed Bloom filter of a counting one"
        ) from exc


@contextmanager
def hibp_is_an_option(arguments: argparse.Namespace) -> Iterator[None]:
    """Let the refusal of a key that is not hexadecimal tell what a list of HASH:count needs."""
    try:
        yield
    except KeyValueError as exc:
        if arguments.delimiter is not None:
            raise
        raise KeyValueError(f"{exc}. If the lines are HASH:count, add --hibp") from exc
