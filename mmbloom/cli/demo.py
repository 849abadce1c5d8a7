"""``mmbloom demo``: the main job once, on a generated list, with what happened in figures."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmbloom.cli import output, streams
from mmbloom.cli.options import UsageError, count

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    Say = Callable[[str], None]

DESCRIPTION = """\
Generate a list in the HASH:count form of breach lists and build a filter file
from it. Then look up its keys, and as many other keys, each in a process of its
own, and print what was done and how long it took. The files are temporary,
unless --keep is given. Exit code: 0 every answer was right, 2 some were wrong.
"""
EPILOG = """\
example:
  mmbloom demo --keys 1e6
"""

FPR = 0.001
_DIGEST_BYTES = 20  # SHA-1
_LINES_AT_A_TIME = 10_000
_BREACHED, _CLEAN = 1, 2  # seeds of the two lists


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument(
        "--keys", type=count, default=1_000_000, metavar="N", help="lines of the list (default 1e6)"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="put the files in this folder and keep them"
    )
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo in a folder; return 0 if every answer was right."""
    if arguments.keys < 1:
        raise UsageError(f"--keys: expected 1 or more, found {arguments.keys}")
    say: Say = (lambda _: None) if arguments.json else _say
    if arguments.keep is None:
        with tempfile.TemporaryDirectory(prefix="mmbloom-demo-") as folder:
            figures = _demo(Path(folder), arguments.keys, say)
    else:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        figures = _demo(arguments.keep, arguments.keys, say)
        say(f"kept   all of it in {output.printable(str(arguments.keep))}")
    if arguments.json:
        output.print_json(figures)
    return 0 if figures["present"]["definitely_not"] == 0 else 2


def _demo(folder: Path, num_keys: int, say: Say) -> dict[str, Any]:
    """Do it all in *folder*, and return the figures that were said."""
    breached, clean = folder / "breached.txt", folder / "clean.txt"
    filter_path = folder / "breached.mmb"
    started = time.perf_counter()
    _write_list(breached, _BREACHED, num_keys)
    _write_list(clean, _CLEAN, num_keys)
    seconds = time.perf_counter() - started
    size = output.size_text(breached.stat().st_size)
    say(f"wrote  {output.count_text(num_keys, 'line')} of HASH:count, {size}, to {breached.name};")
    say(f"       as many with other digests to {clean.name}; {seconds:.1f} s")

    built = _mmbloom("build", breached, "-o", filter_path, "--fpr", FPR, "--hibp", "--json")
    build_seconds = sum(built["seconds"].values())
    size, bits = output.size_text(built["file_bytes"]), f"{built['bits_per_key']:.1f} bits a key"
    text = f"{filter_path.name}: {size}, {bits}; {build_seconds:.1f} s, {built['engine']} engine"
    say(f"built  {text}")

    say("check  in a process of its own:")
    present = _checked(filter_path, breached)
    say(f"       keys in the list:     {_answers(present)}")
    absent = _checked(filter_path, clean)
    say(f"       keys not in the list: {_answers(absent)}")
    measured = absent["maybe"] / absent["keys"]
    rates = f"{measured:.3g} measured, {built['expected_fpr']:.3g} expected, {FPR:g} asked for"
    say(f"       false-positive rate:  {rates}")

    opening = _opening_seconds(filter_path)
    say(f"open   {1e6 * opening:.0f} us, whatever the size: a page and a few keys are read")
    return {
        "built": built,
        "present": present,
        "absent": absent,
        "measured_fpr": measured,
        "opening_seconds": opening,
    }


def _answers(result: dict[str, Any]) -> str:
    maybe, definitely_not = (f"{result[name]:,}" for name in ("maybe", "definitely_not"))
    return f"{maybe} maybe, {definitely_not} definitely not; {result['seconds']:.1f} s"


def _write_list(path: Path, seed: int, num_lines: int) -> None:
    """Write lines of HASH:count, as SHA-1 digests look: in upper case, without an order."""
    digests = random.Random(seed)  # noqa: S311 - a list for show
    width = 2 * _DIGEST_BYTES
    with path.open("x", encoding="ascii") as file:
        for first in range(0, num_lines, _LINES_AT_A_TIME):
            lines = min(_LINES_AT_A_TIME, num_lines - first)
            digits = digests.randbytes(_DIGEST_BYTES * lines).hex().upper()
            file.writelines(
                f"{digits[i * width : (i + 1) * width]}:{(first + i) % 97 + 1}\n"
                for i in range(lines)
            )


def _checked(filter_path: Path, keys: Path) -> dict[str, Any]:
    started = time.perf_counter()
    result = _mmbloom("check", filter_path, "--list", keys, "--hibp", "--json")
    return result | {"seconds": time.perf_counter() - started}


def _mmbloom(*arguments: object) -> dict[str, Any]:
    """Run a command of mmbloom in a process of its own and return the JSON that it prints."""
    # -P: a folder "mmbloom" in the current one, a clone for instance, is not this program.
    words = [sys.executable, "-P", "-m", "mmbloom", *map(str, arguments)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False)  # noqa: S603 - this program
    if done.returncode not in {0, 1}:  # 1: nothing found, which is an answer
        raise SystemExit(2)  # it has said why
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _opening_seconds(path: Path) -> float:
    """Return the best of a few: what opening costs when nothing else is in the way."""
    import mmbloom

    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        mmbloom.open(path).close()
        best = min(best, time.perf_counter() - started)
    return best


def _say(text: str) -> None:
    streams.write(text + "\n")
    streams.flush()
