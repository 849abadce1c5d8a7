"""What ``add`` and ``remove`` have in common: all lists are read before a key is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.cli.failures import hibp_is_an_option, show_bad_lines
from mmbloom.cli.options import open_lists
from mmbloom.cli.progress import of_lists, progress

if TYPE_CHECKING:
    import argparse

    from mmbloom import Additions, Removals


def take_all(
    prog: str, batch: Additions | Removals, key_form: str, arguments: argparse.Namespace
) -> tuple[int, int]:
    """Read all lists; return how many keys they have, and how many bad lines were left out."""
    arguments.key_form = key_form  # open_lists() notes what looks wrong for this form
    with (
        hibp_is_an_option(arguments),
        open_lists(prog, arguments.lists, arguments) as keys,
        progress(quiet=arguments.quiet) as show,
    ):
        num_read = batch.take(keys, progress=of_lists(show, keys))
    show_bad_lines(prog, keys, arguments)
    return num_read, keys.bad.num_bad
