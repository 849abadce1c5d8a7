"""What an engine offers: the contract of mmbloom.engine._kernel and of mmbloom.engine.reference.

A *hash* is 16 bytes: hi and lo, 64 bits each, little-endian. A *batch* is keys in order, one of the four classes below; where
it is a piece of a larger one, *first* is the number of its first key, for error messages. Key forms, layouts and probe rules
are numbers of FORMAT.md.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from _typeshed import ReadableBuffer, WriteableBuffer
from typing_extensions import Self, disjoint_base

ENGINE: str
"""Which engine this is: "kernel" or "python"."""

@disjoint_base
class ObjectBatch:
    """Keys that are Python objects: str, bytes, bytearray or memoryview."""

    def __new__(cls, keys: Sequence[object], first: int = 0) -> Self: ...
    def __len__(self) -> int: ...
    def describe(self, index: int) -> str:
        """Name key *index* for an error message."""

class RowsBatch:
    """Keys of one width, end to end. *kind*: "bytes" (whole rows), "trimmed" (without trailing NULs: NumPy S), "ucs4" (code
    points in this machine's byte order, without trailing NULs: NumPy U). Raises ValueError if the rows do not fit."""

    def __init__(self, data: ReadableBuffer, width: int, num_keys: int, kind: str, first: int = 0) -> None: ...
    @property
    def most_keys(self) -> int:
        """At most so many keys are in it; of lines, a closer bound than the length, found out by counting them."""
    def __len__(self) -> int: ...
    def describe(self, index: int) -> str: ...

@disjoint_base
class OffsetsBatch:
    """Arrow's layout: key i is data[offsets[i]:offsets[i + 1]], offsets of 4 or 8 bytes. Raises ValueError if they decrease
    or leave the data. *name* and *lines* are for error messages: the list, and the line of each key in it (else its row)."""

    def __init__(
        self,
        data: ReadableBuffer,
        offsets: ReadableBuffer,
        offset_bytes: int,
        first: int = 0,
        name: str = "",
        lines: Sequence[int] | None = None,
    ) -> None: ...
    @property
    def most_keys(self) -> int: ...
    def __len__(self) -> int: ...
    def describe(self, index: int) -> str: ...

@disjoint_base
class LinesBatch:
    """Lines that end in LF or CR LF. With *field* > 0 the key is that field between *delimiter* bytes. A line that begins with
    the byte *comment* is no key, if that is not 0. *blank*: 0 an empty line is no key, 1 it is the empty key, 2 it is a bad
    line. Its length is an upper bound. *num_lines*: how many lines there are, if that is known. *name* and *first_line* are
    for error messages."""

    def __init__(
        self,
        data: ReadableBuffer,
        name: str,
        first_line: int,
        delimiter: int = 0,
        field: int = 0,
        comment: int = 0,
        blank: int = 0,
        num_lines: int = 0,
    ) -> None: ...
    @property
    def most_keys(self) -> int: ...
    def select(self, flags: ReadableBuffer, wanted: bool) -> bytearray:
        """Return the lines that are keys and whose flag, one a key, equals *wanted*; each with its LF."""
    def __len__(self) -> int: ...
    def describe(self, index: int) -> str: ...

_Batch: TypeAlias = ObjectBatch | RowsBatch | OffsetsBatch | LinesBatch

def hash_key(key: object, seed: int, key_form: int) -> tuple[int, int]:
    """Return the hash of one key as (hi, lo). Raises KeyTypeError, KeyValueError."""

def hash_batch(batch: _Batch, seed: int, key_form: int) -> bytearray:
    """Return the hashes of a batch, in order. Raises for the first bad key: KeyTypeError, KeyValueError, SourceError."""

def sort_unique(hashes: WriteableBuffer, scratch: WriteableBuffer) -> int:
    """Sort hashes by (hi, lo) and drop repetitions; return how many are left at the front. *scratch* is at least as large.

    Releases the GIL. Cost: 17 ns a hash for 100 000 of them, 40 for ten million.
    """

def order_by_part(hashes: ReadableBuffer, num_parts: int, out: WriteableBuffer) -> None:
    """Write hashes to *out* in the order of ``hi * num_parts >> 64``; those where it is equal stay in order.

    *out* is at least as large, and other memory. Releases the GIL. Cost: three passes, and two more for each further 2^14 parts.
    """

def sum_hashes(hashes: ReadableBuffer) -> int:
    """Return the sum of hashes modulo 2^128."""

def probes(layout: int, num_bits: int, num_probes: int, hi: int, lo: int) -> list[int]:
    """Return the bit numbers of a hash: FORMAT.md, "Probes"."""

def count_lines(data: ReadableBuffer) -> int:
    """Return the number of LF bytes. Releases the GIL."""

def add_part(
    target: WriteableBuffer, first: int, layout: int, num_bits: int, num_probes: int, hashes: ReadableBuffer
) -> None:
    """Set the bits of hashes that fall into *target*, which is the payload from byte *first* on: whole blocks of it. The others
    are passed over. Releases the GIL."""

def span(layout: int, num_bits: int, lowest: int, highest: int) -> tuple[int, int]:
    """Return the bytes of the payload, [first, end), in which the blocks of all keys lie whose hi is in [lowest, highest];
    for classic all of it."""

def checksum64(data: ReadableBuffer) -> int:
    """Return XXH3-64 under seed 0. Releases the GIL."""

def popcount(data: ReadableBuffer) -> int:
    """Return the number of set bits. Releases the GIL."""

def line_histogram(data: ReadableBuffer) -> list[int]:
    """Return how many 64-byte lines have x set bits, x = 0..512. Releases the GIL."""

def narrow_histogram(data: ReadableBuffer) -> list[int]:
    """Return how many 16-byte lines have x set bits, x = 0..128. Releases the GIL."""

def counter_histogram(payload: ReadableBuffer) -> tuple[list[int], int]:
    """Return how many 64-byte lines have x counters that are not zero, x = 0..128, and how many counters are 15. Releases the
    GIL."""

def count_part(target: WriteableBuffer, first: int, num_bits: int, num_probes: int, hashes: ReadableBuffer) -> None:
    """Count the keys whose line falls into *target*, which is the payload from byte *first* on: whole lines of counters. The
    others are passed over. Releases the GIL."""

def unite_counters(target: WriteableBuffer, other: ReadableBuffer) -> None:
    """Add every counter of *other* to that of *target*, to 15 at most. Both have the same size. Releases the GIL."""

def flatten_counters(payload: ReadableBuffer, bits: WriteableBuffer) -> None:
    """Write one bit a counter to *bits*, 16 bytes a line: 1 where it is not zero. Releases the GIL."""

def page_fill(data: ReadableBuffer, lower: Sequence[float], upper: Sequence[float]) -> float:
    """Sum over pages of mean(lower[x]) * mean(upper[x]): x = set bits of a line of the lower, the upper half of the page;
    both tables have 513 entries. Releases the GIL."""

def page_halves(data: ReadableBuffer) -> tuple[int, int]:
    """Return the set bits of the lower and of the upper halves of all pages. Releases the GIL."""

def payloads_equal(left: ReadableBuffer, right: ReadableBuffer) -> bool:
    """Return whether two payloads are the same bytes. Releases the GIL."""

def install_guard() -> None:
    """Take SIGBUS over, for the maps that a Guard watches; again: do nothing. Raises OSError; ParameterError without a kernel."""

def guard_is_installed() -> bool:
    """Return whether install_guard() has done it."""

@disjoint_base
class Guard:
    """The record of one mapped file, so that reading what is gone gives zero bytes and a note of it, not a SIGBUS."""

    def __new__(cls, mapped: ReadableBuffer, fd: int) -> Self:
        """Watch *mapped*, a whole map of the file behind *fd*, which stays open until forget(). Raises OSError (EMFILE)."""

    def forget(self) -> None:
        """Stop, before the map is unmapped. May be called again."""

    def is_whole(self) -> bool:
        """Return whether every byte read before was in the file. Cost: one fstat."""

@disjoint_base
class Partitions:
    """Hashes in 2^bits partitions by the top bits of hi, in memory of a fixed size.

    Each of *num_lanes* threads fills a lane of its own, at the same time as the others. All other methods are for when no lane
    is being filled; copy(), take() and put_back() may then run beside each other for different partitions and lanes.
    """

    def __new__(cls, memory: WriteableBuffer, bits: int, num_lanes: int) -> Self:
        """*memory* begins on a page boundary. Raises ValueError if it is too small: each lane takes 256 bytes a partition, and
        a partition 4096 bytes at a time."""

    @property
    def chunks_left(self) -> int:
        """Chunks of 4096 bytes, 256 hashes, that can be taken; one a partition is kept for put_back()."""

    def chunks_for(self, num_keys: int) -> int:
        """Return how many chunks adding so many keys to a lane can take at most."""

    def clear(self) -> None:
        """Forget all hashes."""

    def add_hashes(self, lane: int, hashes: ReadableBuffer) -> None:
        """Add hashes. Raises MemoryError, and adds none, unless they fit in any case."""

    def add_batch(
        self, lane: int, batch: RowsBatch | OffsetsBatch | LinesBatch, seed: int, key_form: int, skip_bad: bool
    ) -> tuple[int, int, list[Exception]]:
        """Hash the keys of a batch and add them. Releases the GIL.

        Returns:
            The number of keys, the number of bad ones, and the errors of the first 8 of these.

        Raises:
            KeyValueError, SourceError: a bad key, unless *skip_bad*. MemoryError: as add_hashes().
        """

    def count(self, partition: int) -> int:
        """Return how many hashes a partition holds, with repetitions."""

    def copy(self, partition: int, out: WriteableBuffer, skip: int = 0) -> int:
        """Copy hashes of a partition to *out*, as many as fit behind the first *skip*; return how many, 0 at the end."""

    def take(self, partition: int, out: WriteableBuffer) -> int:
        """Move hashes of a partition to *out*, as many as fit in whole chunks; return how many, 0 when none is left."""

    def put_back(self, lane: int, partition: int, hashes: ReadableBuffer) -> None:
        """Add hashes of one partition, sorted, that were taken from it."""

@disjoint_base
class FilterCore:
    """Look-ups of one filter over one payload, of any kind. Each kind has a core of its own, from which its class inherits:
    ``key in f`` is then a C slot.

    Threads: look-ups may run beside each other and beside adds. A payload is released when the last batch that reads it
    without the GIL has finished.
    """

    keys_added: int
    """Keys that are in, as the kind counts them."""
    _mutex: Any

    def _watch(self, guard: Guard) -> None:
        """Answer only while *guard* says that the payload is whole; else call _report_cut()."""

    def _report_cut(self) -> None:
        """Hook for subclasses: raise, as the payload is not what was mapped."""

    def _take(self, other: Self, payload: ReadableBuffer) -> bool:
        """Answer from now on as *other* does, from *payload*, which has the bytes of its own; its bytes are let go.

        One step: a look-up of one key in another thread sees all of the old filter or all of the new one. False, and
        nothing done: a batch of this very object is running, it is closed, or it can be added to.

        Raises TypeError: *other* is of another kind.
        """

    def _detach(self) -> None:
        """Stop answering. The payload is released now, or when the last running batch ends."""

    def _is_due(self) -> bool:
        """Return whether it is time to look at the path; to the tick of the system's clock, up to 10 ms. Never before the
        first _rest()."""

    def _rest(self, seconds: float) -> None:
        """Look after that time, not before."""

    def _look_at_path(self) -> None:
        """Hook for subclasses: called before a look-up of one key when it is time."""

    @property
    def closed(self) -> bool:
        """Whether no payload is attached."""

    def __contains__(self, key: object, /) -> bool:
        """Return False if *key* was definitely never added, True if it may have been.

        Raises KeyTypeError, KeyValueError: not a key. ClosedError.
        """

    def might_contain(self, key: object, /) -> bool:
        """Return False if *key* was definitely never added, True if it may have been: ``in`` by name."""

    def _contains_batch(self, batch: _Batch, maybe: WriteableBuffer) -> int:
        """Write one byte 0 or 1 a key to *maybe*; return the number of keys."""

    def _contains_hashes(self, hashes: ReadableBuffer, maybe: WriteableBuffer) -> None:
        """The same for hashes."""

    def _pages_of(self, hashes: ReadableBuffer) -> list[int]:
        """Return the numbers of the 4 KiB pages that a look-up of these hashes reads, each once, ascending."""

    def _let_go(self) -> None:
        """Hook for subclasses: the payload is not used any more, so what holds it can be closed."""

    def _where(self) -> str:
        """Hook for subclasses: name the filter in error messages."""

@disjoint_base
class ChangingCore(FilterCore):
    """A core that keys can be added to. Adds exclude each other (``_mutex``)."""

    _canary_hashes: tuple[tuple[int, int], ...]
    """Hashes of the first 8 distinct keys that were added."""

    def _add_hashes(self, hashes: ReadableBuffer) -> int:
        """Add hashes in order; return how many were new. CapacityError says how many were before the one that did not fit."""

    def _load(self, other: ReadableBuffer, keys_added: int) -> None:
        """Payload = a copy of *other*; then set the count."""

    def _combine(self, other: ReadableBuffer | None, operation: str, keys_added: int) -> None:
        """Payload and *other* together ("or" and what else the kind knows), or all zero ("clear"); then set the count."""

    def _check_writable(self) -> None:
        """Raise ClosedError or ReadOnlyError unless keys can be added."""

    def _publish(self) -> None:
        """Write what has changed and is not yet in the file, with _publish_changes(). Hold the mutex.

        If that raises, the pages are written by the next call, by whoever makes it.
        """

    def _publish_changes(self, runs: list[tuple[int, int]]) -> None:
        """Hook for subclasses: write *runs*, (first, count) of changed 4 KiB pages, ascending, to the file."""

@disjoint_base
class CountingCore(ChangingCore):
    """The counters of one filter over one payload. CountingBloomFilter inherits from it.

    ``keys_added`` counts the distinct keys as far as counters tell: up by one when an added key was certainly absent, down by one
    when a removed key is so afterwards. Either is missed with the false-positive rate, so with removals the count drifts, up or
    down alike. Where it reaches the limit after removals, _keys_by_estimate() tells whether there is room.
    """

    num_saturated: int
    """Counters that have reached 15. They stay there."""
    _canary_hashes: tuple[tuple[int, int], ...]
    """Hashes of the first 8 keys added that are still in, and of the latest 8, which may have gone."""

    def _attach(
        self,
        payload: WriteableBuffer | ReadableBuffer,
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
        """Start to answer from *payload*, num_counters / 2 bytes or more; else as BloomCore._attach().

        Requires: 1 <= num_probes <= 16. Raises ValueError: num_counters is no multiple of 128, or the payload is smaller.
        """

    def add(self, key: object, /) -> bool:
        """Count one key in; return whether it was certainly absent before.

        Raises and costs as BloomFilter.add().
        """

    def remove(self, key: object, /) -> bool:
        """Count one key out; return whether it is certainly absent now. It may still be "maybe": added more often, or because
        other keys cover it.

        A key that was never added but is answered "maybe" is removed all the same: that takes counts from keys that are in, which
        may then be answered "definitely not". Remove only what was added.

        Raises:
            AbsentKeyError: a KeyError; *key* is definitely not in, and nothing was changed.
            KeyTypeError, KeyValueError: not a key. ReadOnlyError, ClosedError.
        """

    def count_estimate(self, key: object, /) -> int:
        """Return an upper bound of how often *key* was added and not removed: its least counter, 0 to 15.

        15 stands for 15 or more. Too high with about the false-positive rate. Raises and costs as a look-up.
        """

    def _has_room_for(self, num_keys: int) -> bool:
        """Return whether so many new keys fit by the count or, after removals, as _keys_by_estimate() tells."""

    def _remove_hashes(self, hashes: ReadableBuffer) -> int:
        """Count hashes out, in order; return how many are certainly absent now. AbsentKeyError says how many were removed
        before the one that was absent."""

    def _combine(self, other: ReadableBuffer | None, operation: str, keys_added: int) -> None:
        """Counters += those of *other*, at most 15 ("or"), or all zero ("clear"); then set the count."""

    def _keys_by_estimate(self) -> int:
        """Hook for subclasses: a count of the keys in the payload that is not too high."""

@disjoint_base
class BloomCore(ChangingCore):
    """The probes of one Bloom filter over one payload."""

    keys_added: int
    """Adds that set a bit. Two keys with the same bits count once; so this is a lower bound on the distinct keys, too low by
    about the false-positive rate."""

    def _attach(
        self,
        payload: WriteableBuffer | ReadableBuffer,
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
        """Start to answer from *payload*.

        Args:
            payload: at least num_bits bits; writable memory, if *writable*.
            write_through: note changed pages, and write them with _publish_changes() before add() and _add_hashes() return.
            keys_added: where the count starts.
            limit: most keys to add, None for no limit.

        Requires: layout, num_bits and num_probes as FORMAT.md allows them.
        """

    def add(self, key: object, /) -> bool:
        """Add one key; return whether it was new (False: it was in, or is a false positive).

        Raises:
            CapacityError: the filter is full, and *key* is new; nothing was changed.
            KeyTypeError, KeyValueError: not a key. ReadOnlyError, ClosedError.

        Cost: about as a look-up in memory; in a file also one write of each changed 4 KiB page.
        """

    def _combine(self, other: ReadableBuffer | None, operation: str, keys_added: int) -> None:
        """Payload |= *other* ("or"), &= *other* ("and"), or all zero ("clear"); then set the count."""

@disjoint_base
class FuseCore(FilterCore):
    """The fingerprints of one fuse filter over one payload."""

    def _attach(
        self,
        payload: ReadableBuffer,
        arity: int,
        fingerprint_bits: int,
        segment_slots: int,
        num_segments: int,
        num_shards: int,
        seed: int,
        key_form: int,
        *,
        keys_added: int,
    ) -> None:
        """Start to answer from *payload*, whose shape FORMAT.md must allow. Raises ValueError if it is too short for it."""

def fuse_shard(
    hashes: ReadableBuffer,
    arity: int,
    fingerprint_bits: int,
    segment_slots: int,
    num_segments: int,
    num_shards: int,
    max_seeds: int,
    scratch: WriteableBuffer,
) -> tuple[int, bytearray] | None:
    """Construct the shard that these distinct hashes are all of, at most 2^24 - 1.

    They come sorted, or as order_by_part() puts them for num_shards * (num_segments - arity + 1) parts.

    *scratch* is memory to work in, fuse_scratch_bytes() of it, with any contents, on a 4-byte boundary; a map in huge pages
    is best.

    Returns:
        Its seed and its bytes; None if none of *max_seeds* seeds gives one. The same hashes give the same.

    Raises:
        ValueError: they are not in that order.

    The GIL is released.
    """

def fuse_scratch_bytes(arity: int, segment_slots: int, num_segments: int) -> int:
    """Return how much memory fuse_shard() needs to work in: 12 bytes a slot, 14 a key."""
