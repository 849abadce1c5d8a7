"""Unions of files, written in one sweep."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filter_files import NEVER, facts_of, keys, payload_of, writable_file

import mmbloom
from mmbloom import (
    BloomFilter,
    CapacityError,
    ChecksumError,
    IncompatibleError,
    LockHeldError,
    ParameterError,
    ParameterTypeError,
)
from mmbloom.kinds.kind import BLOCK_BYTES
from mmbloom.operations import merging

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FPR = 0.001


def built(path: Path, count: int, start: int = 0, **given: object) -> Path:
    """Build a file that can be united with the others."""
    parameters: dict[str, object] = {"fpr": FPR, "capacity": 6000, "layout": "line"} | given
    mmbloom.build(path, keys(count, start), **parameters).close()  # type: ignore[arg-type]
    return path


@pytest.fixture
def days(tmp_path: Path, layout: str) -> list[Path]:
    """Return three files of 2000 keys, of which neighbours have 500 in common: 5000 in all."""
    starts = (0, 1500, 3000)
    return [built(tmp_path / f"{i}.mmb", 2000, i, layout=layout) for i in starts]


def test_the_union_is_the_filter_of_the_keys_of_all(
    days: list[Path], tmp_path: Path, layout: str
) -> None:
    """Every bit of it, sealed, with canaries of each file."""
    whole = mmbloom.open(built(tmp_path / "whole.mmb", 5000, layout=layout))
    with whole, mmbloom.merge(tmp_path / "union.mmb", days) as union:
        assert union == whole
        assert union.expected_fpr() == whole.expected_fpr()
        assert union.verify() == whole.geometry.payload_bytes
        assert (union.sealed, union.capacity, union.fpr) == (True, 6000, FPR)
        assert union.info()["generation"] == 1
        canaries = union._opened.status.canaries
        assert len(canaries) == 8
        assert {
            next(iter(file._opened.status.canaries)) for file in map(mmbloom.open, days)
        } <= set(canaries)


def test_the_count_of_a_union_is_an_estimate_and_says_so(days: list[Path], tmp_path: Path) -> None:
    """Two estimates of up to 5000 keys, each with a sigma of 0.5 % at most: 5 sigma of both."""
    with mmbloom.merge(tmp_path / "union.mmb", days) as union:
        assert union.keys_added == pytest.approx(5000, abs=5 * 25 * 2**0.5)
        assert not union.info()["keys_exact"]
        assert union.info()["key_set"] is None
        count = mmbloom.union_count(days)
        assert count.keys == union.keys_added
        assert count.expected_fpr == union.expected_fpr()
    assert (count.keys_each, count.repeated) == ((2000,) * 3, 6000 - count.keys)
    assert (count.exact, count.fits, count.capacity) == (False, True, 6000)
    assert len(list(tmp_path.iterdir())) == 4  # union_count() wrote nothing


def test_files_of_one_list_have_an_exact_union(tmp_path: Path, layout: str) -> None:
    """Their fingerprints are equal, so it holds the same keys; metadata may differ."""
    both = [
        built(tmp_path / f"{name}.mmb", 300, layout=layout, metadata={"name": name})
        for name in ("a", "b")
    ]

    with mmbloom.merge(tmp_path / "union.mmb", both) as union, mmbloom.open(both[0]) as first:
        assert union == first
        assert (union.keys_added, union.metadata) == (300, {"name": "a"})
        assert union.info()["keys_exact"]
        assert union.info()["key_set"] == first.info()["key_set"]
        assert union.uuid != first.uuid
    count = mmbloom.union_count(both)
    assert (count.keys, count.exact, count.repeated) == (300, True, 300)


def test_a_union_of_as_many_keys_as_the_capacity_is_never_refused(
    tmp_path: Path, layout: str
) -> None:
    """Its estimate may be above by chance."""
    for seed in range(5):
        some = {"capacity": 2000, "layout": layout, "seed": seed}
        halves = [built(tmp_path / f"{seed}-{i}.mmb", 1000, i, **some) for i in (0, 1000)]
        with mmbloom.merge(tmp_path / f"{seed}.mmb", halves) as union:
            assert union.keys_added <= 2000


def test_a_union_past_the_capacity_is_refused_with_both_numbers(tmp_path: Path) -> None:
    """Before anything is published; and written when that is asked for."""
    halves = [built(tmp_path / f"{i}.mmb", 2000, i, capacity=2000) for i in (0, 2000)]
    path = tmp_path / "union.mmb"

    with pytest.raises(CapacityError) as caught:
        mmbloom.merge(path, halves)

    estimated = int(re.search(r"with about (\d+) keys", str(caught.value))[1])  # type: ignore[index]
    assert estimated == pytest.approx(4000, rel=0.05)
    assert caught.value.capacity == 2000
    assert str(path) in caught.value.where
    assert not mmbloom.union_count(halves).fits
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0.mmb", "2000.mmb"]
    with mmbloom.merge(path, halves, overfill=True) as union:
        assert union.keys_added == estimated
        assert union.expected_fpr() > FPR
        assert union.contains_many(keys(4000)).all()


def test_files_that_do_not_answer_alike_are_refused_by_name(tmp_path: Path) -> None:
    """The first field that differs, its values, and which file has which."""
    left, right = built(tmp_path / "a.mmb", 9), built(tmp_path / "b.mmb", 9, seed=5)

    for use in (
        lambda: mmbloom.merge(tmp_path / "c.mmb", [left, right]),
        lambda: mmbloom.union_count([left, right]),
    ):
        with pytest.raises(IncompatibleError) as caught:
            use()
        assert caught.value.field == "seed"
        assert (caught.value.left, caught.value.right) == (f"0 in {left}", f"5 in {right}")
    assert not (tmp_path / "c.mmb").exists()


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("part", ["payload", "table"])
def test_a_damaged_file_is_not_united(tmp_path: Path, place: str, part: str) -> None:
    """The union would have the damage, under sound checksums."""
    files = [built(tmp_path / f"{i}.mmb", 500, i) for i in (0, 100, 200)]
    damaged = files[0 if place == "first" else -1]
    data = bytearray(damaged.read_bytes())
    data[-1 if part == "table" else 4096 + 999] ^= 16
    damaged.write_bytes(data)

    with pytest.raises(ChecksumError, match=damaged.name):
        mmbloom.merge(tmp_path / "union.mmb", files)
    with pytest.raises(ChecksumError, match=damaged.name):
        mmbloom.union_count(files)

    assert len(list(tmp_path.iterdir())) == 3


def test_the_mib_that_is_damaged_is_named(tmp_path: Path) -> None:
    """Whatever block it is in; here the tenth MiB, in the second block of 8 MiB."""
    path = tmp_path / "a.mmb"
    made = BloomFilter.in_memory(capacity=9_000_000, fpr=0.01, layout="classic")
    with made:
        made.save(path)
    with path.open("r+b") as file:
        file.seek(4096 + BLOCK_BYTES + (1 << 20) + 5)
        file.write(b"\1")

    with pytest.raises(ChecksumError, match="MiB 9 of the payload"):
        mmbloom.merge(tmp_path / "b.mmb", [path])


def test_files_that_are_written_are_read_as_they_are_now(tmp_path: Path, layout: str) -> None:
    """What a writer has added is in, counted or not, flushed or not; its file stays as it is."""
    given = {"capacity": 6000, "fpr": FPR, "layout": layout}
    path = writable_file(tmp_path / "growing.mmb", count=1000, **given)
    with mmbloom.open_writable(path) as writer:
        writer.update(keys(1000, start=1000))
        before = facts_of(path)
        sealed = built(tmp_path / "sealed.mmb", 100, 1950, layout=layout)
        with mmbloom.merge(tmp_path / "union.mmb", [sealed, path]) as union:
            assert union.contains_many(keys(2050)).all()
            assert union.keys_added == pytest.approx(2050, rel=0.1)
        each = mmbloom.union_count([sealed, path]).keys_each
        assert each[0] == 100
        assert 1800 <= each[1] <= 2000  # not more than there are, and no less than 4 sigma
        assert facts_of(path) == before


def test_canaries_that_a_writer_cleared_are_left_out(tmp_path: Path, layout: str) -> None:
    """With them the union would be refused as damaged when it is opened."""
    path = writable_file(tmp_path / "a.mmb", count=50, layout=layout)
    with merging._Union([path]) as union:
        assert len(union.first.status.canaries) == 8
        with mmbloom.open_writable(path) as writer:
            writer.clear()
        for _ in union.blocks():
            pass
        assert union.status((0, 0) if layout == "page" else (0,)).canaries == ()


def test_equal_files_give_equal_unions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """UUID included, where the date is given."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    files = [built(tmp_path / f"{i}.mmb", 500, i) for i in (0, 400)]

    for name in "cd":
        mmbloom.merge(tmp_path / f"{name}.mmb", files).close()
    mmbloom.merge(tmp_path / "e.mmb", files[:1]).close()

    assert (tmp_path / "c.mmb").read_bytes() == (tmp_path / "d.mmb").read_bytes()
    with mmbloom.open(tmp_path / "c.mmb") as union, mmbloom.open(tmp_path / "e.mmb") as other:
        assert union.info()["created"] == "2023-11-14T22:13:20+00:00"
        assert union.uuid != other.uuid


