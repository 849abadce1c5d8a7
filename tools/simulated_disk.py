"""A disk that loses power: records what a program writes, and makes up what could be left of it.

The calls of ``os`` that change files pass through to the real file system and are noted. crash()
then gives the contents of the folder as a disk may have kept them, had the power failed after any
of the calls: what was synced is there; of what was not, each sector may be old or new, in any
order, and in the worst case the last one that was being written is half and half. Names appear in
the order in which they were given, those that were not synced perhaps not at all.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECTOR_BYTES = 512


class Event(NamedTuple):
    """One call: of *kind* on the file with the number *inode*."""

    kind: str  # write, size, sync, name, unname, sync names, promise
    inode: int = 0
    offset: int = 0
    data: bytes = b""
    name: str = ""
    promise: object = None


class SimulatedDisk:
    """The calls of one program on the files of one folder, in order."""

    def __init__(self, folder: Path) -> None:
        """Take what is in the folder now for what is on the disk."""
        self.folder = folder
        self.events: list[Event] = []
        self.files: dict[int, bytes] = {}
        self.names: dict[str, int] = {}
        for path in folder.iterdir():
            self.names[path.name] = path.stat().st_ino
            self.files[path.stat().st_ino] = path.read_bytes()

    def promise(self, what: object) -> None:
        """Note what the program was promised by now."""
        self.events.append(Event("promise", promise=what))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note all calls during the block."""
        steps = {name: getattr(self, f"_{name}") for name in _RECORDED}
        real = {name: getattr(os, name) for name in steps}

        def noted(name: str) -> Callable[..., Any]:
            def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the call takes
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

    # -- what each call means ----------------------------------------------------------------------

    def _pwrite(self, done: int, fd: int, data: Any, offset: int) -> None:  # noqa: ANN401
        written = bytes(memoryview(data).cast("B")[:done])
        self.events.append(Event("write", _inode(fd), offset, written))

    def _pwritev(self, done: int, fd: int, buffers: Any, offset: int) -> None:  # noqa: ANN401
        whole = b"".join(bytes(memoryview(each).cast("B")) for each in buffers)
        self.events.append(Event("write", _inode(fd), offset, whole[:done]))

    def _posix_fallocate(self, _none: None, fd: int, offset: int, num_bytes: int) -> None:
        self.events.append(Event("size", _inode(fd), offset + num_bytes))

    def _fsync(self, _none: None, fd: int) -> None:
        is_folder = _inode(fd) == self.folder.stat().st_ino
        self.events.append(Event("sync names" if is_folder else "sync", _inode(fd)))

    _fdatasync = _fsync

    def _open(self, fd: int, path: Any, flags: int, *_mode: int, **_named: object) -> None:  # noqa: ANN401
        if flags & os.O_CREAT and flags & os.O_TMPFILE != os.O_TMPFILE:
            self.events.append(Event("name", _inode(fd), name=os.path.basename(path)))

    def _link(self, _none: None, source: str, target: str, **_named: object) -> None:
        inode = os.stat(self.folder / os.path.basename(target)).st_ino
        self.events.append(Event("name", inode, name=os.path.basename(target)))
        del source

    def _replace(self, _none: None, source: str, target: str, **_named: object) -> None:
        self._link(None, source, target)
        self.events.append(Event("unname", name=os.path.basename(source)))

    def _unlink(self, _none: None, name: str, **_named: object) -> None:
        self.events.append(Event("unname", name=os.path.basename(name)))

    # -- what is left ------------------------------------------------------------------------------

    def crash(self, num_events: int, rng: random.Random, *, torn: bool) -> dict[str, bytes]:
        """Return the files of the folder, by name, after power loss behind that many calls.

        Args:
            num_events: calls that were made.
            rng: decides what of the unsynced is there: nothing, all, or any part of it.
            torn: the last sector that was written may be half written.
        """
        files = {inode: bytearray(content) for inode, content in self.files.items()}
        names, waiting_names = dict(self.names), []
        waiting: dict[int, list[Event]] = {}
        for event in self.events[:num_events]:
            if event.kind in {"write", "size"}:
                waiting.setdefault(event.inode, []).append(event)
            elif event.kind == "sync":
                for each in waiting.pop(event.inode, []):
                    _apply(files.setdefault(event.inode, bytearray()), each)
            elif event.kind == "sync names":
                _rename(names, waiting_names)
                waiting_names = []
            elif event.kind in {"name", "unname"}:
                waiting_names.append(event)
        share = rng.choice((0.0, 1.0, rng.random()))
        for inode, events in waiting.items():
            content = files.setdefault(inode, bytearray())
            for event in events:
                _apply_some(content, event, rng, share)
            if torn:
                _tear(content, events[-1], rng)
        _rename(names, waiting_names[: rng.randint(0, len(waiting_names))])
        return {name: bytes(files.get(inode, b"")) for name, inode in names.items()}


_RECORDED = (
    *("open", "pwrite", "pwritev", "posix_fallocate", "fsync", "fdatasync"),
    *("link", "replace", "unlink"),
)


def _inode(fd: int) -> int:
    return os.fstat(fd).st_ino


def _rename(names: dict[str, int], events: list[Event]) -> None:
    for event in events:
        if event.kind == "name":
            names[event.name] = event.inode
        else:
            names.pop(event.name, None)


def _apply(content: bytearray, event: Event) -> None:
    end = event.offset + len(event.data)
    content.extend(bytes(max(0, end - len(content))))
    content[event.offset : end] = event.data


def _apply_some(content: bytearray, event: Event, rng: random.Random, share: float) -> None:
    """Write each sector with the chance *share*."""
    end = event.offset + len(event.data)
    if event.kind == "size":
        if rng.random() < share:
            _apply(content, event)
        return
    for start in range(event.offset - event.offset % SECTOR_BYTES, end, SECTOR_BYTES):
        if rng.random() < share:
            first, last = max(start, event.offset), min(start + SECTOR_BYTES, end)
            part = event.data[first - event.offset : last - event.offset]
            _apply(content, event._replace(offset=first, data=part))


def _tear(content: bytearray, event: Event, rng: random.Random) -> None:
    """Leave the beginning of one sector of the write, and what was there before behind it."""
    if event.kind == "size":
        return
    at = rng.randrange(len(event.data))
    sector_end = (event.offset + at) // SECTOR_BYTES * SECTOR_BYTES
    first = max(event.offset, sector_end)
    part = event.data[first - event.offset : at]
    _apply(content, event._replace(offset=first, data=part))
