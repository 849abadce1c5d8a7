"""The Bloom filter: the kind that can be added to.

What a call means, what it refuses, and what is stored when. Bits are set and read by the engine's BloomCore, an ancestor of
BloomFilter, so that ``key in f`` costs no Python frame. Files are the business of ``mmbloom.files``, formulas of ``sizing``
and ``estimates``; ``facts`` has what a filter tells of itself.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import TYPE_CHECKING, Any, NoReturn, Self

from mmbloom.engine import hash_batch, payloads_equal
from mmbloom.errors import CapacityError, IncompatibleError, ReadOnlyError
from mmbloom.files.mapped import MappedFile
from mmbloom.files.memory import map_memory
from mmbloom.files.publish import NewFile
from mmbloom.files.writable import WritableFile
from mmbloom.filters import measure
from mmbloom.filters.facts import FilterFacts
from mmbloom.filters.lookup import lookup
from mmbloom.filters.sealing import sealed_status, write_sealed
from mmbloom.filters.sizing import check_capacity, check_fpr, plan
from mmbloom.format.checksums import checksum_table
from mmbloom.format.fields import HEADER
from mmbloom.format.header import Header, new_header
from mmbloom.format.status import Status
from mmbloom.keys.batches import Nulls, pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    import numpy as np

    from mmbloom.files.advice import Advice
    from mmbloom.files.paths import FilePath
    from mmbloom.files.publish import IfExists

    Answers = np.ndarray[Any, np.dtype[np.bool_]]

# What must be equal for two filters to answer alike, in the order in which a difference is named.
_IDENTITY = ("kind", "layout", "num_bits", "num_probes", "seed", "key_form", "hash_id")


class BloomFilter(FilterFacts):
    """A fixed-size Bloom filter, in a mapped file or in memory.

    Guarantee: a key that was added is never answered "definitely not". *capacity* distinct keys always fit.
    Durability: what add() and update() have returned for is seen by other processes at once, and survives power loss after
        flush() or close(). A sealed file never changes again.
    Sharing: one writer and any number of readers, on one host. Threads may look up, add and close at the same time; batches
        release the GIL. A forked child may look up, not write. Pickling stores path and UUID, not the bits.
    Limits: no removal, no growth. A key never added is answered "maybe" with chance expected_fpr(); somebody who knows the
        seed can choose keys that always are.
    """

    # -- making and opening ------------------------------------------------------------------------

    @classmethod
    def create(  # noqa: PLR0913 - what the header holds
        cls,
        path: FilePath,
        *,
        capacity: int,
        fpr: float,
        layout: str = "auto",
        seed: int = 0,
        key_form: str = "raw",
        metadata: dict[str, Any] | None = None,
        overfill: bool = False,
    ) -> Self:
        """Make a new filter file and open it for writing. Never replaces a file.

        Args:
            path: where the file will be; its folder must exist.
            capacity: distinct keys it is sized for, 1 to 2**48.
            fpr: false-positive rate with that many in, 1e-12 <= fpr < 1.
            layout: "classic", "line", "page", or "auto": see ``mmbloom.plan``.
            seed: 0 <= seed < 2**64. Filters with different seeds have independent false positives.
            key_form: "raw"; or "hex" for digests in hexadecimal, case-blind. It is stored, and every reader applies it.
            metadata: a JSON object of up to 2 KiB: source, list version, date.
            overfill: add new keys past the capacity, at a rising fpr, instead of refusing them.

        Raises:
            FileExistsError, and what else the operating system says.
            NoSpaceError: the disk is too full; no file is left.
            ParameterError: a value outside its range.

        Cost: the file's space is reserved, not written.
        """
        header = _new_header(capacity, fpr, layout, seed, key_form, metadata, overfill)
        with NewFile(path, header.file_bytes) as new:
            new.write(0, header.pack(Status()))
            new.publish()
        return cls.open_writable(path)

    @classmethod
    def in_memory(  # noqa: PLR0913 - as create()
        cls,
        *,
        capacity: int,
        fpr: float,
        layout: str = "auto",
        seed: int = 0,
        key_form: str = "raw",
        metadata: dict[str, Any] | None = None,
        overfill: bool = False,
    ) -> Self:
        """Make a filter in anonymous memory; save() writes it to a file. Parameters as for create()."""
        header = _new_header(capacity, fpr, layout, seed, key_form, metadata, overfill)
        return cls()._start(header, Status(), None)

    @classmethod
    def open(cls, path: FilePath, *, advice: Advice = "random") -> Self:
        """Open a filter file read-only. Nothing else needs to be known of it.

        Args:
            path: any path type. Mode 0444 is enough; nothing is written, not even a time stamp.
            advice: how the system should read it: "random" (one page a look-up), "normal" (read ahead), "willneed" (start
                reading all of it), "preload" (read all of it before returning).

        Raises:
            FormatError: no filter, or one that would not answer truthfully; TruncatedError, VersionError: see there.
            OSError: what the operating system says.

        Cost: the header page, and one line of the payload for each of up to 8 canaries; no private memory, at any size.
        """
        return cls()._start_file(MappedFile.open(path, advice))

    @classmethod
    def open_writable(cls, path: FilePath) -> Self:
        """Open a filter file that is not sealed, to add to it.

        Raises:
            LockHeldError: another handle writes it, in this process or another.
            ReadOnlyError: it is sealed. Else as open().

        Cost: as open(). If the last writer died, also one pass over the payload, to count its keys again.
        """
        return cls()._start_file(WritableFile.open(path))

    def _start_file(self, storage: MappedFile | WritableFile) -> Self:
        try:
            self._start(storage.header, storage.status, storage)
            self._check_canaries()
        except BaseException:
            self.close()
            storage.close()
            raise
        return self

    def _start(self, header: Header, status: Status, storage: MappedFile | WritableFile | None) -> Self:
        self._header, self._status, self._storage = header, status, storage
        self._unwritten: list[tuple[int, int]] = []
        memory = map_memory(header.payload_bytes) if storage is None else storage.payload
        self._payload = memoryview(memory)
        keys_added = status.keys_added
        is_writer = isinstance(storage, WritableFile)
        if is_writer and status.writer_open:  # the last writer died: its count is a lower bound
            keys_added = max(keys_added, round(measure.approx_keys(self.geometry, self._payload)))
        self._attach(
            self._payload,
            header.layout,
            header.num_bits,
            header.num_probes,
            header.seed,
            header.key_form,
            writable=storage is None or is_writer,
            write_through=is_writer,
            keys_added=keys_added,
            limit=None if header.overfill else header.capacity,
        )
        self._canary_hashes = status.canaries
        return self

    # -- keys --------------------------------------------------------------------------------------

    def update(self, keys: object, *, nulls: Nulls = "raise") -> int:
        """Add a batch of keys; return how many were new.

        Args:
            keys: as for contains_many().
            nulls: "raise", or "skip" the nulls of Arrow data.

        Raises:
            KeyTypeError, KeyValueError: a bad key. Of a list, an array or Arrow data nothing was added. An iterator is
                taken 2**20 keys at a time; of the piece with the bad key nothing was added.
            CapacityError: the filter is full. The keys before the one that did not fit were added.

        Cost: 16 bytes a key while it runs, for arrays and Arrow data at most 16 MiB.
        """
        header = self._header
        self._check_writable()
        pieces = pieces_of(keys, nulls)
        hashed: Iterable[bytearray]
        hashed = (hash_batch(piece.batch, header.seed, header.key_form) for piece in pieces)
        if header.key_form:
            hashed = list(hashed)  # in another form than raw any piece can hold a bad key
        num_new = 0
        for hashes in hashed:
            try:
                num_new += self._add_hashes(hashes)
            except CapacityError as exc:
                raise CapacityError(exc.where, exc.capacity, num_new + exc.num_added) from None
        return num_new

    def contains_many(self, keys: object, out: Answers | None = None, *, nulls: Nulls = "raise") -> Answers:
        """Look up a batch: False where a key was definitely never added, True where it may have been.

        Args:
            keys: a list, tuple, set or any iterable of str and bytes-like; a NumPy array of dtype S, U, StringDType, V or
                integer, or of bytes with shape (n, width); Arrow data (PyCapsule protocol: pyarrow, polars, pandas,
                duckdb) with one column of text, binary or integers.
            out: bool[n] that takes the answers.
            nulls: "raise", or "skip": the answer for an Arrow null is False.

        Returns:
            *out*, or a new bool[n], in the order of the keys.

        Raises:
            KeyTypeError, KeyValueError: a bad key. ParameterError: *out* does not fit.

        Cost: about one hash and the lines of the layout for each key (README has figures). The GIL is released.
        """
        self._open_payload()
        return lookup(self, self._header, self._storage, pieces_of(keys, nulls), out)

    # -- sets --------------------------------------------------------------------------------------

    def __or__(self, other: object) -> BloomFilter:
        """Return the union, in memory: exactly the filter of the keys of both."""
        return self._combined(other, "or") if isinstance(other, BloomFilter) else NotImplemented

    def __and__(self, other: object) -> BloomFilter:
        """Return the bits that both have, in memory.

        An over-approximation of the filter of the common keys: each of those is "maybe", and other keys are so more often
        than in a filter to which only the common keys were added.
        """
        return self._combined(other, "and") if isinstance(other, BloomFilter) else NotImplemented

    def __ior__(self, other: object) -> Self:
        """Add every key of *other*. If by estimate the union does not fit: CapacityError, and nothing is changed."""
        return self._combine_in_place(other, "or") if isinstance(other, BloomFilter) else NotImplemented

    def __iand__(self, other: object) -> Self:
        """Keep the bits that *other* has too. ``&`` says what that over-approximates."""
        return self._combine_in_place(other, "and") if isinstance(other, BloomFilter) else NotImplemented

    def _combined(self, other: BloomFilter, operation: str) -> BloomFilter:
        theirs = self._check_compatible(other)
        result = BloomFilter()._start(_fresh(self._header), Status(), None)
        result._combine(self._open_payload(), "or", 0)
        result._combine(theirs, operation, 0)
        result.keys_added = round(measure.approx_keys(self.geometry, result._payload))
        if operation == "or":
            result._canary_hashes = self._canary_hashes + other._canary_hashes
        return result

    def _combine_in_place(self, other: BloomFilter, operation: str) -> Self:
        self._check_writable()
        with self._combined(other, operation) as result:
            num_keys = result.keys_added
            if operation == "or" and num_keys > self.capacity and not self._header.overfill:
                raise CapacityError(f"{self._where()}, united with about {num_keys} keys in all", self.capacity)
            self._combine(other._open_payload(), operation, num_keys)
            self._canary_hashes = result._canary_hashes
        return self

    def _check_compatible(self, other: BloomFilter) -> memoryview:
        """Return the payload of *other*, or raise for the first field in which it differs."""
        for field in _IDENTITY:
            mine, its = getattr(self._header, field), getattr(other._header, field)
            if mine != its:
                raise IncompatibleError(field, mine, its)
        return other._open_payload()

    def __eq__(self, other: object) -> bool:
        """Tell whether both answer alike for every key: same parameters, same bits. Cost: a pass over both."""
        if not isinstance(other, BloomFilter):
            return NotImplemented
        mine, its = self._open_payload(), other._open_payload()
        same = all(getattr(self._header, name) == getattr(other._header, name) for name in _IDENTITY)
        return same and payloads_equal(mine, its)

    __hash__ = None  # type: ignore[assignment]  # equal by content, which changes

    def copy(self) -> BloomFilter:
        """Return a writable copy in memory."""
        result = BloomFilter()._start(_fresh(self._header), Status(), None)
        result._combine(self._open_payload(), "or", self.keys_added)
        result._canary_hashes = self._canary_hashes
        return result

    def clear(self) -> None:
        """Forget all keys: every bit and the count become 0."""
        self._combine(None, "clear", 0)
        self._canary_hashes = ()

    # -- life of the file --------------------------------------------------------------------------

    def save(self, path: FilePath, *, if_exists: IfExists = "raise") -> None:
        """Write the filter as it is to a new, sealed file, which appears complete or not at all.

        Args:
            path: where.
            if_exists: "raise", or "replace" the file that is there; readers of the old one keep it.
        """
        write_sealed(path, _fresh(self._header), self._open_payload(), self._status_now(), if_exists)

    def flush(self) -> None:
        """Make all keys added so far, and their count, survive power loss. In memory there is nothing to do."""
        self._open_payload()
        if isinstance(self._storage, WritableFile):
            with self._mutex:
                self._storage.flush(self._status_now())

    def seal(self) -> None:
        """Finish the file: counts, achieved fpr and checksums are stored, and this handle becomes a reader.

        Raises:
            ReadOnlyError: it is sealed already, or there is no file: save() writes one.

        Cost: three passes over the payload.
        """
        self._check_writable()
        storage = self._storage
        if not isinstance(storage, WritableFile):
            raise ReadOnlyError(f"{self._where()} has no file to seal: save(path) writes a sealed one")
        with self._mutex:
            table = checksum_table(self._payload, num_threads=len(os.sched_getaffinity(0)))
            status = sealed_status(self.geometry, self._payload, table, self._status_now())
            storage.write(self._header.checksums_offset, table)
            storage.seal(status)
        self.close()
        self._start_file(MappedFile.open(storage.path))

    def close(self) -> None:
        """Flush, unlock and unmap; may be called again. Batches that run in other threads finish first."""
        with self._mutex:
            self._detach()

    def _let_go(self) -> None:
        self._payload.release()
        if isinstance(self._storage, WritableFile):
            self._storage.close(self._status_now())
        elif self._storage is not None:
            self._storage.close()

    def _publish_changes(self) -> None:
        if isinstance(self._storage, WritableFile):
            self._unwritten += self._take_dirty_runs()
            self._storage.write_through(self._unwritten)
            self._unwritten = []

    def _status_now(self) -> Status:
        """Return the status to store: that of the file, with the keys of this handle."""
        stored = self._status if self._storage is None else self._storage.status
        if stored.is_sealed:
            return stored
        return stored._replace(keys_added=self.keys_added, canaries=self._canary_hashes)

    def __enter__(self) -> Self:
        """Return the filter; leaving the block closes it."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the filter."""
        self.close()

    def __del__(self) -> None:
        """Close a filter that nobody closed. A writer should be: only close() tells of a failure."""
        if not self.closed:
            if isinstance(self._storage, WritableFile):
                warnings.warn(f"{self._where()} was not closed", ResourceWarning, stacklevel=2, source=self)
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a reader as path and UUID, a filter in memory as its bytes; a writer cannot be pickled."""
        payload = self._open_payload()
        if self._storage is None:
            return _unpickle_memory, (self._header.pack(self._status_now()), bytes(payload))
        if isinstance(self._storage, WritableFile):
            self._refuse_pickling()
        return _unpickle_file, (os.path.abspath(self._storage.path), self.uuid)

    def _refuse_pickling(self) -> NoReturn:
        message = f"{self._where()}: a writer cannot be pickled: pickle a reader, mmbloom.open(path)"
        raise ReadOnlyError(message)


def _unpickle_file(path: str, uuid: str) -> BloomFilter:
    found = BloomFilter.open(path)
    if found.uuid != uuid:
        other = found.uuid
        found.close()
        raise IncompatibleError(f"uuid of {path}, replaced since it was pickled", uuid, other)
    return found


def _unpickle_memory(page: bytes, payload: bytes) -> BloomFilter:
    header, status = Header.unpack(page, "pickled filter", HEADER.unpack(page)["file_bytes"])[:2]
    result = BloomFilter()._start(header, Status(), None)
    result._combine(payload, "or", status.keys_added)
    result._canary_hashes = status.canaries
    return result


def _fresh(header: Header) -> Header:
    """Return the header of another filter with the same parameters."""
    return header._replace(uuid=os.urandom(16), created_unix_ns=time.time_ns())


def _new_header(  # noqa: PLR0913 - what the header holds
    capacity: int,
    fpr: float,
    layout: str,
    seed: int,
    key_form: str,
    metadata: dict[str, Any] | None,
    overfill: bool,  # noqa: FBT001 - a field of the header
) -> Header:
    capacity, fpr = check_capacity(capacity), check_fpr(fpr)
    geometry = plan(capacity, fpr, layout)
    return new_header(
        layout=geometry.layout,
        num_bits=geometry.num_bits,
        num_probes=geometry.num_probes,
        capacity=capacity,
        fpr=fpr,
        uuid=os.urandom(16),
        created_unix_ns=time.time_ns(),
        seed=seed,
        key_form=key_form,
        metadata=metadata,
        overfill=overfill,
    )
