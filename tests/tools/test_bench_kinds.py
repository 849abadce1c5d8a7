"""The benchmark of fuse and counting filters: every table, tiny, with and without peers."""

from __future__ import annotations

import math
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import mmbloom

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(mmbloom.ENGINE == "python", reason="measures the kernel")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType


PEERS = ("pyfusefilter", "binary_fuse", "fastbloom_rs", "probables")


@pytest.fixture
def kinds(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the benchmark."""
    return tool("bench.kinds")


@pytest.fixture
def large(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return its module of large files."""
    return tool("bench.fuse_large")


def test_every_table_has_its_rows_and_figures(
    kinds: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times of sets so small say nothing, so no target is looked at here.

    Of the peers, those that are installed; where none is, mmbloom and the floor remain.
    """
    monkeypatch.setattr(kinds.fuse_building, "CHANGES", 1000)
    monkeypatch.setattr(kinds.fuse_building, "GIB", 1 << 26)
    monkeypatch.setattr(kinds, "CASES", [case for case in kinds.CASES if case.fpr == 2.0**-8])
    options = SimpleNamespace(
        quick=True,
        scale=0.005,
        jobs=1,
        repeats=1,
        folder=tmp_path,
        tables=kinds.TABLES,
        layouts="fuse3",
        processes=1,
    )

    tables = kinds.run(options)

    titles = [table.title for table in tables]
    assert len(titles) == len(set(titles)) == 7
    peers = [name for name in PEERS if find_spec(name) is not None]
    for table in tables:
        assert any(row.ours for row in table.rows), table.title
        for row in table.rows:
            assert set(row.cells) <= set(table.columns), row.label
    others = [row.label for table in tables for row in table.rows if not row.ours]
    rivals = [name for name in others if not name.startswith(("floor: ", "Bloom, "))]
    assert bool(rivals) == bool(peers)
    promises = {target.promise for table in tables for target in table.targets}
    assert {"fuse3, keys, hit: at most 3x of line", "mmbloom fuse3: open in < 1 ms"} <= promises


def test_the_large_file_is_one_of_the_size_that_was_asked(
    large: ModuleType, tmp_path: Path
) -> None:
    """It opens, verifies, and answers at its rate."""
    path = tmp_path / "large.mmb"
    num_keys = large.capacity_for(2_000_000)
    large.write_fuse(path, num_keys, "fuse3")

    with mmbloom.open(path) as found:
        found.verify()
        assert len(found._status.canaries) == 8
        assert found.num_bits == pytest.approx(16_000_000, rel=0.03)
        keys = np.arange(200_000, dtype=np.int64)
        sigma = math.sqrt(large.FPR * (1 - large.FPR) / len(keys))
        assert abs(found.contains_many(keys).mean() - large.FPR) < 5 * sigma


def test_the_line_beside_it_is_as_dense_as_full(large: ModuleType, tmp_path: Path) -> None:
    """And has the keys that are its hits."""
    path = tmp_path / "line.mmb"
    keys = np.arange(1000, dtype=np.int64)
    large.write_line(path, 1_000_000, keys)

    with mmbloom.open(path) as found:
        assert found.contains_many(keys).all()
        rate = found.contains_many(keys.astype(np.int64) + 10**6).mean()
        assert large.FPR / 4 < rate < large.FPR * 4
