"""Keys: any form of input, converted to batches that the engine can hash.

``batches`` accepts lists, iterators, NumPy arrays and Arrow data, ``arrow`` reads Arrow data, and
``lines`` splits text into keys. The engine computes the canonical bytes (FORMAT.md, "Keys").
Nothing here opens a file.
"""

from __future__ import annotations

import operator

from mmbloom.errors import KeyTypeError, KeyValueError

LOWEST_INT, HIGHEST_INT = -(1 << 63), (1 << 64) - 1


def int_key(number: int) -> bytes:
    """Return the canonical key of an integer: 8 bytes, little-endian.

    An integer array gives the same bytes for the number, so single look-ups and batches agree. A
    negative number is stored in two's complement, so -1 and 2**64 - 1 are the same key: use either
    signed or unsigned numbers within a filter.

    Args:
        number: -2**63 <= number < 2**64.

    Raises:
        KeyTypeError: *number* is not an integer (bool and float do not count).
        KeyValueError: *number* does not fit into 64 bits.
    """
    if isinstance(number, bool):
        raise KeyTypeError("int_key: expected an int, not bool")
    try:
        value = operator.index(number)
    except TypeError:
        raise KeyTypeError(f"int_key: expected an int, not {type(number).__name__}") from None
    if not LOWEST_INT <= value <= HIGHEST_INT:
        raise KeyValueError(
            f"int_key: {value} does not fit into 64 bits; use its decimal text as the key"
        )
    return (value % (1 << 64)).to_bytes(8, "little")
