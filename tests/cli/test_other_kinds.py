"""The commands that read a filter read one of any kind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import mmbloom
from mmbloom import CountingBloomFilter

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

NEVER = 1e-9
KEYS = [f"key {i}" for i in range(2000)]


@pytest.fixture(params=["fuse", "counting"])
def filter_file(request: pytest.FixtureRequest, folder: Path) -> Path:
    """Return a sealed filter of a kind that is not Bloom."""
    path = folder / f"{request.param}.mmb"
    if request.param == "fuse":
        mmbloom.build(path, KEYS, kind="fuse", fpr=NEVER).close()
    else:
        with CountingBloomFilter.in_memory(capacity=2000, fpr=NEVER) as made:
            made.update(KEYS)
            made.save(path)
    return path


def test_keys_are_checked(run: Run, filter_file: Path) -> None:
    """On the command line, and as lines."""
    assert run("check", filter_file, KEYS[0], "absent").out == b"key 0\n"
    assert run("check", filter_file, "-v", stdin=b"key 1\nabsent\n").out == b"absent\n"


def test_a_filter_is_verified(run: Run, filter_file: Path) -> None:
    """Also a damaged one."""
    assert run("verify", filter_file).code == 0
    data = bytearray(filter_file.read_bytes())
    data[4096 + 100] ^= 1
    filter_file.write_bytes(data)
    assert run("verify", filter_file).code == 2


def test_info_tells_the_kind(run: Run, filter_file: Path) -> None:
    """In both forms."""
    out = run("info", filter_file).out.decode()
    result = json.loads(run("info", filter_file, "--json").out)

    assert result["kind"] == filter_file.stem
    assert f"kind      {filter_file.stem}, layout {result['layout']}, " in out
    assert "keys      2,000 " in out


def test_the_thin_ends_of_a_fuse_filter_are_no_holes(run: Run, folder: Path) -> None:
    """Fewer keys have a slot in the first and the last segment of a shard: that is no loss."""
    mmbloom.build(folder / "a.mmb", map(str, range(60_000)), kind="fuse", fpr=0.004).close()

    out = run("info", folder / "a.mmb").out.decode()

    assert "hole" not in out
    assert "fingerprints of 8 bits in 1 shard" in out
