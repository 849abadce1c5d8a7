"""Hashes -> partitions by the top bits of hi, and payloads built from them in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.engine.reference.hashes import HASH, hash_bytes
from mmbloom.engine.reference.keys import canonical_bytes
from mmbloom.engine.reference.probes import (
    CLASSIC,
    LINE,
    LINE_BITS,
    NARROW,
    NARROW_BITS,
    PAGE_BITS,
    probes,
)
from mmbloom.errors import KeyValueError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer as Buffer
    from _typeshed import WriteableBuffer

    from mmbloom.engine.reference.keys import Batch

CHUNK_HASHES = 256
CHUNK_BYTES = CHUNK_HASHES * HASH.size
STAGED_HASHES = 16
MOST_BITS = 16
MOST_BAD = 8


class Partitions:
    """Lists of hashes, one a partition: memory is counted as the kernel does, roughly."""

    def __init__(self, memory: WriteableBuffer, bits: int, num_lanes: int) -> None:
        if not 1 <= bits <= MOST_BITS or num_lanes < 1:
            message = f"{bits} bits, {num_lanes} lanes: at least 1, bits at most {MOST_BITS}"
            raise ValueError(message)
        stage_bytes = -(-num_lanes * STAGED_HASHES * HASH.size * (1 << bits) // CHUNK_BYTES)
        self._num_chunks = memoryview(memory).nbytes // CHUNK_BYTES - stage_bytes
        if self._num_chunks < 1:
            raise ValueError(f"memory: more than {stage_bytes} pages")
        self._num_partitions = 1 << bits
        self._bits, self._num_lanes = bits, num_lanes
        self.clear()

    def clear(self) -> None:
        """Forget all hashes."""
        self._hashes: list[list[bytes]] = [[] for _ in range(self._num_partitions)]

    @property
    def chunks_left(self) -> int:
        """Chunks that are not in use."""
        used = sum(-(-len(hashes) // CHUNK_HASHES) for hashes in self._hashes)
        return max(0, self._num_chunks - used - self._num_partitions)

    def chunks_for(self, num_keys: int) -> int:
        """Return how many chunks adding *num_keys* keys to a lane takes at most."""
        return num_keys // CHUNK_HASHES + 1 + min(num_keys, self._num_partitions)

    def add_hashes(self, lane: int, hashes: Buffer) -> None:
        """Add hashes."""
        view = memoryview(hashes).cast("B")
        self._check_room(lane, len(view) // HASH.size)
        for start in range(0, len(view), HASH.size):
            self._add(bytes(view[start : start + HASH.size]))

    def add_batch(
        self,
        lane: int,
        batch: Batch,
        seed: int,
        key_form: int,
        skip_bad: bool,  # noqa: FBT001 - the kernel's
    ) -> tuple[int, int, list[Exception]]:
        """Hash the keys of a batch and add them; bad ones are counted, and skipped if asked."""
        self._check_room(lane, batch.most_keys)
        errors: list[Exception] = []
        count = 0
        for data in _canonical_or_error(batch, key_form):
            if isinstance(data, bytes):
                self._add(HASH.pack(*hash_bytes(data, seed)))
                count += 1
            elif skip_bad:
                errors.append(data)
            else:
                raise data
        return count, len(errors), errors[:MOST_BAD]

    def count(self, partition: int) -> int:
        """Return how many hashes a partition holds."""
        return len(self._hashes[partition])

    def copy(self, partition: int, out: WriteableBuffer, skip: int = 0) -> int:
        """Copy hashes of a partition to *out*, behind the first *skip*; return how many."""
        view = memoryview(out).cast("B")
        some = self._hashes[partition][skip : skip + len(view) // HASH.size]
        view[: len(some) * HASH.size] = b"".join(some)
        return len(some)

    def take(self, partition: int, out: WriteableBuffer) -> int:
        """Move hashes of a partition to *out*, as many as fit; return how many."""
        view = memoryview(out).cast("B")
        room = len(view) // HASH.size
        if room < CHUNK_HASHES + STAGED_HASHES:
            raise ValueError(f"out holds {room} hashes; a chunk has {CHUNK_HASHES}")
        hashes = self._hashes[partition]
        taken = hashes[-room:]
        del hashes[-room:]
        view[: len(taken) * HASH.size] = b"".join(taken)
        return len(taken)

    def put_back(self, lane: int, partition: int, hashes: Buffer) -> None:
        """Add hashes of one partition, sorted, that were taken from it."""
        self._check_lane(lane)
        view = memoryview(hashes).cast("B")
        for start in range(0, len(view), HASH.size):
            hi, _ = HASH.unpack_from(view, start)
            if hi >> (64 - self._bits) != partition:
                raise ValueError(f"not the sorted hashes of partition {partition}")
            self._add(bytes(view[start : start + HASH.size]))

    def _add(self, packed: bytes) -> None:
        hi, _ = HASH.unpack(packed)
        self._hashes[hi >> (64 - self._bits)].append(packed)

    def _check_room(self, lane: int, num_keys: int) -> None:
        self._check_lane(lane)
        if self.chunks_for(num_keys) > self.chunks_left:
            raise MemoryError(f"no room for {num_keys} hashes: spill first")

    def _check_lane(self, lane: int) -> None:
        if not 0 <= lane < self._num_lanes:
            raise IndexError(f"lane {lane} of {self._num_lanes}")


def _canonical_or_error(batch: Batch, key_form: int) -> Iterator[bytes | Exception]:
    """Yield the canonical bytes of every key, or why it has none."""
    for index, key in enumerate(batch.keys_or_errors()):
        if isinstance(key, SourceError):
            yield key
            continue
        try:
            yield canonical_bytes(key, key_form)
        except KeyValueError:
            try:
                canonical_bytes(key, key_form, batch.describe(index))
            except KeyValueError as exc:
                yield exc


def add_part(  # noqa: PLR0913, PLR0917 - the kernel's signature
    target: WriteableBuffer,
    first: int,
    layout: int,
    num_bits: int,
    num_probes: int,
    hashes: Buffer,
) -> None:
    """Set the bits of hashes that fall into *target*, the payload from byte *first* on."""
    view = memoryview(target).cast("B")
    block_bytes = 1 if layout == CLASSIC else _block_bits(layout) // 8
    if first % block_bytes or len(view) % block_bytes:
        whole = f"not whole blocks of {block_bytes}"
        raise ValueError(f"bytes {first} to {first + len(view)}: {whole}")
    for hi, lo in HASH.iter_unpack(bytes(hashes)):
        for bit in probes(layout, num_bits, num_probes, hi, lo):
            byte = (bit >> 3) - first
            if 0 <= byte < len(view):
                view[byte] |= 1 << (bit & 7)


def span(layout: int, num_bits: int, lowest: int, highest: int) -> tuple[int, int]:
    """Return the bytes [first, end) in which the blocks of keys lie whose hi is in a range."""
    if layout == CLASSIC:
        return 0, -(-num_bits // LINE_BITS) * (LINE_BITS // 8)
    block_bits = _block_bits(layout)
    blocks = num_bits // block_bits
    first, last = lowest * blocks >> 64, highest * blocks >> 64
    return first * block_bits // 8, (last + 1) * block_bits // 8


def _block_bits(layout: int) -> int:
    return {NARROW: NARROW_BITS, LINE: LINE_BITS}.get(layout, PAGE_BITS)
