"""One filter: the reference of BloomCore."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from mmbloom.errors import CapacityError, ClosedError, ReadOnlyError
from mmbloom.reference.hashes import HASH, batch_hashes, hash_key
from mmbloom.reference.probes import PAGE_BITS, probes

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer
    from _typeshed import WriteableBuffer

    from mmbloom.reference.guard import Guard
    from mmbloom.reference.keys import Batch

MAX_CANARIES = 8
PAGE_BYTES = 4096


class BloomCore:
    """The probes of one filter over one payload; BloomFilter inherits from it."""

    def __init__(self) -> None:
        self._bits: memoryview | None = None
        self._mutex = threading.RLock()

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
        view = memoryview(payload).cast("B")
        if writable and view.readonly:
            raise BufferError("Object is not writable.")
        if not 0 < num_bits <= 8 * len(view):
            raise ValueError(f"num_bits is {num_bits}; the payload holds {8 * len(view)} bits")
        self._geometry = (layout, num_bits, num_probes)
        self._seed, self._key_form = seed, key_form
        self._writable, self._write_through = writable, write_through
        self._keys_added, self._limit = keys_added, limit
        self._dirty: set[int] = set()
        self._marks = self._published_marks = 0
        self._canary_hashes: tuple[tuple[int, int], ...] = ()
        self._bits = view

    def _take(self, other: BloomCore, payload: Buffer) -> bool:
        """Answer as *other* does from now on."""
        with self._mutex:
            if self._bits is None or self._writable:
                return False
            old, self._bits = self._bits, memoryview(payload).cast("B")
            self._geometry, self._seed = other._geometry, other._seed
            self._key_form, self._keys_added = other._key_form, other._keys_added
            self._limit, self._canary_hashes = other._limit, other._canary_hashes
            old.release()
            return True

    def _detach(self) -> None:
        with self._mutex:
            if self._bits is None:
                return
            self._bits.release()
            self._bits = None
            self._let_go()

    def _bytes(self) -> memoryview:
        if self._bits is None:
            raise ClosedError(f"{self._where()} is closed")
        return self._bits

    def _where(self) -> str:
        return "the filter"

    def _watch(self, guard: Guard) -> None:
        """Do nothing: there is no guard in this engine."""

    def _report_cut(self) -> None:
        """Raise, as the payload is not what was mapped: a hook, never called in this engine."""

    def _let_go(self) -> None:
        """Close what holds the payload: a hook."""

    def _publish_changes(self, runs: list[tuple[int, int]]) -> None:
        """Write these runs of changed pages to the file: a hook."""

    def _publish(self) -> None:
        """Write what has changed; pages are forgotten only once they are in the file."""
        while self._marks != self._published_marks:
            goal = self._marks
            self._publish_changes(self._dirty_runs())
            if self._marks == goal:
                self._dirty.clear()
                self._published_marks = goal

    def _dirty_runs(self) -> list[tuple[int, int]]:
        pages = sorted(self._dirty)
        runs: list[tuple[int, int]] = []
        for page in pages:
            if runs and sum(runs[-1]) == page:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((page, 1))
        return runs

    @property
    def keys_added(self) -> int:
        """Adds that set a bit."""
        return self._keys_added

    @keys_added.setter
    def keys_added(self, number: int) -> None:
        self._keys_added = number

    @property
    def closed(self) -> bool:
        """Whether no payload is attached."""
        return self._bits is None

    def __contains__(self, key: object) -> bool:
        with self._mutex:  # the seed and the bits are those of one filter
            self._bytes()
            return self._contains_hash(*hash_key(key, self._seed, self._key_form))

    def might_contain(self, key: object, /) -> bool:
        """Return False if *key* was definitely never added, True if it may have been."""
        return key in self

    def _contains_hash(self, hi: int, lo: int) -> bool:
        with self._mutex:
            payload = self._bytes()
            return all(payload[i >> 3] >> (i & 7) & 1 for i in probes(*self._geometry, hi, lo))

    def add(self, key: object, /) -> bool:
        """Add one key; return whether it was new."""
        return self._add_hashes(HASH.pack(*hash_key(key, self._seed, self._key_form))) == 1

    def _check_writable(self) -> memoryview:
        payload = self._bytes()
        if not self._writable:
            where = self._where()
            how = "open it with mmbloom.open_writable(), or add to a copy()"
            raise ReadOnlyError(f"{where} is open read-only: {how}")
        return payload

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

    def _keep_canary(self, key: tuple[int, ...]) -> None:
        """Keep the first distinct keys, new ones or not: the bits of each are set."""
        if len(self._canary_hashes) < MAX_CANARIES and key not in self._canary_hashes:
            self._canary_hashes += ((key[0], key[1]),)

    def _pages_of(self, hashes: Buffer) -> list[int]:
        pages = (probes(*self._geometry, *key) for key in HASH.iter_unpack(bytes(hashes)))
        return sorted({bit // PAGE_BITS for bits in pages for bit in bits})

    def _contains_hashes(self, hashes: Buffer, maybe: WriteableBuffer) -> None:
        answers = memoryview(maybe).cast("B")
        num_keys = memoryview(hashes).nbytes // HASH.size
        if num_keys > len(answers):
            raise ValueError(f"maybe holds {len(answers)} answers for {num_keys} hashes")
        for index, key in enumerate(HASH.iter_unpack(bytes(hashes))):
            answers[index] = self._contains_hash(*key)

    def _contains_batch(self, batch: Batch, maybe: WriteableBuffer) -> int:
        self._bytes()
        answers = memoryview(maybe).cast("B")
        if len(batch) > len(answers):
            raise ValueError(
                f"out holds {len(answers)} answers; the batch may have {len(batch)} keys"
            )
        count = 0
        for count, key in enumerate(batch_hashes(batch, self._seed, self._key_form), 1):
            answers[count - 1] = self._contains_hash(*key)
        return count

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
            if self._write_through:
                self._marks += 1
                self._dirty.update(range(-(-size // PAGE_BYTES)))
                self._publish()


class FollowingCore(BloomCore):
    """A BloomCore that looks now and then whether another file has its path."""

    _next_look = 0.0

    def __contains__(self, key: object) -> bool:
        if self._is_due():
            self._look_at_path()
        return super().__contains__(key)

    def _is_due(self) -> bool:
        """Return whether it is time to look."""
        return time.monotonic() >= self._next_look

    def _rest(self, seconds: float) -> None:
        """Look again after that time, not before."""
        self._next_look = time.monotonic() + seconds

    def _look_at_path(self) -> None:
        """Look: a hook."""
