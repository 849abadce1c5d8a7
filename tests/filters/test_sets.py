"""Two filters together: union, intersection, and what keeps them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from filter_files import NEVER, keys, payload_of

import mmbloom
from mmbloom import BloomFilter, CapacityError, ChecksumError, IncompatibleError, ReadOnlyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Make = Callable[..., BloomFilter]

CAPACITY = 1000


@pytest.fixture(params=["in memory", "in a file"])
def make(request: pytest.FixtureRequest, layout: str, tmp_path: Path) -> Iterator[Make]:
    """Return a function that makes a filter of some keys in one place; the end closes them."""
    made: list[BloomFilter] = []

    def make_one(some: list[str] | None = None, **given: object) -> BloomFilter:
        parameters: Any = {"capacity": CAPACITY, "fpr": NEVER, "layout": layout} | given
        if request.param == "in memory":
            made.append(BloomFilter.in_memory(**parameters))
        else:
            path = tmp_path / f"{len(made)}.mmb"
            made.append(BloomFilter.create(path, **parameters))
        made[-1].update(some or [])
        return made[-1]

    yield make_one
    for filter_ in made:
        filter_.close()


def test_a_union_is_exactly_the_filter_of_both(make: Make, layout: str) -> None:
    """Byte for byte; it lives in memory, and neither side is changed."""
    left, right, both = make(keys(300)), make(keys(300, start=200)), make(keys(500))
    before = payload_of(left), payload_of(right)

    with left | right as union:
        assert union == both
        assert (union.path, union.writable, union.layout) == (None, True, layout)
        assert (union.capacity, union.fpr) == (CAPACITY, NEVER)
        assert union.keys_added == pytest.approx(500, abs=5)
    assert (payload_of(left), payload_of(right)) == before


def test_a_union_in_place_adds_every_key_of_the_other(make: Make) -> None:
    """The variable keeps its filter, and the other one is not changed."""
    left, right, both = make(keys(300)), make(keys(300, start=200)), make(keys(500))
    name = left
    before = payload_of(right)
    left |= right

    assert left is name
    assert left == both
    assert left.keys_added == pytest.approx(500, abs=5)
    assert payload_of(right) == before


def test_an_intersection_has_the_common_keys_and_over_approximates(make: Make) -> None:
    """Every common key is "maybe", and so is every bit that both have for other reasons."""
    left, right, common = make(keys(300)), make(keys(300, start=200)), make(keys(100, start=200))

    with left & right as both:
        assert both.contains_many(keys(100, start=200)).all()
        assert 100 <= both.keys_added <= 300
        assert not both.contains_many(keys(200)).any()
        with both | common as united:
            assert united == both
    left &= right
    assert left.contains_many(keys(100, start=200)).all()
    assert 100 <= left.keys_added <= 300


def test_disjoint_filters_have_next_to_nothing_in_common(make: Make) -> None:
    """An intersection can be empty, and then it is a filter like any other."""
    left, empty = make(keys(100)), make()

    with left & empty as both:
        assert (both.keys_added, both.fill_ratio()) == (0, 0.0)
    left &= empty
    assert not left.contains_many(keys(100)).any()
    assert left.add(keys(1)[0])


def test_a_filter_united_with_itself_is_the_same(make: Make) -> None:
    """Also when it is full: nothing is new, so nothing is too much."""
    full = make(keys(CAPACITY))
    before = payload_of(full)
    full |= full
    with full | full as union:
        assert union == full
        assert union.keys_added == CAPACITY
    full &= full

    assert payload_of(full) == before
    assert full.keys_added == CAPACITY


def test_a_union_of_as_many_keys_as_the_capacity_is_never_refused(make: Make) -> None:
    """Whatever the estimate says: disjoint halves, overlapping parts, a subset."""
    for left, right in (
        (keys(500), keys(500, start=500)),
        (keys(600), keys(600, start=400)),
        (keys(CAPACITY), keys(10)),
        (keys(10), keys(CAPACITY)),
    ):
        united = make(left)
        united |= make(right)

        assert united.contains_many(keys(CAPACITY)).all()
        assert united.keys_added <= CAPACITY


def test_a_union_beyond_the_capacity_is_refused_in_place_and_changes_nothing(make: Make) -> None:
    """1500 keys where 1000 fit; a union in memory tells instead, and takes no further key."""
    left, right = make(keys(800)), make(keys(700, start=800))
    before = payload_of(left), left.keys_added

    with pytest.raises(CapacityError) as caught:
        left |= right

    assert caught.value.capacity == CAPACITY
    assert (payload_of(left), left.keys_added) == before
    with left | right as union:
        assert union.keys_added == pytest.approx(1500, rel=0.02)
        assert union.expected_fpr() > NEVER
        with pytest.raises(CapacityError):
            union.add("new")


def test_overfill_lets_a_union_grow_past_the_capacity(make: Make) -> None:
    """As it lets keys."""
    left, right = make(keys(800), overfill=True), make(keys(700, start=800))
    left |= right

    assert left.contains_many(keys(1500)).all()
    assert left.keys_added == pytest.approx(1500, rel=0.02)


@pytest.mark.parametrize(
    ("other", "field"),
    [
        pytest.param({"layout": "another"}, "layout", id="layout"),
        pytest.param({"capacity": 100 * CAPACITY}, "num_bits", id="capacity"),
        pytest.param({"seed": 8}, "seed", id="seed"),
        pytest.param({"key_form": "hex"}, "key_form", id="key-form"),
    ],
)
def test_filters_that_differ_do_not_combine_and_the_field_is_named(
    make: Make, layout: str, other: dict[str, object], field: str
) -> None:
    """With both values, and neither is changed."""
    if "layout" in other:
        other = {"layout": "page" if layout == "line" else "line"}
    left, right = make(keys(20), seed=7), make(["00"], **({"seed": 7} | other))
    before = payload_of(left), payload_of(right)

    for use in (
        lambda: left | right,
        lambda: left & right,
        lambda: left.__ior__(right),
        lambda: left.__iand__(right),
    ):
        with pytest.raises(IncompatibleError, match=field) as caught:
            use()
        assert caught.value.field == field
        assert caught.value.left == getattr(left, field)
        assert caught.value.right == getattr(right, field)
    assert (payload_of(left), payload_of(right)) == before
    assert left != right


def test_filters_that_differ_in_num_probes_do_not_combine(tmp_path: Path) -> None:
    """Same size, other probes: the bits would mean something else."""
    left = BloomFilter.in_memory(capacity=3000, fpr=0.01, layout="page")
    other = next(
        (capacity, fpr)
        for capacity in range(2000, 3000, 100)
        for fpr in (0.001, 0.0001)
        for plan in [mmbloom.plan(capacity, fpr, "page")]
        if plan.num_bits == left.num_bits and plan.num_probes != left.num_probes
    )
    right = BloomFilter.in_memory(capacity=other[0], fpr=other[1], layout="page")

    with pytest.raises(IncompatibleError, match="num_probes"):
        left |= right
    left.save(tmp_path / "unchanged.mmb")


@pytest.mark.parametrize("other", [5, "text", {"a", "set"}, None])
def test_a_filter_combines_with_filters_only(make: Make, other: object) -> None:
    """A set of keys is added with update()."""
    found = make()

    for use in (
        lambda: found | other,
        lambda: found & other,
        lambda: other | found,
    ):
        with pytest.raises(TypeError, match="unsupported operand"):
            use()
    with pytest.raises(TypeError, match="unsupported operand"):
        found |= other
    with pytest.raises(TypeError, match="unsupported operand"):
        found &= other


def test_a_reader_is_combined_but_not_changed(make: Make, tmp_path: Path) -> None:
    """It gives its keys; in place it refuses."""
    writer = make(keys(10))
    make(keys(20)).save(tmp_path / "saved.mmb")
    with mmbloom.open(tmp_path / "saved.mmb") as reader:
        for use in (lambda: reader.__ior__(writer), lambda: reader.__iand__(writer)):
            with pytest.raises(ReadOnlyError):
                use()
        writer |= reader
        with reader | writer as union, reader & writer as common:
            assert union == common == writer == reader


def test_a_union_saved_to_a_file_is_verified_and_has_canaries_of_both(
    make: Make, tmp_path: Path
) -> None:
    """Opening proves that it has the keys of either side."""
    left, right = make(keys(3)), make(keys(3, start=100))

    with left | right as union:
        union.save(tmp_path / "union.mmb")

    with mmbloom.open(tmp_path / "union.mmb") as saved:
        assert len(saved._opened.status.canaries) == 6
        assert saved.verify() == saved.geometry.payload_bytes
        assert saved.keys_added == 6
        assert not saved.info()["keys_exact"]


def test_an_intersection_keeps_the_canaries_that_are_still_in(make: Make, tmp_path: Path) -> None:
    """One that is not would make the file unreadable."""
    left, right = make(keys(8)), make(keys(8, start=4))

    with left & right as both:
        both.save(tmp_path / "both.mmb")
    left &= right
    left.save(tmp_path / "left.mmb")

    for name in ("both.mmb", "left.mmb"):
        with mmbloom.open(tmp_path / name) as saved:
            assert saved.contains_many(keys(4, start=4)).all()
            assert len(saved._opened.status.canaries) >= 4


def test_a_file_that_was_cleared_or_intersected_opens_again(layout: str, tmp_path: Path) -> None:
    """The canaries of keys that are gone went first: with them it would be refused."""
    for number, shrink in enumerate((BloomFilter.clear, lambda f: f.__iand__(f.copy()))):
        path = tmp_path / f"{number}.mmb"
        with BloomFilter.create(path, capacity=50, fpr=0.01, layout=layout) as found:
            found.update(keys(50))
            found.flush()
            shrink(found)
            with mmbloom.open(path) as reader:
                assert reader == found
        with BloomFilter.open_writable(path) as again:
            again.update(keys(5))
        with mmbloom.open(path) as reader:
            assert reader.contains_many(keys(5)).all()


def test_a_damaged_file_is_not_copied_united_or_saved(layout: str, tmp_path: Path) -> None:
    """The result would have the damage, under sound checksums."""
    path = tmp_path / "a.mmb"
    mmbloom.build(path, keys(100), fpr=0.001, layout=layout).close()
    content = bytearray(path.read_bytes())
    content[4096 + 40] ^= 1
    path.write_bytes(content)
    other = BloomFilter.in_memory(capacity=100, fpr=0.001, layout=layout)

    with mmbloom.open(path) as damaged:
        for use in (
            damaged.copy,
            lambda: damaged | other,
            lambda: other | damaged,
            lambda: other & damaged,
            lambda: other.__ior__(damaged),
            lambda: damaged.save(tmp_path / "b.mmb"),
        ):
            with pytest.raises(ChecksumError, match="MiB 0"):
                use()
    assert other.fill_ratio() == 0
    assert [file.name for file in tmp_path.iterdir()] == ["a.mmb"]


def test_the_union_of_builds_with_one_capacity_is_the_build_of_all(
    layout: str, tmp_path: Path
) -> None:
    """Build a file a day with the capacity of the week, and unite them."""
    for day in range(3):
        some = keys(100, start=80 * day)
        mmbloom.build(tmp_path / f"{day}.mmb", some, fpr=0.001, capacity=300, layout=layout).close()
    whole = mmbloom.build(tmp_path / "whole.mmb", keys(260), fpr=0.001, capacity=300, layout=layout)

    with whole, mmbloom.open(tmp_path / "0.mmb") as first:
        week = first.copy()
        for day in (1, 2):
            with mmbloom.open(tmp_path / f"{day}.mmb") as other:
                week |= other
        assert week == whole
        assert week.keys_added == pytest.approx(260, abs=13)  # two estimates, sigma 3 each
