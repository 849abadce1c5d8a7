"""The algorithms in plain Python: specification, oracle of the tests, engine without a compiler.

Written to be read beside FORMAT.md, not to be fast: a look-up takes microseconds where the kernel
takes nanoseconds. The names are those of ``_kernel.pyi``, which documents them;
tests/test_engines.py holds the two engines together byte for byte.
"""

from __future__ import annotations

import struct
import sys
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import xxhash

from mmbloom.errors import (
    CapacityError,
    ClosedError,
    KeyTypeError,
    KeyValueError,
    ReadOnlyError,
    SourceError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from _typeshed import ReadableBuffer as Buffer
    from _typeshed import WriteableBuffer

ENGINE = "python"

CLASSIC, LINE, PAGE = 1, 2, 3
RAW, HEX = 0, 1
SURROGATE = 0xD800
MAX_PROBES = {CLASSIC: 64, LINE: 16, PAGE: 32}
MAX_CANARIES = 8
LINE_BYTES, LINE_BITS = 64, 512
PAGE_BYTES, PAGE_BITS = 4096, 32768

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
# floor(2^64 / golden ratio) and floor(2^32 / golden ratio), both odd: Fibonacci hashing,
# Knuth TAOCP 3, 6.4.
GOLDEN64 = 0x9E3779B97F4A7C15
GOLDEN32 = 0x9E3779B9
MULTIPLIERS = [pow(GOLDEN32, i, 1 << 32) for i in range(16)]
ADDENDS = [(i + 1) * GOLDEN32 & MASK32 for i in range(16)]

HASH = struct.Struct("<QQ")  # hi, lo


# ---- keys -> canonical bytes ---------------------------------------------------------------------

HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")
NOT_UTF8 = (
    "a lone surrogate or a number beyond U+10FFFF has no UTF-8: decode the text properly, "
    "or pass bytes"
)


def canonical_bytes(key: object, key_form: int, where: str = "key") -> bytes:
    """Return what stands for *key*: UTF-8 for str; under key form hex, the decoded digest."""
    if isinstance(key, str):
        try:
            data = key.encode()
        except UnicodeEncodeError:
            raise KeyValueError(f"{where}: {NOT_UTF8}") from None
    elif isinstance(key, (bytes, bytearray, memoryview)):
        data = bytes(key)
    else:
        hint = "encode it to str or bytes first"
        if isinstance(key, int) and not isinstance(key, bool):
            hint = "encode it with mmbloom.int_key(), or pass an integer array"
        name = type(key).__name__
        raise KeyTypeError(f"{where}: a key is str or bytes-like, not {name}: {hint}")
    return decode_hex(data, where) if key_form == HEX else data


def decode_hex(digits: bytes, where: str) -> bytes:
    """Return the bytes that *digits* spell; unlike bytes.fromhex, white space is no digit."""
    if len(digits) % 2:
        raise KeyValueError(f"{where}: key form hex: an odd number of hexadecimal digits")
    if not HEX_DIGITS.issuperset(digits):
        raise KeyValueError(f"{where}: key form hex: a character that is not 0-9, a-f or A-F")
    return bytes.fromhex(digits.decode("ascii"))


class Batch(ABC):
    """Keys in order; each is str or bytes-like."""

    num_keys: int
    first = 0  # number of the first key, where this is a piece of a larger batch

    def __len__(self) -> int:
        return self.num_keys

    @abstractmethod
    def keys(self) -> Iterator[object]:
        """Yield every key."""

    def describe(self, index: int) -> str:
        """Name key *index* for an error message."""
        return f"key {self.first + index} of the batch"


class ObjectBatch(Batch):
    """A sequence of Python objects."""

    def __init__(self, keys: Sequence[object], first: int = 0) -> None:
        self._keys = list(keys)
        self.first = first
        self.num_keys = len(self._keys)

    def keys(self) -> Iterator[object]:
        """Yield every key."""
        return iter(self._keys)


class RowsBatch(Batch):
    """Rows of one width: whole ("bytes"), without trailing NULs ("trimmed"), or text ("ucs4")."""

    def __init__(self, data: Buffer, width: int, num_keys: int, kind: str, first: int = 0) -> None:
        self._data = memoryview(data).cast("B")
        if width < 0 or num_keys < 0 or (width > 0 and num_keys > len(self._data) // width):
            message = f"{num_keys} rows of {width} bytes do not fit into {len(self._data)} bytes"
            raise ValueError(message)
        self._decode = ROW_KINDS[kind]
        self._width = width
        self.num_keys, self.first = num_keys, first

    def keys(self) -> Iterator[object]:
        """Yield every row."""
        for i in range(self.num_keys):
            yield self._decode(self._data[i * self._width : (i + 1) * self._width])


def _trimmed(row: memoryview) -> bytes:
    return bytes(row).rstrip(b"\0")


def _ucs4_text(row: memoryview) -> str:
    # What is no code point has no UTF-8, just like a surrogate: let it be refused as one.
    numbers = (c if c <= sys.maxunicode else SURROGATE for c in row.cast("I"))
    return "".join(map(chr, numbers)).rstrip("\0")


ROW_KINDS: dict[str, Callable[[memoryview], str | bytes]] = {
    "bytes": bytes,
    "trimmed": _trimmed,
    "ucs4": _ucs4_text,
}


class OffsetsBatch(Batch):
    """Arrow's layout: key i is data[offsets[i]:offsets[i + 1]]."""

    def __init__(self, data: Buffer, offsets: Buffer, offset_bytes: int, first: int = 0) -> None:
        self._data = memoryview(data).cast("B")
        raw = memoryview(offsets).cast("B")
        count = len(raw) // offset_bytes
        if count == 0:
            raise ValueError("offsets are empty; n keys have n + 1 of them")
        code = {4: "I", 8: "Q"}[offset_bytes]
        self._offsets = struct.unpack(f"={count}{code}", raw[: count * offset_bytes])
        self.num_keys, self.first = count - 1, first
        steps = zip(self._offsets, self._offsets[1:], strict=False)
        if any(a > b for a, b in steps) or self._offsets[-1] > len(self._data):
            raise ValueError(f"offsets decrease, or run past the {len(self._data)} bytes of data")

    def keys(self) -> Iterator[object]:
        """Yield the bytes between neighbouring offsets."""
        for start, end in zip(self._offsets, self._offsets[1:], strict=False):
            yield self._data[start:end]


class LinesBatch(Batch):
    """Lines that end in LF or CR LF; empty ones are no keys. With *field*, that field of each."""

    def __init__(
        self, data: Buffer, name: str, first_line: int, delimiter: int = 0, field: int = 0
    ) -> None:
        self._data = bytes(data)
        self._name, self._first_line = name, first_line
        self._delimiter, self._field = bytes([delimiter]), field
        self.num_keys = (len(self._data) + 1) // 2  # an upper bound: one byte and its LF

    def keys(self) -> Iterator[object]:
        """Yield the key of every line that is not empty."""
        for index, line in enumerate(_lines(self._data)):
            text = line.removesuffix(b"\r")
            if not self._field:
                yield text
                continue
            fields = text.split(self._delimiter)
            if len(fields) < self._field:
                where = self.describe(index)
                raise SourceError(f"{where}: the line has fewer fields than the one asked for")
            yield fields[self._field - 1]

    def describe(self, index: int) -> str:
        """Name the line of key *index* for an error message."""
        numbers = [i for i, line in enumerate(self._data.split(b"\n")) if line not in EMPTY_LINES]
        return f"{self._name}, line {self._first_line + numbers[index]}"


EMPTY_LINES = (b"", b"\r")


def _lines(data: bytes) -> list[bytes]:
    """Return the lines that are keys: those that are not empty. A CR before the LF is left on."""
    return [line for line in data.split(b"\n") if line not in EMPTY_LINES]


def select_lines(data: Buffer, flags: Buffer, wanted: bool) -> bytearray:  # noqa: FBT001 - the kernel's
    """Return the non-empty lines whose flag equals *wanted*, each with its LF."""
    pairs = zip(_lines(bytes(data)), bytes(flags), strict=False)
    return bytearray().join(line + b"\n" for line, flag in pairs if flag == wanted)


# ---- canonical bytes -> hashes -------------------------------------------------------------------


def hash_bytes(data: bytes, seed: int) -> tuple[int, int]:
    """Return XXH3-128 as (hi, lo): hi says where, lo says which bits."""
    digest = xxhash.xxh3_128_intdigest(data, seed)
    return digest >> 64, digest & MASK64


def hash_key(key: object, seed: int, key_form: int) -> tuple[int, int]:
    """Return the hash of one key."""
    return hash_bytes(canonical_bytes(key, key_form), seed)


def batch_hashes(batch: Batch, seed: int, key_form: int) -> Iterator[tuple[int, int]]:
    """Yield the hash of every key in order."""
    for index, key in enumerate(batch.keys()):
        try:
            data = canonical_bytes(key, key_form)
        except (KeyTypeError, KeyValueError):
            data = canonical_bytes(key, key_form, batch.describe(index))
        yield hash_bytes(data, seed)


def hash_batch(batch: Batch, seed: int, key_form: int) -> bytearray:
    """Return the hashes of a batch, 16 bytes each."""
    return bytearray().join(HASH.pack(*key) for key in batch_hashes(batch, seed, key_form))


def sort_unique(hashes: bytearray) -> bytearray:
    """Sort hashes by (hi, lo) and drop repetitions."""
    return bytearray().join(HASH.pack(*key) for key in sorted(set(HASH.iter_unpack(hashes))))


def sum_hashes(hashes: Buffer) -> int:
    """Return the sum of hashes modulo 2^128."""
    total: int = sum((hi << 64) + lo for hi, lo in HASH.iter_unpack(hashes))
    return total % (1 << 128)


# ---- hashes -> probes ----------------------------------------------------------------------------


def probes(layout: int, num_bits: int, num_probes: int, hi: int, lo: int) -> list[int]:
    """Return the bit numbers of a hash: FORMAT.md, "Probes"."""
    if num_probes > MAX_PROBES[layout]:
        raise ValueError(f"num_probes is {num_probes}, at most {MAX_PROBES[layout]}")
    if layout == CLASSIC:
        return _classic_probes(num_bits, num_probes, hi, lo)
    low, high = lo & MASK32, lo >> 32
    if layout == LINE:
        line = hi * (num_bits // LINE_BITS) >> 64
        words = [low] * 8 + [high] * 8
        return [LINE_BITS * line + _line_bit(words[i], i) for i in range(num_probes)]
    product = hi * (num_bits // PAGE_BITS)
    page, fraction = product >> 64, product & MASK64
    lines = (64 * page + (fraction >> 59), 64 * page + 32 + (fraction >> 54 & 31))
    halves = (low, high)
    return [LINE_BITS * lines[i % 2] + _line_bit(halves[i % 2], i // 2) for i in range(num_probes)]


def _classic_probes(num_bits: int, num_probes: int, x: int, y: int) -> list[int]:
    bits = []
    z = GOLDEN64
    for _ in range(num_probes):
        mixed = (x ^ x >> 32) * GOLDEN64 & MASK64
        bits.append(mixed * num_bits >> 64)
        y = (y + z) & MASK64
        x = (x + y) & MASK64
        z = (z + GOLDEN64) & MASK64
    return bits


def _line_bit(h: int, i: int) -> int:
    return (h * MULTIPLIERS[i] + ADDENDS[i] & MASK32) >> 23


# ---- payloads ------------------------------------------------------------------------------------


def checksum64(data: Buffer) -> int:
    """Return XXH3-64 under seed 0."""
    return xxhash.xxh3_64_intdigest(data)


def popcount(data: Buffer) -> int:
    """Return the number of set bits."""
    return int.from_bytes(data, "little").bit_count()


def line_histogram(data: Buffer) -> list[int]:
    """Return how many 64-byte lines have x set bits, for x = 0..512."""
    histogram = [0] * (LINE_BITS + 1)
    for line in _blocks(data, LINE_BYTES):
        histogram[popcount(line)] += 1
    return histogram


def _blocks(data: Buffer, num_bytes: int) -> Iterator[memoryview]:
    """Yield the whole blocks of *data*."""
    view = memoryview(data).cast("B")
    for end in range(num_bytes, len(view) + 1, num_bytes):
        yield view[end - num_bytes : end]


def page_fill(data: Buffer, lower: Sequence[float], upper: Sequence[float]) -> float:
    """Sum over pages of mean(lower[x]) * mean(upper[x]), in the order of the payload."""
    total = 0.0
    for page in _blocks(data, PAGE_BYTES):
        counts = [popcount(line) for line in _blocks(page, LINE_BYTES)]
        sums = [0.0, 0.0]  # added one by one: sum() compensates, and gives another last bit
        for a, b in zip(counts[:32], counts[32:], strict=True):
            sums[0] += lower[a]
            sums[1] += upper[b]
        total += (sums[0] / 32) * (sums[1] / 32)
    return total


def page_halves(data: Buffer) -> tuple[int, int]:
    """Return the set bits of the lower and of the upper halves of all pages."""
    halves = [popcount(half) for page in _blocks(data, PAGE_BYTES) for half in _blocks(page, 2048)]
    return sum(halves[::2]), sum(halves[1::2])


def payloads_equal(left: Buffer, right: Buffer) -> bool:
    """Return whether two payloads are the same bytes."""
    return memoryview(left).cast("B") == memoryview(right).cast("B")


# ---- one filter ----------------------------------------------------------------------------------


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
        self._canary_hashes: tuple[tuple[int, int], ...] = ()
        self._bits = view

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

    def _let_go(self) -> None:
        """Close what holds the payload: a hook."""

    def _publish_changes(self) -> None:
        """Write the changed pages to the file: a hook."""

    def _take_dirty_runs(self) -> list[tuple[int, int]]:
        pages = sorted(self._dirty)
        self._dirty.clear()
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
                for key in HASH.iter_unpack(hashes):
                    if not self._contains_hash(*key):
                        if self._limit is not None and self._keys_added >= self._limit:
                            raise CapacityError(self._where(), self._limit, num_new)
                        self._set_bits(payload, probes(*self._geometry, *key))
                        self._keys_added += 1
                        num_new += 1
                    self._keep_canary(key)
            finally:
                if self._write_through and num_new:
                    self._publish_changes()
        return num_new

    def _set_bits(self, payload: memoryview, bits: list[int]) -> None:
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
        pages = (probes(*self._geometry, *key) for key in HASH.iter_unpack(hashes))
        return sorted({bit // PAGE_BITS for bits in pages for bit in bits})

    def _contains_hashes(self, hashes: Buffer, maybe: WriteableBuffer) -> None:
        answers = memoryview(maybe).cast("B")
        num_keys = memoryview(hashes).nbytes // HASH.size
        if num_keys > len(answers):
            raise ValueError(f"maybe holds {len(answers)} answers for {num_keys} hashes")
        for index, key in enumerate(HASH.iter_unpack(hashes)):
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
                self._dirty.update(range(-(-size // PAGE_BYTES)))
                self._publish_changes()
