"""Progress on a terminal: a bar with phase, amount, rate and time left. Elsewhere nothing."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from mmbloom.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress


class Report(Protocol):
    """Shows where the work is: *done* of *total* in a phase; a total of 0 is not known."""

    def __call__(self, phase: str, done: int, total: int, unit: str = "") -> object:
        """Show it. *unit*: "keys", "bytes" or "partitions"; by default that of the phase."""


# Work that is over sooner needs no bar, and importing rich would double it.
_QUIET_SECONDS = 0.5
_FULL = 1000  # a fixed total: rich forgets its samples when the total changes
_UNITS = {"read": "bytes", "write": "bytes", "verify": "bytes"}  # of phases, if not keys


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Report]:
    """Yield what shows progress.

    The bar appears after half a second, and is gone at the end.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _phase, _done, _total, _unit="": None
        return
    bar = _Bar()
    try:
        yield bar.report
    finally:
        bar.stop()


class _Bar:
    """A bar that is made when there is something to wait for."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._phase = ""
        self._started = self._phase_started = monotonic()

    def report(self, phase: str, done: int, total: int, unit: str = "") -> None:
        """Show where the work is."""
        now = monotonic()
        if phase != self._phase:
            self._phase, self._phase_started = phase, now
            if self._bar is not None:
                self._bar.reset(self._bar.task_ids[0])
        if self._bar is None:
            if now - self._started < _QUIET_SECONDS:
                return
            self._bar = _start_bar()
        # Without a share that is done the bar only moves: a phase may be one call of the engine.
        self._bar.update(
            self._bar.task_ids[0],
            description=phase,
            completed=_FULL * done / total if total else 0,
            total=_FULL if done and total else None,
            amount=_amount(
                unit or _UNITS.get(phase, "keys"), done, total, now - self._phase_started
            ),
        )

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


def _amount(unit: str, done: int, total: int, seconds: float) -> str:
    """Return what is done, how fast, and how long the rest takes at that rate."""
    if unit == "partitions":  # of no meaning to who waits, but for the share
        return f"{100 * done // total} %{_left_text(done, total, seconds)}" if total else ""
    text = output.size_text if unit == "bytes" else _keys_text
    if not done:
        return text(total) if total else ""
    if seconds <= 0:
        return text(done)
    return f"{text(done)}, {text(done / seconds)}/s{_left_text(done, total, seconds)}"


def _left_text(done: int, total: int, seconds: float) -> str:
    return f", {seconds * (total - done) / done:.0f} s left" if done and total else ""


def _keys_text(number: float) -> str:
    return output.count_text(float(f"{number:.3g}"), "key")  # more digits only flicker


def _start_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.description:<8}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[amount]}"),
        console=Console(file=sys.stderr),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task("", total=None, amount="")
    bar.start()
    return bar
