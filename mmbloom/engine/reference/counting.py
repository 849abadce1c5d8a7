"""A counting filter, and whole payloads of counters: the reference of CountingCore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.engine.reference.core import MAX_CANARIES, PAGE_BYTES, ChangingCore
from mmbloom.engine.reference.hashes import HASH, hash_key
from mmbloom.engine.reference.probes import NARROW, NARROW_BITS, probes
from mmbloom.errors import AbsentKeyError, CapacityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

    from _typeshed import ReadableBuffer as Buffer
    from _typeshed import WriteableBuffer

MOST = 15  # a counter that is there stays there: it no longer knows how many keys it counts
LINE_BYTES = NARROW_BITS // 2


class CountingCore(ChangingCore):
    """The counters of one filter over one payload; CountingBloomFilter inherits from it."""

    _first: tuple[tuple[int, int], ...]
    _recent: list[tuple[int, int]]

    def _attach(  # noqa: PLR0913 - the kernel's signature
        self,
        payload: Buffer,
        num_counters: int,
        num_probes: int,
        seed: int,
        key_form: int,
        *,
        writable: bool,
        write_through: bool,
        keys_added: int,
        limit: int | None,
        num_saturated: int,
    ) -> None:
        if not 0 < num_counters <= 1 << 53 or num_counters % NARROW_BITS:
            raise ValueError(f"num_counters is {num_counters}; not a multiple of {NARROW_BITS}")
        self._num_counters, self._num_probes = num_counters, num_probes
        self._saturated, self._has_removed, self._drift = num_saturated, keys_added > 0, 0
        self._hold_changing(
            payload, 4 * num_counters, writable, write_through, seed, key_form, keys_added, limit
        )

    def _take_shape(self, other: Self) -> None:
        super()._take_shape(other)
        self._num_counters, self._num_probes = other._num_counters, other._num_probes
        self._saturated, self._has_removed = other._saturated, other._has_removed
        self._drift = other._drift

    @property
    def num_saturated(self) -> int:
        """Counters that are at the most, and stay there."""
        return self._saturated

    @num_saturated.setter
    def num_saturated(self, number: int) -> None:
        self._saturated = number

    def _keys_by_estimate(self) -> int:
        """Return a count of the keys that is not too high: a hook."""
        return self._keys_added

    def _counters_of(self, hi: int, lo: int) -> set[int]:
        return set(probes(NARROW, self._num_counters, self._num_probes, hi, lo))

    def _least(self, payload: memoryview, counters: Iterable[int]) -> int:
        return min(payload[i >> 1] >> 4 * (i & 1) & MOST for i in counters)

    def _contains_hash(self, hi: int, lo: int) -> bool:
        with self._mutex:
            return self._least(self._bytes(), self._counters_of(hi, lo)) > 0

    def _bytes_read(self, hi: int, lo: int) -> list[int]:
        return [i >> 1 for i in self._counters_of(hi, lo)]

    def count_estimate(self, key: object, /) -> int:
        """Return the least counter of *key*."""
        if self._is_due():
            self._look_at_path()
        with self._mutex:
            payload = self._bytes()
            counters = self._counters_of(*hash_key(key, self._seed, self._key_form))
            return self._least(payload, counters)

    def add(self, key: object, /) -> bool:
        """Add one key; return whether it was new."""
        return self._add_hashes(HASH.pack(*hash_key(key, self._seed, self._key_form))) == 1

    def remove(self, key: object, /) -> bool:
        """Remove one key; return whether it is certainly absent now."""
        return self._remove_hashes(HASH.pack(*hash_key(key, self._seed, self._key_form))) == 1

    def _add_hashes(self, hashes: Buffer) -> int:
        num_new = 0
        with self._mutex:
            payload = self._check_writable()
            try:
                for key in HASH.iter_unpack(bytes(hashes)):
                    counters = self._counters_of(*key)
                    if self._least(payload, counters) == 0:
                        if not self._has_room_for(1):
                            raise CapacityError(self._where(), self._limit or 0, num_new)
                        self._keys_added += 1
                        num_new += 1
                    self._step(payload, counters, 1)
                    self._keep_canary(key)
                    self._recent = [*self._recent, (key[0], key[1])][-MAX_CANARIES:]
            finally:
                if self._write_through:
                    self._publish()
        return num_new

    def _remove_hashes(self, hashes: Buffer) -> int:
        num_gone = 0
        with self._mutex:
            payload = self._check_writable()
            try:
                for index, key in enumerate(HASH.iter_unpack(bytes(hashes))):
                    counters = self._counters_of(*key)
                    if self._least(payload, counters) == 0:
                        raise AbsentKeyError(self._where(), index)
                    self._has_removed = True
                    self._step(payload, counters, -1)
                    num_gone += self._least(payload, counters) == 0
            finally:
                self._keys_added -= min(self._keys_added, num_gone)
                self._drop_lost_canaries()
                if self._write_through:
                    self._publish()
        return num_gone

    def _has_room_for(self, num_keys: int) -> bool:
        """Return whether new keys fit; if it seems not, as the counters tell after removals."""
        with self._mutex:
            if self._limit is None:
                return True
            if self._keys_added - self._drift + num_keys > self._limit and self._has_removed:
                self._has_removed = False
                self._drift = max(0, self._keys_added - self._keys_by_estimate())
            return self._keys_added - self._drift + num_keys <= self._limit

    def _step(self, payload: memoryview, counters: Iterable[int], step: int) -> None:
        """Count up or down; what is at the most stays there."""
        self._marks += self._write_through
        for i in counters:
            shift = 4 * (i & 1)
            if payload[i >> 1] >> shift & MOST != MOST:
                payload[i >> 1] += step << shift
                self._saturated += payload[i >> 1] >> shift & MOST == MOST
            if self._write_through:
                self._dirty.add((i >> 1) // PAGE_BYTES)

    def _keep_canary(self, key: tuple[int, ...]) -> None:
        """Keep the first distinct keys, as long as they are in."""
        if len(self._first) < MAX_CANARIES and key not in self._first:
            self._first += ((key[0], key[1]),)

    def _drop_lost_canaries(self) -> None:
        self._first = tuple(key for key in self._first if self._contains_hash(*key))

    @property
    def _canary_hashes(self) -> tuple[tuple[int, int], ...]:
        """Return the first and the latest keys: any may be a canary, as long as it is in."""
        return tuple(dict.fromkeys((*self._first, *self._recent)))

    @_canary_hashes.setter
    def _canary_hashes(self, hashes: tuple[tuple[int, int], ...]) -> None:
        self._first, self._recent = tuple(hashes[:MAX_CANARIES]), []

    def _load(self, other: Buffer, keys_added: int) -> None:
        with self._mutex:
            super()._load(other, keys_added)
            self._saturated, self._has_removed = counter_histogram(self._bytes())[1], True

    def _combine(self, other: Buffer | None, operation: str, keys_added: int) -> None:
        with self._mutex:
            payload = self._check_writable()
            size = len(payload)
            operand = bytes(size) if other is None else memoryview(other).cast("B")
            if len(operand) != size:
                raise ValueError(f"payloads of {size} and {len(operand)} bytes")
            if operation == "or":
                unite_counters(payload, operand)
            elif operation == "clear":
                payload[:] = bytes(size)
            else:
                raise KeyError(operation)
            self._saturated = counter_histogram(payload)[1]
            self._keys_added, self._has_removed = keys_added, True
            self._drop_lost_canaries()
            self._mark_everything()


def _each(payload: Buffer) -> Iterator[int]:
    """Yield every counter in order."""
    for byte in memoryview(payload).cast("B"):
        yield byte & MOST
        yield byte >> 4


def counter_histogram(payload: Buffer) -> tuple[list[int], int]:
    """Return how many lines have x counters that are not zero, x = 0..128; how many are full."""
    histogram = [0] * (NARROW_BITS + 1)
    num_saturated = 0
    view = memoryview(payload).cast("B")
    for end in range(LINE_BYTES, len(view) + 1, LINE_BYTES):
        counters = list(_each(view[end - LINE_BYTES : end]))
        histogram[NARROW_BITS - counters.count(0)] += 1
        num_saturated += counters.count(MOST)
    return histogram, num_saturated


def count_part(
    target: WriteableBuffer, first: int, num_bits: int, num_probes: int, hashes: Buffer
) -> None:
    """Count the keys whose line falls into *target*, the payload from byte *first* on."""
    view = memoryview(target).cast("B")
    if first % LINE_BYTES or len(view) % LINE_BYTES:
        whole = f"not whole blocks of {LINE_BYTES}"
        raise ValueError(f"bytes {first} to {first + len(view)}: {whole}")
    for hi, lo in HASH.iter_unpack(bytes(hashes)):
        for i in set(probes(NARROW, num_bits // 4, num_probes, hi, lo)):
            byte, shift = (i >> 1) - first, 4 * (i & 1)
            if 0 <= byte < len(view) and view[byte] >> shift & MOST != MOST:
                view[byte] += 1 << shift


def unite_counters(target: WriteableBuffer, other: Buffer) -> None:
    """Add every counter of *other* to that of *target*, to 15 at most."""
    view, operand = memoryview(target).cast("B"), memoryview(other).cast("B")
    if len(view) != len(operand):
        raise ValueError(f"payloads of {len(view)} and {len(operand)} bytes")
    sums = (min(sum(pair), MOST) for pair in zip(_each(view), _each(operand), strict=True))
    view[:] = bytes(low | high << 4 for low, high in zip(sums, sums, strict=True))


def flatten_counters(payload: Buffer, bits: WriteableBuffer) -> None:
    """Write one bit a counter: 1 where it is not zero."""
    target = memoryview(bits).cast("B")
    for i, eight in enumerate(zip(*[(c > 0 for c in _each(payload))] * 8, strict=True)):
        target[i] = sum(bit << j for j, bit in enumerate(eight))
