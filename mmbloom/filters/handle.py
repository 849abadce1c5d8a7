"""The life of an open filter: attached, flushed, sealed, saved, closed, pickled, forked.

Says what is stored when. How it gets to the disk is the business of ``mmbloom.files``; which keys
are in is that of the kind, which inherits from FilterHandle.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Self

from mmbloom.engine import ENGINE, BloomCore
from mmbloom.errors import IncompatibleError, ReadOnlyError
from mmbloom.files.mapped import MappedFile
from mmbloom.files.memory import map_memory
from mmbloom.files.reading import Reading
from mmbloom.files.writable import WritableFile
from mmbloom.filters import measure
from mmbloom.filters.facts import FilterFacts
from mmbloom.filters.parameters import fresh
from mmbloom.filters.sealing import measure_payload, sealed_status, write_sealed
from mmbloom.format.fields import HEADER, WRITER_OPEN
from mmbloom.format.header import Header
from mmbloom.format.status import Status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from mmbloom.files.paths import FilePath
    from mmbloom.files.publish import IfExists

_NO_PAYLOAD = memoryview(b"")
_BATCH_PAUSE_SECONDS = 0.0005


class FilterHandle(FilterFacts):
    """One filter while it is open; see BloomFilter."""

    _shrinking: threading.Lock  # held while bits are being cleared
    _is_orphan = False  # closed in a forked child

    def __init__(self, *_arguments: object, **_named: object) -> None:
        """Refuse: whether to make or to open a filter is never guessed."""
        super().__init__()
        name = type(self).__name__
        message = (
            f"{name}() would have to guess whether to make or to open a filter: use {name}.create("
            "path, capacity=..., fpr=...), .in_memory(capacity=..., fpr=...), .open(path) or "
            ".open_writable(path)"
        )
        raise TypeError(message)

    @classmethod
    def _of_memory(cls, header: Header) -> Self:
        """Return an empty filter in memory."""
        return cls._blank()._start(header, Status(), None)

    @classmethod
    def _of_file(cls, storage: MappedFile | WritableFile) -> Self:
        """Return the filter in a file, which is closed if that fails."""
        return cls._blank()._start_file(storage)

    @classmethod
    def _blank(cls) -> Self:
        blank = cls.__new__(cls)
        BloomCore.__init__(blank)
        return blank

    def _start_file(self, storage: MappedFile | WritableFile) -> Self:
        try:
            self._start(storage.header, storage.status, storage)
            self._check_canaries()
        except BaseException:
            self._detach()
            storage.close()
            raise
        return self

    def _start(
        self, header: Header, status: Status, storage: MappedFile | WritableFile | None
    ) -> Self:
        self._header, self._status, self._storage = header, status, storage
        self._shrinking = threading.Lock()
        # What a path means depends on the folder; the one that counts is that of now.
        self._absolute_path = "" if storage is None else os.path.abspath(storage.path)
        payload = map_memory(header.payload_bytes) if storage is None else storage.payload
        self._payload = memoryview(payload)
        keys_added = status.keys_added
        is_writer = isinstance(storage, WritableFile)
        if is_writer and status.writer_open:  # the last writer died: its count is behind
            keys_added = max(keys_added, measure.fewest_keys(self.geometry, self._payload))
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
        if isinstance(storage, MappedFile) and storage.guard is not None:
            self._watch(storage.guard)
        self._canary_hashes = status.canaries
        _OPEN[id(self)] = self
        return self

    # -- to the disk -------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return a writable copy in memory.

        Raises:
            ChecksumError: the file is damaged. A copy would pass the damage on, with new checksums.

        Cost: one pass over the payload; of a sealed file, three.
        """
        whole = self._whole()
        whole.verify()
        result = whole._of_memory(fresh(whole._header))
        with whole._whole_payload() as payload:
            result._combine(payload, "or", whole._count_now())
        result._canary_hashes = result._found(whole._canary_hashes)
        return result

    def save(self, path: FilePath, *, if_exists: IfExists = "raise") -> None:
        """Write the filter as it is to a new, sealed file, which appears complete or not at all.

        Args:
            path: where.
            if_exists: "raise", or "replace" the file that is there; readers of the old one keep it.

        Raises:
            OSError, NoSpaceError: as create(). ChecksumError: as copy().

        Cost: three passes over the payload, and unless sealed, memory for a copy of it.
        """
        whole = self._whole()
        if whole.sealed:
            payload, storage = whole._checked_payload(), whole._storage
            facts = fresh(whole._header), whole._status
            pieces = whole._pieces(payload, storage)
            write_sealed(path, facts[0], pieces, lambda _: facts, if_exists=if_exists)
            return
        # The checksums must be those of what is written, even if somebody is adding just now.
        with whole.copy() as still:
            facts = still._header, still._status_now()
            pieces = iter((still._open_payload(),))
            write_sealed(path, still._header, pieces, lambda _: facts, if_exists=if_exists)

    def _pieces(
        self, payload: memoryview, storage: MappedFile | WritableFile | None
    ) -> Iterator[memoryview]:
        """Yield the payload of a sealed filter, block by block; its file must be whole at the end.

        Else the zeros that the system puts in place of what was cut would get sound checksums.
        """
        page_in = storage.pager() if isinstance(storage, MappedFile) else None
        for start in range(0, len(payload), measure.BLOCK_BYTES):
            block = payload[start : start + measure.BLOCK_BYTES]
            if page_in is not None:
                page_in(start, len(block))
            yield block
        self._check_length(storage)

    def flush(self) -> None:
        """Make all keys added so far, and their count, survive power loss.

        For a filter in memory, or one that is open read-only, there is nothing to do.

        Raises:
            OSError: the disk failed; or ESTALE, another file has the path by now.
        """
        with self._mutex:
            self._check_open()
            if isinstance(self._storage, WritableFile):
                self._publish()  # what an earlier call could not write, too
                self._storage.flush(self._status_now())

    def seal(self) -> None:
        """Finish the file: counts, achieved fpr and checksums are stored.

        This handle becomes a reader. Batches of other threads finish first; a look-up that starts
        in the moment between may get ClosedError.

        Raises:
            ReadOnlyError: it is sealed already, or there is no file: save() writes one.

        Cost: one pass over the payload.
        """
        self._check_writable()
        storage = self._storage
        if not isinstance(storage, WritableFile):
            message = f"{self._where()} has no file to seal: save(path) writes a sealed one"
            raise ReadOnlyError(message)
        with self._mutex:
            self._check_writable()  # another thread may have sealed it
            self._publish()
            payload = self._open_payload()
            measured, table = measure_payload(self.geometry, payload)
            status = sealed_status(self._status_now(), measured)
            storage.write(self._header.checksums_offset, table)
            storage.seal(status)
        sealed = open_same(storage.path, self.uuid, Reading())
        self.close()
        while self._payload is not _NO_PAYLOAD:
            time.sleep(_BATCH_PAUSE_SECONDS)
        self._start_file(sealed)

    def close(self) -> None:
        """Flush, unlock and unmap; may be called again.

        Batches that run in other threads finish, with right answers.

        Raises:
            OSError: as flush(). The filter is closed all the same.
        """
        if self.closed:
            return
        with self._mutex:
            if self.closed:  # by another thread, just now
                return
            status = None
            try:
                self._publish()
                if isinstance(self._storage, WritableFile):
                    status = self._status_now()
            finally:
                self._detach()
                self._close_storage(status)

    def _close_storage(self, status: Status | None) -> None:
        if isinstance(self._storage, WritableFile):
            self._storage.close(status)
        elif self._storage is not None:
            self._storage.close()

    def _let_go(self) -> None:
        # Dropped, not released: a count that runs in another thread keeps its own reference, and
        # the map goes with the last one.
        self._payload = _NO_PAYLOAD

    def _publish_changes(self, runs: list[tuple[int, int]]) -> None:
        if isinstance(self._storage, WritableFile):
            self._storage.write_through(runs)

    def _status_now(self) -> Status:
        """Return the status to store: that of the file, with the keys of this handle."""
        storage = self._storage
        stored = storage.status if isinstance(storage, WritableFile) else self._status
        untouched = not stored.writer_open and stored.keys_added == self.keys_added
        if stored.is_sealed or (storage is not None and untouched):
            return stored
        # A canary may be stored only while its bits are on the disk (FORMAT.md, "What a writer
        # does"). Nobody counts exactly or sums hashes while keys are added one by one.
        canaries = () if self._shrinking.locked() else self._found(self._canary_hashes)
        return stored._replace(
            flags=stored.flags & WRITER_OPEN,
            keys_added=self.keys_added,
            key_set=0,
            canaries=canaries,
        )

    # -- the handle --------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Return the filter; leaving the block closes it."""
        self._check_open()
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
        """Close a filter that nobody closed, and warn of a writer: only close() tells of errors."""
        if not self.closed:
            if isinstance(self._storage, WritableFile):
                message = f"{self._where()} was not closed"
                warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a filter in memory as its bytes; a writer cannot be. For readers see reloading."""
        payload = self._open_payload()
        if self._storage is not None:
            message = f"{self._where()}: a writer cannot be pickled: pickle mmbloom.open(path)"
            raise ReadOnlyError(message)
        page = self._header.pack(self._status_now())
        return _unpickle_memory, (type(self), page, bytes(payload))

    def _where(self) -> str:
        where = super()._where()
        return (
            f"{where}, which the parent of this process was writing," if self._is_orphan else where
        )

    def _settle_in_child(self) -> None:
        """Go on in a forked child, or close there.

        The child's copy of a writer's private map misses what the parent adds, so it would answer
        "definitely not" for keys that are in. And a lock that another thread held is held for ever.
        """
        self._shrinking = threading.Lock()
        is_free = bool(self._mutex.acquire(blocking=False))
        if is_free:
            self._mutex.release()
        elif ENGINE == "python":
            self._mutex, is_free = threading.RLock(), True
        if isinstance(self._storage, WritableFile) or not is_free:
            self._is_orphan = True
            self._detach()
            self._close_storage(None)


def open_same(path: str, uuid: str, reading: Reading) -> MappedFile:
    """Open the file at *path* if it is still the one with that UUID."""
    found = reading.open(path)
    found_uuid = found.header.uuid.hex()
    if found_uuid != uuid:
        found.close()
        raise IncompatibleError("uuid", f"{uuid}, which it had", f"{found_uuid}, now at {path}")
    return found


def _unpickle_memory(kind: type[FilterHandle], page: bytes, payload: bytes) -> FilterHandle:
    file_bytes = HEADER.unpack(page)["file_bytes"]
    header, status = Header.unpack(page, "pickled filter", file_bytes)[:2]
    result = kind._of_memory(header)
    result._combine(payload, "or", status.keys_added)
    result._canary_hashes = result._found(status.canaries)
    return result


def _settle_all_in_child() -> None:
    for handle in list(_OPEN.values()):
        if not handle.closed:
            handle._settle_in_child()


_OPEN: weakref.WeakValueDictionary[int, FilterHandle] = weakref.WeakValueDictionary()
os.register_at_fork(after_in_child=_settle_all_in_child)
