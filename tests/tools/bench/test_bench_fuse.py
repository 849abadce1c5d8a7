"""The benchmarks of fuse and counting filters: every table, tiny, with and without peers."""

from __future__ import annotations

import math
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

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
def large(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the benchmark of a large file."""
    return tool("bench.fuse_large")


@pytest.fixture
def tables(
    tool: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """Run each benchmark with few keys; return all tables."""
    sizes: dict[str, dict[str, object]] = {
        "fuse_sizes": {"keys": [500], "jobs": 1},
        "fuse_lists": {"keys": 500, "jobs": 1},
        "fuse_building": {"hashes": 10_000, "peer_hashes": 2500, "layouts": "fuse3"},
        "fuse_large": {"payload": 300_000, "keys": 2000, "processes": 1},
        "counters": {"keys": 250},
    }
    modules = {name: tool(f"bench.{name}") for name in sizes}
    monkeypatch.setattr(modules["fuse_building"], "CHANGES", 1000)
    monkeypatch.setattr(modules["fuse_building"], "GIB", 1 << 26)
    lists = modules["fuse_lists"]
    monkeypatch.setattr(lists, "CASES", [case for case in lists.CASES if case.fpr == 2.0**-8])
    found = []
    for name, size in sizes.items():
        given: dict[str, Any] = {"quick": True, "repeats": 1, "folder": tmp_path, **size}
        found += modules[name].run(SimpleNamespace(**given))
    return found


def test_every_table_has_its_rows_and_figures(tables: list[Any]) -> None:
    """Times of such small sets mean nothing, so targets are not judged here.

    Peers that are not installed are left out; mmbloom and the floor remain.
    """
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


def test_the_large_file_has_the_requested_size(large: ModuleType, tmp_path: Path) -> None:
    """It opens, verifies, and has the expected rate."""
    path = tmp_path / "large.mmb"
    num_keys = large.capacity_for(2_000_000)
    large.write_fuse(path, num_keys, "fuse3")

    with mmbloom.open(path) as found:
        found.verify()
        assert len(found._opened.status.canaries) == 8
        assert found.num_bits == pytest.approx(16_000_000, rel=0.03)
        keys = np.arange(200_000, dtype=np.int64)
        sigma = math.sqrt(large.FPR * (1 - large.FPR) / len(keys))
        assert abs(found.contains_many(keys).mean() - large.FPR) < 5 * sigma


def test_the_line_beside_it_is_as_dense_as_full(large: ModuleType, tmp_path: Path) -> None:
    """And contains the keys of the hits."""
    path = tmp_path / "line.mmb"
    keys = np.arange(1000, dtype=np.int64)
    large.write_line(path, 1_000_000, keys)

    with mmbloom.open(path) as found:
        assert found.contains_many(keys).all()
        rate = found.contains_many(keys.astype(np.int64) + 10**6).mean()
        assert large.FPR / 4 < rate < large.FPR * 4
