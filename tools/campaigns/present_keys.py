"""Sets of distinct keys, generated from a seed, and the shapes in which they are passed.

A filter must find a key in any shape: the same keys are added as rows of bytes, for instance, and
looked up as Arrow text, as a list, or one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from make.make_list import drawn
from mmbloom.keys.batches import pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from mmbloom.keys.pieces import Piece

    Rows = NDArray[np.uint8]

ROW_BYTES = 16
MOST_VARIED_BYTES = 4 * ROW_BYTES
BLOCK_KEYS = 1 << 18
_DIGITS = {
    case: np.frombuffer(case, dtype=np.uint8) for case in (b"0123456789abcdef", b"0123456789ABCDEF")
}
_LOWER, _UPPER = _DIGITS


class Form(NamedTuple):
    """How 16 random bytes become a key.

    Attributes:
        key_form: of the filter.
        batches: shape -> function from rows to a batch of that shape. The third and later ones
            are lists of Python objects, or as slow.
        single: rows to a list of keys for `in`.

    """

    key_form: str
    batches: Mapping[str, Callable[[Rows], object]]
    single: Callable[[Rows], list[Any]]


def _hex(rows: Rows, digits: bytes = _LOWER) -> Rows:
    table = _DIGITS[digits]
    found = np.empty((len(rows), 2 * ROW_BYTES), dtype=np.uint8)
    found[:, ::2], found[:, 1::2] = table[rows >> 4], table[rows & 15]
    return found


def _arrow(table: Rows, lengths: NDArray[np.int64], kind: Any) -> pa.Array:  # noqa: ANN401 -- an Arrow type
    """Return the first bytes of each row as an Arrow array."""
    data = table[np.arange(table.shape[1]) < lengths[:, None]]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(kind, len(table), buffers)


def _fixed(rows: Rows) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(rows.shape[1]), len(rows), buffers)


def _text(rows: Rows, digits: bytes = _LOWER) -> pa.Array:
    lengths = np.full(len(rows), 2 * ROW_BYTES, dtype=np.int64)
    return _arrow(_hex(rows, digits), lengths, pa.string())


def _ucs4(rows: Rows) -> NDArray[np.str_]:
    return np.ascontiguousarray(_hex(rows).astype(np.uint32)).view(f"<U{2 * ROW_BYTES}")[:, 0]


def _varied(rows: Rows) -> pa.Array:
    """Return keys of 8 to 64 bytes; the first 8 make each key distinct."""
    lengths = 8 + rows[:, ROW_BYTES - 1].astype(np.int64) % (MOST_VARIED_BYTES - 7)
    return _arrow(np.tile(rows, 4), lengths, pa.binary())


def _numbers(rows: Rows) -> NDArray[np.int64]:
    return np.ascontiguousarray(rows[:, :8]).view("<i8")[:, 0]


def _list(make: Callable[[Rows], pa.Array]) -> Callable[[Rows], list[Any]]:
    return lambda rows: make(rows).to_pylist()  # type: ignore[no-any-return]


FORMS = {
    "bytes": Form(
        "raw",
        {
            "rows": lambda rows: rows,
            "Arrow": _fixed,
            "list": _list(_fixed),
            "iterator": lambda rows: iter(_fixed(rows).to_pylist()),
        },
        _list(_fixed),
    ),
    "varied": Form("raw", {"Arrow": _varied, "list": _list(_varied)}, _list(_varied)),
    "text": Form("raw", {"Arrow": _text, "NumPy": _ucs4, "list": _list(_text)}, _list(_text)),
    "hex": Form(
        "hex",
        {
            "lower": _text,
            "upper": lambda rows: _text(rows, _UPPER),
            "list": lambda rows: _text(rows, _UPPER).to_pylist(),
        },
        _list(_text),
    ),
    "numbers": Form(
        "raw",
        {
            "little-endian": _numbers,
            "big-endian": lambda rows: _numbers(rows).astype(">i8"),
            "Arrow": lambda rows: pa.array(_numbers(rows)),
            "bytes": lambda rows: _fixed(rows[:, :8]).to_pylist(),
        },
        lambda rows: _fixed(rows[:, :8]).to_pylist(),
    ),
}


class KeySet(NamedTuple):
    """*count* keys from number *first* on, of those that a seed gives, in one form."""

    seed: int
    form: str
    count: int
    first: int = 0

    def rows(self, start: int, count: int) -> Rows:
        """Return the random bytes of some of the keys: uint8[count, 16]."""
        numbers = np.arange(self.first + start, self.first + start + count, dtype=np.uint64)
        halves = [drawn(numbers, self.seed, half) for half in ("left half", "right half")]
        return np.stack(halves, axis=1).view(np.uint8)

    def blocks(self) -> Iterator[Rows]:
        """Yield the random bytes of all keys, block by block."""
        for start in range(0, self.count, BLOCK_KEYS):
            yield self.rows(start, min(BLOCK_KEYS, self.count - start))


class Handed(NamedTuple):
    """A set of keys in one shape, of any size, to be added, built or removed."""

    keys: KeySet
    shape: str

    def __key_pieces__(self) -> Iterator[Piece]:
        """Yield the keys as pieces, as lists of keys do."""
        make = FORMS[self.keys.form].batches[self.shape]
        for rows in self.keys.blocks():
            yield from pieces_of(make(rows))
