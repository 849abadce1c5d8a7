"""What a build tells while it runs, and when it has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

Phase = Literal["hash", "spill", "sort", "assemble"]
Unit = Literal["keys", "bytes", "partitions"]

_PAUSE_SECONDS = 0.1  # between two reports: whoever watches wants one at least every half second


class Progress(NamedTuple):
    """Where a build is: *done* of *total* units in its phase; total 0 is not known.

    *keys* is how many keys have been read, *seconds* how long this phase has taken.
    """

    phase: Phase
    done: int
    total: int
    unit: Unit
    keys: int
    seconds: float

    @property
    def rate(self) -> float:
        """Units a second, so far in this phase."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How long this phase will take yet, at the rate so far; None if that is not known."""
        if not self.total or not self.rate:
            return None
        return max(0, self.total - self.done) / self.rate


class BuildReport(NamedTuple):
    """What a build did.

    Attributes:
        keys_read: with repetitions.
        keys_resumed: of these, read by the build that was interrupted before.
        keys_added: distinct keys; an estimate from the bits unless *is_exact*.
        is_exact: whether they were counted one by one.
        lines_read: lines, or rows of tables; 0 where the keys came from Python.
        bytes_read: of the lists, as they lie on disk; 0 where the keys came from Python.
        bad_lines: lines that were passed over because no key could be made of them.
        file_bytes: size of the filter file.
        spilled_bytes: what went through the spill file.
        peak_memory_bytes: of the process, since it started.
        seconds: by phase.
    """

    keys_read: int
    keys_resumed: int
    keys_added: int
    is_exact: bool
    lines_read: int
    bytes_read: int
    bad_lines: int
    file_bytes: int
    spilled_bytes: int
    peak_memory_bytes: int
    seconds: dict[Phase, float]


class Reporter:
    """Calls back often enough and not too often, and measures the phases."""

    def __init__(self, callback: Callable[[Progress], object] | None) -> None:
        self._callback = callback
        self.seconds: dict[Phase, float] = {}
        self.keys = 0
        self._phase: Phase = "hash"
        self._began, self._last = time.perf_counter(), 0.0

    def begin(self, phase: Phase) -> Phase:
        """End the phase that runs and begin another; return the one that ended."""
        ended, now = self._phase, time.perf_counter()
        self.seconds[ended] = self.seconds.get(ended, 0.0) + now - self._began
        self._phase, self._began, self._last = phase, now, 0.0
        return ended

    def end(self) -> dict[Phase, float]:
        """End the last phase; return the seconds of each."""
        self.begin(self._phase)
        return self.seconds

    def tell(self, done: int, total: int, unit: Unit) -> None:
        """Call back, unless that was done a moment ago and there is more to come."""
        now = time.perf_counter()
        is_soon = now - self._last < _PAUSE_SECONDS and (not total or done < total)
        if self._callback is None or is_soon:
            return
        self._last = now
        before = self.seconds.get(self._phase, 0.0)
        spent = before + now - self._began
        self._callback(Progress(self._phase, done, total, unit, self.keys, spent))
