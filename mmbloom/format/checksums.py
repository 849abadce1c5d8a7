"""The checksum table after the payload: one XXH3-64 per MiB, and its root in the status slot.

Sealing a file writes the table, and ``verify`` compares it. Both read the whole payload, so opening
a file does neither.
"""

from __future__ import annotations

import struct
from contextlib import closing
from typing import TYPE_CHECKING

from mmbloom.engine import checksum64
from mmbloom.errors import ChecksumError
from mmbloom.format.fields import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from _typeshed import ReadableBuffer

    from mmbloom.format.header import Header
    from mmbloom.format.status import Status

    Progress = Callable[[int, int], object]
    PageIn = Callable[[int, int], object]

# Chunks per thread in one group: enough to keep every thread busy, few enough to bound the queue.
_CHUNKS_PER_THREAD = 8


def iter_checksums(
    payload: ReadableBuffer,
    *,
    progress: Progress | None = None,
    num_threads: int = 1,
    page_in: PageIn | None = None,
) -> Generator[int, None, None]:
    """Yield the checksum of each MiB of *payload*, in order; the last chunk may be shorter.

    Args:
        payload: any contiguous buffer. Close the generator to release it early.
        progress: called as ``progress(done_bytes, total_bytes)`` after each chunk, in the calling
            thread.
        num_threads: the number of chunks hashed at once; useful if the engine releases the GIL.
        page_in: called as ``page_in(start, num_bytes)`` before a chunk is read, in the thread that
            reads it.

    Cost: one pass over the payload.
    """
    with memoryview(payload) as given, given.cast("B") as view:
        total = len(view)

        def checksum_at(start: int) -> int:
            with view[start : start + CHUNK_BYTES] as chunk:
                if page_in is not None:
                    page_in(start, len(chunk))
                return checksum64(chunk)

        starts = range(0, total, CHUNK_BYTES)
        for start, checksum in zip(starts, _map(checksum_at, starts, num_threads), strict=True):
            if progress is not None:
                progress(min(start + CHUNK_BYTES, total), total)
            yield checksum


def pack_table(checksums: Sequence[int]) -> bytes:
    """Return the bytes of the table that holds *checksums*, one for each MiB in order."""
    return struct.pack(f"<{len(checksums)}Q", *checksums)


def checksum_root(table: bytes) -> int:
    """Return the checksum of the table's bytes, which the status slots of a sealed file store."""
    return checksum64(table)


def check_table(table: bytes, header: Header, status: Status, path: str) -> None:
    """Raise ChecksumError if *table* does not match the checksum_root of the sealed *status*."""
    root = checksum_root(table)
    if root != status.checksum_root:
        raise ChecksumError(
            path,
            "checksums",
            header.checksums_offset,
            f"checksum {status.checksum_root:#018x}, as in the status slots",
            f"{root:#018x}",
            "The checksum table itself has changed since the file was sealed. "
            "Restore the file from a copy, or build it again",
        )


def check_payload(  # noqa: PLR0913 - the parts of a file, and two callbacks
    payload: ReadableBuffer,
    table: bytes,
    header: Header,
    status: Status,
    path: str,
    *,
    progress: Progress | None = None,
    num_threads: int = 1,
    page_in: PageIn | None = None,
) -> None:
    """Compare a sealed file's payload with its table, and the table with its root.

    Requires: *status* is SEALED; payload and table have the sizes given in *header*. *page_in* is
    passed to iter_checksums().

    Raises:
        ChecksumError: ``field`` is "checksums", or "payload" with the offset of the first MiB that
            has changed.
    """
    check_table(table, header, status, path)
    check_chunks(
        payload, table, header, path, progress=progress, num_threads=num_threads, page_in=page_in
    )


def check_chunks(  # noqa: PLR0913 - as in check_payload()
    part: ReadableBuffer,
    table: bytes,
    header: Header,
    path: str,
    *,
    first: int = 0,
    progress: Progress | None = None,
    num_threads: int = 1,
    page_in: PageIn | None = None,
) -> None:
    """Compare *part* of a sealed payload, which starts at MiB number *first*, with *table*.

    Requires: check_table() has passed; the part ends at the end of a MiB or of the payload.

    Raises:
        ChecksumError: as in check_payload().
    """
    end = first + -(-memoryview(part).nbytes // CHUNK_BYTES)
    # A copy, not a view: iter_unpack() over a memoryview in a cycle crashes the garbage collector.
    stored = struct.iter_unpack("<Q", table[8 * first : 8 * end])
    # Closed before an error leaves: a traceback would keep a view, and the map could not close.
    checksums = iter_checksums(part, progress=progress, num_threads=num_threads, page_in=page_in)
    with closing(checksums) as computed:
        for index, ((expected,), found) in enumerate(zip(stored, computed, strict=True), first):
            if expected != found:
                raise _changed(header, path, index, expected, found)


def _changed(header: Header, path: str, index: int, expected: int, found: int) -> ChecksumError:
    first = header.payload_offset + index * CHUNK_BYTES
    last = min(first + CHUNK_BYTES, header.checksums_offset) - 1
    hint = (
        f"MiB {index} of the payload, bytes {first} to {last} of the file, has changed since it "
        "was sealed. Restore the file from a copy, or build it again"
    )
    was, is_now = f"checksum {expected:#018x}", f"{found:#018x}"
    return ChecksumError(path, "payload", first, was, is_now, hint)


def _map(function: Callable[[int], int], starts: range, num_threads: int) -> Iterator[int]:
    """Yield ``function(start)`` in order; threads compute a bounded number of them in advance."""
    if num_threads <= 1:
        yield from map(function, starts)
        return
    # Imported here: it imports logging, which would double the time to open a first file.
    from concurrent.futures import ThreadPoolExecutor

    group = num_threads * _CHUNKS_PER_THREAD
    with ThreadPoolExecutor(num_threads) as pool:
        for first in range(0, len(starts), group):
            yield from pool.map(function, starts[first : first + group])
