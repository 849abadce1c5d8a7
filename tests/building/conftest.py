"""Fixtures of this folder: builds that report every step, and builds with very little memory."""

from __future__ import annotations

import pytest

from mmbloom.building import budget, hashes
from mmbloom.keys import lines
from mmbloom.storage import progress


@pytest.fixture(params=["classic", "line", "page"])
def layout(request: pytest.FixtureRequest) -> str:
    """Run a test for each layout."""
    return str(request.param)


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds report every step."""
    monkeypatch.setattr(progress, "_PAUSE_SECONDS", -1.0)


@pytest.fixture
def small_store(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let thousands of keys outgrow the memory of a build; return its size, for one job.

    The chunk that each partition begins takes nearly all of it. Keys are read in small pieces,
    because there must be memory for a whole piece.
    """
    monkeypatch.setattr(budget, "LEAST_MEMORY_BYTES", 1 << 20)
    monkeypatch.setattr(hashes, "_LEAST_ADDED_BYTES", 0)
    monkeypatch.setattr(hashes, "_ADDED_AT_ONCE", 256)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 4096)
    return 8 << 20
