"""Unions of counting files: counters are added up, and keys can be removed from the result."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from filter_files import keys

import mmbloom
from mmbloom import (
    CapacityError,
    ChecksumError,
    CountingBloomFilter,
    IncompatibleError,
    WrongKindError,
)
from mmbloom.operations import merging

if TYPE_CHECKING:
    from pathlib import Path

FPR = 0.001


def counted(path: Path, count: int, start: int = 0, **given: object) -> Path:
    """Build a counting file that can be united with the others."""
    parameters: dict[str, object] = {"fpr": FPR, "capacity": 6000} | given
    mmbloom.build(path, keys(count, start), kind="counting", **parameters).close()  # type: ignore[arg-type]
    return path


def saved(path: Path, *parts: list[str]) -> Path:
    """Save a sealed counting file to which each of *parts* was added."""
    with CountingBloomFilter.in_memory(capacity=6000, fpr=FPR) as made:
        for part in parts:
            made.update(part)
        made.save(path)
    return path


def test_the_union_is_the_filter_to_which_the_keys_of_all_were_added(tmp_path: Path) -> None:
    """Counter by counter, from sealed files and others; a key of two files is removed twice."""
    first, second = counted(tmp_path / "a.mmb", 2000), counted(tmp_path / "b.mmb", 2000, 1500)
    third = saved(tmp_path / "c.mmb", *[keys(20)] * 16)
    with CountingBloomFilter.in_memory(capacity=6000, fpr=FPR) as whole:
        for some in (keys(2000), keys(2000, 1500), *[keys(20)] * 16):
            whole.update(some)
        with mmbloom.merge(tmp_path / "all.mmb", [first, second, third]) as union:
            assert isinstance(union, CountingBloomFilter)
            assert union == whole
            assert (union.sealed, union.info()["writer_open"]) == (False, False)
            assert union.num_saturated == whole.num_saturated > 0
            assert union.keys_added == pytest.approx(3500, abs=5 * 18 * 2**0.5)
            assert union.keys_added == mmbloom.union_count([first, second, third]).keys
    shared = keys(500, 1500)
    with mmbloom.open_writable(tmp_path / "all.mmb") as writer:
        assert isinstance(writer, CountingBloomFilter)
        writer.remove_many(shared)
        assert writer.contains_many(shared).all()
        writer.remove_many(shared)
        assert not writer.contains_many(shared).all()
        assert writer.contains_many(keys(1500)).all()


def test_files_of_one_list_have_a_union_of_an_exact_count(tmp_path: Path) -> None:
    """Until one of them changes."""
    first, second = (counted(tmp_path / f"{name}.mmb", 1000) for name in "ab")
    assert mmbloom.union_count([first, second])[:3] == (1000, True, (1000, 1000))
    with mmbloom.open_writable(second) as writer:
        writer.add(keys(1)[0])
        assert not mmbloom.union_count([first, second]).exact
    assert not mmbloom.union_count([first, second]).exact


def test_a_union_past_the_capacity_is_refused(tmp_path: Path) -> None:
    """Unless it is asked for."""
    files = [counted(tmp_path / f"{i}.mmb", 1000, 1000 * i, capacity=1000) for i in range(2)]
    with pytest.raises(CapacityError, match=re.escape("the union of 2 files")):
        mmbloom.merge(tmp_path / "all.mmb", files)
    assert not (tmp_path / "all.mmb").exists()
    with mmbloom.merge(tmp_path / "all.mmb", files, overfill=True) as union:
        assert union.contains_many(keys(2000)).all()


def test_a_damaged_file_is_not_united(tmp_path: Path) -> None:
    """A sealed one is compared with its checksums."""
    path = saved(tmp_path / "a.mmb", keys(100))
    data = bytearray(path.read_bytes())
    data[4096 + 700] ^= 16
    path.write_bytes(data)
    with pytest.raises(ChecksumError):
        mmbloom.merge(tmp_path / "all.mmb", [path, path])
    assert not (tmp_path / "all.mmb").exists()


def test_filters_of_several_kinds_are_refused_by_name(tmp_path: Path) -> None:
    """Bits and counters are not the same thing; a fuse filter has neither."""
    counting = counted(tmp_path / "a.mmb", 5)
    mmbloom.build(tmp_path / "b.mmb", keys(5), fpr=FPR, capacity=6000).close()
    mmbloom.build(tmp_path / "c.mmb", keys(5), fpr=FPR, kind="fuse").close()
    with pytest.raises(IncompatibleError, match="kind: counting in") as caught:
        mmbloom.merge(tmp_path / "all.mmb", [counting, tmp_path / "b.mmb"])
    assert caught.value.field == "kind"
    for first in ("a.mmb", "b.mmb"):
        with pytest.raises(WrongKindError) as wrong:
            mmbloom.merge(tmp_path / "all.mmb", [tmp_path / first, tmp_path / "c.mmb"])
        assert (wrong.value.expected, wrong.value.found) == ("bloom or counting", "fuse")


def test_a_union_is_made_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As memory must not depend on the size of the files."""
    paths = [counted(tmp_path / f"{i}.mmb", 1000, 500 * i) for i in (0, 1)]
    with mmbloom.merge(tmp_path / "whole.mmb", paths) as whole:
        assert whole.geometry.payload_bytes > 8 * 4096
        monkeypatch.setattr(merging, "BLOCK_BYTES", 4096)
        with mmbloom.merge(tmp_path / "blocks.mmb", paths) as blocks:
            assert blocks == whole
