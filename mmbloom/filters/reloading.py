"""Readers: how they were opened, and how the file that is published next is swapped in.

A reader answers single keys itself, without a Python frame. What takes longer - a batch, a
verification, a copy - runs on its *twin*, a second handle of the same file for which nothing is
ever swapped in. So a swap is two steps that nobody sees in between: the engine exchanges what
single look-ups read, at once, and the next batch finds another twin. The old twin goes, with map
and descriptor, when the last batch that runs on it ends.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar, Self

from mmbloom.errors import IncompatibleError
from mmbloom.filters.handle import FilterHandle, open_same
from mmbloom.format.fields import KIND_NAMES
from mmbloom.storage.mapped import MappedFile, stamp_at
from mmbloom.storage.open_options import Reading

if TYPE_CHECKING:
    from mmbloom.format.header import Header
    from mmbloom.format.status import Status
    from mmbloom.storage.advice import Advice
    from mmbloom.storage.mapped import Mode
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.writable import WritableFile

_PAUSE_SECONDS = 0.0005


class ReloadableHandle(FilterHandle):
    """One filter while it is open, of whatever kind: what ``mmbloom.open`` returns.

    Its file may be replaced by another, which a reader can change to.
    """

    _reading = Reading()
    _follow_seconds: float | None = None
    _reload_error: Exception | None = None
    _is_steady = False  # nothing is swapped in: a twin
    _twin: Self | None = None
    _reload_lock: threading.RLock  # held while another file is looked at
    # The class that the user named, where this one was made of it; see reader_class.
    _plain_class: ClassVar[type[ReloadableHandle] | None] = None

    @property
    def mode(self) -> Mode | None:
        """Where a reader's look-ups read: "map", "ram" or "pread"; None for all others."""
        return self._storage.mode if isinstance(self._storage, MappedFile) else None

    @property
    def reload_error(self) -> Exception | None:
        """Why a follower has not changed to the file that has its path now; None if it has."""
        return self._reload_error

    def reload_if_changed(self) -> bool:
        """Change to the file that has the path now, if it is another than the one that is open.

        Size, layout and seed may be others; kind and key form must be the same. Batches that run
        in other threads finish on the old file; its map and descriptor go with the last of them.

        Returns:
            Whether another file was swapped in. False for a writer or a filter in memory, which
            have nothing to reload.

        Raises:
            FormatError, OSError: the new file cannot be trusted, or there is none. The old one goes
                on answering.
            IncompatibleError: of another kind or key form. The same.

        Cost: one stat; for a new file, that of opening it.
        """
        with self._reload_lock:
            self._check_open()
            storage = self._storage
            if not isinstance(storage, MappedFile) or not self._is_replaced(storage):
                return False
            fresh = self._open_fresh()
            with self._mutex:
                old_twin = self._change_to(fresh)
            # After the mutex: closing may have to wait for a look-up. A twin closes what it shares
            # with this handle when its last batch has ended.
            if old_twin is None:
                storage.close()
            return True

    # -- opening -----------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: FilePath,
        *,
        advice: Advice = "random",
        mode: Mode = "map",
        follow: float | None = None,
        expected_digest: str | None = None,
    ) -> Self:
        """Open a filter file read-only. Nothing else needs to be known of it.

        Args:
            path: any path type. Mode 0444 is enough; nothing is written, not even a time stamp.
            advice: how the system should read it: "random" (one page a look-up), "normal" (read
                ahead), "willneed" (start reading all of it), "preload" (read all of it before
                returning). Without meaning for the other modes than "map".
            mode: where look-ups read. "map": a shared map, the fastest; a file that is cut short
                in place kills the process that touches the missing part (SIGBUS). "ram": a copy in
                private memory, verified byte by byte on opening; sealed files only. "pread": system
                calls for the pages of each look-up, so that a cut or a failing disk is an error.
                The last two are for network and user-space file systems.
            follow: look at most every so many seconds, on look-ups, whether another file was
                published under the path, and change to it as reload_if_changed() does. Where that
                fails, the old one goes on answering, with a RuntimeWarning and ``reload_error``.
            expected_digest: what ``mmbloom.file_digest`` gave for the file that is wanted. The
                whole file is read and compared. Who may write to the file can still change it
                later, but for mode "ram".

        Raises:
            WrongKindError: a filter of another kind; mmbloom.open() takes any.
            FormatError: no filter, or one that would not answer truthfully; TruncatedError,
                VersionError and ChecksumError are kinds of it.
            OSError: what the operating system says.

        Cost: one page read, whatever the size, and one more for each of up to 8 canaries; with
        "ram" or *expected_digest* all of it. A single look-up costs 10 to 30 ns more with *follow*,
        and takes 20 to 50 us with "pread".
        """
        reading = Reading(advice, mode, expected_digest).checked()
        return cls._of_path(path, reading, follow)

    @classmethod
    def _of_path(cls, path: FilePath, reading: Reading, follow: float | None = None) -> Self:
        """Open a reader; *reading* has been checked."""
        from mmbloom.filters.following import check_follow, reader_class

        check_follow(follow, reading)
        kind: type[Self] = reader_class(cls._plain_class or cls, reading, follow)
        return kind._of_reading(reading.open(path), reading, follow)

    @classmethod
    def _of_reading(
        cls, storage: MappedFile, reading: Reading, follow: float | None = None
    ) -> Self:
        opened = cls._of_file(storage)
        opened._reading, opened._follow_seconds = reading, follow
        if follow is not None:
            opened._rest(0)
        if reading.advice == "normal":
            storage.advise("normal")
        return opened

    def _start(
        self,
        header: Header,
        status: Status,
        storage: MappedFile | WritableFile | None,
        payload: memoryview,
    ) -> Self:
        self._reload_lock = threading.RLock()
        return super()._start(header, status, storage, payload)

    # -- the twin ----------------------------------------------------------------------------------

    def _steady(self) -> Self:
        storage = self._storage
        if self._is_steady or not isinstance(storage, MappedFile):
            return self
        twin = self._twin
        return self._make_twin() if twin is None else twin

    def _make_twin(self) -> Self:
        with self._mutex:
            self._check_open()
            if self._twin is None:
                blank = self._steady_class()._blank()
                facts = self._header, self._status, self._storage, self._payload
                self._twin = blank._start(*facts)
                self._twin._is_steady = True
            return self._twin

    def _steady_class(self) -> type[Self]:
        from mmbloom.filters.following import reader_class

        kind: type[Any] = self._plain_class or type(self)
        steady: type[Self] = reader_class(kind, self._reading, None)
        return steady

    # -- swapping ----------------------------------------------------------------------------------

    def _is_replaced(self, storage: MappedFile) -> bool:
        """Tell whether the path leads to another file, or somebody has written to a sealed one."""
        now, then = stamp_at(self._absolute_path), storage.stamp
        return now != then if self.sealed else now[:2] != then[:2]  # adds change the time

    def _open_fresh(self) -> Self:
        """Open what has the path now, with every check of opening, as a twin."""
        storage = self._reading.open(self._absolute_path)
        try:
            _check_successor(self._header, storage.header)
        except IncompatibleError:
            storage.close()
            raise
        fresh = self._steady_class()._of_reading(storage, self._reading)
        fresh._is_steady = True
        return fresh

    def _change_to(self, fresh: Self) -> Self | None:
        """Answer from *fresh* from now on; return the twin until now. The mutex is held."""
        payload = fresh._payload
        while not self._take(fresh, payload):
            self._check_open()  # closed meanwhile: ClosedError
            time.sleep(_PAUSE_SECONDS)
        old_twin = self._twin
        self._header, self._status = fresh._header, fresh._status
        self._storage, self._payload, self._twin = fresh._storage, payload, fresh
        return old_twin

    # -- the handle --------------------------------------------------------------------------------

    def _close_storage(self, status: Status | None) -> None:
        twin, self._twin = self._twin, None
        if twin is not None:
            twin.close()
        super()._close_storage(status)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a reader as its path and how it was opened; it must be the same file then.

        A follower opens whatever has the path.
        """
        self._check_open()
        kind = self._plain_class or type(self)
        follow = self._follow_seconds
        uuid = self.uuid if follow is None else None
        return _unpickle_reader, (kind, self._absolute_path, uuid, self._reading, follow)

    def _settle_in_child(self) -> None:
        self._reload_lock = threading.RLock()
        super()._settle_in_child()


def _check_successor(mine: Header, its: Header) -> None:
    """Raise IncompatibleError if keys that were asked for would mean something else."""
    if mine.kind != its.kind:
        raise IncompatibleError("kind", KIND_NAMES[mine.kind], KIND_NAMES[its.kind])
    if mine.key_form != its.key_form:
        raise IncompatibleError("key_form", mine.key_form_name, its.key_form_name)


def _unpickle_reader(
    kind: type[ReloadableHandle],
    path: str,
    uuid: str | None,
    reading: Reading,
    follow: float | None,
) -> ReloadableHandle:
    from mmbloom.filters.following import reader_class

    reader: type[ReloadableHandle] = reader_class(kind, reading, follow)
    storage = reading.open(path) if uuid is None else open_same(path, uuid, reading)
    return reader._of_reading(storage, reading, follow)
