"""Checkpoints of a build that may be interrupted, from which the next one continues.

At each spill, the spill file is written first, then the table of the run, then the state of the
reading. All that the state refers to is on disk before it. A checkpoint of a build with other
parameters, or of lists that have changed, is refused.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from contextlib import suppress
from typing import Any

from mmbloom.building.runs import Run
from mmbloom.engine import checksum64
from mmbloom.errors import LockHeldError, ParameterError, SpillError
from mmbloom.kinds.partitions import NUM_PARTITIONS
from mmbloom.storage.journal import Journal
from mmbloom.storage.spill import SpillFile

_VERSION = 2  # of the files in the folder; a release reads its own version only
_STATE, _SPILL = "state", "spill"
_CHECKSUM_BYTES = 8


class Checkpoint:
    """The checkpoints of one build, in a journal.

    Attributes:
        state: what save() was last given, by this build or the interrupted one; None if never.
    """

    def __init__(self, journal: Journal, signature: dict[str, Any]) -> None:
        """Read what is in the journal.

        Raises:
            ParameterError: it was written by a build with another *signature*.
            SpillError: it is damaged.
        """
        self._journal = journal
        self._signature = json.loads(json.dumps(signature))  # in the form in which it is read back
        self.state: dict[str, Any] | None = None
        self._num_runs = 0
        self._spill_bytes = 0
        saved = journal.load(_STATE)
        if saved is not None:
            self._read(saved)

    def open_spill(self) -> SpillFile:
        """Open the spill file, with the length that the state says."""
        return SpillFile.named(self._journal.file(_SPILL), self._spill_bytes)

    def runs(self) -> list[Run]:
        """Return the runs that are in the spill file. Raises: SpillError if a table is damaged."""
        return [self._load_run(number) for number in range(self._num_runs)]

    def save(self, spill: SpillFile, runs: list[Run], state: dict[str, Any]) -> None:
        """Save that *runs* are in *spill*, and the *state* of the reading.

        Raises:
            NoSpaceError, OSError: the previous checkpoint is still valid.
        """
        spill.sync()
        for number in range(self._num_runs, len(runs)):
            data = _packed(runs[number])
            self._journal.save(f"run-{number}", data)
        self._num_runs, self._spill_bytes, self.state = len(runs), spill.num_bytes, state
        saved = {
            "version": _VERSION,
            "signature": self._signature,
            "runs": self._num_runs,
            "spill_bytes": self._spill_bytes,
            "state": state,
        }
        self._journal.save(_STATE, _with_checksum(json.dumps(saved).encode()))

    def discard_without_state(self) -> None:
        """Remove everything unless there is a state to continue from."""
        if self.state is None:
            _discard(self._journal)

    def _read(self, saved: bytes) -> None:
        found = json.loads(self._without_checksum(saved, "the checkpoint"))
        hint = f"without resume the build starts over and deletes {self._journal.path}"
        if found["version"] != _VERSION:
            rule = f"a checkpoint of version {_VERSION}"
            raise ParameterError("resume", rule, f"version {found['version']}", hint)
        for name, value in self._signature.items():
            before = found["signature"].get(name)
            if before != value and name == "lists":
                rule = "the lists of the interrupted build, unchanged and read in the same way"
                raise ParameterError("resume", rule, "other lists", hint)
            if before != value:
                rule = f"the {name} of the interrupted build, {before}"
                raise ParameterError("resume", rule, value, hint)
        self._num_runs, self._spill_bytes = found["runs"], found["spill_bytes"]
        self.state = found["state"]

    def _load_run(self, number: int) -> Run:
        data = self._journal.load(f"run-{number}") or b""
        numbers = array("Q", self._without_checksum(data, f"the table of run {number}"))
        counts = numbers[1 : 1 + NUM_PARTITIONS]
        return Run(numbers[0], counts, numbers[1 + NUM_PARTITIONS :])

    def _without_checksum(self, data: bytes, what: str) -> bytes:
        body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
        if _with_checksum(body)[-_CHECKSUM_BYTES:] != checksum:
            raise SpillError(self._journal.path, f"{what} is damaged")
        return body


def _packed(run: Run) -> bytes:
    start = array("Q", [run.start])
    return _with_checksum(start.tobytes() + run.counts.tobytes() + run.checksums.tobytes())


def _with_checksum(body: bytes) -> bytes:
    return body + checksum64(body).to_bytes(_CHECKSUM_BYTES, "little")


def discard_stale(path: str) -> None:
    """Remove the folder of an interrupted build at *path*, unless a build is using it."""
    if not os.path.isdir(path) or os.path.islink(path):
        return
    with suppress(LockHeldError, PermissionError), Journal(path) as journal:
        _discard(journal)


def _discard(journal: Journal) -> None:
    """Remove the state first: without it, nothing else means anything."""
    runs = [name for name in journal.names() if re.fullmatch(r"run-[0-9]+(\.tmp)?", name)]
    journal.remove([_STATE, *runs, _SPILL])
