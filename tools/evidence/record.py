"""The record of a run: its command, the machine and its figures, as one JSON file per command."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

FOLDER = Path(__file__).parent
# Options that say where files go. They mean nothing on another machine.
OPTIONS_WITH_PATHS = ("--folder", "--json", "--tree")


def add_options(parser: argparse.ArgumentParser, name: str) -> None:
    """Add --save and --json, which set `json` to the path of the record, by default None."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--save",
        dest="json",
        action="store_const",
        const=FOLDER / f"{name}.json",
        help=f"replace tools/evidence/{name}.json with the figures of this run",
    )
    group.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")


def text_of(
    command: str, words: Sequence[str], machine: Mapping[str, object], figures: Mapping[str, object]
) -> str:
    """Return the record of a run as JSON text.

    Args:
        command: what was run, without its options.
        words: its options, as they were given.
        machine: the machine card, made before the run.
        figures: what was measured; anything that JSON can hold.
    """
    shown = " ".join([command, *map(shlex.quote, _without_paths(words))])
    return json.dumps({"command": shown, "machine": machine, **figures}, indent=1) + "\n"


def write(path: Path | None, text: str) -> None:
    """Write a record, replacing an earlier one; do nothing if *path* is None."""
    if path is not None:
        path.write_text(text, encoding="utf-8")


def _without_paths(words: Sequence[str]) -> Iterator[str]:
    """Yield the words, without --save and without options that name a path."""
    rest = iter(words)
    for word in rest:
        option, has_value, _ = word.partition("=")
        if option in OPTIONS_WITH_PATHS:
            if not has_value:
                next(rest, None)
        elif word != "--save":
            yield word
