"""Timing: the loops that are timed, the order they run in, and the spread of what they took.

The single-call loops are the cheapest that Python has, the same for every library, and their own
cost (about 10 ns per key) is part of every figure. Libraries take turns: one round runs every job
once, in a new order, so that a slow phase of the machine affects all of them.
"""

from __future__ import annotations

import gc
import random
import statistics
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    Key = str | bytes

Name = TypeVar("Name")


class Spread(NamedTuple):
    """Median and quartiles of the samples, in the unit of the samples."""

    median: float
    lower: float
    upper: float
    samples: int


def spread(samples: Sequence[float]) -> Spread:
    """Return median and quartiles; for one sample, that sample three times."""
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0], 1)
    lower, median, upper = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(median, lower, upper, len(samples))


def interleaved(jobs: Mapping[Name, Callable[[], float]], repeats: int) -> dict[Name, Spread]:
    """Run each job once per round, in a new order each round, without the garbage collector."""
    samples: dict[Name, list[float]] = {name: [] for name in jobs}
    order = list(jobs)
    shuffler = random.Random(1)  # noqa: S311 -- an order, not a secret
    for _ in range(repeats):
        shuffler.shuffle(order)
        for name in order:
            gc.disable()
            try:
                samples[name].append(jobs[name]())
            finally:
                gc.enable()
    return {name: spread(values) for name, values in samples.items()}


def loop_in(subject: Container[object], keys: Sequence[Key]) -> float:
    """Return ns per key of `key in subject`."""
    start = perf_counter_ns()
    for key in keys:
        key in subject  # noqa: B015 -- the answer is not needed, its cost is
    return (perf_counter_ns() - start) / len(keys)


def loop_call(call: Callable[[Key], object], keys: Sequence[Key]) -> float:
    """Return ns per key of `call(key)`."""
    start = perf_counter_ns()
    for key in keys:
        call(key)
    return (perf_counter_ns() - start) / len(keys)


def list_of_in(subject: Container[object], keys: Sequence[Key]) -> float:
    """Return ns per key of a list of answers, for a library that has no batch look-up."""
    start = perf_counter_ns()
    [key in subject for key in keys]
    return (perf_counter_ns() - start) / len(keys)


def once(call: Callable[[], object], num_keys: int) -> float:
    """Return ns per key of one call that takes num_keys keys."""
    start = perf_counter_ns()
    call()
    return (perf_counter_ns() - start) / num_keys
