"""Commands run in this process, in processes of their own, and a filter file to ask."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pytest
from command_steps import Command

import mmbloom
from mmbloom.cli import main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KEYS = [b"ada", b"grace", b"hedy", b"caf\xc3\xa9", b"caf\xe9"]  # the last is no UTF-8


class Outcome(NamedTuple):
    """What a command left: its exit code, and what it wrote."""

    code: int
    out: bytes
    err: str


class Run(Protocol):
    """Runs a command in this process."""

    def __call__(self, *argv: object, stdin: bytes = b"") -> Outcome:
        """Run ``mmbloom`` with these arguments, reading *stdin*."""


class Start(Protocol):
    """Runs a command in a process of its own."""

    def __call__(self, *argv: object, line: str = '"$@"') -> subprocess.Popen[bytes]:
        """Start ``mmbloom`` with these arguments, as "$@" of a line of shell."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory of the test, an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Return a function that runs a command here: descriptor 0 is a file meanwhile."""

    def run(*argv: object, stdin: bytes = b"") -> Outcome:
        keys = folder / "descriptor 0"
        keys.write_bytes(stdin)
        saved = os.dup(0)
        with keys.open("rb") as file:
            os.dup2(file.fileno(), 0)
        try:
            code = main([str(word) for word in argv])
        finally:
            os.dup2(saved, 0)
            os.close(saved)
            keys.unlink()
        out, err = capsysbinary.readouterr()
        return Outcome(code, out, err.decode())

    return run


@pytest.fixture
def start(folder: Path) -> Start:
    """Return a function that starts a command; all three streams are pipes."""

    def start(*argv: object, line: str = '"$@"') -> subprocess.Popen[bytes]:
        # A user's Python holds back what it prints.
        environment = {name: os.environ[name] for name in os.environ if name != "PYTHONUNBUFFERED"}
        words: Sequence[object] = [sys.executable, "-P", "-m", "mmbloom", *argv]
        return Command(
            ["sh", "-c", f"exec {line}", "sh", *map(str, words)],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Tests that run in the background of a shell ignore Ctrl-C, and so would the command.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    return start


@pytest.fixture
def names(folder: Path) -> Path:
    """Return a list of five keys."""
    path = folder / "names.txt"
    path.write_bytes(b"".join(key + b"\n" for key in KEYS))
    return path


@pytest.fixture
def names_filter(folder: Path) -> Path:
    """Return a filter with the keys of the list; at this rate no other key is "maybe"."""
    path = folder / "names.mmb"
    mmbloom.build(path, KEYS, fpr=1e-9).close()
    return path
