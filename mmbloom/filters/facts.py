"""What a filter of any kind says of itself: parameters, counts, and whether its bytes are sound.

Reads the header, the status and the payload; changes nothing. A kind adds what only it can tell.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

from mmbloom.engine import ENGINE, FilterCore, popcount
from mmbloom.errors import ClosedError, FormatError
from mmbloom.format.checksums import check_payload
from mmbloom.format.fields import HASH, MAX_CANARIES, SLOT_OFFSETS, STATUS
from mmbloom.storage.mapped import MappedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mmbloom.format.header import Header
    from mmbloom.format.status import Status
    from mmbloom.storage.writable import WritableFile

    Progress = Callable[[int, int], object]

LINE_BYTES = 64


class FilterFacts(FilterCore):
    """What all kinds tell; see BloomFilter and FuseFilter."""

    kind: ClassVar[str]  # as ``info`` and errors name it
    place_bits: ClassVar[int] = 1  # bits of the payload that a place takes: it is set, or it is not

    _header: Header
    _status: Status
    _storage: MappedFile | WritableFile | None  # None: in memory
    _payload: memoryview

    # -- parameters --------------------------------------------------------------------------------

    @property
    def path(self) -> str | None:
        """The file, or None for a filter in memory."""
        return None if self._storage is None else self._storage.path

    @property
    def capacity(self) -> int:
        """Distinct keys it is sized for."""
        return self._header.capacity

    @property
    def fpr(self) -> float:
        """The target: the false-positive rate at *capacity* keys.

        expected_fpr() is the rate that the filter has now.
        """
        return self._header.fpr

    @property
    def layout(self) -> str:
        """Where a key's probes lie; FORMAT.md has the list."""
        return self._header.layout_name

    @property
    def num_bits(self) -> int:
        """Size of the filter in bits (m)."""
        return self._header.num_bits

    @property
    def num_probes(self) -> int:
        """Places of the payload read for each key (k)."""
        return self._header.num_probes

    @property
    def seed(self) -> int:
        """Seed of the hash."""
        return self._header.seed

    @property
    def key_form(self) -> str:
        """What is done to a key before it is hashed: "raw" or "hex"."""
        return self._header.key_form_name

    @property
    def metadata(self) -> dict[str, Any]:
        """A copy of the user's metadata."""
        return self._header.metadata

    @property
    def uuid(self) -> str:
        """Identity of this build, 32 hexadecimal digits.

        A file that is built again from other keys has another one.
        """
        return self._header.uuid.hex()

    @property
    def generation(self) -> int:
        """How often a filter was published under this path: 1, and one more each time."""
        return self._status.generation

    @property
    def sealed(self) -> bool:
        """Whether the file is finished, with checksums. Such a file never changes."""
        return self._status.is_sealed

    @property
    def writable(self) -> bool:
        """Whether this handle can add."""
        return not self.closed and not isinstance(self._storage, MappedFile)

    # -- counts and rates --------------------------------------------------------------------------

    def expected_fpr(self) -> float:
        """Return the false-positive rate of the filter as it is now.

        Cost: one pass over the payload, unless sealed: then it is stored.
        """
        steady = self._steady()
        if steady.sealed:
            steady._check_whole()
            return steady._status.achieved_fpr
        whole = steady._whole()
        with whole._whole_payload() as payload:
            return whole._measure_fpr(payload)

    def _measure_fpr(self, payload: memoryview) -> float:
        """Return the rate that *payload* gives: the kind's own."""
        raise NotImplementedError(len(payload))

    def fill_by_region(self, num_regions: int = 64) -> list[float]:
        """Return how full each of up to *num_regions* equal parts of the payload is, from 0 to 1.

        Hashes are uniform, so the parts of a sound filter are alike; lost data shows as a hole.
        Cost: one pass over the payload.
        """
        whole = self._whole()
        with whole._whole_payload() as payload:
            num_lines = len(payload) // LINE_BYTES
            count = max(1, min(num_regions, num_lines))
            edges = [LINE_BYTES * (num_lines * i // count) for i in range(count + 1)]
            ends = [min(8 * edge, whole.num_bits) for edge in edges]
            return [
                whole._count_set(payload[edges[i] : edges[i + 1]])
                * self.place_bits
                / (ends[i + 1] - ends[i])
                for i in range(count)
            ]

    def _bits_set(self) -> int:
        if self.sealed:
            self._check_whole()
            return self._status.bits_set
        whole = self._whole()
        with whole._whole_payload() as payload:
            return whole._count_set(payload)

    def _count_set(self, payload: memoryview) -> int:
        """Return how many places of a part of the payload, in whole lines, are set."""
        return popcount(payload)

    def _read_status(self) -> None:
        """Take over what a writer has stored since this reader opened the file."""
        if isinstance(self._storage, MappedFile) and not self.sealed:
            self._status = self._storage.read_status()
            self.keys_added = self._status.keys_added

    def info(self) -> dict[str, Any]:
        """Return everything that the filter says of itself, as JSON-able values.

        ``writer_open``: somebody has the file open for writing, or died; then ``keys_added`` is
        what was stored last, and there may be more. Cost: as expected_fpr().
        """
        from datetime import UTC, datetime  # takes as long to load as an open

        self._check_open()
        self._read_status()
        steady = self._steady()
        if steady is not self:
            return steady.info()
        header, status = self._header, self._status
        bits_set = self._bits_set()
        return {
            "path": self.path,
            "kind": self.kind,
            "layout": self.layout,
            "state": "sealed" if self.sealed else "writable",
            "file_bytes": None if self._storage is None else header.file_bytes,
            "payload_bytes": header.payload_bytes,
            "num_bits": self.num_bits,
            "num_probes": self.num_probes,
            "bits_per_key": self.num_bits / self.capacity,
            "capacity": self.capacity,
            "keys_added": self.keys_added,
            "keys_exact": status.keys_exact,
            "writer_open": status.writer_open,
            "fpr": self.fpr,
            "expected_fpr": self.expected_fpr(),
            "bits_set": bits_set,
            "fill_ratio": bits_set * self.place_bits / self.num_bits,
            "seed": self.seed,
            "key_form": self.key_form,
            "format_version": header.format_version,
            "generation": status.generation,
            "key_set": f"{status.key_set:032x}" if status.fingerprint_known else None,
            "uuid": self.uuid,
            "created": datetime.fromtimestamp(header.created_unix_ns // 10**9, UTC).isoformat(),
            "metadata": self.metadata,
            "engine": ENGINE,
            **self._kind_facts(),
        }

    def _kind_facts(self) -> dict[str, Any]:
        """Return what only filters of this kind say of themselves."""
        return {}

    # -- soundness ---------------------------------------------------------------------------------

    def verify(self, *, progress: Progress | None = None, num_threads: int | None = None) -> int:
        """Read the whole file and compare it with its checksums.

        Args:
            progress: called as ``progress(done_bytes, total_bytes)``.
            num_threads: None for one a core.

        Returns:
            Payload bytes compared with a checksum: 0 for a filter that is not sealed, which has no
            checksums yet.

        Raises:
            ChecksumError: the first damaged MiB is named.
            FormatError: counts or canaries do not fit the payload.
            TruncatedError: the file was cut since it was opened.

        Cost: one pass over the payload.
        """
        whole = self._whole()
        if whole is not self:
            return whole.verify(progress=progress, num_threads=num_threads)
        storage = self._storage
        if not isinstance(storage, MappedFile):
            self._check_open()
            return 0  # the memory of this process
        with self._whole_payload() as payload:
            self._read_status()
            self._check_canaries()
            if not self.sealed:
                return 0
            num_threads = num_threads or len(os.sched_getaffinity(0))
            self._check_payload(payload, storage, progress, num_threads)
        return self._header.payload_bytes

    def _check_payload(
        self,
        payload: memoryview,
        storage: MappedFile,
        progress: Progress | None,
        num_threads: int,
    ) -> None:
        page_in, path = storage.pager(), storage.path
        page_in(self._header.payload_bytes, len(storage.checksums))
        counts: list[int] = []

        def page_in_and_count(start: int, num_bytes: int) -> None:
            page_in(start, num_bytes)
            counts.append(self._count_set(payload[start : start + num_bytes]))

        check_payload(
            payload,
            bytes(storage.checksums),
            self._header,
            self._status,
            path,
            progress=progress,
            num_threads=num_threads,
            page_in=page_in_and_count,
        )
        found = sum(counts)
        if found != self._status.bits_set:
            offset = SLOT_OFFSETS[0] + STATUS.offsets["bits_set"]
            counted = f"{found}, as counted"
            raise FormatError(path, "bits_set", offset, counted, self._status.bits_set)

    def _check_canaries(self) -> None:
        """Look up keys that are known to be in: proof that these probes read what was written."""
        lost = self._lost_canary()
        if lost is not None:
            self._read_status()  # a writer that clears the filter takes the canaries back first
            lost = self._lost_canary()
        if lost is not None:
            offset = SLOT_OFFSETS[0] + STATUS.offsets["canaries"] + HASH.size * lost
            expected = f"canary {lost}, a key that was added, to be found"
            found = "a cleared bit: the payload has lost keys"
            raise FormatError(self._where(), "canaries", offset, expected, found)

    def _lost_canary(self) -> int | None:
        """Return the index of the first canary that is "definitely not" in, if there is one."""
        canaries = self._status.canaries
        found = self._found(canaries)
        return next((i for i, canary in enumerate(canaries) if canary not in found), None)

    def _index_pages(self) -> Sequence[int]:
        """Return the pages that _pages_of() itself reads, whatever the keys: the kind's own."""
        return ()

    def _found(self, canaries: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Return up to 8 of the hashes, those that may be in."""
        hashes = dict.fromkeys(canaries)
        packed = b"".join(HASH.pack(*each) for each in hashes)
        if isinstance(self._storage, MappedFile):
            self._storage.start_reading(self._pages_of(packed))  # cold: all at once
        answers = bytearray(len(hashes))
        self._contains_hashes(packed, answers)
        found = (each for each, maybe in zip(hashes, answers, strict=True) if maybe)
        return tuple(found)[:MAX_CANARIES]

    # -- the handle --------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError(f"{self._where()} is closed")

    def _open_payload(self) -> memoryview:
        payload = self._payload  # first: another thread may close the filter between these lines
        self._check_open()
        return payload

    @contextmanager
    def _whole_payload(self) -> Iterator[memoryview]:
        """Lend the payload for a pass over it; that of a file only if it is all there throughout.

        That is asked after the pass too: the system fills the last page of a file that was cut with
        zero bytes, and keys that were in it would be lost without a word.
        """
        payload = self._open_payload()
        storage = self._storage
        self._check_length(storage)
        try:
            yield payload
        finally:
            self._check_length(storage)

    def _check_whole(self) -> None:
        """Raise unless this is open, and its file as long as it was."""
        self._check_open()
        self._check_length(self._storage)

    def _check_length(self, storage: MappedFile | WritableFile | None) -> None:
        if isinstance(storage, MappedFile):
            with suppress(ClosedError):  # by another thread: what was found until then holds
                storage.check_length()

    def _report_cut(self) -> None:
        if isinstance(self._storage, MappedFile):
            self._storage.report_cut()

    def _checked_payload(self) -> memoryview:
        """Return the payload; that of a sealed file only if it is as it was sealed."""
        whole = self._whole()
        whole.verify()
        return whole._open_payload()

    def _steady(self) -> Self:
        """Return a handle in which no other file is ever swapped in, for what takes long."""
        return self

    def _whole(self) -> Self:
        """Return a steady handle whose payload is all there."""
        return self._steady()

    def _where(self) -> str:
        return self.path or "the filter in memory"

    def __repr__(self) -> str:
        """Tell what the filter is without reading the payload."""
        where = "in memory" if self.path is None else repr(self.path)
        state = "closed" if self.closed else "writable" if self.writable else "read-only"
        keys = f"{self.keys_added} of {self.capacity} keys"
        name = type(self).__name__
        return f"<{name} {where}, {self.layout}, {keys} at fpr {self.fpr:g}, {state}>"
