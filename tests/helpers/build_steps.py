"""Steps of the tests of builds: keys, files, digests, and a process that is killed."""

from __future__ import annotations

import hashlib
import os
import signal
from typing import TYPE_CHECKING, Any

import mmbloom

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mmbloom import BuildReport

HEADER_BYTES = 4096
TARGET = 0.001
IS_KERNEL = mmbloom.ENGINE == "kernel"
# Keys that outgrow the memory of small_store: the plain engine counts its memory more roughly.
MANY_KEYS = 40_000 if IS_KERNEL else 4000


def keys(count: int = 3000, start: int = 0) -> list[str]:
    """Return distinct keys, the same ones in every run."""
    return [f"p4ssw0rd-{i}" for i in range(start, start + count)]


def sha256_of(path: Path, *, payload_only: bool = False) -> str:
    """Return the digest of a file, or of what follows its header."""
    content = path.read_bytes()
    return hashlib.sha256(content[HEADER_BYTES:] if payload_only else content).hexdigest()


def payload_of(path: Path) -> str:
    """Return the digest of what follows the header, which has the date and the generation."""
    return sha256_of(path, payload_only=True)


def build(path: Path, some: object, **parameters: Any) -> BuildReport:  # noqa: ANN401 - passed on
    """Build, close, return what the build did."""
    asked = {"fpr": TARGET} | parameters
    with mmbloom.build(path, some, **asked) as built:
        report: BuildReport = built.report
    return report


def list_of(path: Path, some: list[str]) -> Path:
    """Write a list of keys, one a line."""
    path.write_text("".join(f"{key}\n" for key in some))
    return path


def names_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder."""
    return sorted(file.name for file in folder.iterdir())


def killed_in_child(work: Callable[[], object]) -> None:
    """Run *work*, which kills its process, in a child; fail if it ends in another way."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def die() -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)
