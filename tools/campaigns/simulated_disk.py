"""A disk that loses power: records what a program writes, and simulates what is left of it.

The calls of ``os`` that change files go to the real file system and are recorded. crash() then
returns a possible state of the folder after a power loss behind any of the calls. Synced data is
there. Of the rest, each sector may be old or new, in any order; the last sector being written may
be half old and half new. The names in a folder appear in the order in which they were made; names
that were not synced may be missing. Folders are independent of each other.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    Id = tuple[int, int]  # of a file or a folder: device and inode
    Place = tuple[Id, str]  # a name in a folder
    Left = dict[str, bytes | None]  # path within the folder -> content; None is a folder

SECTOR_BYTES = 512
_NOBODY = (0, 0)


class Event(NamedTuple):
    """One call: of *kind* on the file *id*, or on a name in the folder *folder*."""

    kind: str  # write, length, sync, name, unname, sync names, promise
    id: Id = _NOBODY
    offset: int = 0  # of a length: the length
    data: bytes = b""
    folder: Id = _NOBODY
    name: str = ""
    promise: object = None


class SimulatedDisk:
    """The calls of one program on the files of one folder and of those in it, in order."""

    def __init__(self, folder: Path) -> None:
        """Start with the files that are in the folder now."""
        self.folder = folder.resolve()
        self.root = _id(os.stat(self.folder))
        self.events: list[Event] = []
        self.files: dict[Id, bytes] = {}
        self.names: dict[Place, Id] = {}
        self._folders = {self.root}
        for path in self.folder.iterdir():
            self.names[self.root, path.name] = _id(path.stat())
            self.files[_id(path.stat())] = path.read_bytes()
        self._names_now = dict(self.names)
        self._held: dict[Id, int] = {}

    def promise(self, what: object) -> None:
        """Record what the program has been promised at this point."""
        self.events.append(Event("promise", promise=what))

    @contextmanager
    def recording(self, *, has_unnamed_files: bool = True) -> Iterator[None]:
        """Record all calls during the block.

        Args:
            has_unnamed_files: whether the disk has O_TMPFILE; not all file systems do.

        Raises:
            OSError: EOPNOTSUPP, for an O_TMPFILE that the disk does not have.
            RuntimeError: the folder differs from the recorded calls, because something was
                written in another way.
        """
        steps = {name: getattr(self, f"_{name}") for name in _RECORDED}
        real = {name: getattr(os, name) for name in steps}

        def noted(name: str) -> Callable[..., Any]:
            def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the call takes
                if name == "open" and not has_unnamed_files and _is_unnamed(given[1]):
                    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), given[0])
                result = real[name](*given, **named)
                steps[name](result, *given, **named)
                return result

            return call

        for name in steps:
            setattr(os, name, noted(name))
        try:
            yield
        finally:
            for name, function in real.items():
                setattr(os, name, function)
            for fd in self._held.values():
                os.close(fd)
        self._compare()

    # -- what each call means ----------------------------------------------------------------------

    def _pwrite(self, done: int, fd: int, data: Any, offset: int) -> None:  # noqa: ANN401
        self._write(fd, bytes(memoryview(data).cast("B")[:done]), offset)

    def _pwritev(self, done: int, fd: int, buffers: Any, offset: int) -> None:  # noqa: ANN401
        whole = b"".join(bytes(memoryview(each).cast("B")) for each in buffers)
        self._write(fd, whole[:done], offset)

    def _write(self, fd: int, data: bytes, offset: int) -> None:
        if self._is_here(file := _id(os.fstat(fd))):
            self.events.append(Event("write", file, offset, data))

    def _posix_fallocate(self, _none: None, fd: int, _offset: int, _num_bytes: int) -> None:
        self._ftruncate(None, fd, os.fstat(fd).st_size)

    def _ftruncate(self, _none: None, fd: int, length: int) -> None:
        if self._is_here(file := _id(os.fstat(fd))):
            self.events.append(Event("length", file, length))

    def _fsync(self, _none: None, fd: int) -> None:
        what = _id(os.fstat(fd))
        if what in self._folders:
            self._compare()
            self.events.append(Event("sync names", folder=what))
        elif self._is_here(what):
            self.events.append(Event("sync", what))

    _fdatasync = _fsync

    def _open(
        self,
        fd: int,
        path: Any,  # noqa: ANN401 - as os.open
        flags: int,
        *_mode: int,
        dir_fd: int | None = None,
    ) -> None:
        if _is_unnamed(flags):
            if _id(os.stat(path, dir_fd=dir_fd)) in self._folders:
                self._hold(fd)
        elif flags & os.O_CREAT and (place := self._place(path, dir_fd)) is not None:
            if place not in self._names_now:
                self._name(place, self._hold(fd))
            elif flags & os.O_TRUNC:
                self._ftruncate(None, fd, 0)

    def _mkdir(self, _none: None, path: str, _mode: int = 0) -> None:
        if (place := self._place(path, None)) is not None:
            fd = os.open(path, os.O_PATH)
            self._name(place, self._hold(fd))
            self._folders.add(_id(os.fstat(fd)))
            os.close(fd)

    def _link(
        self, _none: None, _source: str, target: str, *, dst_dir_fd: int | None = None, **_: object
    ) -> None:
        if (place := self._place(target, dst_dir_fd)) is not None:
            self._name(place, _id(os.stat(target, dir_fd=dst_dir_fd, follow_symlinks=False)))

    def _replace(
        self,
        _none: None,
        source: str,
        target: str,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        self._link(None, source, target, dst_dir_fd=dst_dir_fd)
        try:  # two names of one file: then both stay
            os.stat(source, dir_fd=src_dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            self._unlink(None, source, dir_fd=src_dir_fd)

    def _unlink(self, _none: None, path: str, *, dir_fd: int | None = None) -> None:
        place = self._place(path, dir_fd)
        if place is not None and self._names_now.pop(place, None):
            self.events.append(Event("unname", folder=place[0], name=place[1]))

    def _rmdir(self, _none: None, path: str) -> None:
        self._unlink(None, path)

    def _name(self, place: Place, what: Id) -> None:
        self._names_now[place] = what
        self.events.append(Event("name", what, folder=place[0], name=place[1]))

    def _place(self, path: Any, dir_fd: int | None) -> Place | None:  # noqa: ANN401
        """Return the folder and the name; None if the folder is not on this disk."""
        head, name = os.path.split(os.fsdecode(path))
        folder = _id(os.stat(head or ".", dir_fd=dir_fd))
        return (folder, name) if folder in self._folders else None

    def _is_here(self, file: Id) -> bool:
        return file in self._held or file in self.files

    def _hold(self, fd: int) -> Id:
        """Keep the file open, so that its inode number is not reused."""
        held = os.open(f"/proc/self/fd/{fd}", os.O_PATH)
        found = _id(os.fstat(held))
        self._held[found] = held
        return found

    # -- what is left ------------------------------------------------------------------------------

    def crash(self, num_events: int, rng: random.Random, *, torn: bool) -> Left:
        """Return the files of the folder, by path, after a power loss.

        Args:
            num_events: the power fails after this many calls.
            rng: decides which unsynced data is there: none, all, or any part.
            torn: the last sector may be half written.
        """
        events = self.events[:num_events]
        names, waiting_names = dict(self.names), dict[Any, list[Event]]()
        for event in events:
            if event.kind in {"name", "unname"}:
                waiting_names.setdefault(event.folder, []).append(event)
            elif event.kind == "sync names":
                _rename(names, waiting_names.pop(event.folder, []))
        for unsynced in waiting_names.values():
            _rename(names, unsynced[: rng.randint(0, len(unsynced))])
        share = rng.choice((0.0, 1.0, rng.random()))
        files: dict[Id, bytearray] = {}
        for file in sorted(set(names.values())):
            content = files[file] = bytearray(self.files.get(file, b""))
            unsynced = _write_synced(content, [event for event in events if event.id == file])
            for event in unsynced:
                _apply_some(content, event, rng, share)
            if torn and unsynced:
                _tear(content, unsynced[-1], rng)
        return self._tree(names, files)

    def put(self, left: Left) -> None:
        """Make *left* the content of the folder, which is no longer recorded."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        for name, content in left.items():
            if content is None:
                (self.folder / name).mkdir()
            else:
                (self.folder / name).write_bytes(content)

    def _compare(self) -> None:
        found, noted = self._read(self.folder), self._kept(self.events)
        paths = found.keys() | noted.keys()
        differ = [path for path in paths if found.get(path, "no") != noted.get(path, "no")]
        if differ:
            raise RuntimeError(f"written past the recorder: {sorted(differ)}")

    def _kept(self, events: list[Event]) -> Left:
        """Return the content of a disk that did not lose power."""
        names = dict(self.names)
        _rename(names, [event for event in events if event.kind in {"name", "unname"}])
        files = {file: bytearray(self.files.get(file, b"")) for file in names.values()}
        for event in events:
            if event.id in files:
                _apply(files[event.id], event)
        return self._tree(names, files)

    def _tree(self, names: dict[Place, Id], files: dict[Id, bytearray]) -> Left:
        """Return every reachable path, folders before their content."""
        left: Left = {}
        waiting = [("", self.root)]
        while waiting:
            above, folder = waiting.pop()
            for (where, name), what in names.items():
                if where == folder and what in self._folders:
                    left[above + name] = None
                    waiting.append((f"{above}{name}/", what))
                elif where == folder:
                    left[above + name] = bytes(files[what])
        return left

    def _read(self, path: Path, above: str = "") -> Left:
        """Return the content of a real folder."""
        left: Left = {}
        for each in path.iterdir():
            if each.is_dir():
                left[above + each.name] = None
                left |= self._read(each, f"{above}{each.name}/")
            else:
                left[above + each.name] = each.read_bytes()
        return left


