"""Two engines, one counting filter: the same adds and removes give the same counters.

As tests/engine/test_engine_cores.py does for Bloom filters. The portable path of the kernel is
compared in tests/engine/kernel.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbloom.engine import reference
from mmbloom.errors import ClosedError, MmbloomError, ReadOnlyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import ModuleType

    BesideAThread = Callable[[], AbstractContextManager[None]]

kernel = pytest.importorskip("mmbloom.engine._kernel", reason="no kernel was compiled here")

SHAPES = st.tuples(st.integers(1, 200).map(lambda lines: 128 * lines), st.integers(1, 16))
FEW_LINES = st.tuples(st.sampled_from([128, 256]), st.integers(1, 16))


class Twins:
    """The same filter twice, one for each engine; every call goes to both and must agree."""

    def __init__(self, shape: tuple[int, int], payload: bytes = b"", **changes: Any) -> None:  # noqa: ANN401
        keywords = {
            "writable": True,
            "write_through": True,
            "keys_added": 0,
            "limit": None,
            "num_saturated": 0,
        }
        keywords |= changes
        self.payloads, self.cores = [], []
        for engine in (kernel, reference):
            memory = bytearray(payload or shape[0] // 2)
            core = _core_class(engine)()
            core._attach(memory, *shape, 0, 0, **keywords)
            self.payloads.append(memory)
            self.cores.append(core)

    def call(self, name: str, *args: Any) -> Any:  # noqa: ANN401 - passed on
        """Call a method; return its value, or the type, text and counts of the error."""
        results = [_outcome(getattr(core, name), *args) for core in self.cores]
        assert results[0] == results[1], name
        self.check()
        return results[0]

    def check(self) -> None:
        """Compare all that a filter holds."""
        left, right = self.cores
        assert self.payloads[0] == self.payloads[1]
        assert left.published == right.published
        assert left.keys_added == right.keys_added
        assert left.num_saturated == right.num_saturated
        assert left._canary_hashes == right._canary_hashes
        assert left.closed == right.closed


def _core_class(engine: ModuleType) -> type[Any]:
    class Core(engine.CountingCore):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.published: list[list[tuple[int, int]]] = []

        def _publish_changes(self, runs: list[tuple[int, int]]) -> None:
            self.published.append(runs)

        def _keys_by_estimate(self) -> int:
            return int(self.keys_added) // 2

    return Core


def _outcome(method: Any, *args: Any) -> Any:  # noqa: ANN401 - passed on
    try:
        return method(*args)
    except (MmbloomError, ValueError, BufferError, KeyError) as exc:
        return type(exc), str(exc), exc.args


def _hashes_of(keys: list[bytes]) -> bytes:
    return bytes(reference.hash_batch(reference.ObjectBatch(keys), 0, 0))


WORDS = st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
FEW_KEYS = st.integers(0, 12).map(lambda i: f"key {i}".encode())
HASHES = st.lists(FEW_KEYS, max_size=40).map(_hashes_of) | st.lists(
    st.tuples(WORDS, WORDS), max_size=20
).map(lambda pairs: b"".join(struct.pack("<QQ", *pair) for pair in pairs))
STEPS = st.one_of(
    st.tuples(st.just("add"), FEW_KEYS),
    st.tuples(st.just("remove"), FEW_KEYS),
    st.tuples(st.sampled_from(["add", "remove", "count_estimate"]), st.sampled_from([None, 3])),
    st.tuples(st.just("_add_hashes"), HASHES),
    st.tuples(st.just("_remove_hashes"), HASHES),
    st.tuples(st.just("_pages_of"), HASHES),
    st.tuples(st.just("_has_room_for"), st.integers(0, 20)),
    st.tuples(st.just("count_estimate"), FEW_KEYS),
    st.tuples(st.just("might_contain"), FEW_KEYS),
)


@given(
    SHAPES | FEW_LINES,
    st.lists(STEPS, max_size=40),
    st.booleans(),
    st.none() | st.integers(0, 15),
)
def test_a_sequence_of_adds_and_removes_leaves_the_same_filter(
    shape: tuple[int, int],
    steps: list[tuple[str, object]],
    write_through: bool,  # noqa: FBT001 - drawn
    limit: int | None,
) -> None:
    """Counters, counts, canaries, changed pages and errors are compared after every step."""
    twins = Twins(shape, write_through=write_through, limit=limit)

    for name, argument in steps:
        twins.call(name, argument)

    assert all(write_through or not core.published for core in twins.cores)


@pytest.mark.parametrize("num_probes", range(1, 17))
def test_answers_agree_for_every_number_of_probes(
    beside_a_thread: BesideAThread, num_probes: int
) -> None:
    """AVX2 takes up to 8 counters in one step; each of 1 to 15 alone is not zero."""
    chance = np.random.default_rng(num_probes)
    counters = chance.integers(1, 16, 65536) * (chance.random(65536) < 0.5 ** (1 / num_probes))
    payload = (counters[::2] | counters[1::2] << 4).astype(np.uint8).tobytes()
    keys = [chance.bytes(8) for _ in range(120)]
    twins = Twins((65536, num_probes), payload)
    found = []
    for engine, core in zip((kernel, reference), twins.cores, strict=True):
        alone, beside, hashed = bytearray(120), bytearray(120), bytearray(120)
        assert core._contains_batch(engine.ObjectBatch(keys), alone) == 120
        with beside_a_thread():
            assert core._contains_batch(engine.ObjectBatch(keys), beside) == 120
        core._contains_hashes(_hashes_of(keys), hashed)
        assert list(alone) == list(beside) == list(hashed) == [key in core for key in keys]
        found.append((alone, [core.count_estimate(key) for key in keys]))

    assert found[0] == found[1]
    assert {0, 1} == set(found[0][0])
    assert [count > 0 for count in found[0][1]] == list(map(bool, found[0][0]))


@given(FEW_LINES, st.lists(FEW_KEYS, max_size=60), st.lists(FEW_KEYS, max_size=60))
def test_whole_payloads_agree(
    shape: tuple[int, int], keys: list[bytes], others: list[bytes]
) -> None:
    """United, emptied, copied, counted and flattened."""
    twins, second = Twins(shape), Twins(shape)
    twins.call("_add_hashes", _hashes_of(keys * 3))
    second.call("_add_hashes", _hashes_of(others * 3))

    twins.call("_combine", bytes(second.payloads[0]), "or", 7)
    histogram, num_saturated = kernel.counter_histogram(twins.payloads[0])
    assert reference.counter_histogram(twins.payloads[0]) == (histogram, num_saturated)
    assert num_saturated == twins.cores[0].num_saturated
    bits = bytearray(shape[0] // 8), bytearray(shape[0] // 8)
    kernel.flatten_counters(twins.payloads[0], bits[0])
    reference.flatten_counters(twins.payloads[0], bits[1])
    assert bits[0] == bits[1]
    assert kernel.narrow_histogram(bits[0]) == reference.narrow_histogram(bits[0]) == histogram
    twins.call("_combine", None, "clear", 0)
    assert not any(twins.payloads[0])
    twins.call("_load", bytes(second.payloads[0]), 3)
    assert twins.payloads[0] == second.payloads[0]
    assert twins.cores[0].num_saturated == second.cores[0].num_saturated


@given(SHAPES | FEW_LINES, HASHES, st.data())
def test_parts_of_a_payload_are_the_whole_of_it(
    shape: tuple[int, int], hashes: bytes, data: st.DataObject
) -> None:
    """Cut between any two lines, each part counted alone from all hashes; and united again."""
    hashes *= 4
    twins = Twins(shape)
    twins.call("_add_hashes", hashes)
    size = len(twins.payloads[0])
    cut = 64 * data.draw(st.integers(0, size // 64))
    for engine in (kernel, reference):
        parts = [bytearray(cut), bytearray(size - cut)]
        for first, part in zip((0, cut), parts, strict=True):
            engine.count_part(part, first, 4 * shape[0], shape[1], hashes)
        assert b"".join(parts) == twins.payloads[0]
        half = bytearray(size)
        engine.count_part(half, 0, 4 * shape[0], shape[1], hashes[: len(hashes) // 2])
        engine.unite_counters(half, bytes(half))
        assert half == twins.payloads[0]


def test_parts_are_whole_lines_and_united_payloads_of_one_size() -> None:
    """Both engines refuse others in the same words."""
    for first, length in ((1, 64), (0, 63), (64, 1)):
        found = {
            _outcome(engine.count_part, bytearray(length), first, 1024, 4, bytes(16))[:2]
            for engine in (kernel, reference)
        }
        assert len(found) == 1
        assert found.pop()[0] is ValueError
    for engine in (kernel, reference):
        with pytest.raises(ValueError, match="payloads of 64 and 63 bytes"):
            engine.unite_counters(bytearray(64), bytes(63))


@pytest.mark.parametrize("size", [0, 63, 65, 128])
def test_payloads_that_do_not_fit_are_refused(size: int) -> None:
    """By both engines in the same words; an unknown operation too."""
    twins = Twins((128, 5))
    twins.call("add", b"key")

    assert twins.call("_combine", bytes(size), "or", 0)[0] is ValueError
    assert twins.call("_combine", bytes(64), "and", 0)[0] is KeyError
    assert twins.call("_load", bytes(size), 0)[0] is ValueError
    assert twins.call("count_estimate", b"key") == 1


@pytest.mark.parametrize("num_counters", [0, 1, 127, 129, 2**53 + 128])
def test_only_whole_lines_of_counters_are_attached(num_counters: int) -> None:
    """And not more than the payload holds."""
    for engine in (kernel, reference):
        for size in (num_counters, 256):
            with pytest.raises(ValueError, match=r"num_counters|num_bits"):
                engine.CountingCore()._attach(
                    bytearray(64),
                    size,
                    5,
                    0,
                    0,
                    writable=True,
                    write_through=False,
                    keys_added=0,
                    limit=None,
                    num_saturated=0,
                )


def test_a_reader_and_a_closed_filter_change_nothing() -> None:
    """ReadOnlyError and ClosedError, for keys, hashes and whole payloads."""
    reader = Twins((128, 5), writable=False, write_through=False)
    closed = Twins((128, 5))
    for core in closed.cores:
        core._detach()
    calls = [("add", b"k"), ("remove", b"k"), ("_add_hashes", bytes(16)), ("_load", bytes(64), 0)]
    for name, *arguments in [*calls, ("_remove_hashes", bytes(16)), ("_combine", None, "clear", 0)]:
        assert reader.call(name, *arguments)[0] is ReadOnlyError
        assert closed.call(name, *arguments)[0] is ClosedError
    assert closed.call("count_estimate", b"k")[0] is ClosedError
    assert reader.call("count_estimate", b"k") == 0
