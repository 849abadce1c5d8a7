"""Two engines, one payload: the same adds and removes give the same bytes, answers and errors.

The kernel has several paths to one answer: a key by itself or in a batch, with and without the GIL,
from Python objects or from memory, and most layouts with AVX2 where the processor has it. They are
all compared, for the bits of Bloom filters and the counters of counting filters; fuse filters are
compared in test_engine_fuse.py, and the portable path of a processor that has AVX2 in
tests/engine/kernel.
"""

from __future__ import annotations

import gc
import mmap
import struct
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mmbloom.engine import reference
from mmbloom.errors import AbsentKeyError, CapacityError, ClosedError, MmbloomError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import ModuleType

    BesideAThread = Callable[[], AbstractContextManager[None]]

kernel = pytest.importorskip("mmbloom.engine._kernel", reason="no kernel was compiled here")

ENGINES = (kernel, reference)
BOTH = pytest.mark.parametrize("engine", ENGINES, ids=["kernel", "python"])
CLASSIC, LINE, PAGE, NARROW, COUNTERS = LAYOUTS = (1, 2, 3, 4, 7)
SCHEMES = {CLASSIC: 1, LINE: 2, PAGE: 3, NARROW: 4, COUNTERS: 4}
MOST_PROBES = {CLASSIC: 64, LINE: 16, PAGE: 32, NARROW: 16, COUNTERS: 16}
STEP = {CLASSIC: 1, LINE: 512, PAGE: 32768, NARROW: 128, COUNTERS: 128}
NO_LIMIT = 2**64 - 1


