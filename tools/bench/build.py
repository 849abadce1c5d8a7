"""build: build a filter from a breach list, measured as whole processes.

Three questions: how many times as long does it take as counting the lines (`wc -l`), or as
decompressing a compressed list, and how does it compare with the shortest Python loop over the
quickest peers? The lists are in the page cache, so the disk is not measured.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from . import processes
from .report import Row, Table, Target
from .timing import interleaved, spread

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from .processes import Cost
    from .report import Cell

SUMMARY = "whole builds from a list of HASH:COUNT lines, against wc, unpacking and peers"
MAKE_LIST = Path(__file__).resolve().parents[1] / "make" / "make_list.py"
MIB = 1 << 20
NOTE = (
    "Median of {repeats} rounds (quartiles), each job in a new process, taking turns; lists in the"
    " page cache, start of Python included. peak MiB: peak of resident memory, with pages of"
    " mapped files; values below 10 cannot be measured. "
)
COLUMNS = ("seconds", "M lines/s", "x {rival}", "cpu seconds", "peak MiB")
# The memory of a small Python process with NumPy.
PYTHON_MIB = 64

# The shortest loops that do the job: the first 40 characters of a line are the key. They get the
# number of keys, do not drop or count duplicates, and accept any line.
PEERS = {
    "abloom": """
import sys
from abloom import BloomFilter
made = BloomFilter(int(sys.argv[1]), float(sys.argv[2]), serializable=True)
with open(sys.argv[3], "rb") as lines:
    made.update(line[:40] for line in lines)
with open(sys.argv[4], "wb") as file:
    file.write(made.to_bytes())
""",
    "pybloomfilter": """
import sys
from pybloomfilter import BloomFilter
made = BloomFilter(int(sys.argv[1]), float(sys.argv[2]), sys.argv[4])
with open(sys.argv[3], "rb") as lines:
    made.update(line[:40] for line in lines)
