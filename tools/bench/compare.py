"""compare: mmbloom and its peers with the same keys at the same measured fpr, in turns.

Three sizes: a filter that fits in the caches, one of 24 MB, and one of 600 MB with a payload of
random bits (random_payload.py), as 500 million Python objects do not fit in memory.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

from . import contest, random_payload, sample_keys
from .peers import PEERS
from .report import Row, Table
from .timing import once
from .verdicts import compare_targets

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from .contest import Entrant
    from .peers import Library
    from .report import Cell
    from .timing import Key

SUMMARY = "mmbloom and its peers, same keys, same measured fpr"
FPR = 0.01
NOTE = (
    "ns per key, median of {repeats} rounds (quartiles), cost of the loop included. Keys: URLs of"
    " 50 characters, as {kind}, {order}. bulk hit and miss are a list of answers: the library's"
    " batch call, or a list comprehension over `in` if it has none. The set gets new key objects"
    " each round, since strings remember their hash; its bits/key are its table alone. open and"
    " private memory: in new processes."
)
IN_ORDER = "looked up in the order in which they were allocated"
SHUFFLED = "in a list shuffled against their addresses"


class Case(NamedTuple):
    """One table: the number of keys, their type and their order."""

    name: str
    num_keys: int
    quick_keys: int
    kind: type
    shuffled: bool
    single_calls: bool


CASES = (
    Case("1M-str", 1_000_000, 50_000, str, shuffled=False, single_calls=True),
    Case("1M-str-shuffled", 1_000_000, 50_000, str, shuffled=True, single_calls=True),
    Case("1M-bytes", 1_000_000, 50_000, bytes, shuffled=False, single_calls=True),
    Case("1M-bytes-shuffled", 1_000_000, 50_000, bytes, shuffled=True, single_calls=True),
    Case("20M-str", 20_000_000, 200_000, str, shuffled=False, single_calls=False),
)
LARGE = "600MB-str"
LARGE_BYTES, LARGE_QUICK_BYTES = 600_000_000, 6_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument(
        "--cases", default=",".join([*(case.name for case in CASES), LARGE]), help="%(default)s"
    )
    parser.add_argument(
        "--layouts", default="line", help="of mmbloom, with commas; default: %(default)s"
    )
    parser.add_argument(
        "--peers", default=",".join(PEERS), help="'' for none; default: %(default)s"
    )


def run(options: argparse.Namespace) -> list[Table]:
    """Return one table for each case."""
    makers = [PEERS[name] for name in options.peers.split(",") if name]
    if options.layouts:
        ours = importlib.import_module(".ours", __package__).OURS
        makers += [make for name, make in ours.items() if name.split("-")[1] in options.layouts]
    wanted = options.cases.split(",")
    tables = [
        _case_table(case, [make() for make in makers], options)
        for case in CASES
        if case.name in wanted
    ]
    if LARGE in wanted:
        tables.append(_large_table([make() for make in makers], options))
    return tables


def _make_keys(kind: type, start: int, count: int) -> Sequence[Key]:
    return sample_keys.urls(start, count) if kind is str else sample_keys.url_bytes(start, count)


def _case_table(case: Case, libraries: Sequence[Library], options: argparse.Namespace) -> Table:
    folder: Path = options.folder
    num_keys = case.quick_keys if options.quick else case.num_keys
    keys = _make_keys(case.kind, 0, num_keys)
    lookups = 1_000_000
    present = keys[: min(lookups, num_keys)]
    absent = _make_keys(case.kind, sample_keys.ABSENT, len(present))
    entrants = [contest.fitted(library, keys, absent, FPR, folder) for library in libraries]

    repeats = options.repeats
    jobs: dict[tuple[str, str], Callable[[], float]] = {}
    for entrant in entrants:
        label = entrant.library.label
        for column, bulk in (("add", False), ("bulk add", True)):
            if entrant.library.writes and (bulk or case.single_calls):
                jobs[label, column] = contest.add_job(
                    entrant, keys, folder, shuffled=case.shuffled, bulk=bulk
                )
        for column in contest.LOOKUPS if entrant.library.reads else ():
            batch = absent if column.endswith("miss") else present
            jobs[label, column] = contest.lookup_job(
                entrant, batch, shuffled=case.shuffled, bulk=column.startswith("bulk")
            )
    cells = contest.timed(jobs, repeats)
    kind, order = case.kind.__name__, SHUFFLED if case.shuffled else IN_ORDER
    title = f"{num_keys:,} keys ({kind}{', shuffled' if case.shuffled else ''}) at 1 %"
    note = NOTE.format(repeats=repeats, kind=kind, order=order)
    table = _table((title, note), entrants, cells, num_keys, repeats)
    for entrant in entrants:
        entrant.handle.close()
    return table._replace(targets=compare_targets(table.rows, single_calls=case.single_calls))


def _table(
    about: tuple[str, str],
    entrants: Sequence[Entrant],
    cells: Mapping[str, Mapping[str, Cell]],
    num_keys: int,
    repeats: int,
) -> Table:
    """Return a table of the rows, with the title and the note of *about*."""
    title, note = about
    rows = []
    for entrant in entrants:
        own: dict[str, Cell] = {
            "bits/key": entrant.handle.num_bits / num_keys,
            "measured fpr": entrant.measured_fpr,
        }
        if abs(entrant.asked - FPR) > FPR / 1000:
            own["asked fpr"] = entrant.asked
        own |= cells.get(entrant.library.label, {})
        own |= contest.opening_cost(entrant.library, entrant.path, repeats)
        rows.append(Row(entrant.library.label, entrant.library.ours, own))
    facts, timings = (
        ("bits/key", "measured fpr", "asked fpr"),
        ("add", "bulk add", *contest.LOOKUPS),
    )
    shown = {name for row in rows for name in row.cells}
    columns = [name for name in (*facts, *timings, "open ms", "private MiB") if name in shown]
    return Table(title, note, columns, [name for name in columns if name not in facts], rows)


def _large_table(libraries: Sequence[Library], options: argparse.Namespace) -> Table:
    folder: Path = options.folder
    payload_bytes = LARGE_QUICK_BYTES if options.quick else LARGE_BYTES
    batch = 10_000 if options.quick else 1_000_000
    repeats = options.repeats
    keys = sample_keys.urls(0, batch * repeats)
    absent = sample_keys.urls(sample_keys.ABSENT, batch)
    capacity = round(payload_bytes * 8 / 9.6)

    filled: dict[str, Entrant] = {}
    for library in libraries:
        if library.writes and library.reads and not library.remembers_hashes:
            filled[library.label] = _random_entrant(library, capacity, folder)
    adds = {
        (label, "bulk add"): _next_batch(entrant, keys, batch) for label, entrant in filled.items()
    }
    cells = contest.timed(adds, repeats)
    for library in libraries:
        if library.ours and library.reads and not library.writes:
            filled[library.label] = _saved_copy(library, filled, folder)

    # The keys that were added first: the cache lines of the last ones may still be in the cache.
    present = keys[:batch]
    jobs = {
        (label, column): contest.lookup_job(
            entrant,
            absent if column.endswith("miss") else present,
            shuffled=False,
            bulk=column.startswith("bulk"),
        )
        for label, entrant in filled.items()
        for column in contest.LOOKUPS
    }
    for label, more in contest.timed(jobs, repeats).items():
        cells.setdefault(label, {}).update(more)
    entrants = [
        entrant._replace(measured_fpr=contest.measured_fpr(entrant.handle, absent))
        for entrant in filled.values()
    ]
    note = NOTE.format(repeats=repeats, kind="str", order=IN_ORDER) + (
        f" Payload: random bits at the density of {FPR:.0%}; {len(keys):,} keys are added to it."
    )
    title = f"A filter of {payload_bytes / 1e6:.0f} MB at 1 %"
    table = _table((title, note), entrants, cells, capacity, repeats)
    return table._replace(targets=compare_targets(table.rows, single_calls=False))


def _random_entrant(library: Library, capacity: int, folder: Path) -> Entrant:
    saved = contest.new_path(folder)
    empty = library.leave_empty(saved, capacity, FPR)
    density = FPR ** (1 / empty.num_probes)
    payload_bytes = -(-empty.num_bits // 512) * 64
    empty.close()
    # Every format here ends with the payload; mmbloom's has 8 bytes of checksum per MiB after it.
    behind = 8 * -(-payload_bytes >> 20) if library.ours else 0
    offset = max(0, saved.stat().st_size - behind - payload_bytes)
    random_payload.fill(saved, max(offset, 4096), payload_bytes - 4096, density)
    return contest.Entrant(library, saved, library.load(saved, str), FPR, 0.0)


def _next_batch(entrant: Entrant, keys: Sequence[str], batch: int) -> Callable[[], float]:
    starts = iter(range(0, len(keys), batch))

    def job() -> float:
        update = entrant.handle.update
        assert update is not None  # noqa: S101 -- for the type checker: it holds by construction
        start = next(starts)
        part = keys[start : start + batch]
        return once(lambda: update(part), len(part))

    return job


def _saved_copy(library: Library, filled: dict[str, Entrant], folder: Path) -> Entrant:
    layout = library.label.partition(",")[0]
    memory = filled[f"{layout}, in memory"]
    path = contest.new_path(folder)
    memory.library.save(memory.handle, path)
    return contest.Entrant(library, path, library.load(path, str), FPR, 0.0)