class Shape(NamedTuple):
    """A layout, how many bits or counters a payload has, and the probes of a key."""

    layout: int
    size: int
    num_probes: int

    @property
    def num_bytes(self) -> int:
        """Bytes of a payload: whole lines."""
        return -(-self.size // 512) * 64 if self.layout != COUNTERS else self.size // 2


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Draw small payloads: a few lines, or a few pages."""
    layout = draw(st.sampled_from(LAYOUTS))
    step = STEP[layout]
    size = step * draw(st.integers(1, 5) | st.integers(1, max(6, 200_000 // step)))
    return Shape(layout, size, draw(st.integers(1, MOST_PROBES[layout])))


def view_of(
    engine: ModuleType,
    shape: Shape,
    payload: Any,  # noqa: ANN401 - a buffer
    *,
    writable: bool = True,
    seed: int = 0,
) -> Any:  # noqa: ANN401 - either engine's
    """Return a view of *payload*."""
    return engine.View(payload, shape.layout, SCHEMES[shape.layout], shape[1:], seed, 0, writable)


def _small_class(engine: ModuleType) -> type[Any]:
    class Small(engine.Core):  # type: ignore[misc,name-defined]
        """The smallest filter that an engine allows: a core with its hooks."""

        num_writes = 0
        view: Any

        def _check_open(self) -> None:
            if self.closed:
                raise ClosedError("closed")

        def _add_one(self, digest: bytes) -> bool:
            done, new, full = self.view.add_many(digest, max(0, self._limit - self._num_keys))
            if not done:
                raise CapacityError("small", self._limit)
            self._num_keys += new
            self._num_saturated += full
            if self.is_counted:
                self._note(digest)
            return bool(new)

        def _remove_one(self, digest: bytes) -> bool:
            done, gone = self.view.remove_many(digest)
            if not done:
                raise AbsentKeyError("small", 0)
            self._has_removed = True
            self._num_keys -= min(self._num_keys, gone)
            return bool(gone)

        def _write_marks(self) -> None:
            self.num_writes += 1

    return Small


SMALL = {engine.ENGINE: _small_class(engine) for engine in ENGINES}


def filter_of(engine: ModuleType, view: Any, limit: int = NO_LIMIT) -> Any:  # noqa: ANN401 - as above
    """Return a filter that answers from *view*."""
    small = SMALL[engine.ENGINE]()
    small.view, small._limit = view, limit
    small.is_counted = not isinstance(_outcome(view.count_of, bytes(16)), tuple)
    small._use(view)
    return small


class Twins:
    """The same payload twice, one for each engine; every call goes to both and must agree."""

    def __init__(
        self, shape: Shape, payload: bytes = b"", limit: int = NO_LIMIT, *, quick: bool = True
    ) -> None:
        self.payloads = [bytearray(payload or shape.num_bytes) for _ in ENGINES]
        num_pages = -(-shape.num_bytes // 4096)
        self.marks = [(bytearray(num_pages), bytearray(num_pages // 512 + 1)) for _ in ENGINES]
        self.views = [
            view_of(*each) for each in zip(ENGINES, [shape] * 2, self.payloads, strict=True)
        ]
        self.filters = [filter_of(*each, limit) for each in zip(ENGINES, self.views, strict=True)]
        for small in self.filters:
            small._is_quick = quick

    def mark(self) -> None:
        """Mark changed pages from now on."""
        for view, marks in zip(self.views, self.marks, strict=True):
            view.mark(*marks)

    def call(self, name: str, *args: Any) -> Any:  # noqa: ANN401 - passed on
        """Call a method of the view, or of the filter if the view has none."""
        owners = self.views if hasattr(self.views[0], name) else self.filters
        results = [_outcome(getattr(owner, name), *args) for owner in owners]
        assert results[0] == results[1], name
        self.check()
        return results[0]

    def answers(self, keys: list[bytes], beside_a_thread: BesideAThread) -> list[int]:
        """Look *keys* up as a batch, with and without the GIL, as hashes, and one by one."""
        found = []
        for engine, view, small in zip(ENGINES, self.views, self.filters, strict=True):
            room = len(keys) + 1
            alone, beside, hashed = bytearray(room), bytearray(room), bytearray(room)
            assert view.contains_batch(engine.ObjectBatch(keys), alone) == len(keys)
            with beside_a_thread():
                assert view.contains_batch(engine.ObjectBatch(keys), beside) == len(keys)
            view.contains_hashes(engine.hash_batch(engine.ObjectBatch(keys), 0, 0), hashed)
            singles = [key in small for key in keys]
            assert list(alone[:-1]) == list(beside[:-1]) == list(hashed[:-1]) == singles
            assert singles == [small.might_contain(key) for key in keys]
            found.append(singles)
        assert found[0] == found[1]
        return list(map(int, found[0]))

    def check(self) -> None:
        """Compare all that the two hold."""
        assert self.payloads[0] == self.payloads[1]
        assert self.marks[0] == self.marks[1]
        left, right = self.filters
        for name in ("_num_keys", "_num_saturated", "_has_removed", "_latest", "closed"):
            assert getattr(left, name) == getattr(right, name), name


def _outcome(method: Any, *args: Any) -> Any:  # noqa: ANN401 - passed on
    try:
        return method(*args)
    except (MmbloomError, ValueError, BufferError) as exc:
        return type(exc), str(exc)


def _hashes(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack("<QQ", *pair) for pair in pairs)


def _hashes_of(keys: list[bytes]) -> bytes:
    return bytes(reference.hash_batch(reference.ObjectBatch(keys), 0, 0))


def _random_keys(seed: int, count: int) -> list[bytes]:
    data = np.random.default_rng(seed).bytes(8 * count)
    return [data[i : i + 8] for i in range(0, len(data), 8)]


def _noise(shape: Shape, seed: int) -> bytes:
    """Return a payload in which about half of all keys are "maybe"."""
    chance = np.random.default_rng(seed)
    share = 0.5 ** (1 / shape.num_probes)
    if shape.layout != COUNTERS:
        return bytes(np.packbits(chance.random(8 * shape.num_bytes) < share))
    counters = chance.integers(1, 16, shape.size) * (chance.random(shape.size) < share)
    return bytes((counters[::2] | counters[1::2] << 4).astype(np.uint8))


WORDS = st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
KEYS = st.integers(0, 12).map(lambda i: f"key {i}".encode()) | st.binary(max_size=20)
HASHES = st.lists(KEYS, max_size=40).map(_hashes_of) | st.lists(
    st.tuples(WORDS, WORDS), max_size=40
).map(lambda pairs: _hashes(*pairs))
STEPS = st.one_of(
    st.tuples(st.sampled_from(["add", "_remove", "might_contain"]), KEYS),
    st.tuples(st.sampled_from(["add", "_remove"]), st.sampled_from([None, 3, "\ud800"])),
    st.tuples(st.just("add_many"), HASHES, st.integers(0, 40)),
    st.tuples(st.sampled_from(["remove_many", "pages_of", "_note"]), HASHES),
    st.tuples(st.just("count_of"), st.sampled_from([bytes(16), bytes(range(16)), bytes(15)])),
)


# -- changing --------------------------------------------------------------------------------------


@given(
    shapes(),
    st.lists(STEPS, max_size=30),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 3, 15, NO_LIMIT]),
)
@example(
    shape=Shape(CLASSIC, 1, 1),
    steps=[("add", b"key 0"), ("add", b"key 1"), ("add_many", bytes(16), 1)],
    marks=False,
    quick=True,
    limit=NO_LIMIT,
)
def test_a_sequence_of_changes_leaves_the_same_payload(
    shape: Shape,
    steps: list[tuple[Any, ...]],
    marks: bool,  # noqa: FBT001 - drawn
    quick: bool,  # noqa: FBT001 - drawn
    limit: int,
) -> None:
    """Payload, counts, marks, latest keys and errors are compared after every step."""
    twins = Twins(shape, limit=limit, quick=quick)
    if marks:
        twins.mark()

    for name, *arguments in steps:
        twins.call(name, *arguments)

    assert marks or not any(twins.marks[0][0])


@given(shapes(), st.lists(KEYS, min_size=1, max_size=200))
def test_what_was_added_is_found_by_every_path(
    beside_a_thread: BesideAThread, shape: Shape, keys: list[bytes]
) -> None:
    """Added as a batch or one by one: never a false no."""
    twins = Twins(shape)
    half = len(keys) // 2
    twins.call("add_many", _hashes_of(keys[:half]), NO_LIMIT)
    for key in keys[half:]:
        twins.call("add", key)

    assert all(twins.answers(keys, beside_a_thread))


@given(shapes(), st.integers(0, 12))
def test_a_batch_stops_at_the_first_new_key_that_has_no_room(shape: Shape, room: int) -> None:
    """A known key never stops it; nothing is changed for the one that does."""
    twins = Twins(shape)
    hashes = _hashes_of(_random_keys(room, 40))

    done, new, _ = twins.call("add_many", hashes, room)
    before = bytes(twins.payloads[0])
    again = twins.call("add_many", hashes[: 16 * done], 0)

    assert new <= room
    assert done == 40 or new == room
    assert again[:2] == (done, 0)
    assert shape.layout == COUNTERS or twins.payloads[0] == before


@pytest.mark.parametrize("quick", [True, False])
def test_one_key_at_a_time_stops_at_the_limit(quick: bool) -> None:  # noqa: FBT001 - a parameter
    """The hook says so; a known key is still taken."""
    twins = Twins(Shape(LINE, 512 * 64, 7), limit=2, quick=quick)

    found = [twins.call("add", key) for key in ("ada", "bob", "ada", "eve")]

    assert found[:3] == [True, True, False]
    assert found[3][0] is CapacityError
    assert [small._num_keys for small in twins.filters] == [2, 2]


def test_a_count_that_is_too_low_does_not_wrap_around() -> None:
    """After a crash the stored count may be lower than the keys that can be removed."""
    twins = Twins(Shape(COUNTERS, 128, 5))
    twins.call("add_many", _hashes_of([b"ada", b"bob"]), 2)

    assert twins.call("_remove", b"ada") is True
    assert [small._num_keys for small in twins.filters] == [0, 0]


def test_marks_say_which_pages_have_changed() -> None:
    """One mark a page, and one for each 512 pages."""
    num_pages = 1300
    twins = Twins(Shape(PAGE, 32768 * num_pages, 4))
    twins.mark()
    changed = [0, 510, 511, 512, 513, 1023, 1024, 1299]
    hashes = _hashes(*[(-(-(page << 64) // num_pages), 12345) for page in changed])

    twins.call("add_many", hashes, NO_LIMIT)

    pages, groups = twins.marks[0]
    assert [i for i, mark in enumerate(pages) if mark] == changed
    assert list(groups) == [1, 1, 1]
    assert twins.call("pages_of", hashes) == changed
    for marks in twins.marks:
        marks[0][:] = bytes(num_pages)
    twins.call("add_many", hashes, NO_LIMIT)
    assert not any(twins.marks[0][0])  # known keys change nothing


def test_only_pages_that_change_are_marked() -> None:
    """A classic key, one of whose bits was set before."""
    twins = Twins(Shape(CLASSIC, 32768 * 20, 3))
    twins.mark()
    bits = reference.probes(CLASSIC, 32768 * 20, 3, 2**63, 2**62)
    for payload in twins.payloads:
        payload[bits[0] >> 3] |= 1 << (bits[0] & 7)

    assert twins.call("add_many", _hashes((2**63, 2**62)), 1) == (1, 1, 0)

    changed = [page for page, mark in enumerate(twins.marks[0][0]) if mark]
    assert changed == sorted({bit // 32768 for bit in bits[1:]})
    assert bits[0] // 32768 not in changed


@pytest.mark.parametrize(("layout", "writes"), [(LINE, 1), (COUNTERS, 2)])
def test_the_kernel_has_marks_written_after_a_quick_change(layout: int, writes: int) -> None:
    """A Bloom filter that knows the key has not changed; a counter has. A removal always has."""
    twins = Twins(Shape(layout, 512, 7))
    twins.mark()
    small = twins.filters[0]

    small.add("ada")
    small.add("ada")

    assert small.num_writes == writes
    if layout == COUNTERS:
        small._remove("ada")
        assert small.num_writes == writes + 1


@BOTH
@pytest.mark.parametrize(("num_pages", "num_groups"), [(512, 1), (513, 0), (513, 1), (0, 2)])
def test_too_few_marks_are_refused(engine: ModuleType, num_pages: int, num_groups: int) -> None:
    """Else a change would write behind them."""
    view = view_of(engine, Shape(PAGE, 32768 * 513, 4), bytearray(4096 * 513))
    with pytest.raises(
        ValueError, match=f"{num_pages} pages and {num_groups} groups; .* 513 pages"
    ):
        view.mark(bytearray(num_pages), bytearray(num_groups))
    marks = bytearray(513), bytearray(2)
    view.mark(*marks)
    with pytest.raises(BufferError):
        marks[0].clear()


@BOTH
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_view_for_reading_changes_nothing(engine: ModuleType, layout: int) -> None:
    """Even where the memory could be written; and only counters can be counted down."""
    payload = bytearray(4096)
    shape = Shape(layout, 8192 if layout == COUNTERS else 32768, 5)
    reader = view_of(engine, shape, payload, writable=False)
    with pytest.raises(ValueError, match="no key can be added"):
        reader.add_many(bytes(16), 1)
    with pytest.raises(ValueError, match="no key can be removed"):
        reader.remove_many(bytes(16))
    if layout != COUNTERS:
        writer = view_of(engine, shape, payload)
        with pytest.raises(ValueError, match="no key can be removed"):
            writer.remove_many(bytes(16))
    assert not any(payload)


# -- looking up ------------------------------------------------------------------------------------


@given(
    shape=shapes(),
    seed=st.integers(0, 9),
    num_keys=st.sampled_from([0, 1, 31, 32, 33, 64, 200]),
)
def test_a_batch_and_single_calls_give_the_same_answers(
    beside_a_thread: BesideAThread, shape: Shape, seed: int, num_keys: int
) -> None:
    """A payload of noise makes both answers frequent; the kernel prefetches 32 keys ahead."""
    Twins(shape, _noise(shape, seed)).answers(_random_keys(seed, num_keys), beside_a_thread)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_answers_agree_for_every_number_of_probes(
    beside_a_thread: BesideAThread, layout: int
) -> None:
    """AVX2 takes up to 8 probes of a line in one step and up to 16 in two; all are tried."""
    keys = _random_keys(layout, 120)
    for num_probes in range(1, MOST_PROBES[layout] + 1):
        shape = Shape(layout, 65536, num_probes)
        twins = Twins(shape, _noise(shape, num_probes))

        answers = twins.answers(keys, beside_a_thread)

        assert {True, False} == set(answers)
        if layout == COUNTERS:
            hashes = _hashes_of(keys)
            counts = [twins.call("count_of", hashes[i : i + 16]) for i in range(0, 16 * 120, 16)]
            assert [count > 0 for count in counts] == answers


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("num_keys", [1, 63, 64, 65, 127, 128, 129, 500])
def test_answers_agree_in_a_payload_larger_than_the_caches(
    beside_a_thread: BesideAThread, layout: int, num_keys: int
) -> None:
    """From 64 MiB on the kernel asks for the lines of 64 keys at once."""
    shape = Shape(layout, 2**20 * (128 if layout == COUNTERS else 512), 5)
    keys = _random_keys(num_keys, num_keys)
    twins = Twins.__new__(Twins)
    twins.payloads = []
    twins.views = [view_of(engine, shape, bytearray(shape.num_bytes)) for engine in ENGINES]
    twins.filters = [filter_of(*each) for each in zip(ENGINES, twins.views, strict=True)]
    for view in twins.views:
        half = -(-num_keys // 2)
        assert view.add_many(_hashes_of(keys[::2]), NO_LIMIT) == (half, half, 0)

    answers = twins.answers(keys, beside_a_thread)

    assert answers == [i % 2 == 0 for i in range(num_keys)]


@pytest.mark.parametrize("num_keys", [0, 1, 511, 512, 513, 1025])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["bytes", "trimmed", "ucs4", "offsets", "lines", "missing field"])
def test_every_kind_of_batch_gets_the_answers_of_its_hashes(
    kind: str, layout: int, num_keys: int
) -> None:
    """Memory goes through its own pipeline, 512 keys at a time: hash and look-up fused."""
    shape = Shape(layout, 32768, 5)
    twins = Twins(shape, _noise(shape, layout))
    results = []
    for engine, view in zip(ENGINES, twins.views, strict=True):
        batch = _batch_of(engine, kind, num_keys)
        fused, apart = bytearray(len(batch)), bytearray(len(batch))
        count = _outcome(view.contains_batch, batch, fused)
        if kind != "missing field":
            assert count == num_keys
            view.contains_hashes(engine.hash_batch(batch, 0, 0), apart)
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


@BOTH
def test_answers_that_do_not_fit_are_refused_before_any_is_written(engine: ModuleType) -> None:
    """The room for answers is counted against the batch, and against the hashes."""
    view, room = view_of(engine, Shape(LINE, 512, 7), bytearray(64)), bytearray(b"??")
    with pytest.raises(ValueError, match="out holds 2 answers; the batch may have 3 keys"):
        view.contains_batch(engine.ObjectBatch(["a", "b", "c"]), room)
    with pytest.raises(ValueError, match="maybe holds 2 answers for 3 hashes"):
        view.contains_hashes(bytes(48), room)
    assert room == b"??"


@BOTH
def test_only_counters_have_a_count(engine: ModuleType) -> None:
    """And a hash has 16 bytes."""
    with pytest.raises(ValueError, match="this layout has no counters"):
        view_of(engine, Shape(LINE, 512, 7), bytearray(64)).count_of(bytes(16))
    counters = view_of(engine, Shape(COUNTERS, 128, 7), bytearray(64))
    with pytest.raises(ValueError, match="a hash has 16 bytes, not 17"):
        counters.count_of(bytes(17))
    counters.add_many(bytes(16) * 3, NO_LIMIT)
    assert counters.count_of(bytes(16)) >= 3


# -- the payload -----------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (Shape(CLASSIC, 0, 7), "the payload needs 0 bytes"),
        (Shape(CLASSIC, 513, 7), "needs 65 bytes; the buffer has 64"),
        (Shape(CLASSIC, 2**63, 7), f"needs {2**60} bytes; the buffer has 64"),
        (Shape(LINE, 1024, 7), "needs 128 bytes; the buffer has 64"),
        (Shape(COUNTERS, 0, 7), "the payload needs 0 bytes"),
        (Shape(COUNTERS, 256, 7), "needs 128 bytes; the buffer has 64"),
        (Shape(COUNTERS, 127, 7), "needs 63 bytes: not whole blocks of 64"),
        (Shape(LINE, 256, 7), "needs 32 bytes: not whole blocks of 64"),
        (Shape(PAGE, 512, 7), "needs 64 bytes: not whole blocks of 4096"),
        (Shape(LINE, 512, 17), "num_probes is 17, not 1 to 16"),
        (Shape(CLASSIC, 512, 65), "num_probes is 65, not 1 to 64"),
        (Shape(NARROW, 512, 0), "num_probes is 0, not 1 to 16"),
    ],
    ids=str,
)
def test_a_shape_that_reaches_beyond_the_payload_is_refused(
    engine: ModuleType, shape: Shape, text: str
) -> None:
    """Bounds are checked here, once; the kernel trusts them."""
    with pytest.raises(ValueError, match=text):
        view_of(engine, shape, bytearray(64))


@BOTH
@pytest.mark.parametrize(("layout", "scheme"), [(0, 0), (1, 2), (2, 7), (8, 4), (7, 7)])
def test_an_unknown_layout_is_refused(engine: ModuleType, layout: int, scheme: int) -> None:
    """Layout and probe scheme name the rule together."""
    text = f"layout {layout} with probe scheme {scheme} is unknown"
    with pytest.raises(ValueError, match=text):
        engine.View(bytearray(64), layout, scheme, (512, 7), 0, 0)


@BOTH
def test_memory_that_cannot_be_written_is_not_taken_for_writing(engine: ModuleType) -> None:
    """A reader's map is read-only: adding to it would be a crash, not an error."""
    for payload in (bytes(64), memoryview(bytearray(64)).toreadonly()):
        with pytest.raises(BufferError):
            view_of(engine, Shape(LINE, 512, 7), payload)
        assert view_of(engine, Shape(LINE, 512, 7), payload, writable=False).seed == 0


@BOTH
def test_the_payload_is_held_as_long_as_the_view_lives(engine: ModuleType) -> None:
    """And let go with it; a part of a larger object is taken as that part."""
    memory = bytearray(192)
    view = view_of(engine, Shape(LINE, 512, 7), memoryview(memory)[64:128])
    view.add_many(bytes(range(16)), 1)

    with pytest.raises(BufferError):
        memory += b"moved"
    del view
    memory += b"moved"

    assert any(memory[64:128])
    assert not any(memory[:64] + memory[128:192])


@BOTH
@pytest.mark.parametrize("cycle", ["list", "traceback"])
def test_a_view_in_a_cycle_with_its_memoryview_is_collected(engine: ModuleType, cycle: str) -> None:
    """CPython 3.11 crashes where a memoryview is cleared while something holds its buffer."""

    def fail() -> None:
        payload = memoryview(memory)
        view = view_of(engine, Shape(LINE, 512, 7), payload)
        view.load_pages = [view].append  # a cycle of its own, in which the view is cleared first
        if cycle == "list":
            knot: list[object] = [payload, view]
            knot.append(knot)
            return
        try:
            view.count_of(b"")
        except ValueError as exc:
            kept = exc  # the frame holds the error, and the error's traceback holds the frame
            assert kept.__traceback__ is not None

    memory = bytearray(64)
    gc.collect()
    for _ in range(20):
        fail()

    assert gc.collect() > 0
    memory += b"no longer held"


@BOTH
@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python classes have no buffers before")
def test_an_object_whose_buffers_differ_is_refused(engine: ModuleType) -> None:
    """The memory that was checked would not be the memory that is held."""

    class Changing:
        def __buffer__(self, _flags: int) -> memoryview:
            return memoryview(bytearray(64))

    if engine is reference:
        assert view_of(engine, Shape(LINE, 512, 7), Changing()).add_many(bytes(16), 1)[0] == 1
    else:
        with pytest.raises(BufferError, match="not part of the memory"):
            view_of(engine, Shape(LINE, 512, 7), Changing())


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
    for engine in ENGINES:
        with mmap.mmap(-1, num_bits // 8) as memory:
            view = view_of(engine, Shape(CLASSIC, num_bits, 7), memory)
            small = filter_of(engine, view)
            assert view.add_many(_hashes(*pairs[:-1]), NO_LIMIT) == (300, 300, 0)
            assert small.add(keys[-1])
            answers = bytearray(300)
            view.contains_batch(engine.ObjectBatch(keys), answers)
            del small, view

            assert answers == bytes([1]) * 300
            assert all(memory[bit >> 3] >> (bit & 7) & 1 for bit in bits)
            assert kernel.popcount(memory) == len(bits)


# -- the core --------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", ["__contains__", "might_contain", "add", "_remove"])
def test_a_closed_filter_refuses(engine: ModuleType, name: str) -> None:
    """The hook says how."""
    small = filter_of(engine, view_of(engine, Shape(COUNTERS, 128, 7), bytearray(64)))
    small._use(None)

    assert small.closed
    with pytest.raises(ClosedError):
        getattr(small, name)(b"key")


@BOTH
def test_a_core_without_hooks_answers_and_changes_nothing(engine: ModuleType) -> None:
    """A closed one raises, and does not wait for a view."""
    core = engine.Core()
    with pytest.raises(ClosedError):
        _ = b"key" in core
    core._use(view_of(engine, Shape(COUNTERS, 128, 7), bytearray(64)))
    core._rest(0)
    assert b"key" not in core
    for change in (core.add, core._remove):
        with pytest.raises(NotImplementedError):
            change(b"key")


@BOTH
def test_a_core_without_a_view_asks_its_hook_until_it_has_one(engine: ModuleType) -> None:
    """A hook that opens the filter again need not raise."""
    again = view_of(engine, Shape(LINE, 512, 7), bytearray(b"\xff" * 64))

    class Reopening(SMALL[engine.ENGINE]):  # type: ignore[misc,valid-type,name-defined]
        calls = 0

        def _check_open(self) -> None:
            self.calls += 1
            if self.calls == 3:
                self._use(again)

    reopening = Reopening()

    assert b"key" in reopening
    assert reopening.calls == 3


@BOTH
@pytest.mark.parametrize("name", ["__contains__", "add", "_remove"])
def test_a_key_that_closes_or_replaces_the_view_is_hashed_again(
    engine: ModuleType, name: str
) -> None:
    """A key may run Python code while it is converted to bytes."""

    class Evil(bytearray):
        views: list[Any]

        def __bytes__(self) -> bytes:
            small._use(self.views.pop())
            return b"ada"

    new = view_of(engine, Shape(COUNTERS, 256, 7), bytearray(128), seed=9)
    new.add_many(engine.hash_batch(engine.ObjectBatch([b"ada"]), 9, 0), 1)
    old = view_of(engine, Shape(COUNTERS, 128, 7), bytearray(64))
    small = filter_of(engine, new)
    small._use(old)
    small._is_quick, small._num_keys = True, 1
    key = Evil()
    key.views = [new, new]

    assert getattr(small, name)(key) is (name != "add")
    small._use(old)
    key.views = [None]
    with pytest.raises(ClosedError):
        getattr(small, name)(key)


@BOTH
def test_a_core_changes_to_another_view_in_one_step(engine: ModuleType) -> None:
    """The old payload is free at once."""
    old, new = bytearray(64), bytearray(4096)
    small = filter_of(engine, view_of(engine, Shape(PAGE, 32768, 9), new, seed=2))
    for number in range(3):
        small.add(f"{number:08x}")
    small._use(view_of(engine, Shape(LINE, 512, 4), old, seed=1))
    assert "00000000" not in small

    small._use(view_of(engine, Shape(PAGE, 32768, 9), new, seed=2))

    old += b"no longer exported"
    assert [f"{i:08x}" in small for i in range(6)] == [True] * 3 + [False] * 3


@BOTH
def test_a_following_core_calls_its_hook_when_it_is_time(engine: ModuleType) -> None:
    """Before the look-up of one key; not in between; and an error there is one of the look-up."""

    class Following(engine.Core):  # type: ignore[misc,name-defined]
        seconds, calls = 0.0, 0

        def _look_at_path(self) -> None:
            self.calls += 1
            self._rest(self.seconds)
            if self.calls == 4:
                raise ClosedError("gone")

    core = Following()
    view = view_of(engine, Shape(LINE, 512, 4), bytearray(64))
    core._use(view)
    view.add_many(engine.hash_batch(engine.ObjectBatch(["ada"]), 0, 0), 1)
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


@BOTH
def test_pages_are_loaded_before_a_single_look_up_reads_them(engine: ModuleType) -> None:
    """What load_pages returns is entered, and left after the answer."""
    events: list[object] = []

    class Loaded:
        def __init__(self, pages: list[int]) -> None:
            events.append(pages)

        def __enter__(self) -> None:
            events.append("in")

        def __exit__(self, *_error: object) -> None:
            events.append("out")

    shape = Shape(CLASSIC, 32768 * 20, 3)
    view = view_of(engine, shape, bytearray(shape.num_bytes))
    view.load_pages = Loaded
    small = filter_of(engine, view)

    assert b"key" not in small
    assert events == [view.pages_of(_hashes_of([b"key"])), "in", "out"]


@given(st.lists(st.tuples(WORDS, WORDS), max_size=30), st.integers(0, 30))
def test_the_latest_keys_are_the_last_eight(pairs: list[tuple[int, int]], cut: int) -> None:
    """Noted in one call or in two."""
    for engine in ENGINES:
        core = engine.Core()
        core._note(_hashes(*pairs[:cut]))
        core._note(_hashes(*pairs[cut:]))
        assert core._latest == pairs[-8:]
