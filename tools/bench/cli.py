"""The command line: one command for each benchmark, `all` for every one of them."""

from __future__ import annotations

import argparse
import importlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence import record
from evidence.card import machine_card

from .report import markdown, raw

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
    "fuse-sizes": ".fuse_sizes",
    "fuse-lists": ".fuse_lists",
    "fuse-build": ".fuse_building",
    "fuse-large": ".fuse_large",
    "counters": ".counters",
    "before": ".before",
}
EXIT_TARGET_MISSED = 1


def main() -> int:
    """Run the benchmarks of the command line; return 1 if --strict is given and a target missed."""
    parser = argparse.ArgumentParser(prog="bench", description="Benchmarks of mmbloom.")
    parser.add_argument("command", choices=[*COMMANDS, "all"])
    parser.add_argument("options", nargs=argparse.REMAINDER, help="see: bench COMMAND --help")
    asked = parser.parse_args()

    missed = False
    for what in COMMANDS if asked.command == "all" else [asked.command]:
        bench: Any = importlib.import_module(COMMANDS[what], __package__)
        options = _options(what, bench).parse_args(asked.options)
        missed_now = _run(what, bench, options, asked.options)
        missed = missed or (missed_now and options.strict)
    return EXIT_TARGET_MISSED if missed else 0


def _options(what: str, bench: Any) -> argparse.ArgumentParser:  # noqa: ANN401 -- a module, by its name
    parser = argparse.ArgumentParser(prog=f"bench {what}", description=bench.SUMMARY)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--repeats", type=int, default=5, help="rounds; default: %(default)s")
    parser.add_argument("--folder", type=Path, help="folder for the filter files, on a real disk")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    record.add_options(parser, f"bench-{what}")
    bench.add_arguments(parser)
    return parser


def _run(what: str, bench: Any, options: argparse.Namespace, words: Sequence[str]) -> bool:  # noqa: ANN401 -- a module, by its name
    card = machine_card()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as folder:
        options.folder = Path(folder)
        tables = bench.run(options)
    print(f"## {what}: {bench.SUMMARY}\n")
    for table in tables:
        print(markdown(table), flush=True)
    record.write(
        options.json, record.text_of(f"python tools/bench {what}", words, card, raw(tables))
    )
    return any(not target.met for table in tables for target in table.targets)
