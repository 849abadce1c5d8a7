"""Unions of filter files: read side by side, block by block, and written in the same sweep.

Memory does not depend on the size of the files. Each file is compared with its checksums on the
way, so damage does not spread. ``mmbloom.filters.sealing`` writes the result.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from functools import reduce
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.engine import probes
from mmbloom.errors import (
    CapacityError,
    IncompatibleError,
    MmbloomError,
    ParameterError,
    ParameterTypeError,
    WrongKindError,
)
from mmbloom.filters.access import opened_now
from mmbloom.filters.changeable import ChangeableFilter, bounded_count, check_compatible
from mmbloom.filters.opening import CHANGEABLE, open_any
from mmbloom.filters.sealing import Measured, write_changeable, write_sealed
from mmbloom.format.checksums import check_chunks, check_table
from mmbloom.format.fields import CHUNK_BYTES, KEY_SET_KNOWN, KEYS_EXACT, MAX_CANARIES
from mmbloom.format.status import Status
from mmbloom.kinds.kind import BLOCK_BYTES, Counts
from mmbloom.kinds.spec import content_uuid, creation_ns, fresh
from mmbloom.storage.closing import Closing
from mmbloom.storage.locks import WriterLock
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.paths import path_text
from mmbloom.storage.progress import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mmbloom.filters.filter import Filter
    from mmbloom.format.header import Header
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.progress import Progress
    from mmbloom.storage.publish import IfExists

_MOST_CANDIDATES = 8 * MAX_CANARIES  # canaries of the files that are looked up in the union


class UnionCount(NamedTuple):
    """How many keys filters have together.

    Attributes:
        keys: distinct keys in all; estimated from the bits, unless *exact*.
        exact: whether the files say that they all hold the same list.
        keys_each: the keys of each file; of a file that a writer has open, a lower bound.
        repeated: sum(keys_each) - keys. For two files, the keys that both have.
        capacity: that of each file.
        expected_fpr: the rate of the union, exact.
    """

    keys: int
    exact: bool
    keys_each: tuple[int, ...]
    repeated: int
    capacity: int
    expected_fpr: float

    @property
    def fits(self) -> bool:
        """Whether the union is within the capacity, so that merge() would write it."""
        return self.keys <= self.capacity


def merge(
    path: FilePath,
    sources: Sequence[FilePath],
    *,
    overfill: bool = False,
    if_exists: IfExists = "raise",
    progress: Callable[[Progress], object] | None = None,
) -> ChangeableFilter:
    """Write the union of filter files to a new file, and open it read-only.

    It is exactly the filter to which the keys of all files were added, one after the other. Its
    count of keys is an estimate, unless all files hold the same list. It has the metadata of the
    first file. A union of Bloom filters is sealed. A union of counting filters is not, so that keys
    can be removed from it. Its counters are sums, at most 15, so a key that two files have must be
    removed twice.

    Args:
        path: the file to write. It may be one of *sources*, with if_exists="replace".
        sources: one file or more of kind bloom, or of kind counting, with equal parameters. A file
            that a writer has open is read as it is now.
        overfill: also write a union that exceeds the capacity. Its fpr is higher than asked for.
        if_exists: "raise", or "replace" an existing file, whose readers keep the old one.
        progress: called with a Progress from this thread, at most every 0.1 s.

    Raises:
        IncompatibleError: the first field in which two files differ.
        WrongKindError: a fuse filter, which cannot be united.
        CapacityError: by an estimate, and beyond chance, there are more keys than the capacity.
        ChecksumError: a file is damaged. FormatError, OSError: as BloomFilter.open().
        LockHeldError: a writer has the file at *path* open. If it is one of *sources*, no writer
            can open it while merge() runs, because the keys that it adds would be lost.
        After an error nothing is published.

    Cost: one pass over each file, and 40 MiB of memory at any size. The same files give the same
    bytes if SOURCE_DATE_EPOCH sets the date.
    """
    with _no_writer_of_replaced(path, sources, if_exists), _Union(sources) as union:
        header = fresh(union.first.header)._replace(created_unix_ns=creation_ns())

        def finish(measured: Measured) -> tuple[Header, Status]:
            status = union.status(measured.counts.places)
            if status.keys_added > header.capacity and not overfill:
                text = f"the union of {len(sources)} files, with about {status.keys_added} keys"
                raise CapacityError(f"{os.fsdecode(path_text(path))}: {text}", header.capacity)
            content = measured.checksum_root.to_bytes(8, "little")
            return header._replace(uuid=content_uuid(header, content)), status

        write = write_changeable if union.kind.can_remove else write_sealed
        tell = Reporter(progress, "write", "bytes").tell
        write(path, header, union.blocks(), finish, if_exists=if_exists, progress=tell)
    return CHANGEABLE[union.kind.name].open(path)


def union_count(
    sources: Sequence[FilePath], *, progress: Callable[[Progress], object] | None = None
) -> UnionCount:
    """Estimate how many keys filter files have in all, and how many they share; write nothing.

    Args:
        sources: as for merge().
        progress: as for merge().

    Raises:
        IncompatibleError, WrongKindError, ChecksumError, FormatError, OSError: as merge().

    Cost: as merge(), without the file. Validity: the estimate has a standard deviation of 0.5 % at
    2000 keys, less with more. *repeated* is the difference of two large numbers: it means nothing
    below a thousandth of them.
    """
    with _Union(sources) as union:
        header, kind = union.first.header, union.kind
        reporter = Reporter(progress, "read", "bytes")
        done, each_block = 0, list[Counts]()
        for block in union.blocks():
            each_block.append(kind.count(header, block))
            done += len(block)
            reporter.tell(done, header.payload_bytes)
        counts = reduce(Counts.plus, each_block)
        status, each = union.status(counts.places), union.keys_each()
    keys = status.keys_added
    fpr = kind.fpr(header, counts)
    return UnionCount(keys, status.keys_exact, each, sum(each) - keys, header.capacity, fpr)


@contextmanager
def _no_writer_of_replaced(
    path: FilePath, sources: Sequence[FilePath], if_exists: IfExists
) -> Iterator[None]:
    """Let no writer open *path* during the block, if it is one of *sources* and can be changed."""
    target = path_text(path)
    if if_exists != "replace" or not _is_changeable_source(target, sources):
        yield
        return
    # The lock file, not a lock on the file itself: that one is taken when the file is replaced.
    lock = WriterLock(os.path.realpath(target))
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _is_changeable_source(target: str, sources: Sequence[FilePath]) -> bool:
    if isinstance(sources, (str, bytes, os.PathLike)) or os.path.islink(target):
        return False  # a link is replaced, not what it leads to
    with suppress(OSError, MmbloomError):  # whoever opens them next says what is wrong
        if any(os.path.samefile(target, path_text(source)) for source in sources):
            with MappedFile.open(target) as found:
                return not found.status.is_sealed
    return False


class _Source:
    """One file of a union, read from front to end."""

    def __init__(self, opened: Filter) -> None:
        self.opened = opened_now(opened)
        if not isinstance(opened, ChangeableFilter):
            raise WrongKindError(self.opened.where, " or ".join(CHANGEABLE), opened.kind)
        self.filter = opened
        self._table = b""
        self._places: list[tuple[int, ...]] = []
        if opened.sealed:
            self._table = bytes(self.opened.storage.checksums)
            header, where = self.opened.header, self.opened.where
            check_table(self._table, header, self.opened.status, where)

    def read(self, start: int, out: memoryview) -> None:
        """Copy the payload from byte *start* on, and compare it with its checksums."""
        opened = self.opened
        opened.storage.copy_payload(start, out)
        if self._table:
            first = start // CHUNK_BYTES
            check_chunks(out, self._table, opened.header, opened.where, first=first)
        self._places.append(opened.kind.places(opened.header, out))

    def estimate(self) -> float:
        """Estimate the keys from what was read."""
        places = tuple(map(sum, zip(*self._places, strict=True)))
        return self.opened.kind.estimate_keys(self.opened.header, places)

    def keys(self) -> int:
        """Return the number of keys, a lower bound for a file that a writer has open."""
        kind, status = self.opened.kind, self.opened.status
        if status.is_sealed or (kind.can_remove and not status.writer_open):
            return status.keys_added
        least = kind.fewest_keys(self.opened.header, self.estimate())
        # Where keys can be removed, what was counted when the writer began says nothing of now.
        return least if kind.can_remove else max(status.keys_added, least)


class _Union(Closing):
    """Open files with equal parameters, and the keys of all of them."""

    def __init__(self, sources: Sequence[FilePath]) -> None:
        if isinstance(sources, (str, bytes, os.PathLike)):
            raise ParameterTypeError("sources", "a list of paths", sources)
        if not sources:
            raise ParameterError("sources", "at least one file", sources)
        self._sources: list[_Source] = []
        try:
            for path in sources:
                self._open(path)
        except BaseException:
            self.close()
            raise
        self.first = self._sources[0].opened
        self.kind = self.first.kind
        self._canaries = _Canaries(self.first.header, self._candidates())

    def _open(self, path: FilePath) -> None:
        found = open_any(path, advice="normal")
        try:
            source = _Source(found)
        except BaseException:
            found.close()
            raise
        self._sources.append(source)
        first, its = self._sources[0].filter, source.filter
        try:
            check_compatible(first, its)
        except IncompatibleError as exc:
            left, right = f"{exc.left} in {first.path}", f"{exc.right} in {its.path}"
            raise IncompatibleError(exc.field, left, right) from None

    def blocks(self) -> Iterator[memoryview]:
        """Yield the blocks of the united payload; each is valid until the next."""
        total = self.first.header.payload_bytes
        united, part = (memoryview(bytearray(min(BLOCK_BYTES, total))) for _ in range(2))
        for start in range(0, total, BLOCK_BYTES):
            size = min(BLOCK_BYTES, total - start)
            self._sources[0].read(start, united[:size])
            for source in self._sources[1:]:
                source.read(start, part[:size])
                self.kind.unite(united[:size], part[:size])
            self._canaries.look(start, united[:size])
            yield united[:size]

    def keys_each(self) -> tuple[int, ...]:
        """Return the keys of each file. Requires: all blocks were read."""
        return tuple(source.keys() for source in self._sources)

    def status(self, places: tuple[int, ...]) -> Status:
        """Return counts and canaries of the union, which has *places* set. Requires: as above."""
        stored = [source.opened.status for source in self._sources]
        canaries = self._canaries.found()
        known = KEYS_EXACT | KEY_SET_KNOWN
        lists = {(status.key_set, status.keys_added) for status in stored}
        if len(lists) == 1 and all(status.flags & known == known for status in stored):
            same = stored[0]
            return Status(
                flags=known,
                keys_added=same.keys_added,
                key_set=same.key_set,
                canaries=canaries,
            )
        # What the others add to the file with the most keys is estimated, not what that one has.
        estimate = self.kind.estimate_keys(self.first.header, places)
        each = self.keys_each()
        largest = each.index(max(each))
        keys = each[largest] + estimate - self._sources[largest].estimate()
        count = bounded_count(self.first, each, keys, estimate)
        return Status(keys_added=count, canaries=canaries)

    def _candidates(self) -> list[tuple[int, int]]:
        """Return canaries of the files: the first of each, then the second of each ...

        None where keys can be removed: a file that is not sealed then stores no canaries.
        """
        if self.kind.can_remove:
            return []
        each = [source.opened.status.canaries for source in self._sources]
        turns = chain.from_iterable(zip_longest(*each))
        return list(dict.fromkeys(canary for canary in turns if canary))[:_MOST_CANDIDATES]

    def close(self) -> None:
        for source in self._sources:
            source.filter.close()


class _Canaries:
    """Hashes that are looked up in a payload block by block.

    A file that its writer is clearing may have lost the canaries that it had when it was opened.
    """

    def __init__(self, header: Header, hashes: Sequence[tuple[int, int]]) -> None:
        self._hashes, self._lost = hashes, set[tuple[int, int]]()
        self._bits: dict[int, list[tuple[int, tuple[int, int]]]] = {}
        for each in hashes:
            for bit in probes(header.layout, header.num_bits, header.num_probes, *each):
                self._bits.setdefault(bit // (8 * BLOCK_BYTES), []).append((bit, each))

    def look(self, start: int, block: memoryview) -> None:
        """Look at the bits that lie in *block*, which begins at byte *start*."""
        for bit, canary in self._bits.get(start // BLOCK_BYTES, ()):
            if not block[(bit >> 3) - start] >> (bit & 7) & 1:
                self._lost.add(canary)

    def found(self) -> tuple[tuple[int, int], ...]:
        """Return up to 8 of the hashes that may be in."""
        kept = [canary for canary in self._hashes if canary not in self._lost]
        return tuple(kept[:MAX_CANARIES])
