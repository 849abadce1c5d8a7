"""What an engine offers: the contract of mmbloom.engine._kernel and of mmbloom.engine.reference.

A *hash* is 16 bytes: hi and lo, 64 bits each, little-endian. A *batch* is keys in order, one of the four classes below; where
it is a piece of a larger one, *first* is the number of its first key, for error messages. Key forms, layouts and probe rules
are numbers of FORMAT.md.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

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
        """An upper bound of the number of keys. For lines it is closer than the length, because the lines are counted."""
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
    """Lines that end in LF or CR LF. With *field* > 0 the key is that field between *delimiter* bytes. Lines that begin
    with the byte *comment* are ignored, unless it is 0. *blank*: 0 ignores empty lines, 1 takes them as the empty key, 2 as bad
    lines. With *digests* a line with an empty key is bad. The length is an upper bound. *num_lines*: the number of lines, if it
    is known. *name* and *first_line* are
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
        digests: bool = False,
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
    """Set the bits of those hashes whose block lies in *target*, which holds whole blocks of the payload, from byte *first* on.
    Other hashes are skipped. Releases the GIL."""

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
    """Count the keys whose line lies in *target*, which holds whole lines of the payload, from byte *first* on. Other keys are
    skipped. Releases the GIL."""

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
        """Return how many chunks adding *num_keys* keys to a lane takes at most."""

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
        """Copy hashes of a partition to *out*, after the first *skip*, until it is full; return how many, 0 at the end."""

    def take(self, partition: int, out: WriteableBuffer) -> int:
        """Move whole chunks of hashes of a partition to *out*, until it is full; return how many hashes, 0 when none is left."""

    def put_back(self, lane: int, partition: int, hashes: ReadableBuffer) -> None:
        """Add hashes of one partition, sorted, that were taken from it."""

@disjoint_base
class View:
    """One payload, and how it is looked up and changed. It never changes itself, only the bytes of a writable payload.

    *shape* is, by layout: (num_bits, num_probes) of bits; (num_counters, num_probes) of counters; (arity, fingerprint_bits,
    segment_slots, num_segments, num_shards) of fuse filters. The numbers must be as FORMAT.md allows them.

    The payload is held as long as the view lives. Threads may look up at the same time, and while one thread changes the
    payload; two must not change it at the same time. Methods that take hashes or a batch release the GIL.
    """

    seed: int
    key_form: int
    pages_per_key: int
    """Pages that a look-up of one key reads, at most."""
    load_pages: Callable[[list[int]], AbstractContextManager[object]] | None
    """None, or what must be called with the pages of a key, and entered, before a look-up may read them."""

    def __new__(
        cls,
        payload: ReadableBuffer | WriteableBuffer,
        layout: int,
        probe_scheme: int,
        shape: tuple[int, ...],
        seed: int,
        key_form: int,
        writable: bool = False,
    ) -> Self:
        """Raises ValueError: an unknown layout; too many probes; not whole blocks; a payload that is too short for its shape.
        BufferError: the payload is read-only, and *writable* is set."""

    def watch(self, guard: Guard, report_cut: Callable[[], object]) -> None:
        """Call *report_cut*, which raises, instead of answering when *guard* says that the file was cut short."""

    def contains_hashes(self, hashes: ReadableBuffer, maybe: WriteableBuffer) -> None:
        """Write one byte 0 or 1 for each hash to *maybe*."""

    def contains_batch(self, batch: _Batch, maybe: WriteableBuffer) -> int:
        """The same for keys; return how many there are. Raises for the first bad key, as hash_batch()."""

    def pages_of(self, hashes: ReadableBuffer) -> list[int]:
        """Return the numbers of the 4 KiB pages that look-ups of these hashes read, each once, ascending."""

    def count_of(self, digest: ReadableBuffer) -> int:
        """Return the least counter of one hash. Raises ValueError for layouts without counters."""

    def mark(self, pages: WriteableBuffer, groups: WriteableBuffer) -> None:
        """Mark changed pages from now on: set the byte of each changed 4 KiB page in *pages* to 1, and the byte of each 512
        pages in *groups*. Both are held, so they cannot be resized.

        Raises ValueError: not enough bytes for the pages of the payload.
        """

    def add_many(self, hashes: ReadableBuffer, room: int) -> tuple[int, int, int]:
        """Add hashes in order, at most *room* new ones.

        Returns:
            The number of hashes that were added: all, or those before the first new one that did not fit; how many of them
            were new; how many counters became full.

        Raises ValueError: the payload is read-only, or its layout takes no keys.
        """

    def remove_many(self, hashes: ReadableBuffer) -> tuple[int, int]:
        """Remove hashes in order.

        Returns:
            The number of hashes that were removed: all, or those before the first that was definitely absent; how many of
            them are definitely absent now.

        Raises ValueError: the payload is read-only, or keys cannot be removed from its layout.
        """

@disjoint_base
class Core:
    """The part of a filter that must not cost a Python frame: it holds the current view, and replaces it in one step.

    A look-up answers from the view that was current when its key had been hashed. So it sees the whole old file or the whole new
    one, and a payload is released when the last look-up in it has ended.
    """

    _is_quick: bool
    """Whether add() and _remove() may change the payload themselves, because no other change is running. They call
    _write_marks() afterwards if the view marks pages."""
    _has_removed: bool
    """Whether keys were removed since this was last set to False."""
    _num_keys: int
    _limit: int
    """add() calls _add_one() when _num_keys has reached it."""
    _num_saturated: int

    def _use(self, view: View | None) -> None:
        """Answer from *view* from now on; None: closed."""

    @property
    def closed(self) -> bool:
        """Whether the filter is closed."""

    def _is_due(self) -> bool:
        """Return whether it is time to look at the path; to the tick of the system's clock, up to 10 ms. Never before the
        first _rest()."""

    def _rest(self, seconds: float) -> None:
        """Look after that time, not before."""

    def __contains__(self, key: object, /) -> bool:
        """Return False if *key* was definitely never added, True if it may have been.

        Raises KeyTypeError, KeyValueError: not a key. ClosedError.
        """

    def might_contain(self, key: object, /) -> bool:
        """Return False if *key* was definitely never added, True if it may have been: ``in`` by name."""

    def add(self, key: object, /) -> bool:
        """Add one key; return whether it was new (False: it was in, or is a false positive).

        Raises:
            CapacityError: the filter is full, and *key* is new; nothing was changed.
            KeyTypeError, KeyValueError: not a key. ReadOnlyError, ClosedError.

        Cost: about as a look-up in memory; in a file also one write of each changed 4 KiB page.
        """

    def _remove(self, key: object, /) -> bool:
        """Remove one key; return whether it is definitely absent now."""

    def _note(self, hashes: ReadableBuffer) -> None:
        """Remember the last of these hashes as the latest keys."""

    @property
    def _latest(self) -> list[tuple[int, int]]:
        """Up to 8 latest hashes: noted, or added by add() itself where keys can be removed."""

    # Hooks, which a filter overrides.
    def _check_open(self) -> None:
        """Raise ClosedError if closed. A look-up without a view calls it until there is one."""
    def _look_at_path(self) -> None:
        """Look whether another file has the path. Called when it is time; see _rest()."""
    def _add_one(self, digest: bytes) -> bool:
        """Add one hash, for add(), unless that has done it itself."""
    def _remove_one(self, digest: bytes) -> bool:
        """Remove one hash, for _remove(), unless that has done it itself."""
    def _write_marks(self) -> None:
        """Write the pages that add() or _remove() has marked itself."""

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
