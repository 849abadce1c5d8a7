"""Fixtures of the room: builds that are watched closely, and builds with hardly any memory."""

from __future__ import annotations

import pytest

from mmbloom.building import budget, progress
from mmbloom.building import hashes as store
from mmbloom.keys import lines


@pytest.fixture(params=["classic", "line", "page"])
def layout(request: pytest.FixtureRequest) -> str:
    """Run a test once a layout."""
    return str(request.param)


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds report every step, not only some of them."""
    monkeypatch.setattr(progress, "_PAUSE_SECONDS", -1.0)


@pytest.fixture
def small_store(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let thousands of keys outgrow the memory of a build; return how much that is, for one job.

    Nearly all of it is taken by the ends of the partitions. Keys come in small portions, as room
    is set aside for a portion at a time.
    """
    monkeypatch.setattr(budget, "LEAST_MEMORY_BYTES", 1 << 20)
    monkeypatch.setattr(store, "_LEAST_ADDED_BYTES", 0)
    monkeypatch.setattr(store, "_ADDED_AT_ONCE", 256)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 4096)
    return 8 << 20
