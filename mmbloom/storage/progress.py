"""Progress of long operations: what a callback gets, and how often it is called.

A function that takes ``progress: Callable[[Progress], object] | None`` needs two lines::

    reporter = Reporter(progress, "verify", "bytes")
    verify_payload(..., reporter.tell)  # called as tell(done, total), as often as it likes
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_PAUSE_SECONDS = 0.1  # between two calls; a display should be updated at least twice a second


class Progress(NamedTuple):
    """How far a long operation has come.

    Attributes:
        phase: what it is doing now, for example "hash" or "verify".
        done: units of this phase that are done.
        total: units of this phase in all; 0 if that is not known.
        unit: "keys", "bytes" or "partitions".
        seconds: time spent in this phase.
        keys: keys read so far, for build(); 0 for other operations.
    """

    phase: str
    done: int
    total: int
    unit: str
    seconds: float
    keys: int = 0

    @property
    def rate(self) -> float:
        """Units per second in this phase."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Time that the rest of this phase takes at this rate; None if that is not known."""
        if not self.total or not self.rate:
            return None
        return max(0, self.total - self.done) / self.rate


class Reporter:
    """Calls *progress* at most every 0.1 s, and at the end of each phase; measures the phases.

    Use it in one thread: the callback runs in the thread that calls tell(). An error that the
    callback raises ends the operation.

    Attributes:
        keys: what the next Progress says of keys.
        seconds: time spent in each phase that has ended.
    """

    def __init__(
        self, progress: Callable[[Progress], object] | None, phase: str, unit: str
    ) -> None:
        """Begin the first phase."""
        self._progress = progress
        self.keys = 0
        self.seconds: dict[str, float] = {}
        self._next = 0.0  # when the callback is called again
        self._start(phase, unit)

    def begin(self, phase: str, unit: str) -> None:
        """End the current phase and begin another, or continue one that was interrupted."""
        self.end()
        self._start(phase, unit)

    def end(self) -> dict[str, float]:
        """End the current phase; return the seconds of each."""
        self.seconds[self._phase] = self._spent()
        return self.seconds

    def tell(self, done: int, total: int = 0, unit: str | None = None) -> None:
        """Say how many units of the current phase are done.

        The callback is called now if 0.1 s have passed since the last call, or all is done.

        Args:
            done: units that are done.
            total: units in all; 0 if that is not known.
            unit: what is counted, if it is not the unit of the phase.
        """
        if self._progress is None:
            return
        now = time.perf_counter()
        if now < self._next and (not total or done < total):
            return
        self._next = now + _PAUSE_SECONDS
        state = Progress(self._phase, done, total, unit or self._unit, self._spent(), self.keys)
        self._progress(state)

    def _start(self, phase: str, unit: str) -> None:
        self._phase, self._unit = phase, unit
        self._began, self._next = time.perf_counter(), 0.0

    def _spent(self) -> float:
        return self.seconds.get(self._phase, 0.0) + time.perf_counter() - self._began
