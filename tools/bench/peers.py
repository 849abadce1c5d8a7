"""The peers: an adapter to each library, with the names that mmbloom uses.

One class per library, all with one interface (see Library). Each peer is used at its best: its
quickest public call for the type of the keys, its batch call if it has one, its own file format.
"""

# ruff: noqa: D102 -- Library in peers.py says what the methods do, once for all libraries

from __future__ import annotations

import importlib
import pickle
import shutil
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence
    from pathlib import Path

    from .timing import Key


class Handle(NamedTuple):
    """A filter ready for timing.

    Attributes:
        subject: the right operand of `in`; timed if *contains* is None.
        add: adds one key; None if this handle only reads.
        update: adds a list of keys; None if this handle only reads.
        contains: the look-up of a library whose `in` is not a direct call into C; else None.
        contains_many: list of keys -> answers; None if the library has no such call.
        num_bits: size of the filter proper.
        num_probes: bits per key.
        close: releases maps and locks.

    """

    subject: Container[object]
    add: Callable[[Key], object] | None
    update: Callable[[Sequence[Key]], object] | None
    contains: Callable[[Key], bool] | None
    contains_many: Callable[[Sequence[Key]], object] | None
    num_bits: int
    num_probes: int
    close: Callable[[], object] = lambda: None


class Library(Protocol):
    """The interface that the comparison uses."""

    label: str
    ours: bool
    writes: bool  # takes part in add and bulk add
    reads: bool  # takes part in the look-ups
    remembers_hashes: bool  # a key object looked up twice is cheaper the second time
    opening: str  # Python for a fresh process: a function opened(path), its imports before it

    def create(self, path: Path, capacity: int, fpr: float, key_type: type) -> Handle:
        """Return an empty filter; a library that writes in place uses *path*, which is unused."""

    def save(self, handle: Handle, path: Path) -> None:
        """Save the filter to *path*."""

    def load(self, path: Path, key_type: type) -> Handle:
        """Open a file written by save()."""

    def leave_empty(self, path: Path, capacity: int, fpr: float) -> Handle:
        """Create an empty filter in *path*, to be overwritten with random bits, and return it."""
        handle = self.create(path.with_suffix(".made"), capacity, fpr, str)
        self.save(handle, path)
        return handle


class Abloom(Library):
    """abloom with serializable=True: a split block filter, hashed by XXH64."""

    label = "abloom"
    ours, writes, reads, remembers_hashes = False, True, True, False
    opening = """
from abloom import BloomFilter
def opened(path):
    with open(path, "rb") as file:
        return BloomFilter.from_bytes(file.read())
"""

    def __init__(self) -> None:
        self._abloom = importlib.import_module("abloom")

    def create(self, _path: Path, capacity: int, fpr: float, _key_type: type) -> Handle:
        return self._handle(self._abloom.BloomFilter(capacity, fpr, serializable=True))

    def save(self, handle: Handle, path: Path) -> None:
        raw: Any = handle.subject
        path.write_bytes(raw.to_bytes())

    def load(self, path: Path, _key_type: type) -> Handle:
        return self._handle(self._abloom.BloomFilter.from_bytes(path.read_bytes()))

    @staticmethod
    def _handle(raw: Any) -> Handle:  # noqa: ANN401 -- a library that may be absent
        return Handle(raw, raw.add, raw.update, None, None, raw.bit_count, raw.k)


class Rbloom(Library):
    """rbloom with a persistable hash: XXH3-128 of the bytes, as the signed number it asks for."""

    label = "rbloom, XXH3 hash_func"
    ours, writes, reads, remembers_hashes = False, True, True, False
    opening = """
from rbloom import Bloom
from xxhash import xxh3_128_intdigest
def opened(path):
    return Bloom.load(path, lambda key: xxh3_128_intdigest(key) - (1 << 127))
"""

    def __init__(self) -> None:
        self._rbloom = importlib.import_module("rbloom")
        digest = importlib.import_module("xxhash").xxh3_128_intdigest
        half = 1 << 127

        def hash_bytes(key: bytes) -> int:
            return int(digest(key)) - half

        def hash_str(key: str) -> int:
            return int(digest(key.encode())) - half

        self._hash_func: dict[type, Callable[..., int]] = {bytes: hash_bytes, str: hash_str}

    def create(self, _path: Path, capacity: int, fpr: float, key_type: type) -> Handle:
        raw = self._rbloom.Bloom(capacity, fpr, self._hash_func[key_type])
        # It does not report its number of probes, but its file starts with it, at any capacity.
        tiny = self._rbloom.Bloom(1000, fpr, self._hash_func[key_type])
        return self._handle(raw, int.from_bytes(tiny.save_bytes()[:8], "little"))

    def save(self, handle: Handle, path: Path) -> None:
        raw: Any = handle.subject
        raw.save(str(path))

    def load(self, path: Path, key_type: type) -> Handle:
        with path.open("rb") as file:
            num_probes = int.from_bytes(file.read(8), "little")
        return self._handle(
            self._rbloom.Bloom.load(str(path), self._hash_func[key_type]), num_probes
        )

    @staticmethod
    def _handle(raw: Any, num_probes: int) -> Handle:  # noqa: ANN401 -- a library that may be absent
        return Handle(raw, raw.add, raw.update, None, None, raw.size_in_bits, num_probes)


