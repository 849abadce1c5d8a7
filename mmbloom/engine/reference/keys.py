"""Keys -> canonical bytes: FORMAT.md, "Keys"."""

from __future__ import annotations

import struct
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from mmbloom.errors import KeyTypeError, KeyValueError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from _typeshed import ReadableBuffer as Buffer

RAW, HEX = 0, 1
SURROGATE = 0xD800
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
    """Return the bytes that *digits* spell; unlike bytes.fromhex, white space is refused."""
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

    def keys_or_errors(self) -> Iterator[object]:
        """Yield every key, and a SourceError in the place of each bad one."""
        return self.keys()

    @property
    def most_keys(self) -> int:
        """An upper bound of the number of keys."""
        return self.num_keys

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
    # A number that is not a code point has no UTF-8, like a surrogate. It is refused as one.
    numbers = (c if c <= sys.maxunicode else SURROGATE for c in row.cast("I"))
    return "".join(map(chr, numbers)).rstrip("\0")


ROW_KINDS: dict[str, Callable[[memoryview], str | bytes]] = {
    "bytes": bytes,
    "trimmed": _trimmed,
    "ucs4": _ucs4_text,
}


class OffsetsBatch(Batch):
    """Arrow's layout: key i is data[offsets[i]:offsets[i + 1]]."""

    def __init__(  # noqa: PLR0913, PLR0917 - the kernel's signature
        self,
        data: Buffer,
        offsets: Buffer,
        offset_bytes: int,
        first: int = 0,
        name: str = "",
        lines: Sequence[int] | None = None,
    ) -> None:
        self._name, self._line_numbers = name, lines
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

    def describe(self, index: int) -> str:
        """Name key *index* for an error message."""
        if self._line_numbers is not None:
            return f"{self._name}, line {self._line_numbers[index]}"
        if self._name:
            return f"{self._name}, row {self.first + index + 1}"
        return super().describe(index)

    def keys(self) -> Iterator[object]:
        """Yield the bytes between neighbouring offsets."""
        for start, end in zip(self._offsets, self._offsets[1:], strict=False):
            yield self._data[start:end]


BLANK_SKIP, BLANK_KEY, BLANK_BAD = 0, 1, 2


class LinesBatch(Batch):
    """Lines that end in LF or CR LF. With *field*, the key is that field of each."""

    def __init__(  # noqa: PLR0913, PLR0917 - the kernel's signature
        self,
        data: Buffer,
        name: str,
        first_line: int,
        delimiter: int = 0,
        field: int = 0,
        comment: int = 0,
        blank: int = BLANK_SKIP,
        num_lines: int = 0,
        digests: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        self._data = bytes(data)
        self._name, self._first_line = name, first_line
        self._delimiter, self._field = bytes([delimiter]), field
        self._num_lines, self._digests = num_lines, digests
        self._comment, self._blank = bytes([comment]) if comment else b"", blank
        # An upper bound: one byte and its LF, or the LF alone.
        self.num_keys = (len(self._data) + 1) // 2 if blank == BLANK_SKIP else len(self._data)

    def keys(self) -> Iterator[object]:
        """Yield the key of every line that is one."""
        for key in self.keys_or_errors():
            if isinstance(key, SourceError):
                raise key
            yield key

    def keys_or_errors(self) -> Iterator[object]:
        """Yield the key of every line that is one, or why a line is bad."""
        for number, line in self._key_lines():
            yield self._key_of(number, line.removesuffix(b"\r"))

    @property
    def most_keys(self) -> int:
        """An upper bound of the number of keys."""
        return self._num_lines or self._data.count(b"\n") + 1

    def describe(self, index: int) -> str:
        """Name the line of key *index* for an error message."""
        numbers = [number for number, _ in self._key_lines()]
        return self._place(numbers[index])

    def select(self, flags: Buffer, wanted: bool) -> bytearray:  # noqa: FBT001 - the kernel's
        """Return the lines that are keys and whose flag equals *wanted*, each with its LF."""
        pairs = zip(self._key_lines(), bytes(flags), strict=False)
        return bytearray().join(line + b"\n" for (_, line), flag in pairs if flag == wanted)

    def _key_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the bytes of every line that is a key or a bad one."""
        lines = self._data.split(b"\n")
        if not lines[-1]:
            del lines[-1]  # nothing follows the last LF
        for number, line in enumerate(lines):
            if line.removesuffix(b"\r"):
                if not (self._comment and line.startswith(self._comment)):
                    yield number, line
            elif self._blank != BLANK_SKIP:
                yield number, line

    def _key_of(self, number: int, text: bytes) -> bytes | SourceError:
        if not text and self._blank == BLANK_BAD:
            return SourceError(f"{self._place(number)}: an empty line")
        if self._field:
            fields = text.split(self._delimiter)
            if len(fields) < self._field:
                where = self._place(number)
                return SourceError(f"{where}: the line has fewer fields than the one asked for")
            text = fields[self._field - 1]
        if self._digests and not text:
            return SourceError(f"{self._place(number)}: an empty digest")
        return text

    def _place(self, number: int) -> str:
        return f"{self._name}, line {self._first_line + number}"


def count_lines(data: Buffer) -> int:
    """Return the number of LF bytes."""
    return bytes(data).count(b"\n")
