"""Integers as keys: eight bytes, by themselves as in arrays."""

from __future__ import annotations

import numpy as np
import pytest

from mmbloom import BloomFilter, int_key
from mmbloom.errors import KeyTypeError, KeyValueError


class _Index:
    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("number", "key"),
    [
        (0, "0000000000000000"),
        (1, "0100000000000000"),
        (0x0102030405060708, "0807060504030201"),
        (-1, "ffffffffffffffff"),
        (2**64 - 1, "ffffffffffffffff"),
        (2**63, "0000000000000080"),
        (-(2**63), "0000000000000080"),
        (np.int16(-2), "feffffffffffffff"),
        (np.uint64(2**64 - 2), "feffffffffffffff"),
        (_Index(), "0700000000000000"),
    ],
)
def test_an_integer_is_eight_bytes_little_endian(number: int, key: str) -> None:
    """Negative ones in two's complement; whatever is an index is an integer."""
    assert int_key(number) == bytes.fromhex(key)


@pytest.mark.parametrize("number", [True, False, 1.0, "1", b"1", None, np.float64(1), np.True_])
def test_what_is_no_integer_is_refused(number: object) -> None:
    """M2: 1, 1.0, True and "1" must not silently be one key."""
    with pytest.raises(KeyTypeError, match="int_key: expected an int"):
        int_key(number)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30])
def test_what_does_not_fit_64_bits_is_refused(number: int) -> None:
    """Never cut: two numbers would be one key. The error shows the way out."""
    with pytest.raises(KeyValueError, match=f"int_key: {number} does not fit .* decimal text"):
        int_key(number)


def test_a_number_is_not_its_decimal_text(bloom: BloomFilter) -> None:
    """M2: 51 and "51" are two keys, and so are 5 and the byte 5."""
    bloom.add(int_key(51))
    bloom.add(int_key(5))

    assert int_key(51) in bloom
    assert "51" not in bloom
    assert b"\x05" not in bloom
    assert "\x05" not in bloom


@pytest.mark.parametrize("number", [5, -3, 2**70])
def test_a_bare_integer_is_no_key_and_the_error_says_what_to_do(
    bloom: BloomFilter, number: int
) -> None:
    """M1, M3: refused at once, with the name of the function that encodes it."""
    for call in (bloom.add, bloom.might_contain, bloom.__contains__):
        with pytest.raises(KeyTypeError, match=r"not int: encode it with mmbloom.int_key\(\)"):
            call(number)
    assert bloom.keys_added == 0
