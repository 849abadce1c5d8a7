"""Pass one, seen from the keys: they are read in pieces, hashed, and counted as they were read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from mmbloom.building.budget import DIRECT_KEYS
from mmbloom.building.hashes import Keying
from mmbloom.building.loading import drop_repetitions
from mmbloom.errors import KeyValueError, NoSpaceError, SourceError
from mmbloom.format.fields import HASH
from mmbloom.keys.batches import pieces_of
from mmbloom.kinds import kind_of
from mmbloom.sources.bad_lines import BadLines
from mmbloom.sources.list_reader import ListReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmbloom.building.checkpoint import Checkpoint
    from mmbloom.building.hashes import Added, KeyHashes
    from mmbloom.building.thread_pool import ThreadPool
    from mmbloom.format.header import Header
    from mmbloom.keys.pieces import Nulls, Piece
    from mmbloom.kinds.bloom_direct import DirectPayload
    from mmbloom.storage.progress import Reporter

_CHECKPOINT_SECONDS = 30.0


class Tally(NamedTuple):
    """What was read of a list."""

    lines_read: int
    bytes_read: int
    bad_lines: int


class KeyReader:
    """Reads the keys of one build into partitions of hashes."""

    def __init__(  # noqa: PLR0913 - where keys come from, where they go, and who is told
        self,
        keys: object,
        hashes: KeyHashes,
        pool: ThreadPool,
        reporter: Reporter,
        *,
        direct: DirectPayload | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Read *keys*. Full partitions are drained to *direct*, or spilled if that is None."""
        self._keys, self._hashes, self._pool, self._reporter = keys, hashes, pool, reporter
        self._direct, self._checkpoint = direct, checkpoint
        self._list = keys if isinstance(keys, ListReader) else None
        self._bad = BadLines() if self._list is None else self._list.bad
        self._position: Any = None  # in the list, after the last piece that became a task
        self._num_bad_ahead = 0  # bad lines found while reading the piece after it
        self._shown_ahead: list[str] = []
        self.keys_resumed = 0  # read by the build that was interrupted
        self._tally_before: list[int] | None = None  # of that build, if it had read all keys

    @property
    def keys_read(self) -> int:
        """Keys so far, repetitions included."""
        return self.keys_resumed + self._hashes.keys_read

    @property
    def is_direct(self) -> bool:
        """Whether the keys are in the direct payload, or are to go there: all or none of them."""
        return self._direct is not None and self.keys_read > DIRECT_KEYS

    def tally(self) -> Tally:
        """Return what was read of the list."""
        if self._list is None:
            return Tally(0, 0, self._bad.num_bad)
        if self._tally_before is not None:
            lines_read, bytes_read = self._tally_before
            return Tally(lines_read, bytes_read, self._bad.num_bad)
        return Tally(self._list.lines_read, self._list.done_bytes, self._bad.num_bad)

    def read(self, header: Header, nulls: Nulls) -> None:
        """Read all keys. The *header* says how they are hashed.

        Raises:
            SourceError: no keys, or a list cannot be read. KeyTypeError, KeyValueError: a bad key.
            NoSpaceError, MemoryBudgetError: the hashes do not fit.
        """
        if not self._resume():
            self._read_rest(header, nulls)
        if not self.keys_read:
            self._check_empty(header)
        if self.is_direct:
            self._make_space()
        elif self._hashes.spill is not None or self._checkpoint is not None:
            self._spill(is_last=True)

    def _check_empty(self, header: Header) -> None:
        """Raise SourceError, unless a filter without keys may be wanted."""
        if self._bad.num_bad:
            shown = "; ".join(self._bad.first)
            raise SourceError(f"no keys: none of the {self._bad.num_bad} lines is a key: {shown}")
        if kind_of(header).can_add:  # others are made by build() alone
            hint = "To make a filter without keys, call BloomFilter.create()"
            raise SourceError(f"no keys: the list is empty. {hint}")

    def _read_rest(self, header: Header, nulls: Nulls) -> None:
        skip_bad = self._bad.policy != "raise"
        keying = Keying(header.seed, header.key_form, skip_bad)
        pieces = self._with_positions(pieces_of(self._keys, nulls))
        last = time.monotonic()
        for added in self._located(self._pool.results(self._hashes.tasks(pieces, keying))):
            if added is None:  # no task runs: partitions are full, or it is time for a checkpoint
                if self._hashes.is_full:
                    self._make_space()
                elif self._checkpoint is not None:
                    self._spill(is_last=False)
                last = time.monotonic()
            else:
                self._reporter.keys = self.keys_read
                self._bad.add_many(added.errors, added.num_bad)
                if self._checkpoint is not None and time.monotonic() - last > _CHECKPOINT_SECONDS:
                    self._hashes.ask_for_barrier()
                    last = time.monotonic()
            self._tell()

    def _with_positions(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield *pieces*. When the next one is asked for, note the position before it.

        Reading it may find bad lines, which a checkpoint at that position does not count.
        """
        while True:
            self._position = None if self._list is None else self._list.position
            num_bad, num_shown = self._bad.num_bad, len(self._bad.first)
            piece = next(pieces, None)
            if piece is None:
                return
            self._num_bad_ahead = self._bad.num_bad - num_bad
            self._shown_ahead = self._bad.first[num_shown:]
            yield piece

    def _located(self, results: Iterator[Added | None]) -> Iterator[Added | None]:
        """Yield *results*; let the list name the exact line in errors."""
        try:
            yield from results
        except (KeyValueError, SourceError) as exc:
            raise self._bad.located(exc) from None

    def _make_space(self) -> None:
        """Take hashes out of the partitions."""
        if self._direct is None or not self.is_direct:
            self._direct = None  # full of few keys: once any are spilled, none go to the payload
            drop_repetitions(self._hashes, self._pool)
            if self._hashes.is_full:
                self._spill(is_last=False)
            return
        self._reporter.begin("assemble", "partitions")
        self._direct.drain(self._hashes.partitions, self._reporter.tell)
        self._reporter.begin("hash", "keys")

    def _spill(self, *, is_last: bool) -> None:
        self._reporter.begin("spill", "bytes")
        self._check_space()
        self._hashes.spill_all(self._reporter.tell)
        if self._checkpoint is not None and self._list is not None:
            first_bad = self._bad.first
            if not is_last:
                first_bad = [text for text in first_bad if text not in self._shown_ahead]
            state = {
                "is_complete": is_last,
                "position": self._list.position if is_last else self._position,
                "tally": self.tally()[:2],
                "keys_read": self.keys_read,
                "num_bad": self._bad.num_bad - (0 if is_last else self._num_bad_ahead),
                "first_bad": first_bad,
            }
            self._checkpoint.save(self._hashes.spill_file(), self._hashes.runs, state)
        self._reporter.begin("hash", "keys")

    def _check_space(self) -> None:
        """Raise NoSpaceError at the first spill if the hashes of the whole list will not fit.

        They are estimated from the fraction of the list that was read.
        """
        if self._list is None or not self._list.total_bytes or self._hashes.runs:
            return
        fraction = min(1.0, self._list.done_bytes / self._list.total_bytes)
        if fraction > 0:
            needed = int(self._hashes.num_in_memory / fraction) * HASH.size
            spill = self._hashes.spill_file()
            if needed > (free := spill.free_bytes()):
                raise NoSpaceError(spill.where, needed, free)

    def _resume(self) -> bool:
        """Continue from the checkpoint, if there is one; return whether all keys were read."""
        state = None if self._checkpoint is None else self._checkpoint.state
        if self._checkpoint is None or self._list is None or state is None:
            return False
        runs = self._checkpoint.runs()
        self._hashes.restore(self._checkpoint.open_spill(), runs)
        self.keys_resumed = state["keys_read"]
        self._bad.restore(state["num_bad"], state["first_bad"])
        if state["is_complete"]:
            self._tally_before = state["tally"]
        elif state["position"] is not None:
            self._list.skip_to(state["position"])
        return bool(state["is_complete"])

    def _tell(self) -> None:
        if self._list is not None and self._list.total_bytes:
            self._reporter.tell(self._list.done_bytes, self._list.total_bytes, "bytes")
        else:
            self._reporter.tell(self.keys_read, 0, "keys")
