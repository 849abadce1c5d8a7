"""The campaign find-all: it misses no key, and would notice a missed one."""

from __future__ import annotations

import itertools
import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType


@pytest.fixture
def find_all(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the campaign."""
    return tool("campaigns.find_all")


@pytest.fixture
def present_keys(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the module that makes keys."""
    return tool("campaigns.present_keys")


def run(tool: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run the campaign as its command does."""
    monkeypatch.setattr(sys, "argv", ["campaigns find-all", *words])
    code = tool.main()
    assert isinstance(code, int)
    return code


def test_a_short_campaign_misses_no_key_of_any_kind(
    find_all: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One round of small filters, and the same files with the other engine."""
    left = tmp_path / "tally.json"
    monkeypatch.setattr(find_all, "SMALL_SIZES", (0, 20))

    code = run(find_all, monkeypatch, "--lookups", "700", "--largest", "20", "--json", str(left))

    tally = json.loads(left.read_text())
    assert code == 0
    assert tally["lookups"] == sum(tally["lookups_by_kind"].values()) >= 700
    assert tally["misses"] == 0
    assert tally["missed"] == []
    kinds = {label.partition(",")[0] for label in tally["lookups_by_kind"]}
    kernels = {label for label in kinds if label.startswith("asked by the ")}
    expected = {"line", "page", "classic", "fuse3", "fuse4", "counters", "narrow"}
    assert kinds - kernels == expected
    assert len(kernels) == 1
    assert json.loads(capsys.readouterr().out)["lookups"] == tally["lookups"]


def test_a_missed_key_is_reported_and_the_exit_code_is_1(
    find_all: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The filters get the keys shifted by one, so the first key looked up is not in."""
    handed = find_all.Handed

    def others(keys: Any, shape: str) -> object:  # noqa: ANN401 - a named tuple of the tool
        return handed(keys._replace(first=keys.first + 1), shape)

    monkeypatch.setattr(find_all, "Handed", others)
    left = str(tmp_path / "tally.json")

    words = ["--lookups", "100", "--largest", "3", "--one-engine", "--json", left]
    code = run(find_all, monkeypatch, *words)

    told = json.loads(capsys.readouterr().out)
    assert code == 1
    assert told["misses"] > 0
    assert "layout='line'" in told["missed"][0]


def test_the_rounds_have_every_width_and_every_hard_size(find_all: ModuleType) -> None:
    """For both layouts, within 16 rounds; the same seed gives the same cases."""
    rounds = list(itertools.islice(find_all.cases(5, 10**7), 16))
    every = [case for cases in rounds for case in cases]

    for layout in ("fuse3", "fuse4"):
        widths = {np.log2(1 / case.fpr) for case in every if case.layout == layout}
        assert widths == set(range(1, 33))
    sizes = {case.keys.count for case in every}
    assert {0, 1, 20, *range(11_480, 11_522), 10**5, 10**6, 10**7, 2**22} <= sizes
    assert len({case.keys.seed for case in every}) == len(every)
    assert rounds[3] == next(itertools.islice(find_all.cases(5, 10**7), 3, None))


@pytest.mark.parametrize("form", ["bytes", "varied", "text", "hex", "numbers"])
def test_every_shape_has_the_same_keys_and_they_are_distinct(
    present_keys: ModuleType, form: str
) -> None:
    """A filter built from one shape finds all keys in the other shapes, and one by one."""
    import mmbloom

    keys = present_keys.KeySet(9, form, 300)
    found = present_keys.FORMS[form]
    rows = keys.rows(0, 300)
    asked = {"capacity": 300, "fpr": 1e-9, "key_form": found.key_form, "layout": "classic"}
    for shape in found.batches:
        with mmbloom.BloomFilter.in_memory(**asked) as made:
            made.update(present_keys.Handed(keys, shape))
            assert made.keys_added == 300
            for other in found.batches.values():
                assert made.contains_many(other(rows)).all()
            assert all(key in made for key in found.single(rows))


def test_keys_do_not_depend_on_the_blocks(present_keys: ModuleType) -> None:
    """So the keys looked up are the keys that were added."""
    keys = present_keys.KeySet(3, "bytes", 1000)

    parts = np.concatenate([keys.rows(0, 400), keys.rows(400, 600)])

    assert np.array_equal(parts, keys.rows(0, 1000))
    assert np.array_equal(keys._replace(first=400).rows(0, 10), parts[400:410])
