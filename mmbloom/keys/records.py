"""Keys of records and tables: concatenated bytes, with the offset of each key."""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.engine import OffsetsBatch
from mmbloom.keys.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _typeshed import ReadableBuffer as Buffer


class Records(NamedTuple):
    """One key per record: a batch of keys for contains_many(), update() and build().

    Key i is data[offsets[i]:offsets[i + 1]].
    """

    data: memoryview
    offsets: memoryview
    batch: OffsetsBatch

    def __key_pieces__(self) -> Iterator[Piece]:
        """Yield these keys as one piece."""
        yield Piece(self.batch, len(self.batch))

    def select(self, flags: Buffer, *, wanted: bool = True) -> bytearray:
        """Return the keys whose flag is *wanted*, each with an LF.

        *flags* are the answers of contains_many(), one per key.
        """
        spans = zip(pairwise(self.offsets), memoryview(flags).cast("B"), strict=False)
        keys = (self.data[a:b] for (a, b), flag in spans if bool(flag) == wanted)
        out = bytearray()
        for key in keys:
            out += key
            out += b"\n"
        return out


def records_of(  # noqa: PLR0913 - the bytes, and their names in messages
    data: Buffer,
    offsets: Buffer,
    offset_bytes: int,
    name: str,
    *,
    first: int = 0,
    lines: Sequence[int] | None = None,
) -> Records:
    """Return the keys of the list *name* between *offsets*, which have 4 or 8 bytes each.

    Error messages give the line of a key if *lines* is given, otherwise its row, where *first* is
    the row of the first key.
    """
    keys, places = memoryview(data).cast("B"), memoryview(offsets).cast("B")
    batch = OffsetsBatch(keys, places, offset_bytes, first, name, lines)
    return Records(keys, places.cast("I" if offset_bytes == 4 else "Q"), batch)  # noqa: PLR2004


def records_of_keys(keys: list[bytes], name: str, lines: Sequence[int]) -> Records:
    """Return *keys* of the list *name*. *lines* has the line number of each."""
    offsets = array("Q", accumulate(map(len, keys), initial=0))
    return records_of(b"".join(keys), offsets, offsets.itemsize, name, lines=lines)
