"""One opened file, as a reader or a writer found it: what a filter answers from.

Immutable. A batch, a verification or a copy takes the object once and works on it to the end, while
the filter may already answer from the next one; the map goes with the last of its users.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from mmbloom.errors import ClosedError, FormatError
from mmbloom.format.checksums import check_payload
from mmbloom.format.fields import HASH, MAX_CANARIES, SLOT_OFFSETS, STATUS
from mmbloom.kinds import kind_of
from mmbloom.kinds.kind import Counts, blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mmbloom.engine import View
    from mmbloom.format.status import Status
    from mmbloom.kinds.kind import Kind
    from mmbloom.storage.storage import Storage

    Tell = Callable[[int, int], object]

_LINE_BYTES = 64
_NO_PAYLOAD = memoryview(b"")


class Opened:
    """A storage, and what its header says: kind, status, payload, and the engine's view of it."""

    __slots__ = ("absolute_path", "header", "kind", "payload", "status", "storage", "view")

    view: View | None  # None: closed

    def __init__(self, storage: Storage) -> None:
        """Attach the engine to the payload of *storage*."""
        self.storage, self.header, self.status = storage, storage.header, storage.status
        self.kind: Kind = kind_of(self.header)
        # What a relative path means depends on the current folder: the one of now counts.
        self.absolute_path = "" if storage.path is None else os.path.abspath(storage.path)
        self.payload = storage.payload
        self.view = view = self.kind.view(self.header, self.payload, writable=storage.is_writable)
        if storage.guard is not None:
            view.watch(storage.guard, storage.report_cut)
        if storage.names_pages:
            storage.keep(self.kind.index_pages(self.header))
            view.load_pages = storage.loaded

    @classmethod
    def checked(cls, storage: Storage) -> Opened:
        """Attach the engine, and look the canaries up; *storage* is closed if that fails."""
        opened = None
        try:
            opened = cls(storage)
            return opened.with_checked_canaries()
        except BaseException:
            if opened is not None:
                opened.let_go()
            storage.close()
            raise

    def with_status(self, status: Status) -> Opened:
        """Return the same with another status."""
        return self if status is self.status else self._copy(status=status)

    def emptied(self) -> Opened:
        """Return what is left after closing: header and status."""
        return self._copy(payload=_NO_PAYLOAD, view=None)

    def let_go(self) -> None:
        """Give the payload up, for an error whose traceback holds this object."""
        self.payload, self.view = _NO_PAYLOAD, None

    def refreshed(self) -> Opened:
        """Return the same with the status that the file has now."""
        return self if self.status.is_sealed else self.with_status(self.storage.read_status())

    def _copy(self, **changes: object) -> Opened:
        copy = object.__new__(type(self))
        for name in self.__slots__:
            setattr(copy, name, changes.get(name, getattr(self, name)))
        return copy

    @property
    def where(self) -> str:
        """The path, or what stands for it in messages."""
        return self.storage.path or "the filter in memory"

    @property
    def attached(self) -> View:
        """The engine's view, which an open filter has."""
        if self.view is None:
            raise ClosedError(f"{self.where} is closed")
        return self.view

    # -- passes over the payload -------------------------------------------------------------------

    def check_length(self) -> None:
        """Raise TruncatedError if the file was cut; a file that another thread closed was not."""
        try:  # not suppress(): this runs twice for every batch
            self.storage.check_length()
        except ClosedError:
            return

    @contextmanager
    def whole(self) -> Iterator[Opened]:
        """Lend the same with a payload that can be read from end to end.

        The length of the file is compared after the pass too: the system fills the last page of a
        file that was cut with zeros, and keys that were in it would be lost without a word.
        """
        storage = self.storage.whole()
        opened = self if storage is self.storage else Opened(storage).with_status(self.status)
        self.check_length()
        try:
            yield opened
        finally:
            self.check_length()
            if opened is not self:
                storage.close()

    def counts(self) -> Counts:
        """Count the payload. Cost: one pass over it."""
        with self.whole() as whole:
            each = (self.kind.count(self.header, block) for block in blocks_of(whole.payload))
            return reduce(Counts.plus, each)

    def fpr(self) -> float:
        """Return the rate that the payload gives. Cost: one pass, unless sealed: it is stored."""
        if self.status.is_sealed:
            self.check_length()
            return self.status.achieved_fpr
        return self.kind.fpr(self.header, self.counts())

    def num_places(self) -> int:
        """Return how many places are set. Cost: one pass, unless sealed: it is stored."""
        if self.status.is_sealed:
            self.check_length()
            return self.status.bits_set
        with self.whole() as whole:
            return self.kind.num_places(whole.payload)

    def estimated_keys(self) -> float:
        """Estimate the distinct keys from the payload. Cost: one pass."""
        with self.whole() as whole:
            return self.kind.estimate_keys(
                self.header, self.kind.places(self.header, whole.payload)
            )

    def fewest_keys(self) -> int:
        """Return a count of the keys in the payload that is not too high. Cost: one pass."""
        return self.kind.fewest_keys(self.header, self.estimated_keys())

    def fill_by_region(self, num_regions: int) -> list[float]:
        """Return how full equal parts of the payload are, whole cache lines each."""
        with self.whole() as whole:
            num_lines = len(whole.payload) // _LINE_BYTES
            count = max(1, min(num_regions, num_lines))
            edges = [_LINE_BYTES * (num_lines * i // count) for i in range(count + 1)]
            ends = [min(8 * edge, self.header.num_bits) for edge in edges]
            return [
                self.kind.num_places(whole.payload[edges[i] : edges[i + 1]])
                * self.kind.place_bits
                / (ends[i + 1] - ends[i])
                for i in range(count)
            ]

    def verify(self, tell: Tell | None = None, num_threads: int | None = None) -> int:
        """Compare the payload with its checksums; return how many bytes were compared."""
        if self.storage.stamp is None:  # the memory of this process, or the file of this writer
            return 0
        with self.whole() as whole:
            whole.with_checked_canaries()
            if not self.status.is_sealed:
                return 0
            page_in, counts = whole.storage.pager(), list[int]()

            def page_in_and_count(start: int, num_bytes: int) -> None:
                page_in(start, num_bytes)
                counts.append(self.kind.num_places(whole.payload[start : start + num_bytes]))

            table = whole.storage.checksums
            page_in(self.header.payload_bytes, len(table))
            check_payload(
                whole.payload,
                bytes(table),
                self.header,
                self.status,
                self.where,
                progress=tell,
                num_threads=num_threads or len(os.sched_getaffinity(0)),
                page_in=page_in_and_count,
            )
            self.check_places(sum(counts))
        return self.header.payload_bytes

    def check_places(self, found: int) -> None:
        """Raise FormatError unless *found* places are set, as the status of a sealed file says."""
        if found != self.status.bits_set:
            offset = SLOT_OFFSETS[0] + STATUS.offsets["bits_set"]
            counted = f"{found}, as counted"
            raise FormatError(self.where, "bits_set", offset, counted, self.status.bits_set)

    # -- canaries ----------------------------------------------------------------------------------

    def with_checked_canaries(self) -> Opened:
        """Look up keys that are known to be in: proof that these probes read what was written.

        Returns:
            The same, perhaps with a newer status: a writer that clears the filter first takes the
            canaries back.

        Raises:
            FormatError: a canary is not found.
        """
        opened, lost = self, self._lost_canary()
        if lost is not None:
            opened = self.refreshed()
            lost = opened._lost_canary()
        if lost is not None:
            offset = SLOT_OFFSETS[0] + STATUS.offsets["canaries"] + HASH.size * lost
            expected = f"canary {lost}, a key that was added, to be found"
            found = "a cleared bit: the payload has lost keys"
            raise FormatError(self.where, "canaries", offset, expected, found)
        return opened

    def _lost_canary(self) -> int | None:
        """Return the index of the first canary that is "definitely not" in, if there is one."""
        canaries = self.status.canaries
        found = self.found(canaries)
        if len(found) == len(canaries):
            return None
        return next((i for i, canary in enumerate(canaries) if canary not in found), None)

    def found(self, canaries: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Return up to 8 of these hashes, each once, those that may be in."""
        if not canaries:
            return ()
        hashes = dict.fromkeys(canaries)
        packed = b"".join(HASH.pack(*each) for each in hashes)
        answers = bytearray(len(hashes))
        view, storage = self.attached, self.storage
        if storage.names_pages:
            with storage.loaded(view.pages_of(packed)):
                view.contains_hashes(packed, answers)
        else:
            storage.start_reading(view.pages_of(packed))  # cold: all at once
            view.contains_hashes(packed, answers)
        maybe = [each for each, answer in zip(hashes, answers, strict=True) if answer]
        return tuple(maybe[:MAX_CANARIES])
