"""A filter that keys can be added to: made, filled, flushed, copied, united, sealed.

Says what is stored when. How it gets to the disk is the business of ``mmbloom.storage``.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from mmbloom.engine import hash_batch, payloads_equal
from mmbloom.errors import (
    CapacityError,
    IncompatibleError,
    ParameterError,
    ParameterTypeError,
    ReadOnlyError,
    VersionError,
)
from mmbloom.filters.filter import Filter, open_same
from mmbloom.filters.opened import Opened
from mmbloom.filters.sealing import measure_payload, sealed_status, write_sealed
from mmbloom.format.fields import HASH, HEADER, MAX_CANARIES, WRITER_OPEN
from mmbloom.format.header import Header
from mmbloom.format.status import Status
from mmbloom.keys.batches import pieces_of
from mmbloom.kinds import kind_named
from mmbloom.kinds.spec import FilterSpec, fresh
from mmbloom.sizing.bloom import check_capacity
from mmbloom.storage.dirty_pages import DirtyPages
from mmbloom.storage.in_memory import MemoryStorage
from mmbloom.storage.open_options import OpenOptions
from mmbloom.storage.publish import NewFile, withdraw
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Unpack

    from mmbloom.keys.pieces import Nulls
    from mmbloom.kinds.spec import SpecOptions
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.publish import IfExists
    from mmbloom.storage.storage import Storage

    Hash = tuple[int, int]

_NO_LIMIT = (1 << 64) - 1
# What must be equal for two filters to answer alike, in the order in which a difference is named.
IDENTITY = ("kind", "layout", "num_bits", "num_probes", "seed", "key_form")


class ChangeableFilter(Filter):
    """One filter that keys can be added to, in a file or in memory; see BloomFilter.

    ``keys_added`` counts adds that changed something: keys that were certainly absent before. It is
    too low by about the false-positive rate.
    """

    _ways_to_make = (
        "{0}.create(path, capacity=..., fpr=...)",
        "{0}.in_memory(capacity=..., fpr=...)",
        "{0}.open_writable(path)",
    )

    _dirty: DirtyPages | None = None  # of a writer of a file
    # The first distinct keys that were added, candidates for canaries.
    _first: tuple[Hash, ...] = ()
    # A writer that could remove keys died. What it was removing is "maybe" in part, so its mark in
    # the file stays, until all keys are removed, or a copy is made.
    _was_cut_short = False
    _drift = 0  # by so much, at most, the count was too high when it was last compared
    _shrinking: threading.Lock  # held while the payload loses keys

    # -- making ------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls, path: FilePath, spec: FilterSpec | None = None, /, **options: Unpack[SpecOptions]
    ) -> Self:
        """Make a new filter file and open it for writing. An existing file is never replaced.

        Args:
            path: where the file will be; its folder must exist.
            spec: what to make; or the same by name, as *capacity* and *fpr* and the others:
            **options: capacity, fpr, layout, seed, key_form, metadata, overfill; FilterSpec
                documents them.

        Raises:
            FileExistsError: and what else the operating system says.
            NoSpaceError: the disk is too full; no file is left.
            ParameterError: a value is out of range.

        Cost: the file's space is reserved, not written.
        """
        header = cls._header_of(spec, options)
        with NewFile(path, header.file_bytes) as new:
            new.write(0, header.pack(Status()))
            new.publish()
            inode = new.inode()
        try:
            return cls.open_writable(path)
        except BaseException:
            withdraw(path, inode)  # another try must not find an empty filter there
            raise

    @classmethod
    def in_memory(cls, spec: FilterSpec | None = None, /, **options: Unpack[SpecOptions]) -> Self:
        """Make a filter in anonymous memory; save() writes it to a file.

        Args:
            spec: as for create().
            **options: as for create().

        Raises:
            MemoryError: more than this machine has. ParameterError: a value is out of range.
        """
        return cls._of_storage(MemoryStorage(cls._header_of(spec, options)))

    @classmethod
    def _header_of(cls, spec: FilterSpec | None, options: SpecOptions) -> Header:
        if spec is None:
            spec = FilterSpec(kind=cls.kind, **options)
        elif not isinstance(spec, FilterSpec):
            raise ParameterTypeError("spec", "a FilterSpec", spec)
        elif options:
            hint = "give a specification, or parameters by name"
            raise ParameterError("spec", f"None together with {', '.join(options)}", spec, hint)
        if kind_named(spec.kind) is not cls._kind:
            raise IncompatibleError("kind", cls.kind, f"{spec.kind} in the specification")
        return cls._kind.header(spec)

    @classmethod
    def open_writable(cls, path: FilePath) -> Self:
        """Open a filter file that is not sealed, to add to it.

        Args:
            path: any path type.

        Raises:
            LockHeldError: another handle writes it, in this process or another.
            ReadOnlyError: it is sealed.
            VersionError: it has a feature that only newer releases can write.
            WrongKindError, FormatError, OSError: as open().

        Cost: as open(). If the last writer died, also one pass over the payload, to count its keys.
        """
        return cls._of_storage(claim_file(path))

    def _attach(self, opened: Opened) -> None:
        status, kind = opened.status, opened.kind
        self._shrinking = threading.Lock()
        self._num_keys, self._num_saturated = status.keys_added, status.num_saturated
        if opened.storage.is_writable and status.writer_open:  # the last writer died
            self._was_cut_short = kind.can_remove
            fewest = opened.fewest_keys()  # its count is behind
            # Where keys can be removed, the stored count may as well be too high.
            self._num_keys = fewest if kind.can_remove else max(self._num_keys, fewest)
            self._num_saturated = kind.num_saturated(opened.payload)
        self._limit = _NO_LIMIT if opened.header.overfill else opened.header.capacity
        self._has_removed, self._drift = kind.can_remove and self._num_keys > 0, 0
        self._first = status.canaries
        self._dirty = None
        if isinstance(opened.storage, WritableFile):
            self._dirty = DirtyPages(len(opened.payload), opened.storage)
            opened.attached.mark(self._dirty.pages, self._dirty.groups)
        self._is_quick = False
        super()._attach(opened)

    # -- facts -------------------------------------------------------------------------------------

    @property
    def keys_added(self) -> int:
        """Keys that are in, as far as adds could tell; for a reader, when the file was opened."""
        return self._num_keys if self._opened.storage.is_writable else super().keys_added

    def fill_ratio(self) -> float:
        """Return set bits / num_bits; for counters, the share that is not zero.

        Cost: one pass over the payload, unless sealed.
        """
        opened = self._now()
        return opened.num_places() * opened.kind.place_bits / opened.header.num_bits

    def approx_count(self) -> int:
        """Estimate the distinct keys from the set bits.

        Without a single zero bit the answer is a floor: more cannot be told.
        Cost: one pass over the payload. Source and validity: ``sizing.estimates.estimate_keys``.
        """
        return round(self._now().estimated_keys())

    def forecast(self, num_new_keys: int) -> float:
        """Return the false-positive rate to expect once *num_new_keys* more keys are added.

        Args:
            num_new_keys: distinct keys that are not in yet, 0 to 2**48; beyond the capacity too.

        Raises:
            ParameterError, ParameterTypeError: not such a number.

        Cost: one pass over the payload, up to 6 for layout page.
        Source and validity: ``mmbloom.kinds.forecasts``.
        """
        opened = self._now()
        number = check_capacity(num_new_keys, "num_new_keys", least=0)
        if not number:
            return opened.kind.fpr(opened.header, opened.counts())
        with opened.whole() as whole:
            return opened.kind.forecast(opened.header, whole.payload, number)

    def _count_now(self) -> int:
        """Return keys_added; for a file that others may have changed since, a count not too high.

        Cost: one pass over the payload in that case, else none.
        """
        opened = self._refresh()
        opened.check_length()
        if opened.storage.is_writable or opened.status.is_sealed:
            return self.keys_added
        if opened.kind.can_remove:
            return opened.fewest_keys() if opened.status.writer_open else self.keys_added
        return max(self.keys_added, opened.fewest_keys())

    # -- changing ----------------------------------------------------------------------------------

    def _check_writable(self) -> Opened:
        opened = self._opened
        self._check_open()
        if not opened.storage.is_writable:
            how = "open it with mmbloom.open_writable(), or add to a copy()"
            raise ReadOnlyError(f"{self._where()} is open read-only: {how}")
        return opened

    @contextmanager
    def _changing(self) -> Iterator[Opened]:
        """Let only this thread change the payload; what changed is in the file after the block."""
        with self._mutex:
            opened = self._begin_change()
            try:
                yield opened
            finally:
                self._end_change()

    def _begin_change(self) -> Opened:
        """Begin to change the payload. The mutex is held."""
        opened = self._check_writable()
        self._is_quick = False
        if self._dirty is not None:
            self._dirty.begin_change()
        return opened

    def _end_change(self) -> None:
        """Write what has changed to the file. The mutex is held."""
        self._write_changes()
        self._is_quick = len(self._first) == MAX_CANARIES  # not after an error: something is marked

    def _write_marks(self) -> None:
        """Write what a single change has marked."""
        with self._mutex:
            dirty = self._dirty
            if dirty is not None:
                self._is_quick = False
                dirty.begin_change()
                dirty.write()
                self._is_quick = True

    def _write_changes(self) -> None:
        """Write what has changed, and what an earlier call could not write."""
        if self._dirty is not None:
            self._dirty.write()

    def update(self, keys: object, *, nulls: Nulls = "raise") -> int:
        """Add a batch of keys; return how many were new.

        Args:
            keys: as for contains_many().
            nulls: "raise", or "skip" the nulls of Arrow data.

        Raises:
            KeyTypeError, KeyValueError: a bad key. Nothing of a list, an array or Arrow data was
                added. An iterator is taken 2**20 keys at a time; nothing of the piece with the bad
                key was added.
            CapacityError: the filter is full. The keys before the one that did not fit were added.

        Cost: 16 bytes a key while it runs, for arrays and Arrow data at most 16 MiB.
        """
        num_new = 0
        for hashes in self._hashes_to_change(keys, nulls):
            try:
                num_new += self._add_hashes(hashes)
            except CapacityError as exc:
                total = num_new + (exc.num_added or 0)
                raise CapacityError(exc.where, exc.capacity, total) from None
        return num_new

    def _hashes_to_change(self, keys: object, nulls: Nulls) -> Iterable[bytearray]:
        """Return the hashes of a batch, piece by piece, if this handle can change the filter."""
        header = self._check_writable().header
        pieces = pieces_of(keys, nulls)
        hashed = (hash_batch(piece.batch, header.seed, header.key_form) for piece in pieces)
        # In another form than raw any piece can hold a bad key.
        return list(hashed) if header.key_form else hashed

    def _add_one(self, digest: bytes) -> bool:
        return self._add_hashes(digest) == 1

    def _add_hashes(self, hashes: bytes | bytearray | memoryview) -> int:
        """Add hashes in order; return how many were new.

        Raises:
            CapacityError: it says how many were new before the one that did not fit.
        """
        num_new = done = 0
        total = len(hashes) // HASH.size
        with self._mutex:
            opened = self._begin_change()
            try:
                while done < total:
                    rest = hashes if not done else memoryview(hashes)[HASH.size * done :]
                    now, new, full = opened.attached.add_many(rest, self._room())
                    self._num_keys += new
                    self._num_saturated += full
                    self._keep_canaries(rest, now)
                    num_new, done = num_new + new, done + now
                    if done < total and not self._has_room_for(1):
                        break
            finally:
                self._end_change()
        if done < total:
            raise CapacityError(self._where(), self._limit, num_new)
        return num_new

    def _room(self) -> int:
        counted = self._num_keys - self._drift
        return max(0, self._limit - max(0, counted))

    def _has_room_for(self, num_keys: int) -> bool:
        """Return whether new keys fit; if not by the count, as the payload tells after removals."""
        with self._mutex:
            if self._room() < num_keys and self._has_removed:
                self._has_removed = False
                self._drift = max(0, self._num_keys - self._opened.fewest_keys())
            return self._room() >= num_keys

    def _keep_canaries(self, hashes: bytes | bytearray | memoryview, count: int) -> None:
        """Keep the first distinct keys, new ones or not: hashes are uniform, so any will do."""
        if self._opened.kind.can_remove:  # the first keys may be removed first
            self._note(memoryview(hashes)[: HASH.size * count])
        index = 0
        while len(self._first) < MAX_CANARIES and index < count:
            digest: Hash = HASH.unpack_from(hashes, HASH.size * index)
            index += 1
            if digest not in self._first:
                self._first += (digest,)

    @property
    def _canary_hashes(self) -> tuple[Hash, ...]:
        """Hashes of keys that were added; each is in, unless it was removed."""
        return tuple(dict.fromkeys((*self._first, *self._latest)))

    def _change_payload(
        self, change: Callable[[memoryview], object], keys_added: int, canaries: Sequence[Hash]
    ) -> None:
        """Change the whole payload; then set the count, and keep those canaries that are in."""
        with self._changing() as opened:
            change(opened.payload)
            self._num_keys = keys_added
            self._num_saturated = opened.kind.num_saturated(opened.payload)
            self._has_removed = opened.kind.can_remove
            self._first = opened.found(canaries)
            if self._dirty is not None:
                self._dirty.mark_all()

    def clear(self) -> None:
        """Remove all keys: the payload and the count become 0. A file is flushed."""
        self._was_cut_short = False
        self._clear_bits(_zero, 0)

    def _clear_bits(self, change: Callable[[memoryview], object], keys_added: int) -> None:
        """Change the payload so that keys may go: FORMAT.md, "Clear bits"."""
        with self._shrinking:  # one at a time, and no flush stores a canary until it is done
            with self._mutex:
                storage = self._check_writable().storage
                if isinstance(storage, WritableFile):
                    stored = storage.status
                    flags = stored.flags & WRITER_OPEN
                    bare = stored._replace(keys_added=0, flags=flags, key_set=0, canaries=())
                    storage.flush(bare)
            self._change_payload(change, keys_added, self._canary_hashes)
        self.flush()

    # -- sets --------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Tell whether both answer alike for every key: same kind and parameters, same bytes.

        Cost: a pass over both.
        """
        if not isinstance(other, type(self)):
            return NotImplemented
        mine, its = self._now(), other._now()
        with mine.whole() as left, its.whole() as right:
            alike = all(getattr(self, name) == getattr(other, name) for name in IDENTITY)
            return alike and payloads_equal(left.payload, right.payload)

    __hash__ = None  # type: ignore[assignment]  # equal by content, which changes

    def __or__(self, other: object) -> Self:
        """Return the union, in memory: the filter to which the keys of both were added.

        It may be past the capacity: keys_added and expected_fpr() tell. In a counting filter
        counters are added up, to 15 at most, so a key that both have must be removed twice.

        Raises:
            IncompatibleError: the first field that differs. ChecksumError: as copy().
        """
        return self._united(other) if isinstance(other, type(self)) else NotImplemented

    def __ior__(self, other: object) -> Self:
        """Add every key of *other*.

        If by estimate the union does not fit: CapacityError, and nothing is changed. In memory it
        takes the payload once or twice more.
        """
        if not isinstance(other, type(self)):
            return NotImplemented
        self._check_writable()
        with other.copy() as still, self._united(still) as union:
            if union.keys_added > self._limit:
                where = f"{self._where()}, united with about {union.keys_added} keys in all"
                raise CapacityError(where, self.capacity)
            its = still._opened
            self._change_payload(
                lambda payload: its.kind.unite(payload, its.payload),
                union.keys_added,
                union._canary_hashes,
            )
        return self

    def _united(self, other: Self) -> Self:
        def unite(result: Self, theirs: Opened) -> None:
            before = result._opened.estimated_keys()
            counts = result.keys_added, other._count_now()
            canaries = result._canary_hashes + other._canary_hashes
            result._change_payload(
                lambda mine: theirs.kind.unite(mine, theirs.payload), 0, canaries
            )
            after = result._opened.estimated_keys()
            keys = counts[0] + after - before
            result._num_keys = bounded_count(result._opened, counts, keys, after)

        return self._combined(other, unite)

    def _combined(self, other: ChangeableFilter, combine: Callable[[Self, Opened], None]) -> Self:
        """Return a copy that *combine* has changed by what *other* has."""
        check_compatible(self, other)
        result = self.copy()
        theirs = other._now()
        theirs.verify()
        with theirs.whole() as whole:
            combine(result, whole)
        return result

    # -- to the disk -------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return a writable copy in memory.

        Raises:
            ChecksumError: the file is damaged. A copy would pass the damage on, with new checksums.

        Cost: one pass over the payload; of a sealed file, three.
        """
        opened = self._now()
        opened.verify()
        result = self._of_storage(MemoryStorage(fresh(opened.header)))
        count, canaries = self._count_now(), self._canary_hashes
        with opened.whole() as whole:
            result._change_payload(
                lambda payload: _copy_bytes(payload, whole.payload), count, canaries
            )
        return result

    def save(self, path: FilePath, *, if_exists: IfExists = "raise") -> None:
        """Write the filter as it is to a new, sealed file, which appears complete or not at all.

        Args:
            path: where.
            if_exists: "raise", or "replace" the file that is there; its readers keep the old one.

        Raises:
            OSError, NoSpaceError: as create(). ChecksumError: as copy().

        Cost: three passes over the payload, and unless sealed, memory for a copy of it.
        """
        if self._now().status.is_sealed:
            super().save(path, if_exists=if_exists)
            return
        # The checksums must be those of what is written, even if another thread is adding.
        with self.copy() as still:
            header, status = still._opened.header, still._status_to_seal()
            pieces = [still._opened.payload]
            write_sealed(path, header, pieces, lambda _: (header, status), if_exists=if_exists)

    def flush(self) -> None:
        """Make all keys added so far, and their count, survive power loss.

        For a filter in memory, or one that is open read-only, there is nothing to do.

        Raises:
            OSError: the disk failed; or ESTALE, another file has the path by now.
        """
        with self._mutex:
            self._check_open()
            storage = self._opened.storage
            if isinstance(storage, WritableFile):
                self._write_changes()
                storage.flush(self._status_now())

    def seal(self) -> None:
        """Finish the file: counts, achieved fpr and checksums are stored.

        This handle becomes a reader. Batches of other threads finish on the file as it was.

        Raises:
            ReadOnlyError: it is sealed already, or there is no file: save() writes one.

        Cost: one pass over the payload.
        """
        with self._mutex:
            opened = self._check_writable()
            storage = opened.storage
            if not isinstance(storage, WritableFile):
                message = f"{self._where()} has no file to seal: save(path) writes a sealed one"
                raise ReadOnlyError(message)
            self._write_changes()
            measured, table = measure_payload(opened.header, opened.payload)
            status = sealed_status(self._status_to_seal(), measured)
            storage.write(opened.header.checksums_offset, table)
            storage.seal(status)
            try:
                sealed = Opened.checked(open_same(storage.path, self.uuid, OpenOptions()))
            except BaseException:
                self._detach(None)
                raise
            self._attach(sealed)
            storage.close()

    def close(self) -> None:
        """Flush, unlock and unmap; may be called again.

        Batches that run in other threads finish, with right answers.

        Raises:
            OSError: as flush(). The filter is closed all the same.
        """
        super().close()

    def _last_status(self) -> Status:
        self._write_changes()
        return self._status_now()

    def _close_storage(self, storage: Storage, status: Status | None) -> None:
        if isinstance(storage, WritableFile):
            storage.close(status, keep_mark=self._was_cut_short)
        else:
            storage.close()

    def _status_now(self) -> Status:
        """Return the status to store. While keys can be removed it holds no canaries.

        A stored canary must be in, and a removal would have to take it back first, with a sync.
        """
        status = self._status_to_seal()
        removable = self._opened.kind.can_remove and not status.is_sealed
        return status._replace(canaries=()) if removable else status

    def _status_to_seal(self) -> Status:
        """Return the status that seal() completes: that of the file, with the keys of this one."""
        opened = self._opened
        stored = opened.storage.status
        untouched = not stored.writer_open and stored.keys_added == self.keys_added
        if stored.is_sealed or (opened.storage.path is not None and untouched):
            return stored
        # A canary may be stored only while its bits are on the disk (FORMAT.md, "What a writer
        # does"). Adding one by one, nobody counts exactly or sums hashes.
        canaries = () if self._shrinking.locked() else opened.found(self._canary_hashes)
        return stored._replace(
            flags=stored.flags & WRITER_OPEN,
            keys_added=self.keys_added,
            key_set=0,
            canaries=canaries,
            num_saturated=self._num_saturated,
        )

    # -- the handle --------------------------------------------------------------------------------

    def __del__(self) -> None:
        """Close a filter that nobody closed, and warn of a writer: only close() tells of errors."""
        if not self.closed:
            try:
                if isinstance(self._opened.storage, WritableFile):
                    message = f"{self._where()} was not closed"
                    warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
            finally:  # the warning may be an error
                self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a reader as path and UUID, a filter in memory as its bytes; a writer cannot be."""
        self._check_open()
        opened = self._opened
        if isinstance(opened.storage, WritableFile):
            message = f"{self._where()}: a writer cannot be pickled: pickle mmbloom.open(path)"
            raise ReadOnlyError(message)
        if opened.storage.is_writable:
            page = opened.header.pack(self._status_now())
            return _unpickle_memory, (type(self), page, bytes(opened.payload))
        return super().__reduce__()

    def _ends_in_child(self) -> bool:
        # The child's copy of a writer's private map misses what the parent adds, so it would answer
        # "definitely not" for keys that are in.
        return isinstance(self._opened.storage, WritableFile)


