"""Open damaged, forged and foreign files: only typed errors and true answers are allowed.

    python tools/campaigns fuzz-files                           # 60 seconds
    python tools/campaigns fuzz-files --headers 10e6 --files 1e6 --seconds 0 --json result.json

*Headers* are pages that are only parsed (Header.unpack). *Files* are opened, asked key by key and
in a batch, verified and described. These are findings: an exception that is not mmbloom's; 50 ms of
processor time for one case; 50 MiB of memory growth in all; a field that points outside the file; a
"definitely not" for an added key, from a file that passed verify() and has no forged checksum; a
crash. The exit code is 1 if there was a finding. Each finding has a number; --first NUMBER repeats
it with the same seed.
"""

from __future__ import annotations

import argparse
import collections
import errno
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import mmbloom
from evidence import record
from evidence.card import machine_card
from mmbloom.format.header import Header
from mmbloom.format.kinds import LAYOUT_RULES
from mmbloom.storage import mapped

from .fuzz_mutations import (
    MAX_WRITTEN_BYTES,
    Base,
    describe,
    make_bases,
    mutate_file,
    mutate_header,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

MAX_SECONDS = 0.050
MAX_GROWTH_BYTES = 50 << 20
MAX_FINDINGS = 20
MAX_MAP_BYTES = 1 << 46  # half of the address space of a 64-bit process
# A slow case is repeated and measured by processor time, as another process may have slowed it. The
# first clock is the cheaper one.
CLOCKS = (time.perf_counter, time.process_time, time.process_time)


class Job(NamedTuple):
    """One kind of case: which, how many, for how long."""

    kind: str  # "headers" or "files"
    first: int
    count: int  # 0: no end
    seconds: float  # 0: no end
    seed: int


class Finding(Exception):  # noqa: N818 - what this tool looks for
    """A result that must not happen."""


# ---- one case ------------------------------------------------------------------------------------


def try_header(rng: random.Random, bases: list[Base], _folder: Path) -> str:
    """Parse one mutated page; return the outcome."""
    page, file_bytes = mutate_header(rng, bases)
    try:
        header, status = Header.unpack(page, "page", file_bytes)[:2]
    except mmbloom.FormatError as exc:
        str(exc)
        return f"{type(exc).__name__} {exc.field}"
    check_bounds(header, file_bytes)
    if Header.unpack(header.pack(status), "page", file_bytes)[:2] != (header, status):
        raise Finding("packing the header again gives other bytes")
    return f"accepted {describe(page)}"


def check_bounds(header: Header, file_bytes: int) -> None:
    """Check independently that no field points outside the file."""
    rule = LAYOUT_RULES[header.layout_name]
    holds = (
        0 < header.num_bits <= 8 * header.payload_bytes,
        header.num_bits % rule.num_bits_step == 0,
        0 < header.num_probes <= rule.max_probes,
        header.payload_offset == 4096,  # noqa: PLR2004 - of format version 1
        header.checksums_offset == header.payload_offset + header.payload_bytes,
        header.file_bytes == header.checksums_offset + 8 * header.num_checksums == file_bytes,
        (header.num_checksums - 1) << 20 < header.payload_bytes <= header.num_checksums << 20,
        len(header.metadata_json) == header.metadata_bytes <= 2048,  # noqa: PLR2004 - as above
    )
    if not all(holds):
        raise Finding(f"bounds: {holds}")


def try_file(rng: random.Random, bases: list[Base], folder: Path) -> str:
    """Write and use one mutated file; return the outcome."""
    # The file of two MiB has a second checksum. It is rare: it takes 100 times as long.
    base, other = (rng.choice(bases if rng.random() < 0.1 else bases[:-1]) for _ in range(2))  # noqa: PLR2004
    mutant = mutate_file(rng, base, other)
    path = folder / "mutant.mmb"
    path.write_bytes(mutant.content)
    os.truncate(path, mutant.file_bytes)
    answers: list[list[bool]] = []
    try:
        with mmbloom.open(path) as found:
            outcome = use(found, (base, other), answers)
    except mmbloom.FormatError as exc:
        str(exc)
        return f"{type(exc).__name__} {exc.field}"
    except OSError as exc:
        if exc.errno != errno.ENOMEM or mutant.file_bytes < MAX_MAP_BYTES:
            raise
        return "OSError: too long to be mapped"
    if outcome == "verified" and not mutant.forged and not any(all(each) for each in answers):
        raise Finding(f"a false no: {base.name} with {other.name}")
    return outcome


def use(found: mmbloom.BloomFilter, bases: tuple[Base, ...], answers: list[list[bool]]) -> str:
    """Look up the members of both files in every way, verify, describe."""
    for base in bases:
        if (found.key_form == "hex") != ("-hex-" in base.name):
            continue
        one_by_one = [key in found for key in base.members[:8]]
        batch = found.contains_many(base.members).tolist()
        if batch[:8] != one_by_one:
            raise Finding("the batch and the single look-ups differ")
        answers.append(batch)
    if found._opened.header.file_bytes > MAX_WRITTEN_BYTES:
        return "opened, mostly a hole"
    num_bytes = found.verify(num_threads=1)
    found.info()
    repr(found)
    return "verified" if num_bytes else "opened, not sealed"


# ---- many cases ----------------------------------------------------------------------------------


TRIES: dict[str, Callable[[random.Random, list[Base], Path], str]] = {
    "headers": try_header,
    "files": try_file,
}


def run(job: Job, report: Connection, number: Any) -> None:  # noqa: ANN401 - a shared value
    """Run the cases of a job in this process; send their outcomes."""
    outcomes: collections.Counter[str] = collections.Counter()
    findings: list[str] = []
    slowest = 0.0
    mapped._READ_PAUSE_SECONDS = (
        0  # a reader repeats a bad slot after this pause, most of the time here
    )
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as name:
        folder = Path(name)
        bases = make_bases(folder)
        warm = [run_case(job, case, bases, folder) for case in range(job.first, job.first + 200)]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        end = time.monotonic() + job.seconds if job.seconds else float("inf")
        case = job.first
        while (not job.count or case < job.first + job.count) and time.monotonic() < end:
            number.value = case
            outcome, seconds = run_case(job, case, bases, folder)
            slowest = max(slowest, seconds)
            outcomes[outcome] += 1
            if outcome.startswith("FINDING"):
                findings.append(f"{job.kind} {case}: {outcome}")
                if len(findings) == MAX_FINDINGS:
                    break
            case += 1
        growth = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    # The address sanitizer keeps freed memory for a while, to detect later uses.
    if growth > MAX_GROWTH_BYTES and "libasan" not in os.environ.get("LD_PRELOAD", ""):
        findings.append(f"{job.kind}: memory grew by {growth} bytes")
    report.send(
        {
            "tried": sum(outcomes.values()),
            "slowest_case_ms": round(1000 * slowest, 2),
            "growth_of_peak_memory_mib": round(growth / 2**20, 2),
            "outcomes": dict(outcomes.most_common()),
            "findings": findings,
            "warmed_up_with": len(warm),
        }
    )


def run_case(job: Job, case: int, bases: list[Base], folder: Path) -> tuple[str, float]:
    """Return the outcome of one case, and its time in seconds."""
    quickest = float("inf")
    for clock in CLOCKS:
        rng = random.Random(job.seed << 64 | case)  # noqa: S311 - seeded, to be repeatable
        start = clock()
        try:
            outcome = TRIES[job.kind](rng, bases, folder)
        except Exception as exc:  # noqa: BLE001 - any other exception is a finding
            return f"FINDING {type(exc).__name__}: {exc}", 0.0
        quickest = min(quickest, clock() - start)
        if quickest <= MAX_SECONDS:
            return outcome, quickest
    return f"FINDING took {1000 * quickest:.0f} ms: {outcome}", quickest


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - its own folder in it


def supervise(job: Job) -> dict[str, Any]:
    """Run a job in a child process, so that a crash is a finding too."""
    spawn = multiprocessing.get_context("spawn")
    receive, send = spawn.Pipe(duplex=False)
    number = spawn.Value("q", -1, lock=False)
    process = spawn.Process(target=run, args=(job, send, number))
    start = time.monotonic()
    process.start()
    send.close()
    try:
        result: dict[str, Any] = receive.recv()
    except EOFError:
        result = {"tried": number.value - job.first + 1, "findings": []}
        result["findings"].append(f"{job.kind} {number.value}: killed the process")
    process.join()
    return result | {"seconds": round(time.monotonic() - start, 1)}


def main() -> int:
    """Run the campaign; return 1 if there is a finding."""
    parser = argparse.ArgumentParser(description="Open mutated filter files.")
    parser.add_argument(
        "--headers", type=float, default=0, help="number of cases; default: as time allows"
    )
    parser.add_argument(
        "--files", type=float, default=0, help="number of cases; default: as time allows"
    )
    parser.add_argument("--seconds", type=float, default=60, help="for both together; 0: no limit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    record.add_options(parser, "fuzz-files")
    given = parser.parse_args()
    kinds = [kind for kind in TRIES if given.seconds or getattr(given, kind)]
    if not kinds:
        parser.error("--seconds 0 needs --headers or --files")
    card = machine_card()
    report: dict[str, Any] = {"seed": given.seed}
    for kind in kinds:
        count, seconds = int(getattr(given, kind)), given.seconds / len(kinds)
        report[kind] = supervise(Job(kind, given.first, count, seconds, given.seed))
    text = record.text_of("python tools/campaigns fuzz-files", sys.argv[1:], card, report)
    print(text, end="")
    record.write(given.json, text)
    return int(any(report[kind]["findings"] for kind in kinds))


if __name__ == "__main__":
    sys.exit(main())
