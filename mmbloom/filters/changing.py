"""The life of a filter that can be changed: made, filled, flushed, copied, sealed.

Says what is stored when. How it gets to the disk is the business of ``mmbloom.storage``; which keys
are in is that of the kind, which inherits from ChangingHandle.
"""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING, Any, Self

from mmbloom.engine import ChangingCore
from mmbloom.errors import ReadOnlyError, VersionError
from mmbloom.filters.handle import open_same
from mmbloom.filters.parameters import fresh
from mmbloom.filters.reloading import ReloadableHandle
from mmbloom.filters.sealing import measure_payload, sealed_status, write_sealed
from mmbloom.filters.shapes import shape_of
from mmbloom.format.fields import HEADER, WRITER_OPEN
from mmbloom.format.header import Header
from mmbloom.format.status import Status
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.memory import map_memory
from mmbloom.storage.open_options import Reading
from mmbloom.storage.publish import NewFile, withdraw
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.publish import IfExists

_BATCH_PAUSE_SECONDS = 0.0005


class ChangingHandle(ReloadableHandle, ChangingCore):
    """One filter that keys can be added to, in a file or in memory; see BloomFilter."""

    _shrinking: threading.Lock  # held while the payload loses keys

    @classmethod
    def _ways_to_make(cls) -> str:
        ways = ".create(path, capacity=..., fpr=...), .in_memory(capacity=..., fpr=...), "
        return f"{cls.__name__}{ways}{cls.__name__}.open_writable(path), "

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
        return cls._of_file(claim_file(path))

    @classmethod
    def _of_new_file(cls, path: FilePath, header: Header) -> Self:
        """Make an empty file and open it for writing."""
        with NewFile(path, header.file_bytes) as new:
            new.write(0, header.pack(Status()))
            new.publish()
            inode = new.inode()
        try:
            return cls.open_writable(path)
        except BaseException:
            withdraw(path, inode)  # whoever tries again must not find an empty filter there
            raise

    @classmethod
    def _of_memory(cls, header: Header) -> Self:
        """Return an empty filter in memory."""
        payload = memoryview(map_memory(header.payload_bytes))
        return cls._blank()._start(header, Status(), None, payload)

    def _start(
        self,
        header: Header,
        status: Status,
        storage: MappedFile | WritableFile | None,
        payload: memoryview,
    ) -> Self:
        self._shrinking = threading.Lock()
        super()._start(header, status, storage, payload)
        self._canary_hashes = status.canaries
        return self

    def _attachment(self, payload: memoryview) -> dict[str, Any]:
        """Return the arguments of _attach() that say who may change the payload, and how much."""
        status, is_writer = self._status, isinstance(self._storage, WritableFile)
        keys_added = status.keys_added
        if is_writer and status.writer_open:  # the last writer died: its count is behind
            keys_added = max(keys_added, self._fewest_keys(payload))
        return {
            "writable": self._storage is None or is_writer,
            "write_through": is_writer,
            "keys_added": keys_added,
            "limit": None if self._header.overfill else self._header.capacity,
        }

    def _fewest_keys(self, payload: memoryview) -> int:
        """Return a count of the keys in *payload* that is not too high: the kind's own."""
        raise NotImplementedError(len(payload))

    def _count_now(self) -> int:
        """Return keys_added; of a file that others may have added to since, not less than it has.

        Cost: one pass over the payload in that case, else none.
        """
        if self.sealed or not isinstance(self._storage, MappedFile):
            self._check_whole()
            return self.keys_added
        whole = self._whole()
        with whole._whole_payload() as payload:
            return max(whole.keys_added, whole._fewest_keys(payload))

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
            result._load(payload, whole._count_now())
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
        steady = self._steady()
        if steady is not self:
            steady.save(path, if_exists=if_exists)
            return
        if self.sealed:
            super().save(path, if_exists=if_exists)
            return
        # The checksums must be those of what is written, even if somebody is adding just now.
        with self.copy() as still:
            facts = still._header, still._status_to_seal()
            pieces = [still._open_payload()]
            write_sealed(path, still._header, pieces, lambda _: facts, if_exists=if_exists)

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
            measured, table = measure_payload(shape_of(self._header), payload)
            status = sealed_status(self._status_to_seal(), measured)
            storage.write(self._header.checksums_offset, table)
            storage.seal(status)
        sealed = open_same(storage.path, self.uuid, Reading())
        self.close()
        while len(self._payload):
            time.sleep(_BATCH_PAUSE_SECONDS)
        self._start_file(sealed)

    def close(self) -> None:
        """Flush, unlock and unmap; may be called again.

        Batches that run in other threads finish, with right answers.

        Raises:
            OSError: as flush(). The filter is closed all the same.
        """
        super().close()

    def _last_status(self) -> Status:
        self._publish()
        return self._status_now()

    def _close_storage(self, status: Status | None) -> None:
        if isinstance(self._storage, WritableFile):
            self._storage.close(status)
        else:
            super()._close_storage(status)

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

    def _status_to_seal(self) -> Status:
        """Return the status that seal() completes."""
        return self._status_now()

    # -- the handle --------------------------------------------------------------------------------

    def __del__(self) -> None:
        """Close a filter that nobody closed, and warn of a writer: only close() tells of errors."""
        if not self.closed:
            if isinstance(self._storage, WritableFile):
                message = f"{self._where()} was not closed"
                warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a reader as path and UUID, a filter in memory as its bytes; a writer cannot be."""
        if self._storage is None:
            payload = self._open_payload()
            page = self._header.pack(self._status_now())
            return _unpickle_memory, (type(self), page, bytes(payload))
        self._check_open()
        if isinstance(self._storage, WritableFile):
            message = f"{self._where()}: a writer cannot be pickled: pickle mmbloom.open(path)"
            raise ReadOnlyError(message)
        return super().__reduce__()

    def _settle_in_child(self) -> None:
        self._shrinking = threading.Lock()
        super()._settle_in_child()

    def _ends_in_child(self) -> bool:
        # The child's copy of a writer's private map misses what the parent adds, so it would answer
        # "definitely not" for keys that are in.
        return isinstance(self._storage, WritableFile)


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


def _unpickle_memory(kind: type[ChangingHandle], page: bytes, payload: bytes) -> ChangingHandle:
    file_bytes = HEADER.unpack(page)["file_bytes"]
    header, status = Header.unpack(page, "pickled filter", file_bytes)[:2]
    result = kind._of_memory(header)
    result._load(payload, status.keys_added)
    result._canary_hashes = result._found(status.canaries)
    return result
