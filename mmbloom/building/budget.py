"""How much memory a build may take, and on how many cores it runs."""

from __future__ import annotations

import operator
import os
from typing import SupportsIndex

from mmbloom.errors import ParameterError, ParameterTypeError
from mmbloom.storage.memory import free_memory_bytes

LEAST_MEMORY_BYTES = 32 << 20
MOST_JOBS = 256
_BYTES_A_JOB = 8 << 20
_SHARE = 4  # of what is free, by default: the page cache and others need theirs


def memory_budget(asked: SupportsIndex | None) -> int:
    """Return the bytes that a build may take: what was asked for, else a quarter of what is free.

    Raises:
        ParameterError: less than LEAST_MEMORY_BYTES. ParameterTypeError: no int.
    """
    if asked is None:
        return max(LEAST_MEMORY_BYTES, free_memory_bytes() // _SHARE)
    number = _integer("memory", asked)
    if number < LEAST_MEMORY_BYTES:
        raise ParameterError("memory", f"at least {LEAST_MEMORY_BYTES} bytes (32 MiB)", asked)
    return number


def num_jobs(asked: SupportsIndex | None, memory_bytes: int) -> int:
    """Return how many threads to use: what was asked for, else one a core that we may run on.

    Of those, as many as *memory_bytes* has a share for.

    Raises:
        ParameterError: below 1 or above MOST_JOBS. ParameterTypeError: no int.
    """
    if asked is None:
        return min(MOST_JOBS, len(os.sched_getaffinity(0)), memory_bytes // _BYTES_A_JOB)
    number = _integer("jobs", asked)
    if not 1 <= number <= MOST_JOBS:
        raise ParameterError("jobs", f"1 to {MOST_JOBS}", asked)
    return number


def _integer(name: str, value: SupportsIndex) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise ParameterTypeError(name, "an int", value)
    return number
