"""Fuse filters from the builder: the same file, in memory, spilled or resumed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from build_steps import (
    IS_KERNEL,
    MANY_KEYS,
    TARGET,
    build,
    die,
    keys,
    killed_in_child,
    list_of,
    names_in,
    sha256_of,
)

import mmbloom
from mmbloom import FuseFilter, MemoryBudgetError, ParameterError, SourceError
from mmbloom.building.thread_pool import ThreadPool
from mmbloom.errors import ConstructionError
from mmbloom.kinds import fuse_assembly, fuse_shards
from mmbloom.kinds.fuse_assembly import FuseShards, most_lane_bytes
from mmbloom.kinds.partitions import NUM_PARTITIONS
from mmbloom.sizing import fuse as fuse_sizing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mmbloom import BuildReport, Progress

MIB = 1 << 20
SHARD_KEYS = MANY_KEYS // 5


@pytest.fixture(autouse=True)
def same_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give all files the same date, so that they can be compared."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide thousands of keys as if they were millions: into 8 shards."""
    monkeypatch.setattr(fuse_sizing, "MOST_SHARD_KEYS", SHARD_KEYS)


def build_fuse(path: Path, some: object, **asked: Any) -> BuildReport:  # noqa: ANN401 - passed on
    """Build a fuse filter."""
    return build(path, some, kind="fuse", **asked)