class Fastbloom(Library):
    """fastbloom-rs: its Rust class; the Python class around it would add a call per key."""

    label = "fastbloom-rs"
    ours, writes, reads, remembers_hashes = False, True, True, False
    opening = """
from fastbloom_rs import PyBloomFilter
def opened(path):
    return PyBloomFilter.from_file_with_hashes(path)
"""

    def __init__(self) -> None:
        self._fastbloom = importlib.import_module("fastbloom_rs")

    def create(self, _path: Path, capacity: int, fpr: float, key_type: type) -> Handle:
        builder = self._fastbloom.PyFilterBuilder(capacity, fpr)
        return self._handle(builder.build_bloom_filter(), key_type)

    def save(self, handle: Handle, path: Path) -> None:
        raw: Any = handle.subject
        raw.save_to_file_with_hashes(str(path))

    def load(self, path: Path, key_type: type) -> Handle:
        raw = self._fastbloom.PyBloomFilter.from_file_with_hashes(str(path))
        return self._handle(raw, key_type)

    @staticmethod
    def _handle(raw: Any, key_type: type) -> Handle:  # noqa: ANN401 -- a library that may be absent
        kind = key_type.__name__
        return Handle(
            raw,
            getattr(raw, f"add_{kind}"),
            getattr(raw, f"add_{kind}_batch"),
            getattr(raw, f"contains_{kind}"),
            getattr(raw, f"contains_{kind}_batch"),
            raw.config().size(),
            raw.hashes(),
        )


class Pybloomfiltermmap3(Library):
    """pybloomfiltermmap3: a mapped file."""

    label = "pybloomfiltermmap3"
    ours, writes, reads, remembers_hashes = False, True, True, False
    opening = """
from pybloomfilter import BloomFilter
def opened(path):
    return BloomFilter.open(path, mode="r")
"""

    def __init__(self) -> None:
        self._pybloomfilter = importlib.import_module("pybloomfilter")

    def create(self, path: Path, capacity: int, fpr: float, _key_type: type) -> Handle:
        return self._handle(self._pybloomfilter.BloomFilter(capacity, fpr, str(path)))

    def save(self, handle: Handle, path: Path) -> None:
        raw: Any = handle.subject
        raw.sync()
        shutil.copyfile(raw.filename, path)

    def load(self, path: Path, _key_type: type) -> Handle:
        # "rw", as the adds of the largest case use the same handle as the look-ups.
        return self._handle(self._pybloomfilter.BloomFilter.open(str(path), mode="rw"))

    @staticmethod
    def _handle(raw: Any) -> Handle:  # noqa: ANN401 -- a library that may be absent
        return Handle(raw, raw.add, raw.update, None, None, raw.num_bits, raw.num_hashes, raw.close)


class PythonSet(Library):
    """Python's set: no false positive, no file, and the keys themselves in memory."""

    label = "set"
    ours, writes, reads, remembers_hashes = False, True, True, True
    opening = """
import pickle
def opened(path):
    with open(path, "rb") as file:
        return pickle.load(file)
"""

    def create(self, _path: Path, _capacity: int, _fpr: float, _key_type: type) -> Handle:
        return self._handle(set())

    def save(self, handle: Handle, path: Path) -> None:
        with path.open("wb") as file:
            pickle.dump(handle.subject, file, protocol=pickle.HIGHEST_PROTOCOL)

    def load(self, path: Path, _key_type: type) -> Handle:
        with path.open("rb") as file:
            return self._handle(pickle.load(file))  # noqa: S301 -- written by save, above

    @staticmethod
    def _handle(raw: set[Key]) -> Handle:
        # Its table alone, without the keys of about 100 bytes each.
        return Handle(raw, raw.add, raw.update, None, None, 8 * sys.getsizeof(raw), 0)


PEERS: dict[str, Callable[[], Library]] = {
    "abloom": Abloom,
    "rbloom": Rbloom,
    "fastbloom": Fastbloom,
    "pybloomfiltermmap3": Pybloomfiltermmap3,
    "set": PythonSet,
}
