"""Any batch of keys -> pieces for the engine.

Input that may contain an invalid key (a list, NumPy text) is never split: hashing it reports the
invalid key before any key is added. Input that cannot fail (numbers, bytes, Arrow data) is split
into pieces of PIECE_KEYS, which bounds the memory for hashes.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, cast

from mmbloom.engine import ObjectBatch, RowsBatch
from mmbloom.errors import KeyTypeError, ParameterError
from mmbloom.keys.pieces import PIECE_KEYS, Nulls, Piece, bytes_of, number_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mmbloom.keys.pieces import Array


def pieces_of(keys: object, nulls: Nulls = "raise") -> Iterator[Piece]:
    """Split a batch of keys into pieces, in order.

    Args:
        keys: list, tuple, set or any iterable of str and bytes-like; a NumPy array of dtype S, U,
            StringDType, V, object or integer, or of bytes with shape (n, width); any other buffer
            with such a shape; any object with the Arrow PyCapsule protocol that holds text, binary
            or integers.
        nulls: what to do with an Arrow null: "raise", or "skip" (it is not added, and its look-up
            answers False).

    Raises:
        KeyTypeError: *keys* is a single key, or is not a batch of keys.
        KeyValueError: there is a null, and *nulls* is "raise".
    """
    if nulls not in {"raise", "skip"}:
        raise ParameterError("nulls", "'raise' or 'skip'", nulls)
    if hasattr(keys, "__key_pieces__"):
        return cast("Iterator[Piece]", keys.__key_pieces__())
    if isinstance(keys, (list, tuple)):
        batch = ObjectBatch(keys)
        return iter([Piece(batch, len(batch))])  # len(keys) may be overridden
    if isinstance(keys, (str, bytes, bytearray)):
        what = f"a single {type(keys).__name__} is a key, not a batch"
        raise KeyTypeError(f"keys: {what}: pass [key], or call add() or `in`")
    if hasattr(keys, "__arrow_c_stream__") or hasattr(keys, "__arrow_c_array__"):
        from mmbloom.keys.arrow import arrow_pieces

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
    first = 0
    # Copied now: an iterator may yield the same buffer again with other bytes in it.
    still = (bytes(key) if isinstance(key, (bytearray, memoryview)) else key for key in iterator)
    while chunk := list(islice(still, PIECE_KEYS)):
        yield Piece(ObjectBatch(chunk, first), len(chunk))
        first += len(chunk)


def _array_pieces(keys: object) -> Iterator[Piece]:
    """Split a NumPy array, or a buffer that NumPy can read, into pieces."""
    import numpy as np

    if isinstance(keys, np.ndarray) and hasattr(keys, "mask"):  # np.ma is slow to load
        raise KeyTypeError(
            "keys: a masked array is not accepted: pass .compressed(), its unmasked keys"
        )
    array = np.asarray(keys)
    code = array.dtype.kind
    is_matrix = array.ndim == 2 and code in "uSV" and array.dtype.itemsize == 1  # noqa: PLR2004
    if is_matrix:
        return _row_pieces(np.ascontiguousarray(array), array.shape[1], "bytes")
    if array.ndim != 1:
        shape = "x".join(map(str, array.shape)) or "a scalar"
        rule = "expected a 1-d array, or bytes of shape (n, width)"
        raise KeyTypeError(f"keys: {rule}; found {shape} of {array.dtype}")
    width = array.dtype.itemsize
    if code in "OT":
        return iter([Piece(ObjectBatch(array.tolist()), len(array))])
    if code in "iu" and width > 1:
        return _number_pieces(array)
    if code == "U":
        data = bytes_of(np.ascontiguousarray(array, array.dtype.newbyteorder("=")))
        return iter([Piece(RowsBatch(data, width, len(array), "ucs4"), len(array))])
    if code in "SV" and not array.dtype.hasobject:
        return _row_pieces(
            np.ascontiguousarray(array), width, "trimmed" if code == "S" else "bytes"
        )
    hint = "convert them to text, bytes, or integers of at least 16 bits"
    if code in "iu":
        hint = "reshape to (n, width) for keys of bytes, or use astype('int64') for numbers"
    raise KeyTypeError(f"keys: elements of type {array.dtype} cannot be keys: {hint}")


def _number_pieces(array: Array) -> Iterator[Piece]:
    for first in range(0, len(array), PIECE_KEYS):
        chunk = array[first : first + PIECE_KEYS]
        yield Piece(number_batch(chunk, first), len(chunk))


def _row_pieces(array: Array, width: int, kind: str) -> Iterator[Piece]:
    """Split a contiguous array with *width* bytes per row into pieces."""
    data = bytes_of(array)
    for first in range(0, len(array), PIECE_KEYS):
        count = min(PIECE_KEYS, len(array) - first)
        rows = data[first * width : (first + count) * width]
        yield Piece(RowsBatch(rows, width, count, kind, first), count)
