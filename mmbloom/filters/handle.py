"""The life of an open filter of any kind: opened, looked up, saved, closed, pickled, forked.

A kind that can be changed adds to this in ``changing``. How bytes get to the disk is the business
of ``mmbloom.storage``; which keys are in is that of the kind, which inherits from FilterHandle.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Self

from mmbloom.engine import ENGINE, FilterCore
from mmbloom.errors import IncompatibleError, WrongKindError
from mmbloom.filters.facts import FilterFacts
from mmbloom.filters.lookup import lookup
from mmbloom.filters.measure import BLOCK_BYTES
from mmbloom.filters.parameters import fresh
from mmbloom.filters.sealing import write_sealed
from mmbloom.format.fields import KIND_NAMES
from mmbloom.keys.batches import pieces_of
from mmbloom.storage.closing import Closing
from mmbloom.storage.mapped import MappedFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from mmbloom.format.header import Header
    from mmbloom.format.status import Status
    from mmbloom.keys.pieces import Nulls
    from mmbloom.storage.open_options import Reading
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.publish import IfExists
    from mmbloom.storage.writable import WritableFile

    Answers = np.ndarray[Any, np.dtype[np.bool_]]

_NO_PAYLOAD = memoryview(b"")


class FilterHandle(Closing, FilterFacts):
    """One filter while it is open, of whatever kind."""

    _is_orphan = False  # closed in a forked child

    def __init__(self, *_arguments: object, **_named: object) -> None:
        """Refuse: whether to make or to open a filter is never guessed."""
        super().__init__()
        name = type(self).__name__
        message = (
            f"{name}() would have to guess whether to make or to open a filter: use "
            f"{self._ways_to_make()}{name}.open(path)"
        )
        raise TypeError(message)

    @classmethod
    def _ways_to_make(cls) -> str:
        """Return how filters of this kind are made, each way with a comma behind it."""
        return f'mmbloom.build(path, keys, kind="{cls.kind}", fpr=...), '

    @classmethod
    def _of_file(cls, storage: MappedFile | WritableFile) -> Self:
        """Return the filter in a file, which is closed if that fails."""
        found = KIND_NAMES[storage.header.kind]
        if found != cls.kind:
            storage.close()
            raise WrongKindError(storage.path, cls.kind, found)
        return cls._blank()._start_file(storage)

    @classmethod
    def _blank(cls) -> Self:
        blank = cls.__new__(cls)
        FilterCore.__init__(blank)
        return blank

    def _start_file(self, storage: MappedFile | WritableFile) -> Self:
        try:
            self._start(storage.header, storage.status, storage, storage.payload)
            self._check_canaries()
        except BaseException:
            self._detach()
            storage.close()
            raise
        return self

    def _start(
        self,
        header: Header,
        status: Status,
        storage: MappedFile | WritableFile | None,
        payload: memoryview,
    ) -> Self:
        self._header, self._status, self._storage = header, status, storage
        # What a path means depends on the folder; the one that counts is that of now.
        self._absolute_path = "" if storage is None else os.path.abspath(storage.path)
        self._payload = payload
        self._attach_payload(payload)
        if isinstance(storage, MappedFile) and storage.guard is not None:
            self._watch(storage.guard)
        _OPEN[id(self)] = self
        return self

    def _attach_payload(self, payload: memoryview) -> None:
        """Let the core answer from *payload*, as header and status say: the kind's own."""
        raise NotImplementedError(len(payload))

    # -- keys --------------------------------------------------------------------------------------

    def contains_many(
        self, keys: object, out: Answers | None = None, *, nulls: Nulls = "raise"
    ) -> Answers:
        """Look up a batch: False for a key that was definitely never added, True for "maybe".

        Args:
            keys: a list, tuple, set or any iterable of str and bytes-like; a NumPy array of dtype
                S, U, StringDType, V or integer, or of bytes with shape (n, width); Arrow data
                (PyCapsule protocol: pyarrow, polars, pandas, duckdb) with one column of text,
                binary or integers.
            out: bool[n] that takes the answers.
            nulls: "raise", or "skip": the answer for an Arrow null is False.

        Returns:
            *out*, or a new bool[n], in the order of the keys.

        Raises:
            KeyTypeError, KeyValueError: a bad key.
            ParameterError: *out* does not fit.

        Cost: about one hash and the lines of the layout for each key (README has figures). The GIL
        is released.
        """
        self._check_open()
        steady = self._steady()
        return lookup(steady, steady._header, steady._storage, pieces_of(keys, nulls), out)

    # -- to the disk -------------------------------------------------------------------------------

    def save(self, path: FilePath, *, if_exists: IfExists = "raise") -> None:
        """Write the filter as it is to a new, sealed file, which appears complete or not at all.

        Args:
            path: where.
            if_exists: "raise", or "replace" the file that is there; readers of the old one keep it.

        Raises:
            OSError, NoSpaceError: as build(). ChecksumError: the file is damaged; a copy would pass
                the damage on, with new checksums.

        Cost: one pass over the payload.
        """
        whole = self._whole()
        payload, storage = whole._checked_payload(), whole._storage
        facts = fresh(whole._header), whole._status
        pieces = whole._pieces(payload, storage)
        write_sealed(path, facts[0], pieces, lambda _: facts, if_exists=if_exists)

    def _pieces(
        self, payload: memoryview, storage: MappedFile | WritableFile | None
    ) -> Iterator[memoryview]:
        """Yield the payload of a sealed filter, block by block; its file must be whole at the end.

        Else the zeros that the system puts in place of what was cut would get sound checksums.
        """
        page_in = storage.pager() if isinstance(storage, MappedFile) else None
        for start in range(0, len(payload), BLOCK_BYTES):
            block = payload[start : start + BLOCK_BYTES]
            if page_in is not None:
                page_in(start, len(block))
            yield block
        self._check_length(storage)

    def close(self) -> None:
        """Unmap; may be called again.

        Batches that run in other threads finish, with right answers.
        """
        if self.closed:
            return
        with self._mutex:
            if self.closed:  # by another thread, just now
                return
            status = None
            try:
                status = self._last_status()
            finally:
                self._detach()
                self._close_storage(status)

    def _last_status(self) -> Status | None:
        """Return the status to store at the end, None if there is nothing to store."""
        return None

    def _close_storage(self, status: Status | None) -> None:  # noqa: ARG002 - a reader stores none
        if self._storage is not None:
            self._storage.close()

    def _let_go(self) -> None:
        # Dropped, not released: a count that runs in another thread keeps its own reference, and
        # the map goes with the last one.
        self._payload = _NO_PAYLOAD

    # -- the handle --------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Return the filter; leaving the block closes it."""
        self._check_open()
        return self

    def __del__(self) -> None:
        """Close a filter that nobody closed."""
        if not self.closed:
            self.close()

    def _where(self) -> str:
        where = super()._where()
        return (
            f"{where}, which the parent of this process was writing," if self._is_orphan else where
        )

    def _settle_in_child(self) -> None:
        """Go on in a forked child, or close there.

        A lock that another thread held is held for ever.
        """
        is_free = bool(self._mutex.acquire(blocking=False))
        if is_free:
            self._mutex.release()
        elif ENGINE == "python":
            self._mutex, is_free = threading.RLock(), True
        if not is_free or self._ends_in_child():
            self._is_orphan = True
            self._detach()
            self._close_storage(None)

    def _ends_in_child(self) -> bool:
        """Return whether a forked child must not go on with this filter."""
        return False


def open_same(path: str, uuid: str, reading: Reading) -> MappedFile:
    """Open the file at *path* if it is still the one with that UUID."""
    found = reading.open(path)
    found_uuid = found.header.uuid.hex()
    if found_uuid != uuid:
        found.close()
        raise IncompatibleError("uuid", f"{uuid}, which it had", f"{found_uuid}, now at {path}")
    return found


def _settle_all_in_child() -> None:
    for handle in list(_OPEN.values()):
        if not handle.closed:
            handle._settle_in_child()


_OPEN: weakref.WeakValueDictionary[int, FilterHandle] = weakref.WeakValueDictionary()
os.register_at_fork(after_in_child=_settle_all_in_child)
