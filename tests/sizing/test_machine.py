"""Any sequence of calls, against Python's sets: never a false "no".

Three places hold a filter or none, each with the set of the keys that it was given. Whatever is
done in whatever order, writers killed and files replaced among it, each key of the set is "maybe".
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import mmbloom
from mmbloom import BloomFilter, CapacityError, LockHeldError, ReadOnlyError
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from collections.abc import Callable

# Twice as fast where there is one: each flush and each new file waits for the disk.
FAST_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - mkdtemp is safe
CAPACITY = 60
PLACES = ("a", "b", "c")
ABSENT = [f"absent {i}" for i in range(20)]

places = st.sampled_from(PLACES)
# Few and short, so that the same keys come up again; text and bytes, which may be the same key.
some_keys = st.text("ab\0é", max_size=3) | st.binary(max_size=2)


def canonical(key: str | bytes) -> bytes:
    """Return what the key is to the filter."""
    return key.encode() if isinstance(key, str) else key


class Filters(RuleBasedStateMachine):
    """Files and filters in memory that keys go into, and from one to the other."""

    layout = "line"

    @initialize()
    def start(self) -> None:
        """Begin with three files, empty and open."""
        self.folder = Path(tempfile.mkdtemp(dir=FAST_DISK))
        self.open: dict[str, BloomFilter] = {}
        self.keys: dict[str, set[bytes]] = {}
        for place in PLACES:
            made = BloomFilter.create(
                self.path(place), capacity=CAPACITY, fpr=1e-9, layout=self.layout
            )
            self.put(place, made, set())

    def path(self, place: str) -> Path:
        """Return where the file of a place is, if it has one."""
        return self.folder / f"{place}.mmb"

    def put(self, place: str, found: BloomFilter, keys: set[bytes]) -> None:
        """Let a place hold another filter."""
        if place in self.open:
            self.open.pop(place).close()
        self.open[place], self.keys[place] = found, set(keys)

    # -- what users do -----------------------------------------------------------------------------

    @rule(place=places, key=some_keys)
    def add(self, place: str, key: str | bytes) -> None:
        """Add one key, or learn why not."""
        found = self.open[place]
        new = canonical(key) not in self.keys[place]
        try:
            assert found.add(key) == new
        except CapacityError:
            assert new
            assert found.keys_added >= CAPACITY
        except ReadOnlyError:
            assert not found.writable
        else:
            self.keys[place].add(canonical(key))

    @rule(place=places, batch=st.lists(some_keys, max_size=30))
    def update(self, place: str, batch: list[str | bytes]) -> None:
        """Add a batch; of one that does not fit, the first keys are in."""
        found = self.open[place]
        wanted = dict.fromkeys(canonical(key) for key in batch)
        new = [key for key in wanted if key not in self.keys[place]]
        try:
            assert found.update(iter(batch)) == len(new)
        except CapacityError as exc:
            new = new[: exc.num_added]
            assert found.keys_added >= CAPACITY
        except ReadOnlyError:
            assert not found.writable
            return
        self.keys[place].update(new)

    @rule(place=places)
    def flush(self, place: str) -> None:
        """Make it durable."""
        self.open[place].flush()

    @rule(place=places)
    def reopen(self, place: str) -> None:
        """Close and go on, reading or writing as the file allows; from memory, in a new file."""
        found, keys = self.open[place], self.keys[place]
        if found.path is None:
            self.path(place).unlink()
            made = BloomFilter.create(
                self.path(place), capacity=CAPACITY, fpr=1e-9, layout=self.layout
            )
            made |= found
            self.put(place, made, keys)
        elif found.sealed:
            self.put(place, mmbloom.open(found.path), keys)
        else:
            found.close()
            self.put(place, mmbloom.open_writable(found.path), keys)

    @rule(place=places)
    def die(self, place: str) -> None:
        """Lose a writer without a close, as when it is killed, and read what is left."""
        found = self.open[place]
        if isinstance(found._opened.storage, WritableFile):
            found._detach(None)
            found._opened.storage.close()
            self.open[place] = mmbloom.open_writable(self.path(place))

    @rule(place=places)
    def seal(self, place: str) -> None:
        """End writing."""
        found = self.open[place]
        if isinstance(found._opened.storage, WritableFile):
            found.seal()
            assert found.verify() > 0

    @rule(place=places)
    def clear(self, place: str) -> None:
        """Forget everything."""
        found = self.open[place]
        if found.writable:
            found.clear()
            assert not found.contains_many(list(self.keys[place])).any()
            self.keys[place].clear()

    @rule(place=places, other=places)
    def copy(self, place: str, other: str) -> None:
        """Go on with a copy in memory of another filter."""
        self.put(place, self.open[other].copy(), self.keys[other])

    @rule(place=places, other=places)
    def unite(self, place: str, other: str) -> None:
        """Add all keys of another filter, in place if there is room."""
        found = self.open[place]
        together = self.keys[place] | self.keys[other]
        try:
            found |= self.open[other]
        except CapacityError:
            assert len(together) > CAPACITY
        except ReadOnlyError:
            with found | self.open[other] as union:
                assert union.contains_many(list(together)).all()
        else:
            self.keys[place] = together

    @rule(place=places, other=places)
    def intersect(self, place: str, other: str) -> None:
        """Keep what both have."""
        found = self.open[place]
        if found.writable:
            found &= self.open[other]
            self.keys[place] &= self.keys[other]

    @rule(place=places, other=places)
    def save(self, place: str, other: str) -> None:
        """Replace the file of a place by a sealed one, while its reader or writer is open."""
        is_writer = isinstance(self.open[place]._opened.storage, WritableFile)
        try:
            self.open[other].save(self.path(place), if_exists="replace")
        except LockHeldError:
            assert is_writer
            return
        self.put(place, mmbloom.open(self.path(place)), self.keys[other])

    # -- what must hold ----------------------------------------------------------------------------

    @precondition(lambda self: hasattr(self, "open"))
    @invariant()
    def every_key_is_found(self) -> None:
        """By the handle, and by a new reader of the file that it has."""
        for place, found in self.open.items():
            members = list(self.keys[place])
            assert found.contains_many(members).all()
            assert not found.contains_many(ABSENT).any()
            if found.path is not None:
                with mmbloom.open(found.path) as reader:
                    assert all(key in reader for key in members)

    def teardown(self) -> None:
        """Close and remove everything."""
        for found in getattr(self, "open", {}).values():
            found.close()
        shutil.rmtree(getattr(self, "folder", ""), ignore_errors=True)


@pytest.mark.parametrize("layout", ["classic", "line", "page"])
def test_no_sequence_of_calls_ends_in_a_false_no(layout: str) -> None:
    """Twenty sequences of up to forty calls a layout, the same ones in every run."""
    machine: Callable[[], RuleBasedStateMachine] = type("Machine", (Filters,), {"layout": layout})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
