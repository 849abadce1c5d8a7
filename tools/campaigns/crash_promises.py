"""The promises to the programs of crash_lives.py, and how each is checked after a crash.

check() gets the folder as a disk may have left it, works there as the next process would, and
returns what it found. It raises AssertionError, or an error of mmbloom, if the promise is broken.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

import mmbloom
from mmbloom.format.fields import SLOT_BYTES, SLOT_OFFSETS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Keys = Sequence[str]

NAME = "a.mmb"


class Promise(Protocol):
    """A condition that must hold after a power loss."""

    def check(self, folder: Path, *, torn: bool) -> str:
        """Return what was found. Raises: AssertionError, MmbloomError, OSError."""


class FileKept(NamedTuple):
    """One file has all keys of one of the *alternatives*, or is absent if that is allowed."""

    alternatives: tuple[Keys, ...]
    absent: bool = False
    least_generation: int = 0
    name: str = NAME

    def check(self, folder: Path, *, torn: bool) -> str:
        """Open the file; if it is refused for a torn sector, as documented, repair it first."""
        path = folder / self.name
        try:
            return self._look(path)
        except mmbloom.FormatError as exc:
            if not torn or exc.field != "slot_checksum":
                raise
            refused = exc
        content = bytearray(path.read_bytes())
        bad = SLOT_OFFSETS[refused.offset >= SLOT_OFFSETS[1]]
        good = sum(SLOT_OFFSETS) - bad
        content[bad : bad + SLOT_BYTES] = content[good : good + SLOT_BYTES]
        path.write_bytes(content)
        return f"refused over its slot, repaired: {self._look(path)}"

    def _look(self, path: Path) -> str:
        if not path.exists():
            require(self.absent, "the file is gone")
            return "absent"
        with mmbloom.open(path) as reader:
            check_keys(reader, self.alternatives)
            reader.verify(num_threads=1)
            reader.info()
            require(reader.generation >= self.least_generation, f"generation {reader.generation}")
            if reader.sealed:
                return "sealed"
        with mmbloom.open_writable(path) as writer:
            counted = writer.keys_added
            require(counted <= writer.capacity, f"{counted} keys counted")
            writer.add("one more")
            writer.flush()
        with mmbloom.open(path) as reader:
            check_keys(reader, self.alternatives)
            require("one more" in reader, "a key added after the crash is lost")
        return "writable"


class PublicationKept(NamedTuple):
    """The file is kept, and the next generation can be published over it."""

    file: FileKept
    next_file: Path
    next_keys: Keys

    def check(self, folder: Path, *, torn: bool) -> str:
        """Check the file, then publish."""
        outcome = self.file.check(folder, torn=torn)
        path = folder / self.file.name
        generation = mmbloom.publish(path, self.next_file)
        with mmbloom.open(path) as reader:
            require(reader.generation == generation > self.file.least_generation, "generation")
            check_keys(reader, [self.next_keys])
        require(os.listdir(folder) == [self.file.name], f"left behind: {os.listdir(folder)}")
        return outcome


class BuildKept(NamedTuple):
    """The file is kept, and the build with resume=True reads only the missing keys."""

    file: FileKept
    resume: Callable[[], mmbloom.BuildReport]
    keys: Keys
    least_resumed: int

    def check(self, folder: Path, *, torn: bool) -> str:
        """Check the file, then resume the build."""
        outcome = self.file.check(folder, torn=torn)
        report = self.resume()
        number = len(set(self.keys))
        require(report.keys_added == number, f"{report.keys_added} of {number} keys")
        require(
            # The checkpoint is removed when the file is complete.
            report.keys_resumed >= self.least_resumed or outcome == "sealed",
            f"{report.keys_resumed} keys resumed, {self.least_resumed} were on disk",
        )
        FileKept((self.keys,)).check(folder, torn=False)
        require(os.listdir(folder) == [NAME], f"left behind: {os.listdir(folder)}")
        resumed = "resumed" if report.keys_resumed else "built again"
        return f"{outcome}, {resumed}"


class StackKept(NamedTuple):
    """A manifest names members with all keys of one of the alternatives, or is absent."""

    alternatives: tuple[Keys, ...]
    absent: bool = False

    def check(self, folder: Path, *, torn: bool) -> str:
        """Open the stack."""
        del torn
        path = folder / NAME
        if not path.exists():
            require(self.absent, "the manifest is gone")
            return "absent"
        with mmbloom.FilterStack.open(path) as stack:
            check_keys(stack, self.alternatives)
            stack.save(path, if_exists="replace")
        return f"stack of {len(stack.members)}"


class StoreKept(NamedTuple):
    """A name of a store leads to a valid generation, or to none if that is allowed.

    Afterwards generations can be published, rolled back and removed as usual.
    """

    alternatives: tuple[Keys, ...]
    next_file: Path
    next_keys: Keys
    absent: bool = False
    least_generation: int = 0  # of all published generations, including withdrawn ones

    def check(self, folder: Path, *, torn: bool) -> str:
        """Check the store, then use it."""
        del torn
        store = mmbloom.Store(folder)
        outcome = self._look(store)
        there = outcome != "absent"
        number = store.publish("a", self.next_file)
        require(number > self.least_generation, f"number {number} once more")
        self._look_at_next(store, number)
        if there:
            store.roll_back("a")
            require(self._look(store) == outcome, "rolled back to another generation")
        elif len(store.generations("a")) > 1:
            raise AssertionError("a generation of a removed filter is back")
        store.remove("a")
        require(os.listdir(folder) == [], f"left behind: {os.listdir(folder)}")
        return outcome

    def _look(self, store: mmbloom.Store) -> str:
        if list(store) == []:
            require(self.absent, "the name is gone")
            return "absent"
        with store["a"] as reader:
            check_keys(reader, self.alternatives)
            reader.verify(num_threads=1)
            require(reader.generation == store.generations("a")[-1], "another generation")
            return f"generation {reader.generation}"

    def _look_at_next(self, store: mmbloom.Store, number: int) -> None:
        with store["a"] as reader:
            require(reader.generation == number == store.generations("a")[-1], "not current")
            check_keys(reader, [self.next_keys])
            reader.verify(num_threads=1)


def check_keys(
    reader: mmbloom.BloomFilter | mmbloom.FilterStack, alternatives: Sequence[Keys]
) -> None:
    """Require that all keys of one alternative are found."""
    found = [all(reader.contains_many(list(each)).tolist()) for each in alternatives]
    require(any(found), "keys that were promised are lost")


def require(holds: bool, problem: str) -> None:  # noqa: FBT001 - an assertion that -O keeps
    """Raise AssertionError unless the condition holds."""
    if not holds:
        raise AssertionError(problem)
