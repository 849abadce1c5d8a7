"""What a kind is given to make a payload from: hashes in partitions, threads, and counts.

``mmbloom.building`` fills partitions, counts their distinct keys and runs the threads. A kind turns
them into the bytes of a payload. Neither needs to know how the other works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from _typeshed import ReadableBuffer

    from mmbloom.format.header import Header

    # A payload as its kind would have it: its header, and its bytes in order, made when asked for.
    Attempt = tuple[Header, Iterable[ReadableBuffer]]

PARTITION_BITS = 10  # of hi, from the top
NUM_PARTITIONS = 1 << PARTITION_BITS

T = TypeVar("T")


class Counted(NamedTuple):
    """The distinct keys of a build.

    Attributes:
        counts: how many each partition has.
        key_set: the sum of their hashes modulo 2^128.
        canaries: up to 8 of their hashes, evenly spread.
    """

    counts: list[int]
    key_set: int
    canaries: tuple[tuple[int, int], ...]

    @property
    def num_keys(self) -> int:
        """Number of distinct keys in all partitions."""
        return sum(self.counts)


class PartitionReader(Protocol):
    """Reads the hashes of partitions, from memory or from a spill file.

    Threads may read at the same time. SpillError and OSError are raised if spilled hashes cannot be
    read back, MemoryBudgetError if the hashes of a partition do not fit in memory.
    """

    @property
    def used_bytes(self) -> int:
        """Memory that is taken until all partitions have been read."""

    def filled_among(self, partitions: Iterable[int]) -> Iterator[int]:
        """Yield those of *partitions* that have hashes."""

    def raw(self, partition: int) -> Iterator[memoryview]:
        """Yield all hashes of a partition in pieces; each is valid until the next."""

    def distinct(self, partition: int) -> AbstractContextManager[memoryview]:
        """Return the distinct hashes of a partition, sorted."""

    def counted(self, partition: int, num_keys: int) -> AbstractContextManager[memoryview]:
        """Return the distinct hashes of a partition, which are *num_keys*, in any order."""


class Threads(Protocol):
    """The threads of a build."""

    jobs: int

    def do(self, tasks: Iterable[Callable[[], T]]) -> Iterator[T]:
        """Do *tasks*; yield the result of each, in order."""

    def narrowed(self, jobs: int) -> AbstractContextManager[Threads]:
        """Return *jobs* threads to use instead, for tasks that need more memory each."""