def claim_file(path: FilePath) -> WritableFile:
    """Open a file to write, unless it has a feature that only newer releases can write."""
    storage = WritableFile.open(path)
    features = storage.header.compatible_features
    if features:
        storage.close()
        offset = HEADER.offsets["compatible_features"]
        found = f"bit {(features & -features).bit_length() - 1}"
        hint = "It can be read, not written, by this release: upgrade mmbloom to write it"
        known = "none that this release does not know"
        raise VersionError(storage.path, "compatible_features", offset, known, found, hint)
    return storage


def check_compatible(left: Filter, right: Filter) -> None:
    """Raise IncompatibleError for the first field in which the two filters differ."""
    for name in IDENTITY:
        mine, its = getattr(left, name), getattr(right, name)
        if mine != its:
            raise IncompatibleError(name, mine, its)


def bounded_count(opened: Opened, counts: Sequence[int], keys: float, estimate: float) -> int:
    """Return how many keys a union has, as an integer that can be true.

    Args:
        opened: one of the united, for kind and capacity.
        counts: the keys of each.
        keys: of the union, as estimated.
        estimate: of the keys of the union, from its bits alone.

    Returns:
        Not less than the largest has, nor more than all together; the capacity where *keys* is
        above it by chance, so that a union of no more keys than the capacity is never refused.
    """
    count = min(max(round(keys), *counts), sum(counts))
    capacity = opened.header.capacity
    if count > capacity >= opened.kind.fewest_keys(opened.header, estimate):
        return capacity
    return count


def _zero(payload: memoryview) -> None:
    import numpy as np

    np.frombuffer(payload, np.uint8).fill(0)


def _copy_bytes(target: memoryview, source: memoryview) -> None:
    import numpy as np

    np.frombuffer(target, np.uint8)[:] = np.frombuffer(source, np.uint8)


def _unpickle_memory(kind: type[ChangeableFilter], page: bytes, payload: bytes) -> ChangeableFilter:
    file_bytes = HEADER.unpack(page)["file_bytes"]
    header, status = Header.unpack(page, "pickled filter", file_bytes)[:2]
    result = kind._of_storage(MemoryStorage(header))
    result._change_payload(
        lambda target: _copy_bytes(target, memoryview(payload)), status.keys_added, status.canaries
    )
    return result