def test_a_union_may_replace_one_of_its_files(tmp_path: Path) -> None:
    """The next generation; without being asked it replaces nothing."""
    files = [built(tmp_path / f"{i}.mmb", 500, i) for i in (0, 400)]

    with pytest.raises(FileExistsError):
        mmbloom.merge(files[0], files)
    with mmbloom.merge(files[0], files, if_exists="replace") as union:
        assert union.contains_many(keys(900)).all()
        assert union.info()["generation"] == 2


def test_nobody_writes_to_a_file_that_its_union_will_replace(tmp_path: Path, layout: str) -> None:
    """Not from the first byte that is read on: what a writer adds then would be lost."""
    path = writable_file(tmp_path / "a.mmb", count=50, layout=layout)
    refused: list[str] = []

    def write_meanwhile(_at: mmbloom.Progress) -> None:
        with pytest.raises(LockHeldError) as caught:
            mmbloom.open_writable(path)
        refused.append(str(caught.value))

    with mmbloom.merge(path, [path], if_exists="replace", progress=write_meanwhile) as union:
        assert union.contains_many(keys(50)).all()
    assert refused
    other = writable_file(tmp_path / "b.mmb", count=50, layout=layout)
    mmbloom.merge(tmp_path / "c.mmb", [other]).close()
    with mmbloom.open_writable(other) as writer:
        writer.add("afterwards")


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    """Of the payload, up to its end."""
    path, told = built(tmp_path / "a.mmb", 500), list[tuple[int, int]]()
    total = path.stat().st_size - 4096 - 8

    mmbloom.merge(tmp_path / "b.mmb", [path], progress=lambda at: told.append(at[1:3])).close()
    mmbloom.union_count([path], progress=lambda at: told.append(at[1:3]))

    assert told == [(total, total)] * 2


