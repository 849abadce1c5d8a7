"""The command line: one benchmark a command, `all` for every one of them."""

from __future__ import annotations

import argparse
import importlib
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .card import machine_card
from .report import markdown, save

if TYPE_CHECKING:
    from collections.abc import Sequence

# Command -> module. Imported when used: most need mmbloom, compare runs without it (--layouts '').
COMMANDS = {
    "compare": ".compare",
    "arrow": ".arrow",
    "open": ".opening",
    "cold": ".cold",
    "flush": ".flush",
    "threads": ".threads",
    "fpr": ".fpr",
    "startup": ".startup",
    "build": ".build",
    "kinds": ".kinds",
}
EXIT_TARGET_MISSED = 1


def main() -> int:
    """Run what the command line asks for; 1 when a target was missed and --strict was given."""
    parser = argparse.ArgumentParser(prog="bench", description="Benchmarks of mmbloom.")
    parser.add_argument("command", choices=[*COMMANDS, "all"])
    parser.add_argument("options", nargs=argparse.REMAINDER, help="see: bench COMMAND --help")
    asked = parser.parse_args()

    missed = False
    for what in COMMANDS if asked.command == "all" else [asked.command]:
        bench: Any = importlib.import_module(COMMANDS[what], __package__)
        options = _options(what, bench).parse_args(asked.options)
        missed_now = _run(what, bench, options, f"{what} {_shown(asked.options)}".strip())
        missed = missed or (missed_now and options.strict)
    return EXIT_TARGET_MISSED if missed else 0


def _options(what: str, bench: Any) -> argparse.ArgumentParser:  # noqa: ANN401 -- a module, by its name
    parser = argparse.ArgumentParser(prog=f"bench {what}", description=bench.SUMMARY)
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run at all?")
    parser.add_argument("--repeats", type=int, default=5, help="rounds; default: %(default)s")
    parser.add_argument("--folder", type=Path, help="where the filter files go: on a real disk")
    parser.add_argument("--no-save", dest="save", action="store_false", help="leave no raw JSON")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a target is missed")
    bench.add_arguments(parser)
    return parser


def _run(what: str, bench: Any, options: argparse.Namespace, command: str) -> bool:  # noqa: ANN401 -- a module, by its name
    card = machine_card()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as folder:
        options.folder = Path(folder)
        tables = bench.run(options)
    print(f"## {what}: {bench.SUMMARY}\n")
    for table in tables:
        print(markdown(table))
    if options.save:
        path = save(what, f"python tools/bench {command}", card, tables)
        print(f"raw: {path.name}\n", flush=True)
    return any(not target.met for table in tables for target in table.targets)


def _shown(arguments: Sequence[str]) -> str:
    """Return the options for the record, without the folder, which means nothing elsewhere."""
    shown, words = [], iter(arguments)
    for word in words:
        if word == "--folder":
            next(words, None)
        elif not word.startswith("--folder="):
            shown.append(word)
    return shlex.join(shown)
