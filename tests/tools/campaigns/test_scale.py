"""The campaign scale: a filter of a given size, built in little memory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


@pytest.fixture
def scale(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the campaign."""
    return tool("campaigns.scale")


def test_a_small_run_meets_its_promises_and_projects(
    scale: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Memory is not judged, as this process has run other tests."""
    words = ["--payload", "1e5", "--scale", "0.5", "--memory", ""]
    monkeypatch.setattr(sys, "argv", ["campaigns scale", *words])
    monkeypatch.setattr(scale, "SAMPLE_KEYS", 5000)

    assert scale.main() == 0

    out = capsys.readouterr().out
    assert "| measured |" in out
    assert "| 1e+10 keys |" in out
    assert "met: the count is exact" in out


def test_blocks_of_keys_are_the_keys_by_count(scale: ModuleType) -> None:
    """Blocks of any size give the same keys, so the keys looked up were added."""
    whole = scale.keys_by_count(0, 1000)

    assert np.array_equal(np.concatenate([whole[:400], scale.keys_by_count(400, 600)]), whole)
    assert len(np.unique(whole, axis=0)) == 1000


def test_the_number_of_keys_fills_the_payload(scale: ModuleType) -> None:
    """Within a thousandth, as bits per key hardly vary with size."""
    from mmbloom import plan

    num_keys = scale.num_keys_for(5e7, 0.01, "line")

    assert plan(num_keys, 0.01, "line").payload_bytes == pytest.approx(5e7, rel=1e-3)
