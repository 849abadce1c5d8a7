"""What a build did: the report that it ends with."""

from __future__ import annotations

from typing import NamedTuple


class BuildReport(NamedTuple):
    """What a build did.

    Attributes:
        keys_read: keys read, repetitions included.
        keys_resumed: keys among them that an interrupted build had read before.
        keys_added: distinct keys; an estimate from the bits unless *is_exact*.
        is_exact: whether they were counted one by one.
        lines_read: lines, or rows of tables; 0 where the keys came from Python.
        bytes_read: bytes of the lists as they are on disk; 0 where the keys came from Python.
        bad_lines: lines that were skipped because they are not keys.
        file_bytes: size of the filter file.
        spilled_bytes: bytes written to the spill file.
        peak_memory_bytes: of the process, since it started.
        seconds: time spent in each phase.
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
    seconds: dict[str, float]
