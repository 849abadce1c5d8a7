"""Pieces: the form in which every batch of keys reaches the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mmbloom.engine import RowsBatch

if TYPE_CHECKING:
    import numpy as np

    from mmbloom.engine import LinesBatch, ObjectBatch, OffsetsBatch

    Batch = ObjectBatch | RowsBatch | OffsetsBatch | LinesBatch
    Array = np.ndarray[Any, np.dtype[Any]]

Nulls = Literal["raise", "skip"]

PIECE_KEYS = 1 << 20
NUMBER_BYTES = 8


class Piece(NamedTuple):
    """A contiguous part of a batch. Rows where *valid* is False are null and not in *batch*.

    For lines of text, *num_rows* is an upper bound, because lines are not counted before they are
    read.
    """

    batch: Batch
    num_rows: int
    valid: np.ndarray[Any, np.dtype[np.bool_]] | None = None


def number_batch(array: Array, first: int) -> RowsBatch:
    """Return a 1-d array of integers as keys, like ``int_key``.

    *first* is the number of the first key, for error messages.
    """
    return RowsBatch(number_bytes(array), NUMBER_BYTES, len(array), "bytes", first)


def number_bytes(array: Array) -> memoryview:
    """Return the canonical bytes of a 1-d array of integers: 8 bytes each, little-endian."""
    import numpy as np

    return bytes_of(np.ascontiguousarray(array, "<i8" if array.dtype.kind == "i" else "<u8"))


def bytes_of(array: Array) -> memoryview:
    """Return the bytes of a contiguous array, and keep the array alive."""
    import numpy as np

    if array.nbytes == 0:
        return memoryview(b"")
    return array.reshape(-1).view(np.uint8).data
