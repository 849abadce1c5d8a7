"""Lives of files: programs that crash_files.py runs on a simulated disk, and their promises.

Each life gets an empty folder, which is the disk, and a function that records a promise from that
point on. Files that are only read are outside the folder, on a disk that does not fail. Builds get
very little memory, so that a few thousand keys take the same code paths as millions.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import mmbloom
from mmbloom.building import budget, hashes, key_reader
from mmbloom.keys import lines
from mmbloom.sizing import fuse as fuse_sizing
from mmbloom.storage import progress

from .crash_promises import (
    NAME,
    BuildKept,
    FileKept,
    PublicationKept,
    StackKept,
    StoreKept,
    require,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from .crash_promises import Promise

    Note = Callable[[Promise], None]
    Life = Callable[[Path, Note], None]

GEOMETRY: dict[str, Any] = {"capacity": 2000, "fpr": 0.001}
FPR = 0.001
# More keys than the memory of small_builds() holds. The Python engine counts memory less exactly.
NUM_SPILLED = 40_000 if mmbloom.ENGINE == "kernel" else 4000
NUM_DIRECT = 3000
SMALL: dict[str, Any] = {"fpr": FPR, "memory": 8 << 20, "jobs": 1}


def keys(first: int, count: int) -> list[str]:
    """Return the same keys in every run."""
    return [f"key {i}" for i in range(first, first + count)]


OLD, NEW, NEXT = tuple(keys(0, 300)), tuple(keys(1000, 400)), tuple(keys(2000, 20))


# ---- a file that is written key by key -----------------------------------------------------------


def create_and_add(folder: Path, promise: Note) -> None:
    """Create, add, flush, add one by one, close."""
    promise(FileKept(((),), absent=True))
    with mmbloom.BloomFilter.create(folder / NAME, **GEOMETRY) as made:
        promise(FileKept(((),)))
        for first in range(0, 300, 100):
            made.update(keys(first, 100))
            made.flush()
            promise(FileKept((OLD[: first + 100],)))
        for key in NEW[:5]:
            made.add(key)
    promise(FileKept(((*OLD, *NEW[:5]),)))


def create_and_seal(folder: Path, promise: Note) -> None:
    """Create, add, seal."""
    promise(FileKept(((),), absent=True))
    with mmbloom.BloomFilter.create(folder / NAME, **GEOMETRY) as made:
        made.update(OLD)
        made.flush()
        promise(FileKept((OLD,)))
        made.seal()
        promise(FileKept((OLD,)))


def add_to_old(folder: Path, promise: Note) -> None:
    """Open a file that has keys, add, flush, clear, add, seal."""
    with mmbloom.BloomFilter.create(folder / NAME, **GEOMETRY) as made:
        made.update(OLD)
    promise(FileKept((OLD,)))
    with mmbloom.open_writable(folder / NAME) as writer:
        writer.update(NEW)
        writer.flush()
        promise(FileKept(((*OLD, *NEW),)))
        promise(FileKept(((),)))
        writer.clear()
        writer.update(NEW)
        writer.seal()
    promise(FileKept((NEW,)))


def count_and_remove(folder: Path, promise: Note) -> None:
    """Create a counting filter, add, remove, flush, remove one by one, unite, seal."""
    promise(FileKept(((),), absent=True))
    with mmbloom.CountingBloomFilter.create(folder / NAME, **GEOMETRY) as made:
        made.update(OLD)
        made.flush()
        promise(FileKept((OLD,)))
        made.update(NEW)
        made.flush()
        # From the call on, removed keys may be gone; all other keys are in.
        promise(FileKept(((*OLD[100:], *NEW),)))
        made.remove_many(OLD[:100])
        made.flush()
        promise(FileKept(((*OLD[105:], *NEW),)))
        for key in OLD[100:105]:
            made.remove(key)
    promise(FileKept(((*OLD[105:], *NEW),)))
    with mmbloom.CountingBloomFilter.in_memory(**GEOMETRY) as other:
        other.update(NEXT)
        writer = mmbloom.open_writable(folder / NAME)
        writer |= other
        writer.flush()
        promise(FileKept(((*OLD[105:], *NEW, *NEXT),)))
        writer.seal()
        writer.close()
    promise(FileKept(((*OLD[105:], *NEW, *NEXT),)))


# ---- a file that appears whole -------------------------------------------------------------------


def replace_by_save(folder: Path, promise: Note) -> None:
    """Save a filter in memory over a sealed file."""
    mmbloom.build(folder / NAME, OLD, fpr=FPR).close()
    promise(FileKept((OLD, NEW)))
    with mmbloom.BloomFilter.in_memory(**GEOMETRY) as made:
        made.update(NEW)
        made.save(folder / NAME, if_exists="replace")
    promise(FileKept((NEW,)))


def save_new_and_to_bloom(folder: Path, promise: Note) -> None:
    """Write the Bloom filter of a counting one to a new path, then over it."""
    promise(FileKept(((),), absent=True))
    with mmbloom.CountingBloomFilter.in_memory(**GEOMETRY) as counting:
        counting.update(OLD)
        counting.to_bloom(folder / NAME).close()
        promise(FileKept((OLD,), least_generation=1))
        counting.update(NEW)
        promise(FileKept((OLD,), least_generation=1))
        counting.to_bloom(folder / NAME, if_exists="replace").close()
    promise(FileKept(((*OLD, *NEW),), least_generation=2))


def build_new(folder: Path, promise: Note) -> None:
    """Build a file."""
    _build_new(folder, promise, "bloom")


def build_new_fuse(folder: Path, promise: Note) -> None:
    """Build a fuse filter."""
    _build_new(folder, promise, "fuse")


def _build_new(folder: Path, promise: Note, kind: Any) -> None:  # noqa: ANN401 - a literal
    promise(FileKept(((),), absent=True))
    mmbloom.build(folder / NAME, NEW, fpr=FPR, kind=kind).close()
    promise(FileKept((NEW,)))


def replace_by_build(folder: Path, promise: Note) -> None:
    """Build over an older file."""
    _replace_by(folder, promise, NEW, fpr=FPR)


def replace_by_spilled_build(folder: Path, promise: Note) -> None:
    """Build from more keys than memory holds."""
    done = _replace_by(folder, promise, keys(1000, NUM_SPILLED), **SMALL)
    require(done.spilled_bytes > 0, "nothing was spilled")


def replace_by_spilled_fuse(folder: Path, promise: Note) -> None:
    """Build a fuse filter from more keys than memory holds."""
    done = _replace_by(folder, promise, keys(1000, NUM_SPILLED), kind="fuse", **SMALL)
    require(done.spilled_bytes > 0, "nothing was spilled")


def replace_by_direct_build(folder: Path, promise: Note) -> None:
    """Build with a capacity, so that keys are added directly to the payload."""
    some = keys(1000, NUM_DIRECT)
    # More memory than is used: the direct way requires a minimum.
    asked = {"capacity": 2 * NUM_DIRECT, "memory": 1 << 30, "jobs": 1}
    done = _replace_by(folder, promise, some, fpr=FPR, **asked)
    require(not done.is_exact, "it was not direct")


def _replace_by(
    folder: Path,
    promise: Note,
    new: Sequence[str],
    **asked: Any,  # noqa: ANN401 - passed on
) -> mmbloom.BuildReport:
    mmbloom.build(folder / NAME, OLD, fpr=FPR).close()
    promise(FileKept((OLD, new), least_generation=1))
    with small_builds(), mmbloom.build(folder / NAME, new, if_exists="replace", **asked) as built:
        report: mmbloom.BuildReport = built.report
    promise(FileKept((new,), least_generation=2))
    return report


def resume_build(folder: Path, promise: Note) -> None:
    """Build with checkpoints: interrupted, resumed, interrupted again, then finished."""
    _resume(folder, promise, "bloom")


def resume_fuse(folder: Path, promise: Note) -> None:
    """Build a fuse filter in the same way."""
    _resume(folder, promise, "fuse")


def _resume(folder: Path, promise: Note, kind: Any) -> None:  # noqa: ANN401 - a literal
    some = [*keys(0, 900), *keys(300, 300)]
    path = folder.with_name("list")
    path.write_text("".join(f"{key}\n" for key in some))

    def build(stop_at: int | None = None) -> mmbloom.BuildReport:
        def watch(_: mmbloom.Progress) -> None:
            if stop_at is not None and (folder / f".{NAME}.resume" / f"run-{stop_at}").exists():
                raise InterruptedError

        with (
            small_builds(),
            mmbloom.read_list(path) as lists,
            mmbloom.build(
                folder / NAME,
                lists,
                kind=kind,
                if_exists="replace",
                resume=True,
                progress=watch,
                **SMALL,
            ) as built,
        ):
            report: mmbloom.BuildReport = built.report
        return report

    def kept(least_resumed: int, *, absent: bool = True) -> BuildKept:
        return BuildKept(FileKept((some,), absent=absent), build, some, least_resumed)

    promise(kept(0))
    for stop_at, least_resumed in ((1, 1), (2, 300)):
        with suppress(InterruptedError):
            build(stop_at)
            raise AssertionError("the build was not interrupted")
        promise(kept(least_resumed))
    done = build()
    require(done.keys_resumed >= least_resumed, "nothing was resumed")
    promise(kept(0, absent=False))


def merge_new(folder: Path, promise: Note) -> None:
    """Unite two files under a new path."""
    parts = _parts(folder)
    promise(FileKept(((),), absent=True))
    mmbloom.merge(folder / NAME, parts).close()
    promise(FileKept(((*OLD, *NEW),)))


def replace_by_merge(folder: Path, promise: Note) -> None:
    """Unite a file with another one, and replace it."""
    parts = _parts(folder)
    mmbloom.publish(folder / NAME, parts[0])
    promise(FileKept((OLD, (*OLD, *NEW)), least_generation=1))
    mmbloom.merge(folder / NAME, [folder / NAME, parts[1]], if_exists="replace").close()
    promise(FileKept(((*OLD, *NEW),), least_generation=2))


def publish_over_and_over(folder: Path, promise: Note) -> None:
    """Publish to a new path, then over it: Bloom filters of several layouts."""
    path = folder / NAME
    old, new, following = _generations(folder)
    promise(FileKept(((),), absent=True))
    mmbloom.publish(path, old)
    promise(PublicationKept(FileKept((OLD,), least_generation=1), following, NEXT))
    _publish_over(path, promise, (new, NEW), following)


def publish_fuse(folder: Path, promise: Note) -> None:
    """Publish a fuse filter over another one."""
    _publish_over_old(folder, promise, "fuse")


def publish_counting(folder: Path, promise: Note) -> None:
    """Publish a sealed counting filter over another one."""
    _publish_over_old(folder, promise, "counting")


def _publish_over_old(folder: Path, promise: Note, kind: str) -> None:
    old, new, following = _generations(folder, kind)
    mmbloom.publish(folder / NAME, old)
    _publish_over(folder / NAME, promise, (new, NEW), following)


def _publish_over(
    path: Path, promise: Note, new: tuple[Path, Sequence[str]], following: Path
) -> None:
    promise(PublicationKept(FileKept((OLD, NEW), least_generation=1), following, NEXT))
    mmbloom.publish(path, new[0])
    promise(PublicationKept(FileKept((NEW,), least_generation=2), following, NEXT))


def save_stack(folder: Path, promise: Note) -> None:
    """Write the manifest of a stack, then that of another stack over it."""
    old, new, _ = _generations(folder)
    promise(StackKept(((),), absent=True))
    with mmbloom.FilterStack([old]) as stack:
        stack.save(folder / NAME)
    promise(StackKept((OLD,)))
    with mmbloom.FilterStack([old, new]) as stack:
        stack.save(folder / NAME, if_exists="replace")
    promise(StackKept(((*OLD, *NEW),)))


# ---- a folder of filters -------------------------------------------------------------------------


def store_publish(folder: Path, promise: Note) -> None:
    """Publish three generations under a new name; keep one before the current one."""
    _store_publish(folder, promise, keep=1)


def store_publish_keep_none(folder: Path, promise: Note) -> None:
    """Publish three generations; keep only the current one."""
    _store_publish(folder, promise, keep=0)


def _store_publish(folder: Path, promise: Note, keep: int) -> None:
    old, new, following = _generations(folder)
    filters = mmbloom.Store(folder, keep=keep)
    promise(StoreKept((OLD,), following, NEXT, absent=True))
    filters.publish("a", old)
    promise(StoreKept((OLD,), following, NEXT, least_generation=1))
    promise(StoreKept((OLD, NEW), following, NEXT, least_generation=1))
    filters.publish("a", new)
    promise(StoreKept((NEW,), following, NEXT, least_generation=2))
    promise(StoreKept((NEW, OLD), following, NEXT, least_generation=2))
    filters.publish("a", old)
    promise(StoreKept((OLD,), following, NEXT, least_generation=3))


def store_takes_up(folder: Path, promise: Note) -> None:
    """Publish over a file that was not put into the folder by the store."""
    old, new, following = _generations(folder)
    mmbloom.publish(folder / NAME, old)
    filters = mmbloom.Store(folder)
    promise(StoreKept((OLD, NEW), following, NEXT, least_generation=1))
    filters.publish("a", new)
    promise(StoreKept((NEW,), following, NEXT, least_generation=2))


def store_roll_back(folder: Path, promise: Note) -> None:
    """Roll back, publish, and roll back again."""
    old, new, following = _generations(folder)
    filters = mmbloom.Store(folder, keep=2)
    for path in (old, new):
        filters.publish("a", path)
    promise(StoreKept((OLD, NEW), following, NEXT, least_generation=2))
    filters.roll_back("a")
    promise(StoreKept((OLD,), following, NEXT, least_generation=2))
    promise(StoreKept((OLD, NEW), following, NEXT, least_generation=2))
    filters.publish("a", new)
    promise(StoreKept((NEW,), following, NEXT, least_generation=3))
    promise(StoreKept((OLD, NEW), following, NEXT, least_generation=3))
    filters.roll_back("a")
    promise(StoreKept((OLD,), following, NEXT, least_generation=3))


def store_remove(folder: Path, promise: Note) -> None:
    """Remove a name with its generations, and use it again."""
    old, new, following = _generations(folder)
    filters = mmbloom.Store(folder, keep=2)
    for path in (old, new):
        filters.publish("a", path)
    promise(StoreKept((NEW,), following, NEXT, absent=True))
    filters.remove("a")
    promise(StoreKept((), following, NEXT, absent=True))
    promise(StoreKept((OLD,), following, NEXT, absent=True))
    filters.publish("a", old)
    promise(StoreKept((OLD,), following, NEXT, least_generation=1))


# ---- parts of lives ------------------------------------------------------------------------------


def _generations(folder: Path, kind: str = "bloom") -> list[Path]:
    """Return sealed files with the keys OLD, NEW and NEXT, beside the folder."""
    layouts = {"bloom": ("line", "page", "classic"), "fuse": ("fuse3", "fuse4", "fuse3")}
    paths = []
    for number, some in enumerate((OLD, NEW, NEXT)):
        path = folder.with_name(f"{number}.mmb")
        paths.append(path)
        if kind == "counting":
            with mmbloom.CountingBloomFilter.create(path, **GEOMETRY) as made:
                made.update(some)
                made.seal()
            continue
        asked: dict[str, Any] = {"kind": kind, "layout": layouts[kind][number]}
        mmbloom.build(path, some, fpr=FPR, seed=number, **asked).close()
    return paths


def _parts(folder: Path) -> list[Path]:
    """Return two files that can be united, with the keys OLD and NEW."""
    paths = [folder.with_name("old.mmb"), folder.with_name("new.mmb")]
    for path, some in zip(paths, (OLD, NEW), strict=True):
        mmbloom.build(path, some, layout="line", **GEOMETRY).close()
    return paths


@contextmanager
def small_builds() -> Iterator[None]:
    """Give builds so little memory that thousands of keys spill; checkpoint after each piece."""
    changes = (
        (budget, "LEAST_MEMORY_BYTES", 1 << 20),
        (hashes, "_LEAST_ADDED_BYTES", 0),
        (hashes, "_ADDED_AT_ONCE", 256),
        (lines, "BLOCK_BYTES", 4096),
        (key_reader, "DIRECT_KEYS", NUM_DIRECT // 2),
        (key_reader, "_CHECKPOINT_SECONDS", -1.0),
        (progress, "_PAUSE_SECONDS", -1.0),
        (fuse_sizing, "MOST_SHARD_KEYS", NUM_SPILLED // 5),
    )
    with ExitStack() as stack:
        for module, name, value in changes:
            stack.enter_context(patch.object(module, name, value))
        yield


SLOW_LIVES = (resume_build, resume_fuse)  # a build follows each crash
LIVES: tuple[Life, ...] = (
    *(create_and_add, create_and_seal, add_to_old, count_and_remove),
    *(replace_by_save, save_new_and_to_bloom, build_new, build_new_fuse),
    *(replace_by_build, replace_by_spilled_build, replace_by_spilled_fuse),
    *(replace_by_direct_build, resume_build, resume_fuse),
    *(merge_new, replace_by_merge),
    *(publish_over_and_over, publish_fuse, publish_counting, save_stack),
    *(store_publish, store_publish_keep_none, store_takes_up, store_roll_back, store_remove),
)
