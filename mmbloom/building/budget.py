"""What a build may use: memory, threads, a folder to spill to."""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex

from mmbloom.errors import ParameterError, ParameterTypeError
from mmbloom.storage.memory import free_memory_bytes, machine_memory_bytes
from mmbloom.storage.paths import path_text

if TYPE_CHECKING:
    from mmbloom.storage.paths import FilePath

LEAST_MEMORY_BYTES = 32 << 20
MOST_JOBS = 256
DIRECT_KEYS = 1 << 23  # up to this many, sorting takes less than a second, and the count is exact
_BYTES_PER_JOB = 8 << 20
_FREE_DIVISOR = 4  # by default a quarter of free memory: the page cache and others need the rest


class Resources(NamedTuple):
    """What a build may use; see ``build``.

    Attributes:
        memory_bytes: memory for hashes, buffers and payload.
        jobs: number of threads.
        spill_folder: where the spill file is made.
        exact: count the distinct keys one by one, even with a capacity.
        resume: keep checkpoints, and continue from those of an interrupted build.
    """

    memory_bytes: int
    jobs: int
    spill_folder: str
    exact: bool
    resume: bool

    @classmethod
    def checked(  # noqa: PLR0913, PLR0917 - the resources that build() takes
        cls,
        path: str,
        memory: SupportsIndex | None,
        jobs: SupportsIndex | None,
        spill_folder: FilePath | None,
        exact: bool,  # noqa: FBT001 - as build() got it
        resume: bool,  # noqa: FBT001 - as build() got it
    ) -> Resources:
        """Return what the build of *path* may use. Raises: ParameterError, ParameterTypeError."""
        memory_bytes = memory_budget(memory)
        folder = os.path.dirname(path) if spill_folder is None else path_text(spill_folder)
        return cls(memory_bytes, num_jobs(jobs, memory_bytes), folder, exact, resume)


def memory_budget(asked: SupportsIndex | None) -> int:
    """Return the bytes that a build may use: *asked*, or a quarter of free memory.

    Raises:
        ParameterError: less than LEAST_MEMORY_BYTES, or more than the machine has.
        ParameterTypeError: not an int.
    """
    if asked is None:
        return max(LEAST_MEMORY_BYTES, free_memory_bytes() // _FREE_DIVISOR)
    number = _integer("memory", asked)
    if number < LEAST_MEMORY_BYTES:
        raise ParameterError("memory", f"at least {LEAST_MEMORY_BYTES} bytes (32 MiB)", asked)
    if number > (most := machine_memory_bytes()):
        raise ParameterError("memory", f"at most {most} bytes, all that this machine has", asked)
    return number


def num_jobs(asked: SupportsIndex | None, memory_bytes: int) -> int:
    """Return the number of threads: *asked*, or one for each core of this process.

    By default not more than *memory_bytes* are enough for.

    Raises:
        ParameterError: below 1 or above MOST_JOBS. ParameterTypeError: not an int.
    """
    if asked is None:
        return min(MOST_JOBS, len(os.sched_getaffinity(0)), memory_bytes // _BYTES_PER_JOB)
    number = _integer("jobs", asked)
    if not 1 <= number <= MOST_JOBS:
        raise ParameterError("jobs", f"1 to {MOST_JOBS}", asked)
    return number


def direct_memory_bytes(jobs: int) -> int:
    """Return the memory for partitions beside a direct payload: enough for DIRECT_KEYS."""
    return (256 + 16 * jobs) << 20


def _integer(name: str, value: SupportsIndex) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise ParameterTypeError(name, "an int", value)
    return number
