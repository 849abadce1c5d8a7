"""Payloads that are filled while keys are read: the same bits, and an estimated count."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from build_steps import IS_KERNEL, build, keys, names_in, payload_of

import mmbloom
from mmbloom import CapacityError
from mmbloom.building import builder, hashes, key_reader
from mmbloom.engine import hash_key
from mmbloom.kinds.bloom_direct import DirectPayload

if TYPE_CHECKING:
    from pathlib import Path

    from mmbloom import BloomGeometry

MEMORY = 1 << 30
MANY = 20_000 if IS_KERNEL else 2000


@pytest.fixture(autouse=True)
def few_keys_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let more than 1000 keys be too many to sort quickly."""
    monkeypatch.setattr(key_reader, "DIRECT_KEYS", 1000)


def four_sigma(geometry: BloomGeometry, num_keys: int) -> float:
    """Return how far an estimate from the bits may be off.

    The zero bits of an occupancy problem have the variance m e^-2r (e^r - 1 - r), r = kn/m; one
    bit is e^r / k keys. Blocked layouts scatter a few percent more: 1.1.
    """
    load = geometry.num_probes * num_keys / geometry.num_bits
    sigma = math.sqrt(geometry.num_bits * (math.expm1(load) - load)) / geometry.num_probes
    return 4 * 1.1 * sigma


@pytest.mark.parametrize("jobs", [1, 3])
def test_the_payload_is_that_of_an_exact_build(tmp_path: Path, layout: str, jobs: int) -> None:
    """With or without repetitions; the count is an estimate, and the file says so."""
    asked = {"layout": layout, "capacity": MANY + 500, "memory": MEMORY, "jobs": jobs}

    report = build(tmp_path / "a.mmb", keys(MANY) + keys(700), **asked)
    exact = build(tmp_path / "b.mmb", keys(MANY), exact=True, **asked)

    assert payload_of(tmp_path / "a.mmb") == payload_of(tmp_path / "b.mmb")
    assert (report.is_exact, exact.is_exact) == (False, True)
    assert (report.keys_read, exact.keys_added) == (MANY + 700, MANY)
    assert report.spilled_bytes == 0
    with mmbloom.open(tmp_path / "a.mmb") as built:
        assert built.info()["keys_exact"] is False
        assert built.info()["key_set"] is None
        assert abs(report.keys_added - MANY) <= four_sigma(built.geometry, MANY)
        assert built.keys_added == report.keys_added
        assert built.verify() == built.geometry.payload_bytes


def test_partitions_are_drained_whenever_they_are_full(
    tmp_path: Path, layout: str, small_store: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashes are not spilled; blocks on a border between runs get all their bits."""
    drained = []
    real_drain = DirectPayload.drain

    def counting(self: DirectPayload, *args: object) -> None:
        drained.append(self)
        real_drain(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(DirectPayload, "drain", counting)
    monkeypatch.setattr(
        builder, "direct_memory_bytes", lambda jobs: small_store + (jobs - 1) * (4 << 20)
    )
    for jobs in (1, 2):
        asked = {"layout": layout, "capacity": 4 * MANY, "jobs": jobs, "if_exists": "replace"}
        drained.clear()
        report = build(tmp_path / "a.mmb", iter(keys(4 * MANY)), memory=MEMORY, **asked)
        build(tmp_path / "b.mmb", keys(4 * MANY), exact=True, memory=MEMORY, **asked)

        assert len(drained) >= 2
        assert report.keys_read == 4 * MANY
        assert payload_of(tmp_path / "a.mmb") == payload_of(tmp_path / "b.mmb")


def test_canaries_are_members_in_ascending_order(tmp_path: Path, layout: str) -> None:
    """So opening the file detects a payload that was exchanged."""
    build(tmp_path / "a.mmb", keys(MANY), layout=layout, capacity=MANY, memory=MEMORY)

    members = {hash_key(key, 0, 0) for key in keys(MANY)}
    with mmbloom.open(tmp_path / "a.mmb") as built:
        canaries = built._opened.status.canaries
    assert canaries
    assert list(canaries) == sorted(set(canaries))
    assert set(canaries) <= members


def test_clearly_more_keys_than_the_capacity_are_refused(tmp_path: Path, layout: str) -> None:
    """The error says that the number is an estimate; no file is left."""
    with pytest.raises(CapacityError, match="about") as caught:
        build(tmp_path / "a.mmb", keys(MANY), layout=layout, capacity=MANY // 2, memory=MEMORY)

    assert caught.value.capacity == MANY // 2
    assert names_in(tmp_path) == []


def test_a_count_never_exceeds_the_capacity_or_the_keys_read(tmp_path: Path, layout: str) -> None:
    """A larger estimate is known to be too high."""
    for first in range(0, 4 * MANY, MANY):
        report = build(
            tmp_path / "a.mmb",
            keys(MANY, start=first),
            layout=layout,
            capacity=MANY,
            memory=MEMORY,
            if_exists="replace",
        )
        assert report.keys_added <= MANY


@pytest.mark.parametrize(
    ("count", "asked", "is_exact"),
    [
        pytest.param(1000, {"capacity": 2000}, True, id="few-keys"),
        pytest.param(1001, {"capacity": 2000}, False, id="one-more"),
        pytest.param(1001, {"capacity": 2000, "exact": True}, True, id="exact"),
        pytest.param(1001, {}, True, id="no-capacity"),
        pytest.param(1001, {"capacity": 2000, "memory": 32 << 20}, True, id="little-memory"),
        pytest.param(1001, {"capacity": 10**9, "fpr": 1e-6}, True, id="payload-beyond-memory"),
    ],
)
def test_keys_are_counted_one_by_one_if_that_is_quick_or_asked_for(
    tmp_path: Path, count: int, asked: dict[str, object], is_exact: object
) -> None:
    """Otherwise a capacity must be given, and the payload must fit in memory."""
    if "fpr" in asked and not IS_KERNEL:
        pytest.skip("3.6 GB of payload")
    if "fpr" in asked:
        asked = asked | {"capacity": 100_000_000, "memory": 400 << 20}  # 360 MB and 272 MB
    report = build(tmp_path / "a.mmb", keys(count), **({"memory": MEMORY, "jobs": 1} | asked))

    assert report.is_exact is is_exact


def test_partitions_that_are_full_of_few_keys_do_not_lose_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blank lines may seem to fill the memory; the keys that are spilled then still count."""
    monkeypatch.setattr(key_reader, "DIRECT_KEYS", 10**6)
    is_full = iter([True, False] * 10**6)
    monkeypatch.setattr(hashes.KeyHashes, "is_full", property(lambda _: next(is_full)))
    monkeypatch.setattr(hashes.KeyHashes, "_barrier_before", lambda _self, _num: iter([None]))

    report = build(tmp_path / "a.mmb", iter(keys(3000)), capacity=4000, memory=MEMORY, jobs=1)

    assert (report.keys_added, report.is_exact) == (3000, True)
    with mmbloom.open(tmp_path / "a.mmb") as built:
        assert built.contains_many(keys(3000)).all()
