"""Pass one, from the side of the keys: lists go to the store by pieces; what is read is counted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from mmbloom.building.direct import DIRECT_KEYS
from mmbloom.building.hashes import Keying
from mmbloom.building.loading import drop_repetitions
from mmbloom.errors import KeyValueError, NoSpaceError, SourceError
from mmbloom.format.fields import HASH, KIND_FUSE
from mmbloom.keys.batches import pieces_of
from mmbloom.sources.bad_lines import BadLines
from mmbloom.sources.list_reader import KeyList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmbloom.building.checkpoint import Checkpoint
    from mmbloom.building.direct import DirectPayload
    from mmbloom.building.hashes import Added, HashStore
    from mmbloom.building.progress import Reporter
    from mmbloom.building.thread_pool import Crew
    from mmbloom.format.header import Header
    from mmbloom.keys.pieces import Nulls, Piece

_CHECKPOINT_SECONDS = 30.0


class Tally(NamedTuple):
    """What was read."""

    lines_read: int
    bytes_read: int
    bad_lines: int


class Reading:
    """One list of keys on its way into the store."""

    def __init__(  # noqa: PLR0913 - where keys come from, where they go, and who watches
        self,
        keys: object,
        store: HashStore,
        crew: Crew,
        reporter: Reporter,
        *,
        direct: DirectPayload | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Read *keys*; full partitions go to *direct*, if that is given, else they are spilled."""
        self._keys, self._store, self._crew, self._reporter = keys, store, crew, reporter
        self._direct, self._checkpoint = direct, checkpoint
        self._list = keys if isinstance(keys, KeyList) else None
        self._bad = BadLines() if self._list is None else self._list.bad
        self._behind: Any = None  # position behind the last piece that was handed on
        self._ahead_bad = 0  # bad lines found while reading the piece that waits
        self._ahead_shown: list[str] = []
        self.keys_before = 0  # read by the build that was interrupted
        self._tally_before: list[int] | None = None  # of that build, if it had read all

    @property
    def keys_read(self) -> int:
        """Keys so far, with repetitions."""
        return self.keys_before + self._store.keys_read

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
        """Read all keys, as the *header* says what a key is.

        Raises:
            SourceError: there are none, or a list cannot be read. KeyTypeError, KeyValueError: a
            bad key. NoSpaceError, MemoryBudgetError: no room for the hashes.
        """
        is_complete = self._resume()
        if not is_complete:
            self._read_on(header, nulls)
        if not self.keys_read:
            self._take_for_empty(header)
        if self.is_direct:
            self._make_room()
        elif self._store.spill is not None or self._checkpoint is not None:
            self._spill(is_last=True)

    def _take_for_empty(self, header: Header) -> None:
        """Raise SourceError, unless a filter without keys can be meant."""
        if self._bad.num_bad:
            what = f"none of the {self._bad.num_bad} lines is a key: {'; '.join(self._bad.first)}"
            raise SourceError(f"no keys: {what}")
        if header.kind != KIND_FUSE:  # that is made no other way
            hint = "A filter without keys is made with BloomFilter.create()"
            raise SourceError(f"no keys: the list is empty. {hint}")

    def _read_on(self, header: Header, nulls: Nulls) -> None:
        skip_bad = self._bad.policy != "raise"
        keying = Keying(header.seed, header.key_form, skip_bad)
        pieces = self._noted(pieces_of(self._keys, nulls))
        last = time.monotonic()
        for added in self._located(self._crew.results(self._store.tasks(pieces, keying))):
            if added is None:  # nothing runs: the store wants room, or time for a checkpoint
                if self._store.is_full:
                    self._make_room()
                elif self._checkpoint is not None:
                    self._spill(is_last=False)
                last = time.monotonic()
            else:
                self._take_down(added)
                if self._checkpoint is not None and time.monotonic() - last > _CHECKPOINT_SECONDS:
                    self._store.ask_for_barrier()
                    last = time.monotonic()
            self._tell()

    def _noted(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield *pieces*; what lies behind each is noted when the next is asked for.

        Reading one may find bad lines, which a checkpoint before it does not count.
        """
        while True:
            self._behind = None if self._list is None else self._list.position
            num_bad, num_shown = self._bad.num_bad, len(self._bad.first)
            piece = next(pieces, None)
            if piece is None:
                return
            self._ahead_bad = self._bad.num_bad - num_bad
            self._ahead_shown = self._bad.first[num_shown:]
            yield piece

    def _located(self, results: Iterator[Added | None]) -> Iterator[Added | None]:
        """Yield *results*; in errors, the list names the very line."""
        try:
            yield from results
        except (KeyValueError, SourceError) as exc:
            raise self._bad.located(exc) from None

    def _take_down(self, added: Added) -> None:
        self._reporter.keys = self.keys_read
        self._bad.add_many(added.errors, added.num_bad)

    def _make_room(self) -> None:
        if self._direct is None or not self.is_direct:
            self._direct = None  # full of fewer keys: what is spilled once stays out of the payload
            drop_repetitions(self._store, self._crew)
            if self._store.is_full:
                self._spill(is_last=False)
            return
        self._reporter.begin("assemble")
        self._direct.drain(
            self._store.partitions, lambda done, all_: self._reporter.tell(done, all_, "partitions")
        )
        self._reporter.begin("hash")

    def _spill(self, *, is_last: bool) -> None:
        self._reporter.begin("spill")
        self._foresee_full_disk()
        self._store.spill_all(lambda done, total: self._reporter.tell(done, total, "bytes"))
        if self._checkpoint is not None and self._list is not None:
            state = {
                "is_complete": is_last,
                "position": self._list.position if is_last else self._behind,
                "tally": self.tally()[:2],
                "keys_read": self.keys_read,
                "num_bad": self._bad.num_bad - (0 if is_last else self._ahead_bad),
                "first_bad": [
                    message
                    for message in self._bad.first
                    if is_last or message not in self._ahead_shown
                ],
            }
            self._checkpoint.save(self._store.spill_file(), self._store.runs, state)
        self._reporter.begin("hash")

    def _foresee_full_disk(self) -> None:
        """Raise NoSpaceError at the first spill if the rest of the list will not fit either.

        By the share of the list that was read, and what is left of its keys.
        """
        if self._list is None or not self._list.total_bytes or self._store.runs:
            return
        share = min(1.0, self._list.done_bytes / self._list.total_bytes)
        if share > 0:
            needed = int(self._store.hashes_held / share) * HASH.size
            spill = self._store.spill_file()
            if needed > (free := spill.free_bytes()):
                raise NoSpaceError(spill.where, needed, free)

    def _resume(self) -> bool:
        """Take up what the build before has read; return whether that was all."""
        state = None if self._checkpoint is None else self._checkpoint.state
        if self._checkpoint is None or self._list is None or state is None:
            return False
        runs = self._checkpoint.runs()
        self._store.restore(self._checkpoint.open_spill(), runs)
        self.keys_before = state["keys_read"]
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
