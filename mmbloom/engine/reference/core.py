"""One filter: what the cores of every kind share, FilterCore and ChangingCore."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from mmbloom.engine.reference.hashes import HASH, batch_hashes, hash_key
from mmbloom.errors import ClosedError, ReadOnlyError

if TYPE_CHECKING:
    from typing import Self

    from _typeshed import ReadableBuffer as Buffer
    from _typeshed import WriteableBuffer

    from mmbloom.engine.reference.guard import Guard
    from mmbloom.engine.reference.keys import Batch

MAX_CANARIES = 8
PAGE_BYTES = 4096


class FilterCore:
    """Look-ups of one filter over one payload; a kind's core says what is in it."""

    def __init__(self) -> None:
        self._bits: memoryview | None = None
        self._next_look = 0.0  # when to look for a successor of the file; 0: never
        self._mutex = threading.RLock()

    def _hold(  # noqa: PLR0913, PLR0917 - as the kernel's
        self,
        payload: Buffer,
        num_bits: int,
        writable: bool,  # noqa: FBT001 - as the kernel's
        seed: int,
        key_form: int,
        keys_added: int,
    ) -> None:
        """Take the payload, which must have num_bits bits: from now on the filter answers."""
        view = memoryview(payload).cast("B")
        if writable and view.readonly:
            raise BufferError("Object is not writable.")
        if not 0 < num_bits <= 8 * len(view):
            raise ValueError(f"num_bits is {num_bits}; the payload holds {8 * len(view)} bits")
        self._seed, self._key_form, self._keys_added = seed, key_form, keys_added
        self._bits = view

    def _take(self, other: Self, payload: Buffer) -> bool:
        """Answer as *other* does from now on."""
        with self._mutex:
            if self._bits is None or self._can_change():
                return False
            self._take_shape(other)
            old, self._bits = self._bits, memoryview(payload).cast("B")
            self._seed, self._key_form = other._seed, other._key_form
            self._keys_added = other._keys_added
            old.release()
            return True

    def _can_change(self) -> bool:
        return False

    def _take_shape(self, other: Self) -> None:
        """Become of the shape of *other*: the kind's own."""
        raise NotImplementedError(other)

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

    @property
    def keys_added(self) -> int:
        """Keys that are in."""
        return self._keys_added

    @keys_added.setter
    def keys_added(self, number: int) -> None:
        self._keys_added = number

    @property
    def closed(self) -> bool:
        """Whether no payload is attached."""
        return self._bits is None

    def _is_due(self) -> bool:
        """Return whether it is time to look whether another file has the path."""
        return 0 < self._next_look <= time.monotonic()

    def _rest(self, seconds: float) -> None:
        """Look again after that time, not before."""
        self._next_look = time.monotonic() + seconds

    def _look_at_path(self) -> None:
        """Look: a hook."""

    def __contains__(self, key: object) -> bool:
        if self._is_due():
            self._look_at_path()
        with self._mutex:  # the seed and the bits are those of one filter
            self._bytes()
            return self._contains_hash(*hash_key(key, self._seed, self._key_form))

    def might_contain(self, key: object, /) -> bool:
        """Return False if *key* was definitely never added, True if it may have been."""
        return key in self

    def _contains_hash(self, hi: int, lo: int) -> bool:
        """Answer for one hash: the kind's own."""
        raise NotImplementedError(hi, lo)

    def _bytes_read(self, hi: int, lo: int) -> list[int]:
        """Return the bytes of the payload that a look-up of one hash reads: the kind's own."""
        raise NotImplementedError(hi, lo)

    def _pages_of(self, hashes: Buffer) -> list[int]:
        read = (self._bytes_read(*key) for key in HASH.iter_unpack(bytes(hashes)))
        return sorted({byte // PAGE_BYTES for some in read for byte in some})

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


class ChangingCore(FilterCore):
    """A core that keys are added to: count, limit, canaries, changed pages."""

    def _hold_changing(  # noqa: PLR0913, PLR0917 - as the kernel's
        self,
        payload: Buffer,
        num_bits: int,
        writable: bool,  # noqa: FBT001 - as the kernel's
        write_through: bool,  # noqa: FBT001 - as the kernel's
        seed: int,
        key_form: int,
        keys_added: int,
        limit: int | None,
    ) -> None:
        """Take the payload as _hold(), to add if *writable*."""
        self._writable, self._write_through, self._limit = writable, write_through, limit
        self._dirty: set[int] = set()
        self._marks = self._published_marks = 0
        self._canary_hashes: tuple[tuple[int, int], ...] = ()
        self._hold(payload, num_bits, writable, seed, key_form, keys_added)

    def _can_change(self) -> bool:
        return self._writable

    def _take_shape(self, other: Self) -> None:
        self._limit, self._canary_hashes = other._limit, other._canary_hashes

    def _check_writable(self) -> memoryview:
        payload = self._bytes()
        if not self._writable:
            where = self._where()
            how = "open it with mmbloom.open_writable(), or add to a copy()"
            raise ReadOnlyError(f"{where} is open read-only: {how}")
        return payload

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

    def _keep_canary(self, key: tuple[int, ...]) -> None:
        """Keep the first distinct keys, new ones or not: the bits of each are set."""
        if len(self._canary_hashes) < MAX_CANARIES and key not in self._canary_hashes:
            self._canary_hashes += ((key[0], key[1]),)

    def _add_hashes(self, hashes: Buffer) -> int:
        """Add hashes in order, return how many were new: the kind's own."""
        raise NotImplementedError(hashes)

    def _combine(self, other: Buffer | None, operation: str, keys_added: int) -> None:
        """Change the whole payload: the kind's own."""
        raise NotImplementedError(other, operation, keys_added)

    def _load(self, other: Buffer, keys_added: int) -> None:
        """Payload = a copy of *other*; then set the count."""
        with self._mutex:
            payload, operand = self._check_writable(), memoryview(other).cast("B")
            if len(operand) != len(payload):
                raise ValueError(f"payloads of {len(payload)} and {len(operand)} bytes")
            payload[:] = operand
            self._keys_added = keys_added
            self._mark_everything()

    def _mark_everything(self) -> None:
        """Every page has changed."""
        if self._write_through:
            self._marks += 1
            self._dirty.update(range(-(-len(self._bytes()) // PAGE_BYTES)))
            self._publish()
