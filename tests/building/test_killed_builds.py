"""Builds that outgrow their memory, killed at some moment; the campaign kill-builds kills more."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

import mmbloom

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from mmbloom.storage.publish import IfExists

NUM_KEYS = 2_000_000  # their hashes take 32 MB, more than fit in the least memory
MEMORY_BYTES = 32 << 20
HEADER_BYTES = 4096
# After what fraction of the time of an undisturbed build, and with what if_exists.
KILLS: tuple[tuple[float, IfExists], ...] = ((0.3, "raise"), (0.7, "replace"))


@pytest.fixture(scope="module")
def keys() -> NDArray[np.uint8]:
    """Return distinct keys of 16 bytes."""
    return np.arange(2 * NUM_KEYS, dtype=np.uint64).reshape(NUM_KEYS, 2).view(np.uint8)


def body_of(path: Path) -> str:
    """Return the digest of what follows the header, which has the date and the generation."""
    return hashlib.sha256(path.read_bytes()[HEADER_BYTES:]).hexdigest()


def build(path: Path, keys: NDArray[np.uint8], if_exists: IfExists, spills: Path) -> float:
    """Build with a spill file; return the seconds it took."""
    with mmbloom.build(
        path,
        keys,
        fpr=0.01,
        if_exists=if_exists,
        memory=MEMORY_BYTES,
        jobs=1,
        spill_folder=spills,
    ) as built:
        assert built.report.spilled_bytes > 0
        return sum(built.report.seconds.values())


@pytest.mark.skipif(mmbloom.ENGINE == "python", reason="it hashes two million keys in minutes")
def test_a_killed_build_that_spills_leaves_the_old_file_or_the_complete_one(
    tmp_path: Path, keys: NDArray[np.uint8]
) -> None:
    """And no other file, and no spilled keys; the next build works."""
    folder, spills = tmp_path / "filters", tmp_path / "spills"
    folder.mkdir()
    spills.mkdir()
    path = folder / "a.mmb"
    seconds = build(path, keys, "raise", spills)
    complete = body_of(path)
    for share, if_exists in KILLS:
        path.unlink()
        if if_exists == "replace":
            mmbloom.build(path, ["old"], fpr=0.01).close()
        before = [body_of(file) for file in folder.iterdir()]
        pid = os.fork()
        if pid == 0:
            try:
                build(path, keys, if_exists, spills)
            finally:
                os._exit(0)
        time.sleep(seconds * share)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

        assert [body_of(file) for file in folder.glob("a.mmb")] in (before, [complete])
        assert list(spills.iterdir()) == []
        build(path, keys, "replace", spills)
        assert body_of(path) == complete
        assert list(folder.iterdir()) == [path]
        assert list(spills.iterdir()) == []
