"""mmbloom itself, behind the interface of the peers (see peers.Library).

Three rows, as their costs differ: a filter in memory, a file opened read-only, and a file opened
for writing, where each single add writes the changed page to the file.
"""

# ruff: noqa: D102 -- Library in peers.py says what the methods do, once for all libraries

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import mmbloom

from .peers import Handle, Library

if TYPE_CHECKING:
    from pathlib import Path

OPENING = """
import mmbloom
def opened(path):
    return mmbloom.open(path)
"""


def _handle(raw: Any) -> Handle:  # noqa: ANN401 -- add takes str or bytes, Handle says which
    return Handle(
        raw, raw.add, raw.update, None, raw.contains_many, raw.num_bits, raw.num_probes, raw.close
    )


class InMemory(Library):
    """BloomFilter.in_memory."""

    ours, writes, reads, remembers_hashes = True, True, True, False
    opening = ""  # it has no file; see ReadOnlyFile

    def __init__(self, layout: str) -> None:
        self.label = f"mmbloom {layout}, in memory"
        self.layout = layout

    def create(self, _path: Path, capacity: int, fpr: float, _key_type: type) -> Handle:
        made = mmbloom.BloomFilter.in_memory(capacity=capacity, fpr=fpr, layout=self.layout)
        return _handle(made)

    def leave_empty(self, path: Path, capacity: int, fpr: float) -> Handle:
        # Not save(), which seals the file: its checksums would refuse other bits. Overfill: a copy
        # estimates its count from the bits, and random bits make the filter look full.
        made = mmbloom.BloomFilter.create(
            path, capacity=capacity, fpr=fpr, layout=self.layout, overfill=True
        )
        return _handle(made)

    def save(self, handle: Handle, path: Path) -> None:
        raw: Any = handle.subject
        raw.save(path)

    def load(self, path: Path, _key_type: type) -> Handle:
        with mmbloom.open(path) as kept:
            return _handle(kept.copy())


class ReadOnlyFile(InMemory):
    """mmbloom.open: the file that InMemory saved, mapped read-only."""

    ours, writes, reads, remembers_hashes = True, False, True, False
    opening = OPENING

    def __init__(self, layout: str) -> None:
        super().__init__(layout)
        self.label = f"mmbloom {layout}, file read-only"

    def load(self, path: Path, _key_type: type) -> Handle:
        return _handle(mmbloom.open(path))


class WritableFile(InMemory):
    """BloomFilter.create(): every add is in the file when the call returns."""

    ours, writes, reads, remembers_hashes = True, True, False, False

    def __init__(self, layout: str) -> None:
        super().__init__(layout)
        self.label = f"mmbloom {layout}, file writable"

    def create(self, path: Path, capacity: int, fpr: float, _key_type: type) -> Handle:
        made = mmbloom.BloomFilter.create(path, capacity=capacity, fpr=fpr, layout=self.layout)
        return _handle(made)

    def save(self, _handle: Handle, _path: Path) -> None:
        """Do nothing: ReadOnlyFile measures the same filter in a file."""


OURS = {
    f"mmbloom-{layout}-{medium.__name__}": partial(medium, layout)
    for layout in ("line", "page", "classic")
    for medium in (InMemory, ReadOnlyFile, WritableFile)
}