_RECORDED = (
    *("open", "pwrite", "pwritev", "posix_fallocate", "ftruncate", "fsync", "fdatasync"),
    *("link", "replace", "unlink", "mkdir", "rmdir"),
)


def _is_unnamed(flags: int) -> bool:
    return flags & os.O_TMPFILE == os.O_TMPFILE


def _id(found: os.stat_result) -> Id:
    return found.st_dev, found.st_ino


def _rename(names: dict[Place, Id], events: Iterable[Event]) -> None:
    for event in events:
        if event.kind == "name":
            names[event.folder, event.name] = event.id
        else:
            names.pop((event.folder, event.name), None)


def _write_synced(content: bytearray, events: list[Event]) -> list[Event]:
    """Apply the synced events; return the others."""
    waiting: list[Event] = []
    for event in events:
        if event.kind in {"write", "length"}:
            waiting.append(event)
        elif event.kind == "sync":
            for each in waiting:
                _apply(content, each)
            waiting = []
    return waiting


def _apply(content: bytearray, event: Event) -> None:
    if event.kind == "length":
        del content[event.offset :]
        content.extend(bytes(event.offset - len(content)))
    elif event.kind == "write":
        end = event.offset + len(event.data)
        content.extend(bytes(max(0, end - len(content))))
        content[event.offset : end] = event.data


def _apply_some(content: bytearray, event: Event, rng: random.Random, share: float) -> None:
    """Write each sector with probability *share*."""
    end = event.offset + len(event.data)
    if event.kind == "length":
        if rng.random() < share:
            _apply(content, event)
        return
    for start in range(event.offset - event.offset % SECTOR_BYTES, end, SECTOR_BYTES):
        if rng.random() < share:
            first, last = max(start, event.offset), min(start + SECTOR_BYTES, end)
            part = event.data[first - event.offset : last - event.offset]
            _apply(content, event._replace(offset=first, data=part))


def _tear(content: bytearray, event: Event, rng: random.Random) -> None:
    """Write only the beginning of one sector of the event; the rest of the sector stays old."""
    if event.kind == "length" or not event.data:
        return
    at = rng.randrange(len(event.data))
    sector_end = (event.offset + at) // SECTOR_BYTES * SECTOR_BYTES
    first = max(event.offset, sector_end)
    part = event.data[first - event.offset : at]
    _apply(content, event._replace(offset=first, data=part))
