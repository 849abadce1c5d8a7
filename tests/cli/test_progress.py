"""Progress: on a terminal only, and only where there is something to wait for."""

from __future__ import annotations

import os
import pty
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from mmbloom import Progress
from mmbloom.cli import progress as room

if TYPE_CHECKING:
    from collections.abc import Iterator


class Screen:
    """A terminal that becomes standard error by show(): pytest sets up its own before that."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._ours, theirs = pty.openpty()
        os.set_blocking(self._ours, False)
        self._terminal = open(theirs, "w", encoding="utf-8")  # noqa: SIM115 - closed by close()

    def show(self) -> None:
        """Become standard error."""
        self._monkeypatch.setattr(sys, "stderr", self._terminal)
        self._monkeypatch.setenv("TERM", "xterm")
        self._monkeypatch.setenv("COLUMNS", "100")

    def text(self) -> str:
        """Return what was shown, without the escape sequences."""
        self._terminal.flush()
        shown = b""
        with suppress(BlockingIOError):
            while True:
                shown += os.read(self._ours, 1 << 16)
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())

    def close(self) -> None:
        """Close both ends."""
        self._terminal.close()
        os.close(self._ours)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """Return a terminal."""
    terminal = Screen(monkeypatch)
    yield terminal
    terminal.close()


def state(phase: str, done: int, total: int) -> Progress:
    """Return what an operation reports after a second."""
    return Progress(phase, done, total, "bytes" if phase == "write" else "keys", 1.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show the bar at once."""
    monkeypatch.setattr(room, "_QUIET_SECONDS", -1.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("reports", "shown"),
    [
        pytest.param(
            [("hash", 0, 0), ("hash", 2_000_000, 4_000_000)],
            "hash .*2,000,000 keys, 2,000,000 keys/s, 1 s left",
            id="keys-and-their-rate",
        ),
        pytest.param(
            [("hash", 0, 0), ("hash", 1_234_567, 0)],
            "hash .*1,230,000 keys, 1,230,000 keys/s\\s",
            id="how-many-is-not-known",
        ),
        pytest.param([("hash", 1, 2), ("sort", 0, 9)], "sort .*9 keys\\s", id="one-long-call"),
        pytest.param(
            [("sort", 0, 9), ("write", 0, 1 << 21), ("write", 1 << 20, 1 << 21)],
            "write .*1[.]00 MiB, 1[.]00 MiB/s, 1 s left",
            id="bytes-of-the-new-phase",
        ),
    ],
)
def test_a_terminal_shows_phase_amount_rate_and_time_left(
    screen: Screen,
    reports: list[tuple[str, int, int]],
    shown: str,
) -> None:
    """A phase takes a second; the last state is drawn at the end, if not before."""
    screen.show()
    with room.progress() as report:
        for where in reports:
            report(state(*where))

    assert re.search(shown, screen.text())


def test_work_that_is_over_at_once_shows_nothing(screen: Screen) -> None:
    """No flicker, and rich is not imported."""
    screen.show()
    with room.progress() as report:
        report(state("hash", 1, 2))

    assert screen.text() == ""


@pytest.mark.usefixtures("impatient")
def test_quiet_shows_nothing(screen: Screen) -> None:
    """-q is for terminals, too."""
    screen.show()
    with room.progress(quiet=True) as report:
        report(state("hash", 1, 2))

    assert screen.text() == ""


@pytest.mark.usefixtures("impatient")
def test_a_file_or_a_pipe_gets_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    """Logs stay readable."""
    with room.progress() as report:
        report(state("hash", 1, 2))

    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("impatient")
def test_the_bar_is_gone_when_the_work_fails(screen: Screen) -> None:
    """The cursor comes back, and the message stands alone."""
    screen.show()

    def fail() -> None:
        with room.progress() as report:
            report(state("hash", 1, 2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert screen.text().endswith("\r")
