"""Any batch of keys -> pieces for the engine.

A piece that can hold a bad key (a list, NumPy text) is never split, so that hashing it tells about every key before any is
added. What cannot fail (numbers, bytes, Arrow data) is cut into pieces of PIECE_KEYS, to bound the memory for hashes.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from mmbloom.engine import ObjectBatch, RowsBatch
from mmbloom.errors import KeyTypeError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np

    from mmbloom.engine import LinesBatch, OffsetsBatch

    Batch = ObjectBatch | RowsBatch | OffsetsBatch | LinesBatch

Nulls = Literal["raise", "skip"]

PIECE_KEYS = 1 << 20


class Piece(NamedTuple):
    """Keys that lie together. Of its *num_rows* rows those where *valid* is False are null and not in *batch*.

    Of lines of text, *num_rows* is an upper bound: they are not counted before they are read.
    """

    batch: Batch
    num_rows: int
    valid: np.ndarray[Any, np.dtype[np.bool_]] | None = None


def pieces_of(keys: object, nulls: Nulls = "raise") -> Iterator[Piece]:
    """Cut a batch of keys into pieces, in order.

    Args:
        keys: list, tuple, set or any iterable of str and bytes-like; a NumPy array of dtype S, U, StringDType, V, object
            or integer, or of bytes with shape (n, width); any other buffer of such a shape; anything with the Arrow
            PyCapsule protocol that holds text, binary or integers.
        nulls: what an Arrow null does: "raise", or "skip" (it is not added, and looked up it is False).

    Raises:
        KeyTypeError: *keys* is one key, or no batch of keys.
        KeyValueError: a null, where nulls is "raise".
    """
    if nulls not in {"raise", "skip"}:
        raise ParameterError("nulls", "'raise' or 'skip'", nulls)
    if hasattr(keys, "__key_pieces__"):
        return cast("Iterator[Piece]", keys.__key_pieces__())
    if isinstance(keys, (list, tuple)):
        return iter([Piece(ObjectBatch(keys), len(keys))])
    if isinstance(keys, (str, bytes, bytearray)):
        name = type(keys).__name__
        raise KeyTypeError(f"keys: one {name} is a key, not a batch: pass [key], or call add() or `in`")
    if hasattr(keys, "__arrow_c_stream__") or hasattr(keys, "__arrow_c_array__"):
        from mmbloom.keys.arrow import arrow_pieces  # noqa: PLC0415 - pyarrow loads only when used

        return arrow_pieces(keys, nulls)
    if hasattr(keys, "__array_interface__") or _has_buffer(keys):
        return _array_pieces(keys)
    try:
        iterator = iter(keys)  # type: ignore[call-overload]
    except TypeError:
        name = type(keys).__name__
        raise KeyTypeError(f"keys: expected a batch of keys, not {name}") from None
    return _iterator_pieces(iterator)


def _has_buffer(keys: object) -> bool:
    try:
        memoryview(keys).release()  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _iterator_pieces(iterator: Iterable[object]) -> Iterator[Piece]:
    iterator = iter(iterator)
    while chunk := list(islice(iterator, PIECE_KEYS)):
        yield Piece(ObjectBatch(chunk), len(chunk))


def _array_pieces(keys: object) -> Iterator[Piece]:
    """Pieces of a NumPy array, or of a buffer seen as one."""
    import numpy as np  # noqa: PLC0415 - loads only when used

    array = np.asarray(keys)
    if array.ndim == 2 and array.dtype.kind in "uSV" and array.dtype.itemsize == 1:  # noqa: PLR2004 - (n, width)
        return _row_pieces(np.ascontiguousarray(array), array.shape[1], len(array), "bytes")
    if array.ndim != 1:
        shape = "x".join(map(str, array.shape)) or "no dimension"
        raise KeyTypeError(
            f"keys: expected a 1-d array, or bytes of shape (n, width); found {shape} of {array.dtype}"
        )
    if array.dtype.kind == "O" or array.dtype.kind == "T":
        return iter([Piece(ObjectBatch(array.tolist()), len(array))])
    return _typed_pieces(array)


def _typed_pieces(array: np.ndarray[Any, Any]) -> Iterator[Piece]:
    import numpy as np  # noqa: PLC0415 - loads only when used

    kind = array.dtype.kind
    width = array.dtype.itemsize
    if kind in "iu" and width > 1:
        wide = "<i8" if kind == "i" else "<u8"
        chunks = (array[i : i + PIECE_KEYS] for i in range(0, len(array), PIECE_KEYS))
        return (
            Piece(RowsBatch(_bytes_of(np.ascontiguousarray(chunk, wide)), 8, len(chunk), "bytes"), len(chunk))
            for chunk in chunks
        )
    if kind == "U":
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        return iter([Piece(RowsBatch(_bytes_of(data), width, len(array), "ucs4"), len(array))])
    if kind in "SV":
        layout = "trimmed" if kind == "S" else "bytes"
        return _row_pieces(np.ascontiguousarray(array), width, len(array), layout)
    if kind in "iu":
        hint = "single bytes: reshape to (n, width) for keys of bytes, or use astype('int64') for numbers"
    else:
        hint = "text, bytes or integers of 16 bits and more are keys: convert it first"
    raise KeyTypeError(f"keys: no canonical bytes for an array of {array.dtype}: {hint}")


def _row_pieces(array: np.ndarray[Any, Any], width: int, num_rows: int, layout: str) -> Iterator[Piece]:
    data = _bytes_of(array)
    for first in range(0, num_rows, PIECE_KEYS):
        count = min(PIECE_KEYS, num_rows - first)
        rows = data[first * width : (first + count) * width]
        yield Piece(RowsBatch(rows, width, count, layout), count)


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the bytes of a contiguous array, which stays alive with them."""
    import numpy as np  # noqa: PLC0415 - loads only when used

    if array.nbytes == 0:
        return memoryview(b"")
    return memoryview(array.reshape(-1).view(np.uint8))
