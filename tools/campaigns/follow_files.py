"""What follow.py publishes: generations that a follower accepts, and files that it must refuse.

Every generation has the shared keys, one key of its own, and its own seed. Layout and size vary
too; so does the way Bloom filters are made, and the width of the fingerprints of fuse filters.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import mmbloom

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Bad = Callable[["Shelf", Path, Path], None]

NUM_SHARED, NUM_FILES = 1000, 12
SHARED = [f"shared {number}" for number in range(NUM_SHARED)]
OWN = [f"own {number}" for number in range(NUM_FILES)]
FPR = 1e-9  # one look-up in 1e9 of a key that is not in is "maybe" by chance
KINDS = ("bloom", "fuse", "counting")
LAYOUTS = ("line", "page", "classic", "narrow")
_HEADER_BYTES = 4096


class Shelf:
    """The files of one kind in a folder."""

    def __init__(self, folder: Path, kind: str) -> None:
        """Make the generations, and the bad files that are sound."""
        self.folder, self.kind = folder, kind
        self.good = [self._make(folder / f"new-{n}.mmb", n) for n in range(NUM_FILES)]
        self.of_another_kind = folder / "kind.mmb"
        other = "bloom" if kind == "fuse" else "fuse"
        mmbloom.build(self.of_another_kind, ["ada"], fpr=FPR, kind=other).close()
        self.of_another_key_form = folder / "form.mmb"
        self._make_hex(self.of_another_key_form)

    def _make(self, path: Path, number: int) -> Path:
        keys, room = [*SHARED, OWN[number]], (NUM_SHARED + 1) * (1 + number % 4)
        layout, asked = LAYOUTS[number % len(LAYOUTS)], dict[str, Any]()
        if self.kind == "fuse":
            asked = {"fpr": FPR * (1 + number % 3 * 2), "layout": f"fuse{3 + number % 2}"}
            mmbloom.build(path, keys, kind="fuse", seed=number, **asked).close()
        elif self.kind == "bloom" and layout != "narrow":
            mmbloom.build(path, keys, fpr=FPR, seed=number, layout=layout, capacity=room).close()
        else:
            asked = {"capacity": room + 1, "fpr": FPR, "seed": number}
            counters = path if self.kind == "counting" else path.with_suffix(".counters")
            with mmbloom.CountingBloomFilter.create(counters, **asked) as made:
                made.update([*keys, "gone"])
                made.remove("gone")
                made.seal()
                if self.kind == "bloom":
                    made.to_bloom(path).close()
        return path

    def _make_hex(self, path: Path) -> None:
        asked: dict[str, Any] = {"fpr": FPR, "key_form": "hex"}
        if self.kind == "counting":
            with mmbloom.CountingBloomFilter.create(path, capacity=9, **asked) as made:
                made.add("ab")
                made.seal()
        else:
            mmbloom.build(path, ["ab"], kind=self.kind, **asked).close()


# ---- bad files -----------------------------------------------------------------------------------


def cut(_: Shelf, source: Path, path: Path) -> None:
    """Publish a file without its last 64 bytes."""
    _put(path, source.read_bytes()[:-64])


def damage_header(_: Shelf, source: Path, path: Path) -> None:
    """Publish a file whose header has a changed byte."""
    content = bytearray(source.read_bytes())
    content[100] ^= 0x55
    _put(path, content)


def empty_payload(_: Shelf, source: Path, path: Path) -> None:
    """Publish a file with zeros after the header, as if the payload had never arrived."""
    content = source.read_bytes()
    _put(path, content[:_HEADER_BYTES] + bytes(len(content) - _HEADER_BYTES))


def no_filter(_: Shelf, _source: Path, path: Path) -> None:
    """Publish a file that is not a filter."""
    _put(path, b"<html>404 Not Found</html>\n" * 500)


def nothing(_: Shelf, _source: Path, path: Path) -> None:
    """Remove the file."""
    path.unlink()


def other_key_form(shelf: Shelf, _source: Path, path: Path) -> None:
    """Publish a sound file whose keys are digests."""
    mmbloom.publish(path, shelf.of_another_key_form)


def other_kind(shelf: Shelf, _source: Path, path: Path) -> None:
    """Publish a sound file of another kind."""
    mmbloom.publish(path, shelf.of_another_kind)


BAD: tuple[Bad, ...] = (
    *(cut, other_key_form, damage_header, other_kind, empty_payload, no_filter, nothing),
)


def publish_next(source: Path, path: Path) -> None:
    """Publish a good file over any other file."""
    try:
        mmbloom.publish(path, source)
    except mmbloom.FormatError:  # publish() refuses to replace a file that is not a filter
        path.unlink()
        mmbloom.publish(path, source)


def _put(path: Path, content: bytes | bytearray) -> None:
    other = path.with_name("bad.tmp")
    other.write_bytes(content)
    os.replace(other, path)
