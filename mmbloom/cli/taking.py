"""What ``add`` and ``remove`` have in common: all lists are read before a key is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.cli import output
from mmbloom.cli.failures import hibp_is_an_option, show_bad_lines
from mmbloom.cli.options import add_list_options, open_lists
from mmbloom.cli.progress import of_lists, progress

if TYPE_CHECKING:
    import argparse

    from mmbloom import Additions, Removals


def add_common_arguments(
    parser: argparse.ArgumentParser, *, filter_help: str, pattern: str
) -> None:
    """Add the filter, the lists and the options of both commands."""
    parser.add_argument("filter", metavar="FILE", help=filter_help)
    parser.add_argument(
        "lists",
        nargs="+",
        metavar="LIST",
        help=f"a list of keys, or a pattern such as '{pattern}'; - is standard input",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would happen")
    add_list_options(parser, on_error=True)
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no summary")
    output.add_json(parser)


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


def print_facts(
    facts: dict[str, Any],
    refusal: str,
    arguments: argparse.Namespace,
    rows: dict[str, list[tuple[str, object]]],
    undone: str,
) -> None:
    """Print the rows "found" and, unless it is a dry run, "done"."""
    if arguments.json:
        output.print_json(facts | {"dry_run": arguments.dry_run, "refused": refusal or None})
    elif not arguments.quiet:
        keys = f"{facts['keys_before']:,} of {facts['capacity']:,}"
        dry_run = [("dry run", f"refused: {refusal}" if refusal else undone)]
        output.print_rows(
            [
                ("file", facts["path"]),
                ("keys", keys),
                *rows["found"],
                *(dry_run if arguments.dry_run else rows["done"]),
            ]
        )


def left_out_text(facts: dict[str, Any]) -> str:
    """Return how many bad lines were left out, for the end of a row; "" if there were none."""
    num_bad = facts["bad_lines"]
    return f"; {output.count_text(num_bad, 'bad line')} left out" if num_bad else ""
