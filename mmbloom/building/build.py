"""``build()``: a filter file from keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

from mmbloom.building.budget import Resources
from mmbloom.building.builder import Builder
from mmbloom.errors import ParameterError
from mmbloom.filters.opening import open_any
from mmbloom.kinds.spec import FilterSpec
from mmbloom.storage.paths import path_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Required, TypedDict, Unpack

    from mmbloom.filters.bloom import BloomFilter
    from mmbloom.filters.counting import CountingBloomFilter
    from mmbloom.filters.fuse import FuseFilter
    from mmbloom.keys.pieces import Nulls
    from mmbloom.kinds.spec import Seed
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.progress import Progress
    from mmbloom.storage.publish import IfExists

    class _Options(TypedDict, total=False):
        """The parameters of build() beside *kind*, on which the type of the result depends."""

        fpr: Required[float]
        capacity: int | None
        layout: str
        seed: Seed
        key_form: str
        metadata: dict[str, Any] | None
        nulls: Nulls
        if_exists: IfExists
        memory: SupportsIndex | None
        jobs: SupportsIndex | None
        spill_folder: FilePath | None
        exact: bool
        resume: bool
        progress: Callable[[Progress], object] | None


@overload
def build(
    path: FilePath, keys: object, *, kind: Literal["bloom"] = ..., **options: Unpack[_Options]
) -> BloomFilter: ...
@overload
def build(
    path: FilePath, keys: object, *, kind: Literal["fuse"], **options: Unpack[_Options]
) -> FuseFilter: ...
@overload
def build(
    path: FilePath, keys: object, *, kind: Literal["counting"], **options: Unpack[_Options]
) -> CountingBloomFilter: ...
@overload
def build(
    path: FilePath, keys: object, *, kind: str, **options: Unpack[_Options]
) -> BloomFilter | FuseFilter | CountingBloomFilter: ...
def build(  # noqa: PLR0913 - what is built, what it may use, how it is published and watched
    path: FilePath,
    keys: object,
    *,
    kind: str = "bloom",
    fpr: float,
    capacity: int | None = None,
    layout: str = "auto",
    seed: Seed = 0,
    key_form: str = "raw",
    metadata: dict[str, Any] | None = None,
    nulls: Nulls = "raise",
    if_exists: IfExists = "raise",
    memory: SupportsIndex | None = None,
    jobs: SupportsIndex | None = None,
    spill_folder: FilePath | None = None,
    exact: bool = False,
    resume: bool = False,
    progress: Callable[[Progress], object] | None = None,
) -> Any:
    """Build a filter file from keys, and open it read-only.

    Args:
        path: where the file will be. It appears complete or not at all.
        keys: any batch that BloomFilter.contains_many() takes, or an iterator, or a list opened by
            read_list() or read_lists(). The number of keys need not be known. They are read once,
            in this thread.
        kind: "bloom"; "fuse", which is smaller, but takes no more keys later; or "counting", from
            which keys can be removed. Files of kinds "bloom" and "fuse" are sealed; a counting
            filter can be changed with open_writable(). Each distinct key counts once, so one
            remove() removes it.
        fpr: false-positive rate with the distinct keys in it, 1e-12 <= fpr < 1. Kind "fuse" has the
            next lower power of two as its rate, and takes 2**-32 or more.
        capacity: number of distinct keys to make room for; None makes room for exactly the keys
            that there are. It must not be less than that. With a capacity, more than 8 million
            keys, and a filter that fits in *memory*, repetitions are not detected: this is faster,
            and the number of keys is an estimate. Not for kind "fuse", which only has room for its
            own keys. Kind "counting" needs a capacity to take keys later; it always detects
            repetitions.
        layout: as for BloomFilter.create(). For kind "fuse": "fuse3", or "fuse4", which is 4 %
            smaller and reads one more cache line per look-up; "auto" is "fuse3".
        seed: as for BloomFilter.create(); with *resume*, a number.
        key_form: as for BloomFilter.create().
        metadata: as for BloomFilter.create().
        nulls: "raise", or "skip" the nulls of Arrow data.
        if_exists: "raise" FileExistsError, or "replace" the file; processes that have it open keep
            the old one.
        memory: bytes to use, at least 32 MiB; None is a quarter of free memory. Keys beyond it go
            to a spill file, 16 bytes each. Kind "fuse" needs 35 to 40 bytes for each key of the
            shards that are being made, which have 4 million keys each at most.
        jobs: number of threads; None is one for each core that this process may run on.
        spill_folder: where the spill file is made; None is the folder of *path*. The file has no
            name there, and disappears with the process.
        exact: count the distinct keys one by one even with a *capacity*.
        resume: keep what has been read in a folder beside the spill file, ``.NAME.resume``, and
            continue from what an interrupted build has left there. For lists only. All hashes go to
            the spill file then.
        progress: called with a Progress from this thread, at most every 0.1 s.

    Returns:
        The open filter. Its ``report`` is a BuildReport.

    Raises:
        SourceError: there are no keys (allowed for kind "fuse"), or a list cannot be read.
        CapacityError: there are more distinct keys than *capacity*; if their number is an estimate,
            more beyond chance.
        MemoryBudgetError: *memory* is too small for this many jobs or keys.
        ConstructionError: kind "fuse", and the keys were crafted to collide.
        LockHeldError: *resume*, and another build of the same file runs.
        KeyTypeError, KeyValueError, ParameterError, NoSpaceError, OSError: as for
            BloomFilter.create() and update(). No file is left.

    Cost: 16 bytes of memory per key, or what *memory* says; 100 ns of one core per line of text,
    and 70 ns more for kind "fuse". The bytes of the payload depend only on the set of keys and on
    the parameters, not on order, repetitions, memory or jobs. So does the whole file if the
    environment variable SOURCE_DATE_EPOCH gives the date.
    """
    if resume and seed == "random":
        hint = "a build that continues must hash as the one before it"
        raise ParameterError("seed", "a number, with resume", seed, hint)
    spec = FilterSpec(
        kind=kind,
        capacity=capacity,
        fpr=fpr,
        layout=layout,
        seed=seed,
        key_form=key_form,
        metadata=metadata,
    )
    target = path_text(path)
    resources = Resources.checked(target, memory, jobs, spill_folder, exact, resume)
    report = Builder(target, spec, resources, if_exists, progress).run(keys, nulls)
    opened = open_any(path)
    opened.report = report
    return opened
