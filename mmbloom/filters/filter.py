"""A filter of any kind while it is open, as its readers see it.

A ``Filter`` is a handle on one opened file, which may be replaced by the file that is published
next. Which keys are in is decided by the engine, what a kind is by ``mmbloom.kinds``, how bytes are
read by ``mmbloom.storage``; here is what a call means.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Self

from mmbloom.engine import ENGINE, Core
from mmbloom.errors import ClosedError, IncompatibleError, WrongKindError
from mmbloom.filters.following import Follower
from mmbloom.filters.lookup import look_up
from mmbloom.filters.opened import Opened
from mmbloom.filters.sealing import write_sealed
from mmbloom.keys.batches import pieces_of
from mmbloom.kinds import kind_of
from mmbloom.kinds.kind import blocks_of
from mmbloom.kinds.spec import fresh
from mmbloom.storage.closing import Closing
from mmbloom.storage.mapped import stamp_at
from mmbloom.storage.open_options import OpenOptions
from mmbloom.storage.progress import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from mmbloom.filters.build_report import BuildReport
    from mmbloom.format.status import Status
    from mmbloom.keys.pieces import Nulls
    from mmbloom.kinds.kind import Kind
    from mmbloom.storage.advice import Advice
    from mmbloom.storage.mapped import MappedFile
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.progress import Progress
    from mmbloom.storage.publish import IfExists
    from mmbloom.storage.storage import Mode, Storage

    Answers = np.ndarray[Any, np.dtype[np.bool_]]


class Filter(Closing, Core):
    """One filter of any kind while it is open: what ``mmbloom.open`` returns."""

    kind: ClassVar[str]  # as ``info`` and errors name it
    _kind: ClassVar[Kind]
    _ways_to_make: ClassVar[tuple[str, ...]]

    _opened: Opened
    _options = OpenOptions()
    _follower: Follower | None = None
    _is_orphan = False  # closed in a forked child
    report: BuildReport | None = None
    """What build() did to make the file, for the filter that build() returned."""
    _mutex: threading.RLock  # held while the payload or the opened file changes
    _reload_lock: threading.RLock  # held while another file is looked at

    def __init__(self, *_arguments: object, **_named: object) -> None:
        """Refuse: whether to make or to open a filter is never guessed."""
        super().__init__()
        name = type(self).__name__
        ways = ", ".join(way.format(name) for way in (*self._ways_to_make, "{0}.open(path)"))
        message = f"{name}() would have to guess whether to make or to open a filter: use {ways}"
        raise TypeError(message)

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
        """Open a filter file read-only. Nothing else needs to be known about it.

        Args:
            path: any path type. Mode 0444 is enough; nothing is written, not even a time stamp.
            advice: how the system should read the file: "random" (one page a look-up), "normal"
                (read ahead), "willneed" (start reading all of it), "preload" (read all of it before
                returning). It has no effect in the other modes than "map".
            mode: how look-ups read the file. "map": a shared map, the fastest; a file that is cut
                short in place kills the process that touches the missing part (SIGBUS). "ram": a
                copy in private memory, verified byte by byte on opening; sealed files only.
                "pread": system calls for the pages of each look-up, so that a cut file or a failing
                disk is an error. The last two are for network and user-space file systems.
            follow: on look-ups, but at most once in this many seconds, check whether another file
                was published under the path, and change to it as reload_if_changed() does. Where
                that fails, the old file goes on answering, with a RuntimeWarning and
                ``reload_error``.
            expected_digest: what ``mmbloom.file_digest`` returned for the file that is wanted. The
                whole file is read and compared. Whoever may write to the file can still change it
                later, except in mode "ram".

        Raises:
            WrongKindError: a filter of another kind; mmbloom.open() opens any.
            FormatError: not a filter, or one that would not answer truthfully; TruncatedError,
                VersionError and ChecksumError are kinds of it.
            OSError: what the operating system says.

        Cost: one page is read, whatever the size, and one more for each of up to 8 canaries; with
        "ram" or *expected_digest* the whole file. A single look-up costs 10 to 30 ns more with
        *follow*, and takes 20 to 50 us with "pread".
        """
        options = OpenOptions(advice, mode, expected_digest).checked()
        follower = Follower.checked(follow, options)
        return cls._of_reader(options.open(path), options, follower)

    @classmethod
    def _of_reader(
        cls, storage: MappedFile, options: OpenOptions, follower: Follower | None = None
    ) -> Self:
        """Return the filter in a file that was opened with *options*."""
        reader = cls._of_storage(storage)
        reader._options, reader._follower = options, follower
        if follower is not None:
            reader._rest(0)
        if options.advice == "normal":  # not before: opening must not read ahead
            storage.advise("normal")
        return reader

    @classmethod
    def _of_storage(cls, storage: Storage) -> Self:
        """Return the filter in *storage*, which is closed if that fails."""
        found = kind_of(storage.header)
        if found is not cls._kind:
            storage.close()
            raise WrongKindError(str(storage.path), cls.kind, found.name)
        opened = Opened.checked(storage)
        filter_ = cls.__new__(cls)
        Core.__init__(filter_)
        filter_._mutex, filter_._reload_lock = threading.RLock(), threading.RLock()
        filter_._attach(opened)
        _OPEN[id(filter_)] = filter_
        return filter_

    def _attach(self, opened: Opened) -> None:
        """Answer from *opened* from now on."""
        self._opened = opened
        self._use(opened.view)

    def _now(self) -> Opened:
        """Return what the filter answers from now, after looking for a newer file if it is time."""
        if self._is_due() and not self.closed:
            self._look_at_path()
        opened = self._opened
        self._check_open()
        return opened

    # -- parameters --------------------------------------------------------------------------------

    @property
    def path(self) -> str | None:
        """The file, or None for a filter in memory."""
        return self._opened.storage.path

    @property
    def mode(self) -> Mode | None:
        """How a reader reads its file: "map", "ram" or "pread". None for all other filters."""
        return self._opened.storage.mode

    @property
    def capacity(self) -> int:
        """Distinct keys that the filter is sized for."""
        return self._opened.header.capacity

    @property
    def fpr(self) -> float:
        """The target: the false-positive rate at *capacity* keys.

        expected_fpr() is the rate that the filter has now.
        """
        return self._opened.header.fpr

    @property
    def layout(self) -> str:
        """Where the probes of a key lie; FORMAT.md has the list."""
        return self._opened.header.layout_name

    @property
    def num_bits(self) -> int:
        """Size of the filter in bits (m)."""
        return self._opened.header.num_bits

    @property
    def num_probes(self) -> int:
        """Places of the payload that are read for each key (k)."""
        return self._opened.header.num_probes

    @property
    def seed(self) -> int:
        """Seed of the hash."""
        return self._opened.header.seed

    @property
    def key_form(self) -> str:
        """What is done to a key before it is hashed: "raw" or "hex"."""
        return self._opened.header.key_form_name

    @property
    def metadata(self) -> dict[str, Any]:
        """A copy of the user's metadata."""
        return self._opened.header.metadata

    @property
    def uuid(self) -> str:
        """Identity of this build, 32 hexadecimal digits.

        A file that is built again from other keys has another one.
        """
        return self._opened.header.uuid.hex()

    @property
    def generation(self) -> int:
        """How often a filter was published under this path: 1, and one more each time."""
        return self._opened.status.generation

    @property
    def sealed(self) -> bool:
        """Whether the file is finished, with checksums. Such a file never changes."""
        return self._opened.status.is_sealed

    @property
    def writable(self) -> bool:
        """Whether keys can be added through this handle."""
        return not self.closed and self._opened.storage.is_writable

    @property
    def keys_added(self) -> int:
        """Keys that are in, as the kind counts them; for a reader, when the file was opened."""
        return self._opened.status.keys_added

    @property
    def reload_error(self) -> Exception | None:
        """Why a follower has not changed to the file that has its path now; None if it has."""
        return None if self._follower is None else self._follower.error

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

        Cost: about one hash and the cache lines of the layout for each key.
        The GIL is released.
        """
        return look_up(self._now(), pieces_of(keys, nulls), out)

    # -- counts and rates --------------------------------------------------------------------------

    def expected_fpr(self) -> float:
        """Return the false-positive rate of the filter as it is now.

        Cost: one pass over the payload, unless sealed: then it is stored.
        """
        return self._now().fpr()

    def fill_by_region(self, num_regions: int = 64) -> list[float]:
        """Return how full each of up to *num_regions* equal parts of the payload is, from 0 to 1.

        Hashes are uniform, so the parts of a sound filter are alike; lost data shows as a hole.
        Cost: one pass over the payload.
        """
        return self._now().fill_by_region(num_regions)

    def info(self) -> dict[str, Any]:
        """Return everything that the filter says of itself, as values that JSON can hold.

        ``writer_open``: a writer has the file open, or died; then ``keys_added`` is what was stored
        last, and there may be more. Cost: as expected_fpr().
        """
        from datetime import UTC, datetime  # takes as long to load as an open

        opened = self._refresh()
        header, status = opened.header, opened.status
        num_places = opened.num_places()
        return {
            "path": opened.storage.path,
            "kind": self.kind,
            "layout": header.layout_name,
            "state": "sealed" if status.is_sealed else "writable",
            "file_bytes": None if opened.storage.path is None else header.file_bytes,
            "payload_bytes": header.payload_bytes,
            "num_bits": header.num_bits,
            "num_probes": header.num_probes,
            "bits_per_key": header.num_bits / header.capacity,
            "capacity": header.capacity,
            "keys_added": self.keys_added,
            "keys_exact": status.keys_exact,
            "writer_open": status.writer_open,
            "fpr": header.fpr,
            "expected_fpr": opened.fpr(),
            "bits_set": num_places,
            "fill_ratio": num_places * opened.kind.place_bits / header.num_bits,
            "seed": header.seed,
            "key_form": header.key_form_name,
            "format_version": header.format_version,
            "generation": status.generation,
            "key_set": f"{status.key_set:032x}" if status.key_set_known else None,
            "uuid": header.uuid.hex(),
            "created": datetime.fromtimestamp(header.created_unix_ns // 10**9, UTC).isoformat(),
            "metadata": header.metadata,
            "engine": ENGINE,
            **opened.kind.facts(header),
        }

    def _refresh(self) -> Opened:
        """Take over what a writer has stored since this reader opened the file."""
        opened = self._now()
        fresh = opened.refreshed()
        with self._mutex:
            if self._opened is opened:
                self._opened = fresh
        return fresh

    def verify(
        self,
        *,
        progress: Callable[[Progress], object] | None = None,
        num_threads: int | None = None,
    ) -> int:
        """Read the whole file and compare it with its checksums.

        Args:
            progress: called with a Progress from this thread, at most every 0.1 s.
            num_threads: None for one for each core.

        Returns:
            Payload bytes compared with a checksum: 0 for a filter that is not sealed, which has no
            checksums yet.

        Raises:
            ChecksumError: the file is damaged; the first damaged MiB is named.
            FormatError: counts or canaries do not fit the payload.
            TruncatedError: the file was cut since it was opened.

        Cost: one pass over the payload.
        """
        return self._refresh().verify(Reporter(progress, "verify", "bytes").tell, num_threads)

    # -- to the disk -------------------------------------------------------------------------------

    def save(self, path: FilePath, *, if_exists: IfExists = "raise") -> None:
        """Write the filter as it is to a new, sealed file, which appears complete or not at all.

        Args:
            path: where.
            if_exists: "raise", or "replace" the file that is there; its readers keep the old one.

        Raises:
            OSError, NoSpaceError: as build(). ChecksumError: the file is damaged; a copy would pass
                the damage on, with new checksums.

        Cost: one pass over the payload.
        """
        opened = self._now()
        opened.verify()
        header, status = fresh(opened.header), opened.status
        pieces = _sealed_pieces(opened)
        write_sealed(path, header, pieces, lambda _: (header, status), if_exists=if_exists)

    def close(self) -> None:
        """Let go of the file; may be called again.

        Batches that run in other threads finish, with right answers.
        """
        with self._mutex:
            if self.closed:
                return
            try:
                status = self._last_status()
            except BaseException:
                self._detach(None)
                raise
            self._detach(status)

    def _last_status(self) -> Status | None:
        """Return the status that a writer stores at the end."""
        return None

    def _detach(self, status: Status | None) -> None:
        """Stop answering, and close the storage."""
        storage, self._opened = self._opened.storage, self._opened.emptied()
        self._use(None)
        self._close_storage(storage, status)

    def _close_storage(self, storage: Storage, status: Status | None) -> None:  # noqa: ARG002
        storage.close()

    # -- the file that is published next -----------------------------------------------------------

    def reload_if_changed(self) -> bool:
        """Change to the file that has the path now, if it is another than the one that is open.

        Size, layout and seed may differ; kind and key form must be the same. Batches that run in
        other threads finish on the old file; its map and descriptor go with the last of them.

        Returns:
            Whether another file is open now. False for a writer or a filter in memory, which have
            nothing to reload.

        Raises:
            FormatError, OSError: the new file cannot be trusted, or there is none. The old one goes
                on answering.
            IncompatibleError: the new file has another kind or key form. The same.

        Cost: one stat; for a new file, that of opening it.
        """
        with self._reload_lock:
            opened = self._opened
            self._check_open()
            if opened.storage.stamp is None or not _is_replaced(opened):
                return False
            new = Opened.checked(self._options.open(opened.absolute_path))
            try:
                check_successor(opened, new)
                with self._mutex:
                    self._check_open()  # another thread may have closed it
                    self._attach(new)
            except BaseException:
                new.let_go()
                new.storage.close()
                raise
            if self._options.advice == "normal":
                new.storage.advise("normal")
            return True

    def _look_at_path(self) -> None:
        """Change to the next file if there is one; one thread looks, the others go on."""
        follower = self._follower
        if follower is None or not self._reload_lock.acquire(blocking=False):
            return
        try:
            self._rest(follower.seconds)
            follower.follow(self._opened.absolute_path, self.reload_if_changed)
        finally:
            self._reload_lock.release()

    # -- the handle --------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError(f"{self._where()} is closed")

    def _where(self) -> str:
        where = self._opened.where
        if self._is_orphan:
            return f"{where}, which the parent of this process was writing,"
        return where

    def __enter__(self) -> Self:
        """Return the filter; leaving the block closes it."""
        self._check_open()
        return self

    def __del__(self) -> None:
        """Close a filter that nobody closed."""
        if not self.closed:
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a reader as its path and how it was opened; it must be the same file then.

        A follower opens whatever has the path.
        """
        self._check_open()
        follow = None if self._follower is None else self._follower.seconds
        uuid = self.uuid if follow is None else None
        path = self._opened.absolute_path
        return _unpickle_reader, (type(self), path, uuid, self._options, follow)

    def __repr__(self) -> str:
        """Tell what the filter is without reading the payload."""
        where = "in memory" if self.path is None else repr(self.path)
        state = "closed" if self.closed else "writable" if self.writable else "read-only"
        keys = f"{self.keys_added} of {self.capacity} keys"
        name = type(self).__name__
        return f"<{name} {where}, {self.layout}, {keys} at fpr {self.fpr:g}, {state}>"

    def _settle_in_child(self) -> None:
        """Go on in a forked child, or close there, if another thread was changing the filter.

        A lock that another thread held is held for good in the child.
        """
        is_free = self._mutex.acquire(blocking=False)
        self._mutex, self._reload_lock = threading.RLock(), threading.RLock()
        self._opened.storage.settle_in_child()
        if not is_free or self._ends_in_child():
            self._is_orphan = True
            self._detach(None)

    def _ends_in_child(self) -> bool:
        """Return whether a forked child must not go on with this filter."""
        return False


