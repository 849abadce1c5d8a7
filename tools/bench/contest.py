"""One contest: libraries with the same keys at the same measured fpr, measured in turns.

Fills, fits and times the filters; compare.py chooses the keys and judges the figures.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from . import fresh, sample_keys
from .timing import Spread, interleaved, list_of_in, loop_call, loop_in, once, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .peers import Handle, Library
    from .timing import Key

# A peer with a measured fpr further than this from the target gets another parameter.
TOLERANCE = 0.10
LOOKUPS = ("hit", "miss", "bulk hit", "bulk miss")
_numbers = itertools.count()


class Entrant(NamedTuple):
    """A library with its filter filled, saved and opened again.

    *asked* is the fpr that the library was given so that *measured_fpr* is on target.
    """

    library: Library
    path: Path
    handle: Handle
    asked: float
    measured_fpr: float


def measured_fpr(handle: Handle, absent: Sequence[Key]) -> float:
    """Return the share of absent keys that are answered "maybe"."""
    if handle.contains_many is not None:
        return float(np.mean(np.asarray(handle.contains_many(absent))))
    return sum(key in handle.subject for key in absent) / len(absent)


def new_path(folder: Path) -> Path:
    """Return an unused path in the folder."""
    return folder / f"{next(_numbers)}.filter"


def fitted(
    library: Library, keys: Sequence[Key], absent: Sequence[Key], fpr: float, folder: Path
) -> Entrant:
    """Fill a filter of the library and adjust its parameter until its measured fpr is on target."""
    asked = fpr
    for _ in range(6):
        path = new_path(folder)
        handle = library.create(path, len(keys), asked, type(keys[0]))
        assert handle.update is not None  # noqa: S101 -- for the type checker: it holds by construction
        handle.update(keys)
        rate = measured_fpr(handle, absent)
        if rate == 0 or abs(rate / fpr - 1) <= TOLERANCE:
            break
        asked *= fpr / rate
    saved = new_path(folder)
    library.save(handle, saved)
    if not library.reads:
        return Entrant(library, saved, handle, asked, rate)
    handle.close()
    return Entrant(library, saved, library.load(saved, type(keys[0])), asked, rate)


def add_job(
    entrant: Entrant, keys: Sequence[Key], folder: Path, *, shuffled: bool, bulk: bool
) -> Callable[[], float]:
    """Return the job that adds all keys to a new filter."""
    library = entrant.library

    def job() -> float:
        batch = _batch(library, keys, shuffled=shuffled)
        path = new_path(folder)
        handle = library.create(path, len(keys), entrant.asked, type(keys[0]))
        add, update = handle.add, handle.update
        assert add is not None  # noqa: S101 -- for the type checker: it holds by construction
        assert update is not None  # noqa: S101 -- for the type checker: it holds by construction
        took = once(lambda: update(batch), len(keys)) if bulk else loop_call(add, batch)
        handle.close()
        path.unlink(missing_ok=True)
        return took

    return job


def lookup_job(
    entrant: Entrant, keys: Sequence[Key], *, shuffled: bool, bulk: bool
) -> Callable[[], float]:
    """Return the job that looks up all keys, with the library's quickest calls."""
    handle = entrant.handle

    def job() -> float:
        batch = _batch(entrant.library, keys, shuffled=shuffled)
        if bulk and handle.contains_many is not None:
            contains_many = handle.contains_many
            return once(lambda: contains_many(batch), len(keys))
        if handle.contains is not None:
            return loop_call(handle.contains, batch)
        return list_of_in(handle.subject, batch) if bulk else loop_in(handle.subject, batch)

    return job


def _batch(library: Library, keys: Sequence[Key], *, shuffled: bool) -> Sequence[Key]:
    # Strings remember their hash, so a set must be given new key objects to be fair.
    fresh_keys = sample_keys.copied(keys) if library.remembers_hashes else keys
    return sample_keys.rearranged(fresh_keys) if shuffled else fresh_keys


def timed(
    jobs: dict[tuple[str, str], Callable[[], float]], repeats: int
) -> dict[str, dict[str, Spread]]:
    """Run jobs by (library, column), one column after another, libraries in turns."""
    cells: dict[str, dict[str, Spread]] = {}
    columns = dict.fromkeys(column for _, column in jobs)
    for column in columns:
        turns = {label: job for (label, which), job in jobs.items() if which == column}
        for label, result in interleaved(turns, repeats).items():
            cells.setdefault(label, {})[column] = result
    return cells


def opening_cost(library: Library, path: Path, repeats: int) -> dict[str, Spread]:
    """Open the saved file in new processes; return the time and the private memory."""
    if not library.opening:
        return {}
    snippet = library.opening + (
        "before = private_bytes()\n"
        "start = perf_counter_ns()\n"
        "kept = opened(sys.argv[1])\n"
        "took = perf_counter_ns() - start\n"
        "print(json.dumps({'ms': took / 1e6, 'mib': (private_bytes() - before) / 2**20}))\n"
    )
    answers = [fresh.ask(snippet, str(path)) for _ in range(repeats)]
    return {
        "open ms": spread([answer["ms"] for answer in answers]),
        "private MiB": spread([answer["mib"] for answer in answers]),
    }
