"""``mmbloom demo``: the main job once, on a generated list, with what happened in figures."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmbloom.cli import output
from mmbloom.cli.options import count

if TYPE_CHECKING:
    import argparse

NAME = "demo"
HELP = "build and check a filter from a generated list, and say what happened"
DESCRIPTION = """\
Generate a list in the HASH:count form of breach lists, build a filter file from it with 'mmbloom build', and look keys up in
it from a second process. Prints what was done and how long it took. Everything is in a temporary folder, unless --keep.
"""
EPILOG = """\
example:
  mmbloom demo --keys 1e6
"""

FPR = 0.001


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("--keys", type=count, default=1_000_000, metavar="N", help="lines to generate (default 1e6)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="put the files in this folder and keep them")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo in a folder; return 0 if every answer was right."""
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        return _demo(arguments.keep, arguments.keys)
    with tempfile.TemporaryDirectory(prefix="mmbloom-demo-") as folder:
        return _demo(Path(folder), arguments.keys)


def _demo(folder: Path, num_keys: int) -> int:
    breached, clean, filter_path = folder / "breached.txt", folder / "clean.txt", folder / "breached.mmb"
    started = time.perf_counter()
    _write_list(breached, "breached", num_keys)
    _write_list(clean, "clean", num_keys)
    seconds = time.perf_counter() - started
    size = output.size_text(breached.stat().st_size)
    _say(f"wrote {breached.name}: {num_keys:,} lines of SHA-1:count, {size}; and as many of other digests ({seconds:.1f} s)")
    built = _mmbloom(
        "build", breached, "-o", filter_path, "--fpr", FPR, "--hibp", "--meta", "source=mmbloom demo", "--force", "--json"
    )
    _say(
        f"built {filter_path.name}: {built['keys_added']:,} distinct keys, {output.size_text(built['file_bytes'])}, "
        f"{built['bits_per_key']:.2f} bits a key, in {sum(built['seconds'].values()):.2f} s"
    )
    present = _mmbloom("check", filter_path, "--list", breached, "--delimiter", ":", "--json")
    _say(f"a second process looked up all {present['keys']:,} lines: {present['definitely_not']:,} false 'no'")
    absent = _mmbloom("check", filter_path, "--list", clean, "--delimiter", ":", "--json")
    measured = absent["maybe"] / absent["keys"]
    _say(
        f"and {absent['keys']:,} digests that were never added: {absent['maybe']:,} 'maybe', a rate of {measured:.3g} "
        f"(asked for {FPR:g}, expected {built['expected_fpr']:.3g})"
    )
    opening = _opening_us(filter_path)
    _say(f"opening the file takes {opening:.0f} us, at any size: it is mapped, not read")
    return 0 if present["definitely_not"] == 0 else 2


def _write_list(path: Path, name: str, num_keys: int) -> None:
    with path.open("w", encoding="ascii") as file:
        for i in range(num_keys):
            digest = hashlib.sha1(f"{name} {i}".encode(), usedforsecurity=False).hexdigest().upper()
            file.write(f"{digest}:{i % 97 + 1}\n")


def _mmbloom(*arguments: object) -> dict[str, Any]:
    """Run a command of mmbloom in a process of its own and return the JSON that it prints."""
    words = [sys.executable, "-P", "-m", "mmbloom", *map(str, arguments)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False)  # noqa: S603 - this very program
    if done.returncode > 1:
        raise SystemExit(done.returncode)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _opening_us(path: Path) -> float:
    from mmbloom import BloomFilter  # noqa: PLC0415 - loads only when used

    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        BloomFilter.open(path).close()
        best = min(best, time.perf_counter() - started)
    return 1e6 * best


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