@pytest.mark.parametrize(
    ("paths", "error"),
    [
        pytest.param([], ParameterError, id="none"),
        pytest.param("a.mmb", ParameterTypeError, id="one-str"),
        pytest.param(Path("a.mmb"), ParameterTypeError, id="one-path"),
    ],
)
def test_paths_are_a_list_of_them(
    paths: Sequence[Path], error: type[Exception], tmp_path: Path
) -> None:
    """The letters of a name are no files."""
    uses: list[Callable[[], object]] = [
        lambda: mmbloom.merge(tmp_path / "b.mmb", paths),
        lambda: mmbloom.union_count(paths),
    ]
    for use in uses:
        with pytest.raises(error, match="sources: expected"):
            use()


def resident_bytes(path: Path) -> int:
    """Return how much of a file this process has in its maps."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    sizes, inside = 0, False
    for line in lines:
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            sizes += 1024 * int(line.split()[1])
    return sizes


def test_what_was_united_does_not_stay_in_memory(tmp_path: Path) -> None:
    """A sweep over 24 MiB leaves no more than the header and what read-ahead maps around it."""
    path = tmp_path / "a.mmb"
    with BloomFilter.in_memory(capacity=20_000_000, fpr=0.01, layout="classic") as made:
        made.save(path)

    with merging._Union([path]) as union:
        seen = [resident_bytes(path) for _ in union.blocks()]

    assert len(seen) == 3
    assert max(seen) <= 1 << 20


def test_a_union_of_a_union_is_one(tmp_path: Path) -> None:
    """Estimated counts are taken as they are."""
    days = [built(tmp_path / f"{i}.mmb", 1000, i) for i in (0, 500, 1000)]
    mmbloom.merge(tmp_path / "two.mmb", days[:2]).close()

    with (
        mmbloom.merge(tmp_path / "steps.mmb", [tmp_path / "two.mmb", days[2]]) as steps,
        mmbloom.merge(tmp_path / "once.mmb", days) as once,
    ):
        assert payload_of(steps) == payload_of(once)
        assert steps.keys_added == pytest.approx(once.keys_added, rel=0.05)
        assert NEVER < steps.expected_fpr() < FPR
