"""A Bloom filter: the reference of BloomCore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.engine.reference.core import ChangingCore
from mmbloom.engine.reference.hashes import HASH, hash_key
from mmbloom.engine.reference.probes import PAGE_BITS, probes
from mmbloom.errors import CapacityError

if TYPE_CHECKING:
    from typing import Self

    from _typeshed import ReadableBuffer as Buffer


class BloomCore(ChangingCore):
    """The probes of one filter over one payload; BloomFilter inherits from it."""

    def _attach(  # noqa: PLR0913, PLR0917 - the kernel's signature
        self,
        payload: Buffer,
        layout: int,
        num_bits: int,
        num_probes: int,
        seed: int,
        key_form: int,
        *,
        writable: bool,
        write_through: bool,
        keys_added: int,
        limit: int | None,
    ) -> None:
        self._geometry = (layout, num_bits, num_probes)
        self._hold_changing(
            payload, num_bits, writable, write_through, seed, key_form, keys_added, limit
        )

    def _take_shape(self, other: Self) -> None:
        super()._take_shape(other)
        self._geometry = other._geometry

    def _contains_hash(self, hi: int, lo: int) -> bool:
        with self._mutex:
            payload = self._bytes()
            return all(payload[i >> 3] >> (i & 7) & 1 for i in probes(*self._geometry, hi, lo))

    def _bytes_read(self, hi: int, lo: int) -> list[int]:
        return [bit >> 3 for bit in probes(*self._geometry, hi, lo)]

    def add(self, key: object, /) -> bool:
        """Add one key; return whether it was new."""
        return self._add_hashes(HASH.pack(*hash_key(key, self._seed, self._key_form))) == 1

    def _add_hashes(self, hashes: Buffer) -> int:
        num_new = 0
        with self._mutex:
            payload = self._check_writable()
            try:
                for key in HASH.iter_unpack(bytes(hashes)):
                    if not self._contains_hash(*key):
                        if self._limit is not None and self._keys_added >= self._limit:
                            raise CapacityError(self._where(), self._limit, num_new)
                        self._set_bits(payload, probes(*self._geometry, *key))
                        self._keys_added += 1
                        num_new += 1
                    self._keep_canary(key)
            finally:
                if self._write_through:
                    self._publish()
        return num_new

    def _set_bits(self, payload: memoryview, bits: list[int]) -> None:
        self._marks += self._write_through
        for i in bits:
            value = payload[i >> 3] | 1 << (i & 7)
            if self._write_through and value != payload[i >> 3]:
                self._dirty.add(i // PAGE_BITS)
            payload[i >> 3] = value

    def _combine(self, other: Buffer | None, operation: str, keys_added: int) -> None:
        with self._mutex:
            payload = self._check_writable()
            size = len(payload)
            operand = bytes(size) if other is None else memoryview(other).cast("B")
            if len(operand) != size:
                raise ValueError(f"payloads of {size} and {len(operand)} bytes")
            left, right = int.from_bytes(payload, "little"), int.from_bytes(operand, "little")
            combined = {"or": left | right, "and": left & right, "clear": 0}[operation]
            payload[:] = combined.to_bytes(size, "little")
            self._keys_added = keys_added
            self._mark_everything()
