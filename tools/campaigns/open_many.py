"""Use filters many times, with and without errors: what the process holds must not grow.

    python tools/campaigns open-many             # 10 000 times each; less often what writes files
    python tools/campaigns sanitized --leaks --campaign open-many -- --times 300

Descriptors, maps of filters, Python's memory blocks, references to all objects, and resident memory
are counted before and after. A leaked reference keeps a block alive, or shows as one more reference
to None, a class or a short string. Prints one line of JSON for each use; exits with 1 if anything
grew.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import mmbloom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmbloom.storage.mapped import Mode

    Use = tuple[str, int, Callable[[], object]]

TIMES = 10_000
RARE, RARER = 10, 100  # uses that sync or copy files are repeated a tenth, a hundredth as often
# The allocator keeps some freed memory; a leak of 100 bytes per open is more than this.
MAX_GROWTH_BYTES = 1 << 20
# Caches of the interpreter and of NumPy fill while the loop runs, but not on every turn. A leak on
# every turn exceeds these bounds after a hundred turns.
MAX_GROWTH, MAX_GROWTH_A_TURN = 50, 0.1
KEYS = [f"key {i}" for i in range(200)]
ABSENT = [f"other {i}" for i in range(50)]
LAYOUTS: dict[str, dict[str, Any]] = {
    "line": {},
    "page": {"layout": "page"},
    "classic": {"layout": "classic"},
    "fuse3": {"kind": "fuse", "layout": "fuse3"},
    "fuse4": {"kind": "fuse", "layout": "fuse4"},
}
WARM_UP = 20
IMMORTAL = 1 << 29  # the reference count of immortal objects starts here
MODES: tuple[Mode, ...] = ("map", "ram", "pread")


class Held(NamedTuple):
    """What the process holds."""

    descriptors: int
    maps: int
    blocks: int
    references: int
    resident_bytes: int


def held_now() -> Held:
    """Count what the process holds, after garbage collection."""
    gc.collect()
    references = references_now()  # first: it allocates memory itself
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").count(".mmb")
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return Held(
        len(os.listdir("/proc/self/fd")),
        maps,
        sys.getallocatedblocks(),
        references,
        pages * os.sysconf("SC_PAGE_SIZE"),
    )


def references_now() -> int:
    """Count the references to every container, and to all objects in containers.

    sys.gettotalrefcount() of a debug build is no substitute: libraries without debugging take
    references that debugging code gives back.
    """
    objects = {id(each): each for each in gc.get_objects()}
    objects |= {id(each): each for each in gc.get_referents(*objects.values())}
    references = map(sys.getrefcount, objects.values())
    return sum(number for number in references if number < IMMORTAL)


def measure(name: str, act: Callable[[], object], count: int) -> bool:
    """Repeat a call; print what is held before and after; return whether it is about the same."""
    for _ in range(count // 10 + WARM_UP):
        act()
    before = held_now()
    for _ in range(count):
        act()
    after = held_now()
    flat = before[:2] == after[:2]
    allowed = MAX_GROWTH_A_TURN * count + MAX_GROWTH
    flat = flat and after.blocks - before.blocks < allowed
    flat = flat and after.references - before.references < allowed
    # The address sanitizer keeps freed memory for a while, to detect later uses.
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        flat = flat and after.resident_bytes - before.resident_bytes < MAX_GROWTH_BYTES
    row = {"what": name, "count": count, "before": before, "after": after, "flat": flat}
    print(json.dumps(row), flush=True)
    return flat


# ---- uses ----------------------------------------------------------------------------------------


def make_files(folder: Path) -> dict[str, Path]:
    """Make a sealed file of every kind."""
    paths = {layout: folder / f"{layout}.mmb" for layout in LAYOUTS}
    for layout, given in LAYOUTS.items():
        mmbloom.build(paths[layout], KEYS, fpr=0.01, **given).close()
    paths["counting"] = folder / "counting.mmb"
    with mmbloom.CountingBloomFilter.in_memory(capacity=1000, fpr=0.01) as made:
        made.update(KEYS)
        made.save(paths["counting"])
    return paths


def look_up(path: Path, mode: Mode) -> None:
    """Open a file, look keys up in every way, close it."""
    with mmbloom.open(path, mode=mode) as found:
        if KEYS[1] not in found or not found.contains_many(KEYS).all():
            raise AssertionError(path)
        found.might_contain(b"bytes")
        found.contains_many(iter(ABSENT))
        found.info()
        repr(found)
        found.reload_if_changed()


def fail_to_look_up(path: Path) -> None:
    """Call a reader with arguments that it refuses."""
    with mmbloom.open(path) as found:
        for wrong in (5, "\ud800", None):
            with suppress(mmbloom.MmbloomError):
                found.might_contain(wrong)
        with suppress(mmbloom.MmbloomError):
            found.contains_many([*KEYS, 5])
        with suppress(ZeroDivisionError):
            found.contains_many(key[: 1 // (i - 9)] for i, key in enumerate(KEYS, 9))
    with suppress(mmbloom.ClosedError):
        found.might_contain("key")


def fail_to_open(path: Path) -> None:
    """Open a file that was cut short."""
    with suppress(mmbloom.TruncatedError):
        mmbloom.open(path)
        raise AssertionError(path)


def combine() -> None:
    """Add, unite, intersect and copy in memory."""
    one = mmbloom.BloomFilter.in_memory(capacity=1000, fpr=0.01)
    two = mmbloom.BloomFilter.in_memory(capacity=1000, fpr=0.01)
    with one, two:
        one.update(KEYS)
        two.add(KEYS[0])
        with one | two as either, one & two as both:
            if not either.contains_many(KEYS).all() or KEYS[0] not in both or one == two:
                raise AssertionError(either, both)
        one |= two
        one.clear()


def count_and_remove() -> None:
    """Add to counters, remove, fail to remove."""
    with mmbloom.CountingBloomFilter.in_memory(capacity=1000, fpr=0.01) as made:
        made.update(KEYS)
        made.remove(KEYS[0])
        made.remove_many(KEYS[1:100])
        with suppress(mmbloom.AbsentKeyError):
            made.remove_many([*KEYS[100:], "not one of them"])


def write(folder: Path) -> None:
    """Create, add, flush, seal, open again; beside it a stack."""
    path = folder / "written.mmb"
    path.unlink(missing_ok=True)
    with mmbloom.BloomFilter.create(path, capacity=1000, fpr=0.01) as made:
        made.add("key")
        made.flush()
        made.update(KEYS)
    with mmbloom.BloomFilter.open_writable(path) as made:
        made.add("another")
        made.seal()


def build(folder: Path, given: dict[str, Any]) -> None:
    """Build, verify, publish, follow."""
    path, source = folder / "built.mmb", folder / "new.mmb"
    mmbloom.build(path, KEYS, fpr=0.01, if_exists="replace", **given).close()
    with mmbloom.open(path) as found:
        mmbloom.build(source, KEYS, fpr=0.01, if_exists="replace", **given).close()
        mmbloom.publish(path, source)
        found.reload_if_changed()
        found.verify()


def merge(paths: dict[str, Path], folder: Path) -> None:
    """Merge files, count a union, open a stack of filters of every kind."""
    lines = [paths["line"], paths["line"]]
    mmbloom.merge(folder / "merged.mmb", lines, if_exists="replace")
    mmbloom.union_count(lines)
    stack = mmbloom.FilterStack([mmbloom.open(path) for path in paths.values()], minus={"key 1"})
    with stack:
        stack.contains_many(KEYS)
        stack.which(KEYS[0])


def read_a_list(lines: Path, path: Path) -> None:
    """Look up the lines of a file."""
    with mmbloom.open(path) as found, mmbloom.read_list(lines) as keys:
        if not found.contains_many(keys).all():
            raise AssertionError(lines)


def uses(folder: Path) -> Iterator[Use]:
    """Yield each use with its name, and by what factor it is repeated less often."""
    paths = make_files(folder)
    damaged, lines = folder / "damaged.mmb", folder / "lines.txt"
    damaged.write_bytes(paths["line"].read_bytes()[:-9])
    lines.write_text("".join(f"{key}\n" for key in KEYS), encoding="utf-8")
    for layout, path in paths.items():
        for mode in MODES:
            yield f"look-ups, {layout}, {mode}", 1, partial(look_up, path, mode)
        yield f"refusals, {layout}", RARE, partial(fail_to_look_up, path)
    yield "failures", RARE, partial(fail_to_open, damaged)
    yield "in memory", RARE, combine
    yield "counters", RARE, count_and_remove
    yield "lists", RARE, partial(read_a_list, lines, paths["line"])
    yield "merging, stacks", RARE, partial(merge, paths, folder)
    yield "writing", RARER, partial(write, folder)
    for layout, given in LAYOUTS.items():
        yield f"building, {layout}", RARER, partial(build, folder, given)


def main() -> int:
    """Run every use; return 1 if anything grew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=TIMES, help="default: %(default)s")
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory() as name:
        flat = [measure(what, act, times // rarer) for what, rarer, act in uses(Path(name))]
        if mmbloom.ENGINE == "kernel":
            mmbloom.install_sigbus_guard()
            path = Path(name) / "line.mmb"
            flat.append(measure("look-ups with the guard", partial(look_up, path, "map"), times))
    return int(not all(flat))


if __name__ == "__main__":
    sys.exit(main())
