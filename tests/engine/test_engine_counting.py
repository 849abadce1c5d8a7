"""Two engines, the same counters: whole payloads, and payloads that are counted in parts.

tests/engine/test_engine_views.py adds and removes keys one by one and in batches.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbloom.engine import reference

kernel = pytest.importorskip("mmbloom.engine._kernel", reason="no kernel was compiled here")

ENGINES = (kernel, reference)
SHAPES = st.tuples(st.integers(1, 200).map(lambda lines: 128 * lines), st.integers(1, 16))
FEW_LINES = st.tuples(st.sampled_from([128, 256]), st.integers(1, 16))
WORDS = st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
HASHES = st.lists(st.tuples(WORDS, WORDS), max_size=20).map(
    lambda pairs: b"".join(struct.pack("<QQ", *pair) for pair in pairs)
)


def counted(shape: tuple[int, int], hashes: bytes) -> tuple[bytearray, int]:
    """Return the payload that both engines make of these hashes, and how many counters are full."""
    found = []
    for engine in ENGINES:
        payload = bytearray(shape[0] // 2)
        view = engine.View(payload, 7, 4, shape, 0, 0, True)  # noqa: FBT003 - writable
        done, _, num_full = view.add_many(hashes, 2**64 - 1)
        assert done == len(hashes) // 16
        found.append((payload, num_full))
    assert found[0] == found[1]
    return found[0]


@given(FEW_LINES, HASHES, HASHES)
def test_whole_payloads_agree(shape: tuple[int, int], some: bytes, others: bytes) -> None:
    """Counted, flattened and united."""
    payload, num_full = counted(shape, some * 5)
    other, _ = counted(shape, others * 5)

    histogram, num_saturated = kernel.counter_histogram(payload)
    assert reference.counter_histogram(payload) == (histogram, num_saturated)
    assert num_saturated == num_full
    bits = bytearray(shape[0] // 8), bytearray(shape[0] // 8)
    united = bytearray(payload), bytearray(payload)
    for engine, flat, both in zip(ENGINES, bits, united, strict=True):
        engine.flatten_counters(payload, flat)
        engine.unite_counters(both, bytes(other))
        assert engine.narrow_histogram(flat) == histogram
    assert bits[0] == bits[1]
    assert united[0] == united[1]
    assert united[0] == counted(shape, some * 5 + others * 5)[0]


@given(SHAPES | FEW_LINES, HASHES, st.data())
def test_parts_of_a_payload_are_the_whole_of_it(
    shape: tuple[int, int], hashes: bytes, data: st.DataObject
) -> None:
    """Cut between any two lines, each part counted alone from all hashes; and united again."""
    hashes *= 4
    payload, _ = counted(shape, hashes)
    size = len(payload)
    cut = 64 * data.draw(st.integers(0, size // 64))
    for engine in ENGINES:
        parts = [bytearray(cut), bytearray(size - cut)]
        for first, part in zip((0, cut), parts, strict=True):
            engine.count_part(part, first, 4 * shape[0], shape[1], hashes)
        assert b"".join(parts) == payload
        half = bytearray(size)
        engine.count_part(half, 0, 4 * shape[0], shape[1], hashes[: len(hashes) // 2])
        engine.unite_counters(half, bytes(half))
        assert half == payload


@pytest.mark.parametrize(("first", "length"), [(1, 64), (0, 63), (64, 1)])
def test_parts_are_whole_lines(first: int, length: int) -> None:
    """Both engines refuse others in the same words."""
    texts = set()
    for engine in ENGINES:
        with pytest.raises(ValueError, match="not whole blocks of 64") as caught:
            engine.count_part(bytearray(length), first, 1024, 4, bytes(16))
        texts.add(str(caught.value))

    assert len(texts) == 1


def test_united_payloads_have_one_size() -> None:
    """Nothing is changed otherwise."""
    for engine in ENGINES:
        target = bytearray(64)
        with pytest.raises(ValueError, match="payloads of 64 and 63 bytes"):
            engine.unite_counters(target, b"\x11" * 63)
        assert not any(target)