def shuffled() -> list[str]:
    """Return many keys in another order, a fifth of them twice."""
    some = keys(MANY_KEYS) + keys(MANY_KEYS // 5)
    random.Random(3).shuffle(some)  # noqa: S311 - the same order in every run
    return some


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("layout", ["fuse3", "fuse4"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_build_that_spills_makes_the_same_file(
    tmp_path: Path, small_store: int, layout: str, jobs: int
) -> None:
    """To the byte, from Python objects or a list, in any order, and with repetitions."""
    wanted, path = tmp_path / "wanted.mmb", tmp_path / "spilled.mmb"
    assert build_fuse(wanted, keys(MANY_KEYS), layout=layout).spilled_bytes == 0
    memory = small_store + (jobs - 1) * 4 * MIB
    with mmbloom.read_list(list_of(tmp_path / "list", shuffled())) as source:
        for some in (shuffled(), source):
            report = build_fuse(path, some, layout=layout, memory=memory, jobs=jobs)

            assert report.spilled_bytes > 0
            assert (report.keys_read, report.keys_added) == (MANY_KEYS * 6 // 5, MANY_KEYS)
            assert report.is_exact
            assert sha256_of(path) == sha256_of(wanted)
            path.unlink()  # or the next would be a later generation
    with mmbloom.open(wanted) as built:
        assert isinstance(built, FuseFilter)
        assert (built.layout, built.shape.num_shards) == (layout, 8)
        assert built.contains_many(keys(MANY_KEYS)).all()
        assert built.verify() == built.info()["payload_bytes"]


@pytest.mark.parametrize("most", [3, 1], ids=["two-to-a-partition", "more"])
def test_there_may_be_more_shards_than_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """So billions of keys have shards as large as those of millions."""
    monkeypatch.setattr(fuse_sizing, "MOST_SHARD_KEYS", most)
    members = keys(4000)

    build_fuse(tmp_path / "a.mmb", members, jobs=1)
    build_fuse(tmp_path / "b.mmb", members[::-1], jobs=2)

    assert sha256_of(tmp_path / "a.mmb") == sha256_of(tmp_path / "b.mmb")
    with mmbloom.open(tmp_path / "a.mmb") as built:
        assert isinstance(built, FuseFilter)
        assert built.shape.num_shards == {3: 2, 1: 4}[most] * NUM_PARTITIONS
        assert built.contains_many(members).all()


def in_phase(phase: str, folder: Path) -> Callable[[Progress], None]:
    """Return a callback that kills the process in a phase, once there is a checkpoint."""

    def watch(state: Progress) -> None:
        if state.phase == phase and (folder / "state").exists():
            die()

    return watch


@pytest.mark.usefixtures("no_pause", "small_shards")
@pytest.mark.parametrize("phase", ["spill", "assemble"])
def test_a_killed_build_can_be_resumed(tmp_path: Path, small_store: int, phase: str) -> None:
    """The file is the same as without the interruption."""
    build_fuse(tmp_path / "wanted.mmb", keys(MANY_KEYS))
    source = list_of(tmp_path / "list", shuffled())
    target, folder = tmp_path / "a.mmb", tmp_path / ".a.mmb.resume"
    asked = {"memory": small_store, "jobs": 1, "resume": True}

    def work() -> None:
        with mmbloom.read_list(source) as some:
            build_fuse(target, some, progress=in_phase(phase, folder), **asked)

    killed_in_child(work)
    with mmbloom.read_list(source) as some, pytest.raises(ParameterError, match="kind"):
        build(target, some, **asked)
    with mmbloom.read_list(source) as some:
        report = build_fuse(target, some, **asked)

    assert report.keys_read == MANY_KEYS * 6 // 5
    assert sha256_of(target) == sha256_of(tmp_path / "wanted.mmb")
    assert not folder.exists()


# ---- memory --------------------------------------------------------------------------------------


def test_too_little_memory_for_a_shard_is_an_error_at_the_first_spill(
    tmp_path: Path, small_store: int
) -> None:
    """Not only when all keys have been read. The error names enough memory for any number."""
    with pytest.raises(MemoryBudgetError, match="payload must be made in memory") as caught:
        build_fuse(tmp_path / "a.mmb", iter(keys(MANY_KEYS)), memory=small_store, jobs=1)

    needed = most_lane_bytes(TARGET, "auto")
    assert caught.value.budget_bytes == small_store
    assert needed < caught.value.needed_bytes < 200 * MIB
    assert names_in(tmp_path) == []


def test_keys_are_spilled_to_free_memory_for_a_shard(tmp_path: Path, small_store: int) -> None:
    """The file is the same."""
    build_fuse(tmp_path / "wanted.mmb", keys(500))

    report = build_fuse(tmp_path / "a.mmb", keys(500), memory=small_store, jobs=1)

    assert report.spilled_bytes == 16 * 500
    assert report.seconds["spill"] > 0
    assert sha256_of(tmp_path / "a.mmb") == sha256_of(tmp_path / "wanted.mmb")
    assert names_in(tmp_path) == ["a.mmb", "wanted.mmb"]


def test_a_build_can_be_resumed_with_more_memory_for_its_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_store: int
) -> None:
    """Keys that were read are kept."""
    source = list_of(tmp_path / "list", keys(500))
    asked = {"memory": small_store, "jobs": 1, "resume": True}
    with monkeypatch.context() as patched:
        patched.setattr(fuse_assembly, "lane_bytes", lambda *_: 9 * MIB)
        with mmbloom.read_list(source) as some, pytest.raises(MemoryBudgetError) as caught:
            build_fuse(tmp_path / "a.mmb", some, **asked)
    assert caught.value.needed_bytes > small_store
    assert names_in(tmp_path) == [".a.mmb.resume", "list"]

    with mmbloom.read_list(source) as some:
        build_fuse(tmp_path / "a.mmb", some, **asked | {"memory": caught.value.needed_bytes})
    assert names_in(tmp_path) == ["a.mmb", "list"]


def test_the_memory_limits_the_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the threads take turns."""
    monkeypatch.setattr(fuse_sizing, "MOST_SHARD_KEYS", 100)
    used = []
    real_narrowed = ThreadPool.narrowed

    def noted(self: ThreadPool, jobs: int) -> ThreadPool:
        used.append(jobs)
        return real_narrowed(self, jobs)

    monkeypatch.setattr(ThreadPool, "narrowed", noted)
    for lane in (1 * MIB, 20 * MIB, 30 * MIB):
        monkeypatch.setattr(fuse_assembly, "lane_bytes", lambda *_, lane=lane: lane)
        build_fuse(tmp_path / f"{lane}.mmb", keys(1000), memory=64 * MIB, jobs=3)

    assert used == [3, 2, 1]


def test_no_shard_needs_more_memory_than_was_checked_before() -> None:
    """Shards of millions of keys are at most 5 sigma larger than the mean."""
    most = fuse_sizing.MOST_SHARD_KEYS
    for num_shards in (1, 8, NUM_PARTITIONS, 4 * NUM_PARTITIONS):
        mean = most * num_shards // NUM_PARTITIONS
        counts = [mean] * NUM_PARTITIONS
        counts[0] += round(5 * mean**0.5)
        for layout in ("fuse3", "fuse4"):
            shards = FuseShards(counts, 1e-9, layout)
            assert shards.shape.num_shards >= num_shards
            per_run = max(1, shards.shape.num_shards // NUM_PARTITIONS)
            assert shards.lane_bytes <= per_run * most_lane_bytes(1e-9, layout)


# ---- what is refused, and what is not ------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "name", "hint"),
    [
        pytest.param({"kind": "cuckoo"}, "kind", "bloom, fuse, counting", id="no-kind"),
        pytest.param({"kind": None}, "kind", "a str", id="none"),
        pytest.param({"kind": "fuse", "capacity": 9}, "capacity", "None for kind", id="capacity"),
        pytest.param({"kind": "fuse", "layout": "page"}, "layout", "fuse4", id="bloom-layout"),
        pytest.param({"kind": "bloom", "layout": "fuse3"}, "layout", "classic", id="fuse-layout"),
        pytest.param({"kind": "fuse", "fpr": 1e-12}, "fpr", "2.33e-10", id="rate"),
    ],
)
def test_bad_parameters_are_refused_before_a_key_is_read(
    tmp_path: Path, asked: dict[str, Any], name: str, hint: str
) -> None:
    """No file is left."""
    unread = iter(keys(3))

    with pytest.raises(ParameterError, match=hint) as caught:
        build(tmp_path / "a.mmb", unread, **asked)

    assert caught.value.name == name
    assert len(list(unread)) == 3
    assert names_in(tmp_path) == []


def test_a_list_may_be_empty_but_not_have_only_bad_lines(
    tmp_path: Path,
) -> None:
    """The first may be meant; the second is not a list of such keys."""
    with mmbloom.read_list(list_of(tmp_path / "empty", [])) as some:
        report = build_fuse(tmp_path / "a.mmb", some)
    assert (report.keys_read, report.keys_added, report.is_exact) == (0, 0, True)
    with mmbloom.open(tmp_path / "a.mmb") as built:
        assert built.expected_fpr() == 0
        assert not built.contains_many(keys(100)).any()

    source = list_of(tmp_path / "bad", ["none", "neither"])
    with (
        mmbloom.read_lists([source], on_error="skip") as some,
        pytest.raises(SourceError, match="none of the 2 lines"),
    ):
        build_fuse(tmp_path / "b.mmb", some, key_form="hex")
    assert not (tmp_path / "b.mmb").exists()


def test_a_shape_that_fails_gets_one_more_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partitions are loaded again, and only the file of the second attempt remains."""
    failed = []
    real_shard = fuse_shards.fuse_shard

    def failing(hashes: Any, *shape: Any) -> Any:  # noqa: ANN401 - passed on
        if failed:
            return real_shard(hashes, *shape)
        failed.append(shape[3])
        return None

    build_fuse(tmp_path / "a.mmb", keys(3000))
    monkeypatch.setattr(fuse_shards, "fuse_shard", failing)
    build_fuse(tmp_path / "b.mmb", keys(3000), jobs=2)

    with FuseFilter.open(tmp_path / "a.mmb") as one, FuseFilter.open(tmp_path / "b.mmb") as two:
        assert two.shape.num_segments == one.shape.num_segments + 1 == failed[0] + 1
        assert two.contains_many(keys(3000)).all()
    assert names_in(tmp_path) == ["a.mmb", "b.mmb"]


def test_a_shard_with_too_many_keys_is_an_error() -> None:
    """Only crafted hashes lead to one."""
    counts = [fuse_sizing.MAX_SHARD_KEYS + 1] + [0] * (NUM_PARTITIONS - 1)

    with pytest.raises(ConstructionError, match="another seed"):
        FuseShards(counts, 0.01, "fuse3")


@pytest.mark.parametrize("form", ["raw", "hex"])
def test_the_header_holds_what_was_asked_for(tmp_path: Path, form: str) -> None:
    """As for Bloom filters: key form, seed, metadata, date, sum of the hashes, canaries."""
    members = [key.encode().hex() for key in keys(300)]
    asked = {"seed": 7, "key_form": form, "metadata": {"list": "a"}}
    build(tmp_path / "bloom.mmb", members, **asked)
    build_fuse(tmp_path / "fuse.mmb", members * 2, **asked)

    with mmbloom.open(tmp_path / "bloom.mmb") as one, mmbloom.open(tmp_path / "fuse.mmb") as two:
        same = ("seed", "key_form", "metadata", "key_set", "keys_added", "keys_exact", "created")
        assert [one.info()[name] for name in same] == [two.info()[name] for name in same]
        assert one._opened.status.canaries == two._opened.status.canaries
        assert len(two._opened.status.canaries) == 8
        assert (members[0].upper() in two) == (form == "hex")


@pytest.mark.skipif(not IS_KERNEL, reason="a million look-ups take the plain engine minutes")
def test_the_rate_that_audit_measures_is_that_of_the_width(tmp_path: Path) -> None:
    """10 bits for 0.001 give 2^-10, within 4 sigma for a million random keys."""
    build_fuse(tmp_path / "a.mmb", keys(MANY_KEYS))

    with mmbloom.open(tmp_path / "a.mmb") as built:
        report = mmbloom.audit(built, mmbloom.RandomKeys(1_000_000))

    rate = 2.0**-10
    assert abs(report.maybes - 1e6 * rate) <= 4 * (1e6 * rate * (1 - rate)) ** 0.5
    assert (report.expected, report.target, report.passed) == (rate, TARGET, True)
