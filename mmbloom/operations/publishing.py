"""A finished filter file becomes the next generation under a path, or as a new name."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mmbloom.errors import FormatError, ParameterError
from mmbloom.filters.opened import Opened
from mmbloom.filters.sealing import next_generation
from mmbloom.format.checksums import check_chunks, check_table
from mmbloom.format.fields import CHUNK_BYTES, SLOT_BYTES, SLOT_OFFSETS
from mmbloom.format.header import Header
from mmbloom.format.status import pack_status
from mmbloom.storage.mapped import is_filter, stamp_at
from mmbloom.storage.paths import path_text
from mmbloom.storage.pread import PreadFile
from mmbloom.storage.progress import Reporter
from mmbloom.storage.publish import NewFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmbloom.format.status import Status
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.progress import Progress

    Tell = Callable[[int, int], object]

_CHUNKS_AT_ONCE = 8  # written in pieces of 8 MiB: see write_sealed
_NOT_SEALED = "seal() it first, or save() a copy of it"
_FOREIGN = "Nothing is ever published over another kind of file: check the path, or remove the file"


def publish(
    path: FilePath, new: FilePath, *, progress: Callable[[Progress], object] | None = None
) -> int:
    """Make a copy of a finished filter file visible under *path*, in one step.

    Each byte is compared with its checksum while it is copied. *new* stays as it is, and may be on
    another file system. Readers of the old generation keep it until they reload. A symbolic link at
    *path* is itself replaced.

    Args:
        path: the path of the new generation; its folder must exist.
        new: a sealed file.
        progress: called with a Progress from this thread, at most every 0.1 s.

    Returns:
        The generation in the header of the copy: one more than that of the file it replaces, or 1
        if no such file can be read. Everything else is as in *new*, including the UUID.

    Raises:
        FormatError: *new* cannot be trusted, ChecksumError and TruncatedError included; or *path*
            is a file of another kind, which is not replaced.
        ParameterError: *new* is not sealed, or is the file at *path* itself.
        LockHeldError: a writer has the file at *path* open, or another publisher replaces it now.
        NoSpaceError, OSError: from the operating system.
        After an error *path* has what it had before.

    Cost: one read and one write of the file. ``build(..., if_exists="replace")`` and
    ``save(..., if_exists="replace")`` also give the next generation, without a second file.
    """
    target = path_text(path)
    refuse_foreign(target)
    with open_finished(new) as finished:
        if _leads_to(target, finished):
            raise ParameterError("new", "another file than the one at path", os.fsdecode(new))
        with NewFile(target, finished.header.file_bytes, "replace") as copy:
            write_copy(finished, copy, Reporter(progress, "copy", "bytes").tell)
            numbers: list[int] = []

            def number() -> None:
                numbers.append(next_generation(target))
                write_generation(finished, copy, numbers[0])

            copy.publish(number)
    return numbers[0]


@contextmanager
def open_finished(path: FilePath) -> Iterator[Opened]:
    """Open a sealed file to be copied, and check its header and its canaries."""
    with PreadFile.open(path) as found:
        opened = Opened.checked(found)
        if not opened.status.is_sealed:
            raise ParameterError("new", "a sealed filter file", os.fsdecode(path), _NOT_SEALED)
        yield opened


def write_copy(finished: Opened, copy: NewFile, tell: Tell) -> None:
    """Write all of a sealed file except the header page, and compare it with its checksums."""
    header, where = finished.header, finished.where
    table = bytes(finished.storage.checksums)
    check_table(table, header, finished.status, where)
    num_places = 0
    for start, piece in _pieces(finished):
        check_chunks(piece, table, header, where, first=start // CHUNK_BYTES)
        num_places += finished.kind.num_places(piece)
        copy.write(header.payload_offset + start, piece)
        tell(start + len(piece), header.payload_bytes)
    finished.check_places(num_places)
    copy.write(header.checksums_offset, table)


def write_generation(finished: Opened, copy: NewFile, generation: int) -> None:
    """Write the header page of *finished* with another generation in both status slots."""
    status: Status = finished.status._replace(generation=generation)
    page = bytearray(finished.storage.read_page())
    for offset in SLOT_OFFSETS:
        page[offset : offset + SLOT_BYTES] = pack_status(status)
    Header.unpack(bytes(page), finished.where, finished.header.file_bytes)  # as it was when opened
    copy.write(0, page)


def refuse_foreign(path: str, *, follow_links: bool = True) -> None:
    """Raise FormatError if there is a file at *path* that is not a filter.

    Without *follow_links* a symbolic link is not a filter.
    """
    try:
        found = is_filter(path, follow_links=follow_links)
    except FileNotFoundError:
        return
    if not found:
        raise FormatError(path, "magic", 0, "a filter file, or none", "another file", _FOREIGN)


def _leads_to(path: str, finished: Opened) -> bool:
    stamp = finished.storage.stamp
    try:
        return stamp is not None and stamp_at(path)[:2] == stamp[:2]
    except FileNotFoundError:
        return False


def _pieces(finished: Opened) -> Iterator[tuple[int, memoryview]]:
    """Yield the payload in pieces of whole chunks, with the offset of each in it."""
    total = finished.header.payload_bytes
    step = _CHUNKS_AT_ONCE * CHUNK_BYTES
    for start in range(0, total, step):
        piece = memoryview(bytearray(min(step, total - start)))
        finished.storage.copy_payload(start, piece)
        yield start, piece
