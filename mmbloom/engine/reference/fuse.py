"""Binary fuse filters, looked up and constructed: FORMAT.md, "Fuse filters"."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.engine.reference.hashes import HASH, MASK64
from mmbloom.engine.reference.probes import GOLDEN64

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

LINE_BITS = 512
SEED_BYTES = 8
READ_AHEAD_BITS = 32
PLACE_BITS = 18
MAX_SHARD_KEYS = (1 << 24) - 1
MAX_KEYS_OF_SLOT = 255  # as the kernel counts: with more, no seed is given out


class Fuse(NamedTuple):
    """The shape of a payload, in the order of the header."""

    arity: int
    fingerprint_bits: int
    segment_slots: int
    num_segments: int
    num_shards: int

    @property
    def num_slots(self) -> int:
        """Slots of a shard."""
        return self.segment_slots * self.num_segments

    @property
    def shard_bytes(self) -> int:
        """Bytes of a shard."""
        return _line_bytes(self.num_slots * self.fingerprint_bits + READ_AHEAD_BITS)

    @property
    def num_bytes(self) -> int:
        """Bytes of the shards and the table of seeds."""
        table = _line_bytes(8 * SEED_BYTES * self.num_shards)
        return self.num_shards * self.shard_bytes + table or LINE_BITS // 8

    def shard_of(self, hi: int) -> tuple[int, int]:
        """Return the shard, and what is left of hi for the place in it."""
        product = hi * self.num_shards
        return product >> 64, product & MASK64

    def slots(self, rest: int, lo: int, seed: int) -> list[int]:
        """Return the slots of a key in its shard, one in each of `arity` neighbouring segments."""
        size = self.segment_slots
        start = rest * (self.num_slots - (self.arity - 1) * size) >> 64
        once = (lo ^ seed) * GOLDEN64 & MASK64
        mixed = (once ^ once >> 32) * GOLDEN64 & MASK64
        shifts = [64 - PLACE_BITS * i for i in range(1, self.arity)]
        jumps = [mixed >> shift & size - 1 for shift in shifts]
        return [start, *(start + i * size ^ jump for i, jump in enumerate(jumps, 1))]

    def fingerprint(self, hi: int, lo: int) -> int:
        """Return what the slots of a key must give together."""
        return (hi ^ lo) & (1 << self.fingerprint_bits) - 1

    def contains(self, payload: memoryview, hi: int, lo: int) -> bool:
        """Return whether the slots of a key give its fingerprint."""
        if not self.num_shards:
            return False
        base, slots = self._places(payload, hi, lo)
        shard = payload[base : base + self.shard_bytes]
        found = 0
        for slot in slots:
            found ^= _read(shard, slot, self.fingerprint_bits)
        return found == self.fingerprint(hi, lo)

    def bytes_read(self, payload: memoryview, hi: int, lo: int) -> list[int]:
        """Return where the seed of the shard and the fingerprints of a key lie."""
        if not self.num_shards:
            return []
        width, (base, slots) = self.fingerprint_bits, self._places(payload, hi, lo)
        ends = [base + (slot * width + bit >> 3) for slot in slots for bit in (0, width - 1)]
        return [self._seed_offset(hi), *ends]

    def _seed_offset(self, hi: int) -> int:
        return self.num_shards * self.shard_bytes + SEED_BYTES * self.shard_of(hi)[0]

    def _places(self, payload: memoryview, hi: int, lo: int) -> tuple[int, list[int]]:
        """Return where the shard of a key begins, and its slots there."""
        at = self._seed_offset(hi)
        seed = int.from_bytes(payload[at : at + SEED_BYTES], "little")
        shard, rest = self.shard_of(hi)
        return shard * self.shard_bytes, self.slots(rest, lo, seed)


def _line_bytes(num_bits: int) -> int:
    return -(-num_bits // LINE_BITS) * (LINE_BITS // 8)


def _read(shard: Buffer, slot: int, width: int) -> int:
    first, shift = divmod(slot * width, 8)
    last = slot * width + width - 1 >> 3
    some = int.from_bytes(memoryview(shard)[first : last + 1], "little")
    return some >> shift & (1 << width) - 1


def fuse_shard(  # noqa: PLR0913, PLR0917 - the kernel's signature
    hashes: Buffer,
    arity: int,
    fingerprint_bits: int,
    segment_slots: int,
    num_segments: int,
    num_shards: int,
    max_seeds: int,
    scratch: Buffer,
) -> tuple[int, bytearray] | None:
    """Construct one shard from its distinct hashes; return seed and bytes, None if no seed fits."""
    needed = fuse_scratch_bytes(arity, segment_slots, num_segments)
    size = memoryview(scratch).nbytes
    fuse = Fuse(arity, fingerprint_bits, segment_slots, num_segments, num_shards)
    keys = list(HASH.iter_unpack(bytes(hashes)))
    if len(keys) > MAX_SHARD_KEYS:
        raise ValueError(f"{len(keys)} hashes in a shard, at most {MAX_SHARD_KEYS}")
    if size < needed:
        boundary = f"{needed} are needed, on a 4-byte boundary"
        raise ValueError(f"scratch holds {size} bytes; {boundary}")
    if len(keys) > fuse.num_slots:
        return None
    for number in range(1, max_seeds + 1):
        seed = number * GOLDEN64 & MASK64
        places = [fuse.slots(fuse.shard_of(hi)[1], lo, seed) for hi, lo in keys]
        segments = [slots[0] // segment_slots for slots in places]
        if segments != sorted(segments):
            raise ValueError("the hashes of a shard are not in order")
        order = _peel(fuse, places)
        if order is not None:
            prints = [fuse.fingerprint(hi, lo) for hi, lo in keys]
            return seed, _assign(fuse, places, prints, order)
    return None


def fuse_scratch_bytes(arity: int, segment_slots: int, num_segments: int) -> int:  # noqa: ARG001 - the kernel's signature
    """Return how much memory the kernel works in; here it is not used."""
    return 12 * segment_slots * num_segments + 4


def _peel(fuse: Fuse, places: list[list[int]]) -> list[tuple[int, int]] | None:
    """Return (key, its own slot) in the order in which keys come out, None if some never do.

    Keys come in segment by segment; before the next segment all that can go go.
    """
    members: list[set[int]] = [set() for _ in range(fuse.num_slots)]
    waiting = deque(enumerate(places))
    order: list[tuple[int, int]] = []
    for first in range(0, fuse.num_slots, fuse.segment_slots):
        end = first + fuse.segment_slots  # the slots before it are complete
        while waiting and waiting[0][1][0] < end:
            key, slots = waiting.popleft()
            for slot in slots:
                members[slot].add(key)
                if len(members[slot]) == MAX_KEYS_OF_SLOT:
                    return None
        alone = deque(slot for slot in range(first, end) if len(members[slot]) == 1)
        while alone:
            own = alone.popleft()
            if members[own]:  # else its key went with another slot of its own
                (key,) = members[own]
                order.append((key, own))
                for slot in places[key]:
                    members[slot].remove(key)
                    if len(members[slot]) == 1 and slot < end:
                        alone.append(slot)
    return order if len(order) == len(places) else None


def _assign(
    fuse: Fuse, places: list[list[int]], prints: list[int], order: list[tuple[int, int]]
) -> bytearray:
    """Give each key's own slot the value that makes the xor of all its slots its fingerprint."""
    values = [0] * fuse.num_slots
    for key, own in reversed(order):
        value = prints[key]
        for slot in places[key]:
            value ^= values[slot]
        values[own] = value
    packed = 0
    for value in reversed(values):
        packed = packed << fuse.fingerprint_bits | value
    return bytearray(packed.to_bytes(fuse.shard_bytes, "little"))