made.close()
""",
}
# Suffix -> compressor, rival.
PACKED = {".gz": (["gzip", "-c"], ["igzip", "-dc"]), ".zst": (["zstd", "-qc"], ["zstd", "-qdc"])}

Job = tuple[str, bool]  # label, whether it is mmbloom


class Bench(NamedTuple):
    """The parameters of all tables."""

    folder: Path
    repeats: int
    fpr: float
    memory: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--lines", type=float, help="default: 1e8, --quick 2e5")
    parser.add_argument("--list", type=Path, help="a list of HASH:COUNT lines instead of --lines")
    parser.add_argument(
        "--part-lines", type=float, help="for peers and compressed lists; default: 1e7, --quick 5e4"
    )
    parser.add_argument("--fpr", type=float, default=0.001, help="default: %(default)s")
    parser.add_argument(
        "--memory", default="512M", help="of builds with bounded memory; default: %(default)s"
    )
    parser.add_argument(
        "--tables", default="wc,peers,packed", help="with commas; default: %(default)s"
    )


def run(options: argparse.Namespace) -> list[Table]:
    """Return a table against wc, one against the peers, and one for each compression."""
    bench = Bench(options.folder, options.repeats, options.fpr, options.memory)
    wanted = options.tables.split(",")
    tables = []
    if "wc" in wanted:
        whole = options.list
        if whole is None:
            whole = _made_list(bench, options.lines or (2e5 if options.quick else 1e8), "whole")
        tables.append(_against_wc(bench, whole))
        if options.list is None:
            whole.unlink()
    if {"peers", "packed"} & set(wanted):
        part = _made_list(bench, options.part_lines or (5e4 if options.quick else 1e7), "part")
        if "peers" in wanted:
            tables.append(_against_peers(bench, part))
        if "packed" in wanted:
            tables += [_against_unpacking(bench, part, suffix) for suffix in PACKED]
    return tables


def _made_list(bench: Bench, num_lines: float, name: str) -> Path:
    path = bench.folder / f"{name}.txt"
    making = [sys.executable, "-P", str(MAKE_LIST), "--lines", str(num_lines), "-o", str(path)]
    subprocess.run(making, check=True, stderr=subprocess.DEVNULL)  # noqa: S603 -- our own tool
    return path


def _against_wc(bench: Bench, lines: Path) -> Table:
    num_lines = _num_lines(lines)
    build = partial(_build, bench, lines)
    jobs: dict[Job, Callable[[], Cost]] = {
        ("wc -l", False): partial(processes.cost_of, ["wc", "-l", str(lines)], bench.folder),
        ("exact, 2 jobs", True): partial(build, "--jobs", "2"),
        ("exact, 1 job", True): partial(build, "--jobs", "1"),
        ("--capacity, 2 jobs", True): partial(build, "--jobs", "2", "--capacity", str(num_lines)),
        (f"--memory {bench.memory}, 2 jobs", True): partial(
            build, "--jobs", "2", "--memory", bench.memory, "--spill-folder", str(bench.folder)
        ),
    }
    title = f"{num_lines:,} lines, {lines.stat().st_size / 1e9:.2f} GB, at {bench.fpr:g}"
    table = _table(bench, title, jobs, num_lines, "wc -l")
    return table._replace(targets=_memory_targets(bench, table.rows))


def _against_peers(bench: Bench, lines: Path) -> Table:
    num_lines = _num_lines(lines)
    jobs: dict[Job, Callable[[], Cost]] = {
        ("exact, 2 jobs", True): partial(_build, bench, lines, "--jobs", "2"),
        ("exact, 1 job", True): partial(_build, bench, lines, "--jobs", "1"),
    }
    missing = []
    for module, loop in PEERS.items():
        if importlib.util.find_spec(module) is None:
            missing.append(module)
            continue
        jobs[f"{module}, Python loop", False] = partial(
            _peer, bench, [loop, str(num_lines), str(bench.fpr), str(lines)]
        )
    note = "The peers get the number of keys; they do not drop or count duplicates or check lines. "
    if missing:
        note += f"Not installed: {', '.join(missing)}. "
    rivals = [label for label, ours in jobs if not ours]
    rival = rivals[0] if rivals else "exact, 2 jobs"
    table = _table(bench, f"{num_lines:,} lines against peers", jobs, num_lines, rival, note)
    return table._replace(less_is_better=["seconds", "peak MiB"])


def _against_unpacking(bench: Bench, lines: Path, suffix: str) -> Table:
    num_lines = _num_lines(lines)
    pack, unpack = PACKED[suffix]
    packed = lines.with_suffix(suffix)
    title = f"{num_lines:,} lines in a {suffix} list"
    absent = [tool[0] for tool in (pack, unpack) if shutil.which(tool[0]) is None]
    if absent:
        return Table(title, f"Left out: {', '.join(absent)} is not installed.", [], [], [])
    with packed.open("wb") as file:
        subprocess.run([*pack, str(lines)], stdout=file, check=True)  # noqa: S603 -- our own command
    rival = f"{' '.join(unpack)} > /dev/null"
    jobs: dict[Job, Callable[[], Cost]] = {
        (rival, False): partial(processes.drained, [*unpack, str(packed)], bench.folder),
        ("exact, 2 jobs", True): partial(_build, bench, packed, "--jobs", "2"),
        ("exact, 1 job", True): partial(_build, bench, packed, "--jobs", "1"),
    }
    table = _table(bench, title, jobs, num_lines, rival)
    packed.unlink()
    return table


def _build(bench: Bench, lines: Path, *more: str) -> Cost:
    target = bench.folder / "built.mmb"
    target.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "mmbloom", "build", str(lines), "-o", str(target)]
    asked = ["--fpr", str(bench.fpr), "--hibp", "--json"]
    return processes.cost_of([*command, *asked, *more], bench.folder)


def _peer(bench: Bench, words: Sequence[str]) -> Cost:
    target = bench.folder / "peer.bloom"
    target.unlink(missing_ok=True)
    return processes.cost_of([sys.executable, "-P", "-c", *words, str(target)], bench.folder)


def _num_lines(lines: Path) -> int:
    """Count the lines, which also reads the list into the page cache."""
    wc = ["wc", "-l", str(lines)]
    done = subprocess.run(wc, capture_output=True, text=True, check=True)  # noqa: S603 -- our own command
    return int(done.stdout.split()[0])


def _table(  # noqa: PLR0913, PLR0917 -- what the rows are, and what is said above them
    bench: Bench,
    title: str,
    jobs: Mapping[Job, Callable[[], Cost]],
    num_lines: int,
    rival: str,
    note: str = "",
) -> Table:
    """Run the jobs in turns. "x *rival*" is the time of a row divided by that of the rival."""
    costs: dict[Job, list[Cost]] = {job: [] for job in jobs}

    def timed(job: Job) -> float:
        costs[job].append(jobs[job]())
        return costs[job][-1].seconds

    took = interleaved({job: partial(timed, job) for job in jobs}, bench.repeats)
    rival_seconds = next(took[job].median for job in jobs if job[0] == rival)
    columns = [column.format(rival=rival) for column in COLUMNS]
    rows = []
    for job, seconds in took.items():
        cells: dict[str, Cell] = {
            columns[0]: seconds,
            columns[1]: num_lines / seconds.median / 1e6,
            columns[2]: seconds.median / rival_seconds,
            columns[3]: spread([cost.cpu_seconds for cost in costs[job]]),
            columns[4]: max(cost.peak_bytes for cost in costs[job]) / MIB,
        }
        label, ours = job
        if ours:
            cells["reports"] = json.dumps([json.loads(cost.out) for cost in costs[job]])
        rows.append(Row(f"mmbloom build, {label}" if ours else label, ours, cells))
    # wc and decompression are floors, not rivals: the ratio shows how far above them a build is.
    return Table(title, NOTE.format(repeats=bench.repeats) + note, columns, [], rows)


def _memory_targets(bench: Bench, rows: Sequence[Row]) -> list[Target]:
    bound_mib = _mebibytes(bench.memory) + PYTHON_MIB
    found = []
    for row in rows:
        peak = row.cells["peak MiB"]
        if "--memory" in row.label and isinstance(peak, float):
            promise = f"--memory {bench.memory}: at most that and {PYTHON_MIB} MiB for Python"
            found.append(Target(promise, f"{peak:.0f} MiB", peak <= bound_mib))
    return found


def _mebibytes(size: str) -> float:
    """Read a size such as 512M or 2G."""
    return float(size[:-1]) * {"M": 1, "G": 1024}[size[-1].upper()]