def _sealed_pieces(opened: Opened) -> Iterator[memoryview]:
    """Yield the payload of a sealed filter, block by block; its file must be whole at the end.

    Otherwise the zeros that the system puts in place of what was cut would get sound checksums.
    """
    with opened.whole() as whole:
        page_in, done = whole.storage.pager(), 0
        for block in blocks_of(whole.payload):
            page_in(done, len(block))
            yield block
            done += len(block)


def _is_replaced(opened: Opened) -> bool:
    """Return whether the path leads to another file, or a sealed one was written to."""
    now, then = stamp_at(opened.absolute_path), opened.storage.stamp
    assert then is not None  # noqa: S101 - a reader has a stamp
    return now != then if opened.status.is_sealed else now[:2] != then[:2]  # adds change the time


def check_successor(mine: Opened, its: Opened) -> None:
    """Raise IncompatibleError if keys that are asked for would mean something else."""
    if mine.kind is not its.kind:
        raise IncompatibleError("kind", mine.kind.name, its.kind.name)
    if mine.header.key_form != its.header.key_form:
        forms = mine.header.key_form_name, its.header.key_form_name
        raise IncompatibleError("key_form", *forms)


def open_same(path: str, uuid: str, options: OpenOptions) -> MappedFile:
    """Open the file at *path* if it is still the one with that UUID."""
    found = options.open(path)
    found_uuid = found.header.uuid.hex()
    if found_uuid != uuid:
        found.close()
        raise IncompatibleError("uuid", f"{uuid}, which it had", f"{found_uuid}, now at {path}")
    return found


def _unpickle_reader(
    kind: type[Filter], path: str, uuid: str | None, options: OpenOptions, follow: float | None
) -> Filter:
    storage = options.open(path) if uuid is None else open_same(path, uuid, options)
    return kind._of_reader(storage, options, Follower.checked(follow, options))


def _settle_all_in_child() -> None:
    for filter_ in list(_OPEN.values()):
        if not filter_.closed:
            filter_._settle_in_child()


_OPEN: weakref.WeakValueDictionary[int, Filter] = weakref.WeakValueDictionary()
os.register_at_fork(after_in_child=_settle_all_in_child)
