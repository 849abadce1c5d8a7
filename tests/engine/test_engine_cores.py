"""Two engines, one filter: the same adds give the same payload, answers, counts, runs and errors.

The kernel has several paths to one answer: a key by itself or in a batch, with and without the GIL,
from Python objects or from memory, all layouts but `classic` with AVX2 where the processor has it.
They are all compared. The portable path of a processor that has AVX2 is compared in
tests/engine/kernel.
"""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mmbloom.engine import reference
from mmbloom.errors import CapacityError, ClosedError, MmbloomError, ReadOnlyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import ModuleType

    BesideAThread = Callable[[], AbstractContextManager[None]]

kernel = pytest.importorskip("mmbloom.engine._kernel", reason="no kernel was compiled here")

CLASSIC, LINE, PAGE, NARROW = LAYOUTS = (1, 2, 3, 4)
MOST_PROBES = {CLASSIC: 64, LINE: 16, PAGE: 32, NARROW: 16}
STEP = {CLASSIC: 1, LINE: 512, PAGE: 32768, NARROW: 128}


class Geometry(NamedTuple):
    """What _attach() takes of a filter's shape."""

    layout: int
    num_bits: int
    num_probes: int


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    """Draw small filters: a few lines, or a few pages."""
    layout = draw(st.sampled_from(LAYOUTS))
    step = STEP[layout]
    num_bits = step * draw(st.integers(1, 5) | st.integers(1, max(6, 200_000 // step)))
    return Geometry(layout, num_bits, draw(st.integers(1, MOST_PROBES[layout])))


class Twins:
    """The same filter twice, one for each engine; every call goes to both and must agree."""

    def __init__(self, geometry: Geometry, payload: bytes = b"", **changes: Any) -> None:  # noqa: ANN401
        keywords = {"writable": True, "write_through": True, "keys_added": 0, "limit": None}
        seed, key_form = changes.pop("seed", 0), changes.pop("key_form", 0)
        keywords |= changes
        num_bytes = -(-geometry.num_bits // 512) * 64
        self.payloads, self.cores = [], []
        for engine in (kernel, reference):
            memory = bytearray(payload or num_bytes)
            core = _core_class(engine)()
            core._attach(memory, *geometry, seed, key_form, **keywords)
            self.payloads.append(memory)
            self.cores.append(core)

    def call(self, name: str, *args: Any) -> Any:  # noqa: ANN401 - passed on
        """Call a method; return its value, or the type, text and count of the error."""
        results = [_outcome(getattr(core, name), *args) for core in self.cores]
        assert results[0] == results[1], name
        self.check()
        return results[0]

    def answers(self, keys: list[bytes], beside_a_thread: BesideAThread) -> list[int]:
        """Look *keys* up as a batch, with and without the GIL, as hashes, and one by one."""
        found = []
        for engine, core in zip((kernel, reference), self.cores, strict=True):
            room = len(keys) + 1
            alone, beside, hashed = bytearray(room), bytearray(room), bytearray(room)
            assert core._contains_batch(engine.ObjectBatch(keys), alone) == len(keys)
            with beside_a_thread():
                assert core._contains_batch(engine.ObjectBatch(keys), beside) == len(keys)
            core._contains_hashes(engine.hash_batch(engine.ObjectBatch(keys), 0, 0), hashed)
            singles = [key in core for key in keys]
            assert list(alone[:-1]) == list(beside[:-1]) == list(hashed[:-1]) == singles
            assert singles == [core.might_contain(key) for key in keys]
            found.append(singles)
        assert found[0] == found[1]
        return found[0]

    def check(self) -> None:
        """Compare all that a filter holds."""
        left, right = self.cores
        assert self.payloads[0] == self.payloads[1]
        assert left.published == right.published
        assert left.keys_added == right.keys_added
        assert left._canary_hashes == right._canary_hashes
        assert left.closed == right.closed


def _core_class(engine: ModuleType) -> type[Any]:
    class Core(engine.BloomCore):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.published: list[list[tuple[int, int]]] = []

        def _publish_changes(self, runs: list[tuple[int, int]]) -> None:
            self.published.append(runs)

    return Core


def _outcome(method: Any, *args: Any) -> Any:  # noqa: ANN401 - passed on
    try:
        return method(*args)
    except (MmbloomError, ValueError, BufferError) as exc:
        return type(exc), str(exc), getattr(exc, "num_added", None)


def _hashes(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack("<QQ", *pair) for pair in pairs)


def _random_keys(seed: int, count: int) -> list[bytes]:
    data = np.random.default_rng(seed).bytes(8 * count)
    return [data[i : i + 8] for i in range(0, len(data), 8)]


WORDS = st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
KEYS = st.integers(0, 30).map(lambda i: f"key {i}".encode()) | st.binary(max_size=20)
HASHES = st.lists(st.tuples(WORDS, WORDS), max_size=40).map(lambda pairs: _hashes(*pairs))
STEPS = st.one_of(
    st.tuples(st.just("add"), KEYS),
    st.tuples(st.just("add"), st.sampled_from([None, 3, "\ud800"])),
    st.tuples(st.just("_add_hashes"), HASHES),
    st.tuples(st.just("_pages_of"), HASHES),
    st.tuples(st.just("might_contain"), KEYS),
)


@given(geometries(), st.lists(STEPS, max_size=30), st.booleans(), st.none() | st.integers(0, 50))
@example(
    geometry=Geometry(CLASSIC, 1, 1),
    steps=[("add", b"key 0"), ("add", b"key 1"), ("_add_hashes", bytes(16))],
    write_through=False,
    limit=None,
)
def test_a_sequence_of_adds_leaves_the_same_filter(
    geometry: Geometry,
    steps: list[tuple[str, object]],
    write_through: bool,  # noqa: FBT001 - drawn
    limit: int | None,
) -> None:
    """Payload, count, canaries, changed pages and errors are compared after every step."""
    twins = Twins(geometry, write_through=write_through, limit=limit)

    for name, argument in steps:
        twins.call(name, argument)

    assert all(write_through or not core.published for core in twins.cores)


@given(
    geometry=geometries(),
    seed=st.integers(0, 9),
    num_keys=st.sampled_from([0, 1, 31, 32, 33, 64, 200]),
)
def test_a_batch_and_single_calls_give_the_same_answers(
    beside_a_thread: BesideAThread, geometry: Geometry, seed: int, num_keys: int
) -> None:
    """A payload of noise makes both answers frequent; the kernel prefetches 32 keys ahead."""
    num_bytes = -(-geometry.num_bits // 512) * 64
    chance = np.random.default_rng(seed)
    share_of_ones = 0.5 ** (1 / geometry.num_probes)  # then half of the keys are in
    bits = chance.random(8 * num_bytes) < share_of_ones
    twins = Twins(geometry, np.packbits(bits).tobytes())

    twins.answers(_random_keys(seed, num_keys), beside_a_thread)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_answers_agree_for_every_number_of_probes(
    beside_a_thread: BesideAThread, layout: int
) -> None:
    """AVX2 takes up to 8 probes of a line in one step and up to 16 in two; all are tried."""
    bits = np.random.default_rng(layout).random(65536)
    keys = _random_keys(layout, 120)
    for num_probes in range(1, MOST_PROBES[layout] + 1):
        payload = np.packbits(bits < 0.5 ** (1 / num_probes)).tobytes()
        twins = Twins(Geometry(layout, 65536, num_probes), payload)

        answers = twins.answers(keys, beside_a_thread)

        assert {True, False} == set(answers)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("num_keys", [1, 63, 64, 65, 127, 128, 129, 500])
def test_answers_agree_in_a_payload_larger_than_the_caches(
    beside_a_thread: BesideAThread, layout: int, num_keys: int
) -> None:
    """From 64 MiB on the kernel asks for the lines of 64 keys at once."""
    twins = Twins(Geometry(layout, 8 * 64 * 2**20, 5))
    keys = _random_keys(num_keys, num_keys)
    hashes = bytes(reference.hash_batch(reference.ObjectBatch(keys[::2]), 0, 0))
    assert [core._add_hashes(hashes) for core in twins.cores] == [-(-num_keys // 2)] * 2

    answers = twins.answers(keys, beside_a_thread)

    assert answers == [i % 2 == 0 for i in range(num_keys)]


@given(geometry=geometries(), keys=st.lists(KEYS, min_size=1, max_size=200))
def test_what_was_added_is_found_by_every_path(
    beside_a_thread: BesideAThread, geometry: Geometry, keys: list[bytes]
) -> None:
    """Added by one engine's batch or the other's single calls: never a false no."""
    twins = Twins(geometry)
    half = len(keys) // 2
    twins.call("_add_hashes", bytes(reference.hash_batch(reference.ObjectBatch(keys[:half]), 0, 0)))
    for key in keys[half:]:
        twins.call("add", key)

    assert all(twins.answers(keys, beside_a_thread))


@pytest.mark.parametrize("num_keys", [0, 1, 511, 512, 513, 1025])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["bytes", "trimmed", "ucs4", "offsets", "lines", "missing field"])
def test_every_kind_of_batch_gets_the_answers_of_its_hashes(
    kind: str, layout: int, num_keys: int
) -> None:
    """Memory goes through its own pipeline, 512 keys at a time: hash and look-up fused."""
    bits = np.random.default_rng(layout).random(32768) < 0.5**0.2
    twins = Twins(Geometry(layout, 32768, 5), np.packbits(bits).tobytes())
    results = []
    for engine, core in zip((kernel, reference), twins.cores, strict=True):
        batch = _batch_of(engine, kind, num_keys)
        fused, apart = bytearray(len(batch)), bytearray(len(batch))
        count = _outcome(core._contains_batch, batch, fused)
        if kind != "missing field":
            assert count == num_keys
            core._contains_hashes(engine.hash_batch(batch, 0, 0), apart)
            assert fused == apart
        results.append((count, fused[:num_keys]))
    assert results[0] == results[1]


def _batch_of(engine: ModuleType, kind: str, num_keys: int) -> Any:  # noqa: ANN401 - of any class
    keys = [f"{i:04}" for i in range(num_keys)]
    rows = "".join(keys).encode()
    if kind == "offsets":
        ends = struct.pack(f"={num_keys + 1}I", *range(0, 4 * num_keys + 1, 4))
        return engine.OffsetsBatch(rows, ends, 4)
    if kind == "lines":
        return engine.LinesBatch(
            "".join(f"{i}:{key}\n" for i, key in enumerate(keys)).encode(), "", 1
        )
    if kind == "missing field":
        text = "".join(f"{key}:1\n" for key in keys) + "none\n"
        return engine.LinesBatch(text.encode(), "list", 1, ord(":"), 2)
    if kind == "ucs4":
        wide = np.array([*keys, "wider"]).view(np.uint8)
        return engine.RowsBatch(wide, 20, num_keys, kind)
    return engine.RowsBatch(rows, 4, num_keys, kind)


@given(geometries(), st.integers(0, 12), st.integers(0, 30))
def test_a_full_filter_takes_no_more_and_loses_nothing(
    geometry: Geometry, limit: int, keys_added: int
) -> None:
    """The first new key past the limit stops a batch; a known one never does."""
    twins = Twins(geometry, limit=limit, keys_added=keys_added)
    keys = _random_keys(limit, 40)
    hashes = bytes(reference.hash_batch(reference.ObjectBatch(keys), 0, 0))

    first = twins.call("_add_hashes", hashes)
    before = bytes(twins.payloads[0])
    second = twins.call("_add_hashes", hashes)

    assert twins.cores[0].keys_added <= max(limit, keys_added)
    assert bytes(twins.payloads[0]) == before
    if isinstance(first, tuple):
        assert first[0] is CapacityError
        assert second[2] == 0


def test_runs_of_changed_pages_agree_across_their_groups() -> None:
    """The kernel flags pages in groups of 512, so that a flush does not scan them all."""
    num_pages = 1300
    twins = Twins(Geometry(PAGE, 32768 * num_pages, 4))
    pages = [0, 510, 511, 512, 513, 1023, 1024, 1299]
    hashes = _hashes(*[(-(-(page << 64) // num_pages), 12345) for page in pages])

    twins.call("_add_hashes", hashes)
    twins.call("_add_hashes", hashes)

    assert twins.cores[0].published == [[(0, 1), (510, 4), (1023, 2), (1299, 1)]]
    assert twins.call("_pages_of", hashes) == pages


def test_only_pages_that_change_are_written() -> None:
    """Two classic keys that share probes: the pages of the shared ones were written before."""
    twins = Twins(Geometry(CLASSIC, 32768 * 20, 3))
    key = _hashes((2**63, 2**62))
    bits = reference.probes(CLASSIC, 32768 * 20, 3, 2**63, 2**62)
    for payload in twins.payloads:
        payload[bits[0] >> 3] |= 1 << (bits[0] & 7)

    assert twins.call("_add_hashes", key) == 1

    runs = twins.cores[0].published[0]
    changed = [page for first, count in runs for page in range(first, first + count)]
    assert changed == sorted({bit // 32768 for bit in bits[1:]})
    assert bits[0] // 32768 not in changed


@pytest.mark.parametrize("operation", ["or", "and", "clear"])
@pytest.mark.parametrize("geometry", [Geometry(LINE, 512 * 200, 7), Geometry(CLASSIC, 1000, 5)])
@pytest.mark.parametrize("write_through", [True, False])
def test_whole_payloads_combine_alike(
    operation: str,
    geometry: Geometry,
    write_through: bool,  # noqa: FBT001 - a parameter of _attach
) -> None:
    """Every page counts as changed, the last, shorter one too."""
    num_bytes = -(-geometry.num_bits // 512) * 64
    chance = np.random.default_rng(5)
    payload = chance.bytes(num_bytes)
    twins = Twins(geometry, payload, keys_added=3, write_through=write_through)
    other = None if operation == "clear" else chance.bytes(num_bytes)

    twins.call("_combine", other, operation, 77)

    runs = [[(0, -(-num_bytes // 4096))]]
    assert twins.cores[0].published == (runs if write_through else [])
    assert [core.keys_added for core in twins.cores] == [77, 77]
    for core in twins.cores:
        core.keys_added = 5
    twins.check()


@pytest.mark.parametrize("operation", ["or", "and"])
def test_payloads_of_other_sizes_are_not_combined(operation: str) -> None:
    """Nothing is changed, nothing is written."""
    twins = Twins(Geometry(LINE, 1024, 7), bytes(range(128)))

    found = twins.call("_combine", bytes(64), operation, 0)

    assert found[:2] == (ValueError, "payloads of 128 and 64 bytes")
    assert twins.payloads[0] == bytes(range(128))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("add", (b"key",)),
        ("add", (None,)),
        ("__contains__", (b"key",)),
        ("__contains__", (None,)),
        ("might_contain", (b"key",)),
        ("_add_hashes", (bytes(16),)),
        ("_add_hashes", (b"",)),
        ("_combine", (bytes(64), "or", 0)),
        ("_check_writable", ()),
    ],
)
@pytest.mark.parametrize("state", ["closed", "read-only"])
def test_a_closed_or_a_read_only_filter_refuses_alike(
    name: str, args: tuple[object, ...], state: str
) -> None:
    """The same error for the same call."""
    twins = Twins(Geometry(LINE, 512, 7), writable=state == "closed")
    if state == "closed":
        twins.call("_detach")
        twins.call("_detach")

    results = [_outcome(getattr(core, name), *args) for core in twins.cores]

    assert results[0] == results[1] or name == "_check_writable"
    if isinstance(results[0], tuple) and args != (None,):
        assert results[0][0] is (ClosedError if state == "closed" else ReadOnlyError)


def test_answers_that_do_not_fit_are_refused_before_any_is_written() -> None:
    """The room for answers is counted against the batch, and against the hashes."""
    for engine, core in zip((kernel, reference), Twins(Geometry(LINE, 512, 7)).cores, strict=True):
        room = bytearray(b"??")
        with pytest.raises(ValueError, match="out holds 2 answers; the batch may have 3 keys"):
            core._contains_batch(engine.ObjectBatch(["a", "b", "c"]), room)
        with pytest.raises(ValueError, match="maybe holds 2 answers for 3 hashes"):
            core._contains_hashes(bytes(48), room)
        assert room == b"??"


@pytest.mark.parametrize("num_bits", [0, 513, 2**63])
def test_a_payload_that_is_too_small_is_not_attached(num_bits: int) -> None:
    """Bounds are checked here, once; the kernel trusts them."""
    for engine in (kernel, reference):
        core = engine.BloomCore()
        with pytest.raises(ValueError, match=f"num_bits is {num_bits}; the payload holds 512 bits"):
            _attach(core, bytearray(64), num_bits)
        assert core.closed


def test_memory_that_cannot_be_written_is_not_attached_for_writing() -> None:
    """A reader's map is read-only: adding to it would be a crash, not an error."""
    for engine in (kernel, reference):
        with pytest.raises(BufferError):
            _attach(engine.BloomCore(), bytes(64), 512)


def _attach(core: Any, payload: bytes | bytearray | mmap.mmap, num_bits: int) -> None:  # noqa: ANN401
    core._attach(
        payload,
        CLASSIC,
        num_bits,
        7,
        0,
        0,
        writable=True,
        write_through=False,
        keys_added=0,
        limit=None,
    )


def test_both_engines_set_the_same_bits_on_both_sides_of_2_to_the_32() -> None:
    """A2, A8: 512 MiB of untouched memory each; a bit that no probe names must stay zero."""
    num_bits = 2**32 + 2**20
    keys = _random_keys(1, 300)
    pairs = [reference.hash_key(key, 0, 0) for key in keys]
    # Of 4096 probes one lies in the last 2^20 bits. This pair's first is the very last bit:
    # the rule's mixing, undone for a product of 2^64 - 1.
    golden, ones = 0x9E3779B97F4A7C15, 2**64 - 1
    mixed = ones * pow(golden, -1, 2**64) & ones
    pairs.insert(0, (mixed ^ mixed >> 32, 0))
    bits = {bit for pair in pairs for bit in reference.probes(CLASSIC, num_bits, 7, *pair)}
    assert max(bits) == num_bits - 1
    for engine in (kernel, reference):
        with mmap.mmap(-1, num_bits // 8) as memory:
            core = engine.BloomCore()
            _attach(core, memory, num_bits)
            assert core._add_hashes(_hashes(*pairs[:-1])) == 300
            assert core.add(keys[-1])
            answers = bytearray(300)
            core._contains_batch(engine.ObjectBatch(keys), answers)
            core._detach()

            assert answers == bytes([1]) * 300
            assert all(memory[bit >> 3] >> (bit & 7) & 1 for bit in bits)
            assert kernel.popcount(memory) == len(bits)


@pytest.mark.parametrize("engine", [kernel, reference], ids=["kernel", "python"])
def test_a_core_takes_over_another_filter_whole(engine: Any) -> None:  # noqa: ANN401 - a module
    """Bits, sizes, seed, key form, counts and canaries; the old payload is free at once."""
    old, new = bytearray(64), bytearray(4096)
    core, other = engine.BloomCore(), engine.BloomCore()
    both = {"write_through": False, "limit": None}
    core._attach(old, LINE, 512, 4, 1, 0, writable=False, keys_added=1, **both)
    other._attach(new, PAGE, 32768, 9, 2, 1, writable=True, keys_added=0, **both)
    for number in range(3):
        other.add(f"{number:08x}")

    assert core._take(other, new)
    old += b"no longer exported"
    answers = [f"{number:08X}" in core for number in range(6)]
    assert answers == [True, True, True, False, False, False]
    assert (core.keys_added, core._canary_hashes) == (3, other._canary_hashes)
    with pytest.raises(BufferError):
        new += b"exported"
    assert not other._take(core, new)  # it can be added to
    core._detach()
    assert not core._take(other, new)


@pytest.mark.parametrize("engine", [kernel, reference], ids=["kernel", "python"])
def test_a_following_core_calls_its_hook_when_it_is_time(engine: Any) -> None:  # noqa: ANN401
    """Before the look-up of one key; not in between; and an error there is one of the look-up."""

    class Following(engine.BloomCore):  # type: ignore[misc]
        seconds, calls = 0.0, 0

        def _look_at_path(self) -> None:
            self.calls += 1
            self._rest(self.seconds)
            if self.calls == 4:
                raise ClosedError("gone")

    core = Following()
    core._attach(
        bytearray(64), LINE, 512, 4, 1, 0, writable=True, write_through=False, keys_added=0,
        limit=None,
    )  # fmt: skip
    core.add("ada")
    assert (core._is_due(), "ada" in core, core.calls) == (False, True, 0)  # nobody follows
    core._rest(0)
    assert (core._is_due(), "ada" in core, core.calls) == (True, True, 1)
    assert (core.might_contain("bob"), core.calls) == (False, 2)
    core.seconds = 3600
    assert [key in core for key in ("ada", "ada", "bob")] == [True, True, False]
    assert (core.calls, core._is_due()) == (3, False)
    core._rest(0)
    with pytest.raises(ClosedError, match="gone"):
        _ = "ada" in core
