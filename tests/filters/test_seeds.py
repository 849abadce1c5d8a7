"""Seeds: random ones, and what somebody who knows the seed of one file can do to another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from filter_files import keys

import mmbloom
from mmbloom import BloomFilter, ParameterError

if TYPE_CHECKING:
    from pathlib import Path

FPR = 0.02


def test_a_random_seed_is_another_one_each_time_and_stays_in_the_file(tmp_path: Path) -> None:
    """In every way to make a filter; 64 bits, of which two are equal by chance once in 2^58."""
    seeds = set()
    for number in range(3):
        path = tmp_path / f"created-{number}.mmb"
        with BloomFilter.create(path, capacity=10, fpr=0.01, seed="random") as made:
            made.add("ada")
            seeds.add(made.seed)
        with mmbloom.open(path) as found:
            assert ("ada" in found, found.seed) == (True, made.seed)
        with BloomFilter.in_memory(capacity=10, fpr=0.01, seed="random") as memory:
            seeds.add(memory.seed)
        built = tmp_path / f"built-{number}.mmb"
        with mmbloom.build(built, ["ada"], fpr=0.01, seed="random") as done:
            assert "ada" in done
            seeds.add(done.seed)

    assert len(seeds) == 9
    assert 2**54 < max(seeds) < 2**64


@pytest.mark.parametrize("seed", ["Random", "", "7"])
def test_another_word_is_no_seed(tmp_path: Path, seed: str) -> None:
    """And nothing is made."""
    with pytest.raises(ParameterError, match="seed"):
        BloomFilter.create(tmp_path / "a.mmb", capacity=10, fpr=0.01, seed=seed)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="seed"):
        mmbloom.build(tmp_path / "a.mmb", ["a"], fpr=0.01, seed=seed)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_keys_crafted_against_one_seed_are_ordinary_keys_under_another(layout: str) -> None:
    """1000 keys that are all "maybe" under seed A are so under seed B as often as any others."""
    members, strangers = keys(2000), keys(80_000, start=10**6)
    with (
        BloomFilter.in_memory(capacity=2000, fpr=FPR, layout=layout, seed=1) as known,
        BloomFilter.in_memory(capacity=2000, fpr=FPR, layout=layout, seed=2) as secret,
    ):
        known.update(members)
        secret.update(members)
        answers = known.contains_many(strangers)
        crafted = [key for key, maybe in zip(strangers, answers, strict=True) if maybe][:1000]
        rate = secret.expected_fpr()
        hits = int(secret.contains_many(crafted).sum())

        assert known.contains_many(crafted).all()
        # Binomial: 1000 keys, each "maybe" with chance rate; 4 sigma, and the half of rounding.
        sigma = math.sqrt(len(crafted) * rate * (1 - rate))
        assert abs(hits - len(crafted) * rate) <= 4 * sigma + 0.5
        assert len(crafted) == 1000
