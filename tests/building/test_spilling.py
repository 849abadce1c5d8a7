"""Keys that outgrow the memory: the file is the same, spilled or not."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from build_steps import (
    IS_KERNEL,
    MANY_KEYS,
    TARGET,
    build,
    keys,
    list_of,
    names_in,
    payload_of,
    sha256_of,
)

import mmbloom
from mmbloom import MemoryBudgetError, SpillError
from mmbloom.building import loading, runs
from mmbloom.building.hashes import KeyHashes
from mmbloom.building.thread_pool import ThreadPool
from mmbloom.format.fields import HASH
from mmbloom.keys import lines
from mmbloom.kinds import bloom, bloom_assembly
from mmbloom.storage.spill import SpillFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mmbloom import Progress

MIB = 1 << 20


def key_set_of(path: Path) -> object:
    """Return the sum of the hashes of a file's keys."""
    with mmbloom.open(path) as built:
        return built.info()["key_set"]


@pytest.fixture
def wanted(tmp_path: Path, layout: str) -> Path:
    """Build from many keys in memory."""
    path = tmp_path / "wanted.mmb"
    assert build(path, keys(MANY_KEYS), layout=layout).spilled_bytes == 0
    return path


def shuffled() -> list[str]:
    """Return the keys in another order, a fifth of them twice."""
    some = keys(MANY_KEYS) + keys(MANY_KEYS // 5)
    random.Random(3).shuffle(some)  # noqa: S311 - the same order in every run
    return some


@pytest.mark.parametrize(
    ("jobs", "more_bytes"), [(1, 0), (2, 4 * MIB)], ids=["one-job", "two-jobs"]
)
def test_a_build_that_spills_makes_the_same_file(  # noqa: PLR0913, PLR0917 - fixtures
    tmp_path: Path, wanted: Path, layout: str, small_store: int, jobs: int, more_bytes: int
) -> None:
    """From Python objects and from a list, in order and out of order, on one or two threads."""
    memory = small_store + more_bytes
    lists = list_of(tmp_path / "list", shuffled())
    with mmbloom.read_list(lists) as source:
        for some in (iter(keys(MANY_KEYS)), shuffled(), source):
            path = tmp_path / "spilled.mmb"
            asked = {"layout": layout, "memory": memory, "jobs": jobs, "if_exists": "replace"}
            report = build(path, some, **asked)

            assert report.spilled_bytes > 0
            assert report.keys_added == MANY_KEYS
            assert report.is_exact
            assert payload_of(path) == payload_of(wanted)
            assert key_set_of(path) == key_set_of(wanted)
    assert names_in(tmp_path) == ["list", "spilled.mmb", "wanted.mmb"]


@pytest.mark.parametrize("block_bytes", [512, 1000, 1 << 20])
def test_the_payload_does_not_depend_on_the_size_of_text_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    """A key that begins in one text block and ends in the next is one key."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    lists = list_of(tmp_path / "list", keys(500))

    with mmbloom.read_list(lists) as source:
        build(tmp_path / "a.mmb", source)
    build(tmp_path / "b.mmb", keys(500))

    assert payload_of(tmp_path / "a.mmb") == payload_of(tmp_path / "b.mmb")


def test_standard_input_gives_the_same_file_as_a_list(tmp_path: Path, small_store: int) -> None:
    """Its length is not known; it is spilled like any list."""
    lists = list_of(tmp_path / "list", shuffled())
    saved = os.dup(0)
    with lists.open("rb") as file:
        os.dup2(file.fileno(), 0)
    try:
        with mmbloom.read_list("-") as source:
            report = build(tmp_path / "a.mmb", source, memory=small_store, jobs=1)
    finally:
        os.dup2(saved, 0)
        os.close(saved)
    build(tmp_path / "b.mmb", keys(MANY_KEYS))

    assert report.spilled_bytes > 0
    assert report.lines_read == report.keys_read == len(shuffled())
    assert payload_of(tmp_path / "a.mmb") == payload_of(tmp_path / "b.mmb")


@pytest.mark.skipif(not IS_KERNEL, reason="it hashes a million keys in a minute")
def test_memory_jobs_and_order_leave_no_trace_in_a_large_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a byte of the file differs, with the least memory, which spills, or with plenty."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    numbers = np.random.default_rng(5).integers(0, 2**63, (1_700_000, 2))
    rows = numbers.view(np.uint8)
    digests, spilled = set(), []
    for memory, jobs, some in (
        (32 * MIB, 1, rows),
        (64 * MIB, 2, rows[::-1]),
        (8 << 30, 3, rows),
    ):
        path = tmp_path / "a.mmb"
        report = build(path, some, fpr=0.01, memory=memory, jobs=jobs)
        digests.add(sha256_of(path))
        spilled.append(report.spilled_bytes > 0)
        path.unlink()
    assert len(digests) == 1
    assert spilled == [True, False, False]


# ---- repetitions --------------------------------------------------------------------------------


def test_a_list_that_repeats_its_keys_needs_no_spill_file(tmp_path: Path, small_store: int) -> None:
    """Full partitions are sorted first. If half of the hashes are repetitions, that is enough."""
    distinct = 2000 if IS_KERNEL else 60
    some = keys(distinct) * 40

    report = build(tmp_path / "a.mmb", iter(some), memory=small_store, jobs=1)

    assert (report.keys_read, report.keys_added) == (len(some), distinct)
    assert report.spilled_bytes == 0
    build(tmp_path / "b.mmb", keys(distinct))
    assert payload_of(tmp_path / "a.mmb") == payload_of(tmp_path / "b.mmb")


@pytest.mark.parametrize("num_others", [0, 300])
def test_a_key_that_is_repeated_many_times_is_one_key(
    tmp_path: Path, small_store: int, num_others: int
) -> None:
    """All its hashes fall into one partition, which is larger than any buffer."""
    num_keys = 3_000_000 if IS_KERNEL else 4000
    rows = np.zeros((num_keys, 16), np.uint8)
    numbers = np.arange(num_keys // 2, dtype=np.uint64) % (num_others + 1)
    rows[: num_keys // 2, :8] = numbers.view(np.uint8).reshape(-1, 8)
    memory = 32 * MIB if IS_KERNEL else small_store

    report = build(
        tmp_path / "a.mmb",
        rows if IS_KERNEL else [row.tobytes() for row in rows],
        memory=memory,
        jobs=1,
    )

    assert (report.keys_read, report.keys_added) == (num_keys, num_others + 1)


# ---- payloads in pieces -------------------------------------------------------------------------


@pytest.mark.parametrize("piece_bytes", [64, 4096])
def test_the_payload_does_not_depend_on_the_size_of_pieces(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    """Neighbouring pieces share a block, and each has some of its bits."""
    build(tmp_path / "a.mmb", keys(), layout=layout)
    monkeypatch.setattr(bloom_assembly, "CACHED_BYTES", piece_bytes)
    monkeypatch.setattr(bloom_assembly, "PIECE_BYTES", piece_bytes)
    for jobs in (1, 3):
        build(tmp_path / "b.mmb", keys(), layout=layout, jobs=jobs, if_exists="replace")

        assert payload_of(tmp_path / "b.mmb") == payload_of(tmp_path / "a.mmb")


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.usefixtures("small_store")
def test_a_classic_payload_larger_than_memory_is_made_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """Three passes over the keys, for 11 MB of payload, give the same bytes as one pass."""
    parts = []
    real_map = bloom_assembly.map_memory

    def counting(num_bytes: int) -> Any:  # noqa: ANN401 - mmap.mmap
        parts.append(num_bytes)
        return real_map(num_bytes)

    monkeypatch.setattr(bloom_assembly, "map_memory", counting)
    monkeypatch.setattr(bloom_assembly, "PIECE_BYTES", 1 << 16)
    asked = {"layout": "classic", "capacity": 6_000_000, "jobs": jobs, "exact": True}

    build(tmp_path / "a.mmb", keys(), memory=8 * MIB if jobs == 1 else 12 * MIB, **asked)
    in_parts = list(parts)
    parts.clear()
    build(tmp_path / "b.mmb", keys(), memory=8 << 30, **asked)

    assert len(in_parts) >= 2
    assert len(parts) == 1
    assert payload_of(tmp_path / "a.mmb") == payload_of(tmp_path / "b.mmb")


# ---- what cannot be -----------------------------------------------------------------------------


@pytest.mark.usefixtures("small_store")
@pytest.mark.parametrize("is_spilled", [True, False], ids=["spilled", "in-memory"])
def test_hashes_made_to_share_their_top_bits_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_spilled: bool
) -> None:
    """If a partition has too many to sort in memory, the error says how much is needed."""
    monkeypatch.setattr(loading, "_LEAST_HASHES", 2 << 8)
    monkeypatch.setattr(loading, "PIECE_HASHES", 1 << 8)
    monkeypatch.setattr(runs, "PIECE_HASHES", 1 << 8)
    monkeypatch.setattr(KeyHashes, "release_memory", lambda _: 2 * 16 * (2 << 8))
    monkeypatch.setattr(KeyHashes, "spare_bytes", 2 * 16 * (2 << 8))
    with (
        ThreadPool(1) as pool,
        KeyHashes(8 * MIB, pool, lambda: SpillFile.unnamed(tmp_path)) as filled,
    ):
        for first in range(0, 2560, 256):
            same_top = b"".join(HASH.pack(5, i) for i in range(first, first + 256))
            filled.partitions.add_hashes(0, same_top)
        if is_spilled:
            filled.spill_all(lambda _done, _total: None)
        loader = loading.Loader.of_hashes(filled, pool)
        with pytest.raises(MemoryBudgetError) as caught:
            loader.count(lambda _done, _total: None)

    assert caught.value.budget_bytes == 8 * MIB
    assert caught.value.needed_bytes > 8 * MIB


def test_too_little_memory_for_the_jobs_is_refused(tmp_path: Path) -> None:
    """Each has chunks of its own in all partitions. The error names enough memory."""
    with pytest.raises(MemoryBudgetError, match="fewer jobs") as caught:
        build(tmp_path / "a.mmb", keys(5), memory=32 * MIB, jobs=8)
    assert names_in(tmp_path) == []

    build(tmp_path / "a.mmb", keys(5), memory=caught.value.needed_bytes, jobs=8)


@pytest.fixture
def spill_files(monkeypatch: pytest.MonkeyPatch) -> list[SpillFile]:
    """Return the list of spill files that builds make during the test."""
    made = []
    real_unnamed = SpillFile.unnamed

    def noted(folder: str) -> SpillFile:
        made.append(real_unnamed(folder))
        return made[-1]

    monkeypatch.setattr(SpillFile, "unnamed", noted)
    return made


def flip_a_byte(spill: SpillFile) -> None:
    """Change the last hash in a spill file."""
    last = bytearray(1)
    spill.read(spill.num_bytes - 1, last)
    spill.write(spill.num_bytes - 1, bytes([last[0] ^ 1]))


def cut_short(spill: SpillFile) -> None:
    """Remove the last byte of a spill file."""
    os.ftruncate(spill._fd, spill.num_bytes - 1)


@pytest.mark.parametrize("phase", ["sort", "assemble"])
@pytest.mark.parametrize("damage", [flip_a_byte, cut_short])
@pytest.mark.usefixtures("no_pause")
def test_a_damaged_spill_file_is_detected(  # noqa: PLR0913, PLR0917 - fixtures
    tmp_path: Path,
    layout: str,
    small_store: int,
    spill_files: list[SpillFile],
    monkeypatch: pytest.MonkeyPatch,
    phase: str,
    damage: Callable[[SpillFile], None],
) -> None:
    """In either pass. No file is left: a filter with a wrong hash would answer a false "no"."""
    monkeypatch.setattr(bloom_assembly, "CACHED_BYTES", 64)
    (tmp_path / "filters").mkdir()
    is_damaged = False
    real_pieces = bloom.bit_pieces

    def damaged_before(*args: Any) -> Iterator[memoryview]:  # noqa: ANN401 - passed on
        nonlocal is_damaged
        if phase == "assemble":
            damage(spill_files[0])
            is_damaged = True
        return real_pieces(*args)

    def watch(state: Progress) -> None:
        nonlocal is_damaged
        if state.phase == phase == "sort" and not is_damaged:
            damage(spill_files[0])
            is_damaged = True

    monkeypatch.setattr(bloom, "bit_pieces", damaged_before)
    with pytest.raises(SpillError, match="build again"):
        build(
            tmp_path / "filters" / "a.mmb",
            keys(MANY_KEYS),
            layout=layout,
            memory=small_store,
            jobs=1,
            progress=watch,
        )

    assert is_damaged
    assert names_in(tmp_path / "filters") == []


def test_the_spill_folder_is_where_the_spill_file_is_made(
    tmp_path: Path, small_store: int, spill_files: list[SpillFile]
) -> None:
    """By default it is the folder of the filter. The file has no name in either."""
    (tmp_path / "spills").mkdir()

    build(tmp_path / "a.mmb", keys(MANY_KEYS), memory=small_store, jobs=1)
    build(
        tmp_path / "b.mmb",
        keys(MANY_KEYS),
        memory=small_store,
        jobs=1,
        spill_folder=tmp_path / "spills",
    )

    assert [spill.where for spill in spill_files] == [str(tmp_path), str(tmp_path / "spills")]
    assert names_in(tmp_path / "spills") == []
    with mmbloom.open(tmp_path / "a.mmb") as built:
        assert built.expected_fpr() == pytest.approx(TARGET, rel=0.25)
