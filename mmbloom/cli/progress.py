"""Progress on a terminal: a bar with phase, amount, rate and time left. Elsewhere nothing is printed."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Report = Callable[[str, int, int], object]


def _ignore(phase: str, done: int, total: int) -> None:
    """Take a report that nobody wants to see."""


@contextmanager
def progress(*, unit: str = "keys", quiet: bool = False) -> Iterator[Report]:
    """Yield a function ``report(phase, done, total)``; a total of 0 is not known. The bar is gone afterwards."""
    if quiet or not sys.stderr.isatty():
        yield _ignore
        return
    # Loaded here: rich takes longer to import than most commands run.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<9}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[amount]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None, amount="")

        def report(phase: str, done: int, total: int) -> None:
            if bar.tasks[0].description != phase:
                bar.reset(task, description=phase)
            rate = bar.tasks[0].speed or 0
            amount = f"{done:,} {unit}" + (f", {rate:,.0f}/s" if rate else "")
            bar.update(task, completed=done, total=total or None, amount=amount)

        yield report
