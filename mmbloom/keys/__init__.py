"""Keys: whatever a caller has, turned into batches that the engine can hash.

``batches`` tells lists, iterators, NumPy arrays and Arrow data apart, ``arrow`` reads the last,
``lines`` cuts text into keys. Canonical bytes themselves are made by the engine (FORMAT.md,
"Keys"); nothing here opens a file.
"""

from __future__ import annotations

import operator

from mmbloom.errors import KeyTypeError, KeyValueError

LOWEST_INT, HIGHEST_INT = -(1 << 63), (1 << 64) - 1


def int_key(number: int) -> bytes:
    """Return the canonical key of an integer: 8 bytes, little-endian.

    The same bytes as the element of an integer array, so single look-ups and batches agree. A
    negative number is stored in two's complement, hence -1 and 2**64 - 1 are one key: keep to
    signed or to unsigned numbers within a filter.

    Args:
        number: -2**63 <= number < 2**64.

    Raises:
        KeyTypeError: not an integer (bool and float are none).
        KeyValueError: outside 64 bits.
    """
    if isinstance(number, bool):
        raise KeyTypeError("int_key: expected an int, not bool")
    try:
        value = operator.index(number)
    except TypeError:
        raise KeyTypeError(f"int_key: expected an int, not {type(number).__name__}") from None
    if not LOWEST_INT <= value <= HIGHEST_INT:
        raise KeyValueError(f"int_key: {value} does not fit 64 bits; use its decimal text as key")
    return (value % (1 << 64)).to_bytes(8, "little")
