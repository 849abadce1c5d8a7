"""Progress on a terminal: a bar with phase, amount, rate and time left. Elsewhere nothing."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from mmbloom.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress as Bar

    from mmbloom import ListReader, Progress

    Show = Callable[[Progress], object]

# Shorter work needs no bar, and importing rich would double its time.
_QUIET_SECONDS = 0.5
_FULL = 1000  # a fixed total: rich forgets its samples when the total changes


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Show]:
    """Yield the function that shows a Progress of the library.

    The bar appears after half a second, and disappears at the end.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _state: None
        return
    bar = _Bar()
    try:
        yield bar.show
    finally:
        bar.stop()


def of_lists(show: Show, lists: ListReader) -> Show:
    """Return a function that shows how far the lists are read, in bytes: their keys are unknown."""
    return lambda state: show(
        state._replace(done=lists.done_bytes, total=lists.total_bytes, unit="bytes")
    )


class _Bar:
    """A bar that is made when there is something to wait for."""

    def __init__(self) -> None:
        self._bar: Bar | None = None
        self._phase = ""
        self._started = monotonic()

    def show(self, state: Progress) -> None:
        """Show the state of the work."""
        if self._bar is None:
            if monotonic() - self._started < _QUIET_SECONDS:
                return
            self._bar = _start_bar()
        if state.phase != self._phase:
            self._phase = state.phase
            self._bar.reset(self._bar.task_ids[0])
        # Until something is done the bar only moves: a phase may be one call of the engine.
        self._bar.update(
            self._bar.task_ids[0],
            description=state.phase,
            completed=_FULL * state.done / state.total if state.total else 0,
            total=_FULL if state.done and state.total else None,
            amount=_amount(state),
        )

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


def _amount(state: Progress) -> str:
    """Return what is done, how fast, and how long the rest takes at that rate."""
    left = "" if state.seconds_left is None else f", {state.seconds_left:.0f} s left"
    if state.unit == "partitions":  # their number means nothing to the user, but their share does
        return f"{100 * state.done // state.total} %{left}" if state.total else ""
    text = output.size_text if state.unit == "bytes" else _keys_text
    if not state.done:
        return text(state.total) if state.total else ""
    if not state.rate:
        return text(state.done)
    return f"{text(state.done)}, {text(state.rate)}/s{left}"


def _keys_text(number: float) -> str:
    return output.count_text(float(f"{number:.3g}"), "key")  # more digits only flicker


def _start_bar() -> Bar:
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
