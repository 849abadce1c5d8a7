"""Whole files written in one sweep, and what is stored when writing ends.

The payload comes in pieces and is never read back: checksums and counts are taken while it goes by,
so a file may be larger than memory.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial, reduce
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.errors import FormatError
from mmbloom.format.checksums import checksum_root, iter_checksums, pack_table
from mmbloom.format.fields import SEALED, WRITER_OPEN
from mmbloom.kinds import kind_of
from mmbloom.kinds.kind import BLOCK_BYTES, Counts, blocks_of
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.publish import IfExists, NewFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from _typeshed import ReadableBuffer

    from mmbloom.format.header import Header
    from mmbloom.format.status import Status
    from mmbloom.storage.paths import FilePath

    Progress = Callable[[int, int], object]
    Take = Callable[[memoryview], "_Taken"]
    Begin = Callable[[Take, memoryview], Callable[[], "_Taken"]]


class Measured(NamedTuple):
    """What the status of a sealed file says of its payload."""

    counts: Counts
    achieved_fpr: float
    checksum_root: int


def write_sealed(  # noqa: PLR0913 - a file has these parts
    path: FilePath,
    header: Header,
    pieces: Iterable[ReadableBuffer],
    finish: Callable[[Measured], tuple[Header, Status]],
    *,
    if_exists: IfExists,
    progress: Progress | None = None,
) -> Status:
    """Write a complete, sealed file, and publish it under *path*.

    Args:
        path: where the file will be.
        header: of the file; its sizes count.
        pieces: the bytes of the payload in order, header.payload_bytes in all, in contiguous
            buffers of any lengths. Each is read before the next is asked for, and not after.
        finish: gets what was measured and returns the header and the status to store: counts,
            canaries, flags. If it raises, nothing is published.
        if_exists: as for NewFile. A file that replaces a filter has the next generation.
        progress: called as ``progress(done_bytes, total_bytes)``.

    Returns:
        The status as it is stored.

    Raises:
        ValueError: the pieces have more or fewer bytes.
        OSError, MmbloomError: as NewFile, and whatever *pieces* raises. Nothing is left behind.

    Cost: 16 MiB of memory, and one write of the file. Blocks are measured in a second thread while
    they are written; pieces of 8 MiB are not copied.
    """
    with NewFile(path, header.file_bytes, if_exists) as new:
        blocks = _recut(pieces, header.payload_bytes)
        measured, table = _sum(header, _write(new, header, blocks, progress))
        final, status = finish(measured)
        new.write(header.checksums_offset, table)
        return _publish(new, path, final, sealed_status(status, measured))


def write_changeable(  # noqa: PLR0913 - as write_sealed()
    path: FilePath,
    header: Header,
    pieces: Iterable[ReadableBuffer],
    finish: Callable[[Measured], tuple[Header, Status]],
    *,
    if_exists: IfExists,
    progress: Progress | None = None,
) -> Status:
    """Write a complete file that a writer may open, as if it had been filled and closed.

    Args, errors, cost: as write_sealed(). It has no checksums: they would not outlive a change. The
    canaries in the status are left out if the kind is one that keys can be removed from.
    """
    with NewFile(path, header.file_bytes, if_exists) as new:
        blocks = _recut(pieces, header.payload_bytes)
        measured, _ = _sum(header, _write(new, header, blocks, progress))
        final, status = finish(measured)
        status = status._replace(num_saturated=measured.counts.num_saturated)
        if kind_of(header).can_remove:  # FORMAT.md, "What a writer does": a canary must stay in
            status = status._replace(canaries=())
        return _publish(new, path, final, status)


def _publish(new: NewFile, path: FilePath, header: Header, status: Status) -> Status:
    """Write the header page, and make the file visible; return the status that it has.

    A file that replaces a filter has the next generation.
    """
    status = status._replace(generation=1)
    new.write(0, header.pack(status))

    def number() -> None:  # while nobody else can replace the same file
        nonlocal status
        status = status._replace(generation=next_generation(path))
        new.write(0, header.pack(status))

    new.publish(number)
    return status


def next_generation(path: FilePath) -> int:
    """Return one more than the generation of the filter at *path*, 1 if none can be read."""
    try:
        with MappedFile.open(path) as replaced:
            return (replaced.status.generation + 1) % (1 << 64)
    except (FormatError, OSError):
        return 1


def sealed_status(status: Status, measured: Measured) -> Status:
    """Return *status* as it is stored when writing ends."""
    return status._replace(
        state=SEALED,
        flags=status.flags & ~WRITER_OPEN,
        bits_set=measured.counts.total,
        achieved_fpr=measured.achieved_fpr,
        checksum_root=measured.checksum_root,
        num_saturated=measured.counts.num_saturated,
    )


def measure_payload(header: Header, payload: memoryview) -> tuple[Measured, bytes]:
    """Return what a sealed file stores of *payload*, and its checksum table.

    Nobody may change it meanwhile. Cost: one pass over it, on all cores.
    """
    take = partial(_take, header)
    if len(payload) <= BLOCK_BYTES:
        return _sum(header, map(take, blocks_of(payload)))
    # Imported here: it brings in logging, which would double the time to open a file.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return _sum(header, pool.map(take, blocks_of(payload)))


class _Taken(NamedTuple):
    """What is taken of one block."""

    counts: Counts
    checksums: list[int]


def _take(header: Header, block: memoryview) -> _Taken:
    return _Taken(kind_of(header).count(header, block), list(iter_checksums(block)))


def _sum(header: Header, blocks: Iterable[_Taken]) -> tuple[Measured, bytes]:
    """Return what the blocks of a payload say together, and its checksum table."""
    each = list(blocks)
    counts = reduce(Counts.plus, (block.counts for block in each))
    table = pack_table([checksum for block in each for checksum in block.checksums])
    fpr = kind_of(header).fpr(header, counts)
    return Measured(counts, fpr, checksum_root(table)), table


def _write(
    new: NewFile, header: Header, blocks: Iterator[memoryview], progress: Progress | None
) -> Iterator[_Taken]:
    """Write the blocks of a payload behind a page of zeros; yield what is taken of each meanwhile.

    The header page puts every block 4 KiB behind a multiple of 8 MiB, so the end of each block is
    written with the next: then all writes but the last begin and end at such a multiple, and the
    page cache holds the file in large folios, which readers map in huge pages.
    """
    take = partial(_take, header)
    start, done, rest = 0, 0, bytes(header.payload_offset)
    with _second_thread(header.payload_bytes) as begin:
        for block in blocks:
            taken = begin(take, block)
            cut = max(0, len(block) - header.payload_offset)
            new.write(start, rest, block[:cut])
            start, done, rest = start + len(rest) + cut, done + len(block), bytes(block[cut:])
            yield taken()
            if progress is not None:
                progress(done, header.payload_bytes)
    new.write(start, rest)


@contextmanager
def _second_thread(num_bytes: int) -> Iterator[Begin]:
    """Yield a function that begins a call and returns one that waits for its result.

    One block is not worth a thread: it is taken when it is waited for.
    """
    if num_bytes <= BLOCK_BYTES:
        yield partial
        return
    from concurrent.futures import ThreadPoolExecutor  # late, as above

    with ThreadPoolExecutor(1) as pool:
        yield lambda take, block: pool.submit(take, block).result


def _recut(pieces: Iterable[ReadableBuffer], num_bytes: int) -> Iterator[memoryview]:
    """Yield *pieces* as blocks of BLOCK_BYTES, the last one possibly shorter.

    A block that lies whole in a piece is a view of it, others are copied together. Each is valid
    until the next is asked for.
    """
    staged = memoryview(bytearray(min(BLOCK_BYTES, num_bytes)))
    num_staged = done = 0
    for piece in pieces:
        with memoryview(piece) as given, given.cast("B") as view:
            done += len(view)
            if done > num_bytes:
                raise ValueError(f"pieces of {done} bytes and more, for a payload of {num_bytes}")
            at = 0
            while at < len(view):
                if not num_staged and len(view) - at >= BLOCK_BYTES:
                    yield view[at : at + BLOCK_BYTES]
                    at += BLOCK_BYTES
                    continue
                part = view[at : at + len(staged) - num_staged]
                staged[num_staged : num_staged + len(part)] = part
                at, num_staged = at + len(part), num_staged + len(part)
                if num_staged == BLOCK_BYTES:
                    yield staged
                    num_staged = 0
    if done != num_bytes:
        raise ValueError(f"pieces of {done} bytes, for a payload of {num_bytes}")
    if num_staged:
        yield staged[:num_staged]
