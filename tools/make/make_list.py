"""Make a list of keys of any length, quickly; the same seed gives the same list.

    python tools/make/make_list.py --kind hibp --lines 100e6 -o pwned.txt
    python tools/make/make_list.py --kind urls --lines 1e6 --duplicates 0.2 --seed 7 > urls.txt

Kinds:
    hibp  HASH:COUNT, 40 upper-case hexadecimal digits, about 44 bytes per line, in ascending order
          as in the breach lists. No hash is computed and nothing is sorted: the first 64 bits of
          line i are drawn from the i-th of equal parts of the range. So they ascend, and are spread
          almost as digests are, slightly more evenly. The other 96 bits are random. --shuffle draws
          all bits at random, which gives no order.
    urls  42 to 56 characters, in no order.
    keys  16 random bytes in lower-case hexadecimal, in no order.

Lines that are not duplicates are distinct with certainty: 64 of their bits are a permutation of the
line number. Uses about 60 MiB of memory for any length.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[np.uint64]
    Sizes = NDArray[np.int64]

Kind = Literal["hibp", "urls", "keys"]
KINDS: tuple[Kind, ...] = ("hibp", "urls", "keys")
BLOCK_LINES = 1 << 16
MAX_LINES = 1 << 40  # products of a number of lines and BLOCK_LINES fit 63 bits
NUM_TAILS = 1 << 16


class ListShape(NamedTuple):
    """Parameters of a list. *duplicates* is the share of lines that repeat an earlier key."""

    kind: Kind
    num_lines: int
    seed: int = 0
    duplicates: float = 0.0
    shuffle: bool = False

    @property
    def num_distinct(self) -> int:
        """Return the exact number of distinct keys of the list."""
        return max(1, self.num_lines - round(self.num_lines * self.duplicates))


def mixed(numbers: Numbers) -> Numbers:
    """Return splitmix64 of each number: a permutation of 64-bit numbers without a pattern.

    Source: Steele, Lea and Flood 2014.
    """
    x = numbers * np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def drawn(numbers: Numbers, seed: int, purpose: str) -> Numbers:
    """Return a random 64-bit number for each number; distinct numbers give distinct results."""
    digest = hashlib.blake2b(f"{seed} {purpose}".encode(), digest_size=8).digest()
    return mixed(numbers + np.uint64(int.from_bytes(digest, "little")))


def blocks(shape: ListShape) -> Iterator[memoryview]:
    """Yield the list in blocks of whole lines, each ending in LF."""
    for first in range(0, shape.num_lines, BLOCK_LINES):
        ids = _ids(shape, first, min(BLOCK_LINES, shape.num_lines - first))
        yield _LINES[shape.kind](ids, shape)


def _ids(shape: ListShape, first: int, count: int) -> Numbers:
    """Return the number of the key of each of *count* lines.

    New keys are spread evenly: the first i lines hold ceil(i * num_distinct / num_lines) of them.
    A duplicate repeats any earlier key, or in a sorted list the one before.
    """
    whole, rest = divmod(first * shape.num_distinct, shape.num_lines)
    steps = rest + np.arange(count + 1, dtype=np.int64) * shape.num_distinct
    known = (whole - -steps // shape.num_lines).astype(np.uint64)
    newest = known[1:] - np.uint64(1)
    if shape.num_distinct == shape.num_lines or (shape.kind == "hibp" and not shape.shuffle):
        return newest
    lines = np.arange(first, first + count, dtype=np.uint64)
    earlier = drawn(lines, shape.seed, "duplicate") % known[1:]
    return np.where(known[1:] > known[:-1], newest, earlier)


def _hibp_lines(ids: Numbers, shape: ListShape) -> memoryview:
    digests = np.empty((len(ids), 20), dtype=np.uint8)
    places = drawn(ids, shape.seed, "place")
    if not shape.shuffle:
        stratum = np.uint64(((1 << 64) - 1) // shape.num_distinct)
        places = ids * stratum + places % stratum
    digests[:, :8] = _bytes_of(places.byteswap())
    digests[:, 8:16] = _bytes_of(drawn(ids, shape.seed, "middle"))
    rest = drawn(ids, shape.seed, "rest")
    digests[:, 16:] = _bytes_of(rest)[:, :4]
    counts, sizes = _counts()
    which = rest >> np.uint64(48)
    sizes = 40 + sizes[which]
    starts = np.cumsum(sizes) - sizes
    digits = _hexadecimal(digests, b"0123456789ABCDEF")
    return _packed(sizes, (starts + 40, counts[which]), (starts, digits))


def _url_lines(ids: Numbers, shape: ListShape) -> memoryview:
    pages = np.empty(len(ids), dtype=[("page", "V16"), ("end", "V1")])
    page_numbers = drawn(ids, shape.seed, "page")
    pages["page"] = _hexadecimal(_bytes_of(page_numbers), b"0123456789abcdef")
    pages["end"] = np.void(b"\n")
    heads, head_sizes = _url_heads()
    which = drawn(ids, shape.seed, "host") & np.uint64(len(heads) - 1)
    sizes = head_sizes[which] + 17
    starts = np.cumsum(sizes) - sizes
    return _packed(sizes, (starts, heads[which]), (starts + head_sizes[which], pages))


def _key_lines(ids: Numbers, shape: ListShape) -> memoryview:
    halves = [_bytes_of(drawn(ids, shape.seed, purpose)) for purpose in ("high", "low")]
    lines = np.empty(len(ids), dtype=[("key", "V32"), ("end", "V1")])
    lines["key"] = _hexadecimal(np.concatenate(halves, axis=1), b"0123456789abcdef")
    lines["end"] = np.void(b"\n")
    return lines.view(np.uint8).data


_LINES = {"hibp": _hibp_lines, "urls": _url_lines, "keys": _key_lines}


def _bytes_of(numbers: Numbers) -> NDArray[np.uint8]:
    return numbers.view(np.uint8).reshape(len(numbers), 8)


def _hexadecimal(table: NDArray[np.uint8], digits: bytes) -> NDArray[np.void]:
    """Return the digits of each row as one fixed-width item, two bytes of the row at a time."""
    found = _four(digits).take(table.view(np.uint16))
    return found.view(f"V{2 * table.shape[1]}")[:, 0]


@cache
def _four(digits: bytes) -> NDArray[np.uint32]:
    """Return the four digits of every two bytes."""
    pairs = np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    nibbles = np.stack([pairs >> 4, pairs & 15], axis=2).reshape(-1, 4)
    return np.frombuffer(digits, dtype=np.uint8)[nibbles].view(np.uint32)[:, 0]


@cache
def _counts() -> tuple[NDArray[np.void], Sizes]:
    """Return tails ":COUNT LF": about half have one digit, 1 in 100 is above 1000."""
    ranks = range(1, NUM_TAILS + 1)
    return _padded([b":%d\n" % (10 * NUM_TAILS // rank - 9) for rank in ranks])


@cache
def _url_heads() -> tuple[NDArray[np.void], Sizes]:
    hosts = [b"www.example.org", b"shop.example.com", b"example.net", b"mirror.example.org"]
    paths = [b"pages/", b"catalogue/", b"2024/archive/", b"a/b/c/d/"]
    return _padded([b"https://" + host + b"/" + path for host in hosts for path in paths])


def _padded(texts: list[bytes]) -> tuple[NDArray[np.void], Sizes]:
    """Return the texts, padded with NULs to equal widths, and their sizes without padding."""
    width = max(map(len, texts))
    padded = b"".join(text.ljust(width, b"\0") for text in texts)
    return np.frombuffer(padded, dtype=f"V{width}"), np.array([len(text) for text in texts])


def _packed(sizes: Sizes, *parts: tuple[Sizes, NDArray[np.void]]) -> memoryview:
    """Return lines of these sizes, from parts: (offset of each text, padded texts).

    The padding of a text reaches into the next part. That must come later in *parts*, to overwrite
    it, and be at least as wide.
    """
    num_bytes = int(sizes.sum())
    text = np.empty(num_bytes + max(texts.itemsize for _, texts in parts), dtype=np.uint8)
    for starts, texts in parts:
        # An array of overlapping texts, one starting at each byte.
        slots = np.ndarray(num_bytes, dtype=texts.dtype, buffer=text, strides=(1,))
        slots[starts] = texts
    return text[:num_bytes].data


def write(path: str, shape: ListShape) -> None:
    """Write the list to a new file; remove the file if it cannot be finished.

    Raises:
        FileExistsError: a list is never replaced.
        OSError: what the operating system says.
    """
    with open(path, "xb", buffering=0) as file:
        try:
            _write_to(file, shape)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(path)
            raise


def _write_to(file: BinaryIO, shape: ListShape) -> None:
    for block in blocks(shape):
        rest = block
        while rest:  # a pipe may accept only a part
            rest = rest[file.write(rest) :]


def _shape(arguments: argparse.Namespace) -> ListShape:
    if not 1 <= arguments.lines <= MAX_LINES or arguments.lines != int(arguments.lines):
        raise SystemExit(f"--lines: expected 1 to {MAX_LINES}, found {arguments.lines:g}")
    if not 0 <= arguments.duplicates < 1:
        raise SystemExit(f"--duplicates: expected 0 <= SHARE < 1, found {arguments.duplicates:g}")
    return ListShape(
        arguments.kind,
        int(arguments.lines),
        arguments.seed,
        arguments.duplicates,
        arguments.shuffle,
    )


def main() -> int:
    """Write the list; report the number of lines and distinct keys on standard error."""
    description, _, epilog = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kind", choices=KINDS, default="hibp", help="default: %(default)s")
    parser.add_argument("--lines", type=float, required=True, metavar="N", help="such as 1e8")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="default: %(default)s")
    parser.add_argument(
        "--duplicates",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of lines that repeat a key; 0",
    )
    parser.add_argument("--shuffle", action="store_true", help="hibp: in random order")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="default: stdout")
    arguments = parser.parse_args()
    shape = _shape(arguments)
    if arguments.output == "-":
        with open(sys.stdout.fileno(), "wb", buffering=0, closefd=False) as file:
            _write_to(file, shape)
    else:
        write(arguments.output, shape)
    print(f"{shape.num_lines} lines, {shape.num_distinct} distinct keys", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
