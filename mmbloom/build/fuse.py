"""Build a fuse filter in memory: hash all keys, sort, drop duplicates, split, construct.

Holds 16 bytes a key, 32 while sorting, and 30 for each key of the shards under construction.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mmbloom.build.memory import Progress, _date_ns, _identity, _spread
from mmbloom.engine import hash_batch, sort_unique, sum_hashes
from mmbloom.files.publish import NewFile
from mmbloom.filters.fuse import FuseFilter
from mmbloom.filters.fuse_payload import (
    first_of_shard,
    fuse_header,
    fuse_pieces,
    with_more_segments,
)
from mmbloom.filters.fuse_sizing import fuse_shape_for, num_shards_for, plan_fuse
from mmbloom.filters.sealing import write_sealed
from mmbloom.format.fields import FINGERPRINT_KNOWN, HASH, KEYS_EXACT
from mmbloom.format.status import Status
from mmbloom.keys.batches import pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmbloom.files.paths import FilePath
    from mmbloom.files.publish import IfExists
    from mmbloom.format.fuse import FuseShape
    from mmbloom.format.header import Header
    from mmbloom.keys.pieces import Nulls


def build_fuse(  # noqa: PLR0913 - what the header holds, and the ways to watch and publish
    path: FilePath,
    keys: object,
    *,
    fpr: float,
    layout: str = "auto",
    seed: int = 0,
    key_form: str = "raw",
    metadata: dict[str, Any] | None = None,
    nulls: Nulls = "raise",
    if_exists: IfExists = "raise",
    progress: Callable[[Progress], object] | None = None,
) -> FuseFilter:
    """Build a fuse filter file from keys, and open it.

    Args:
        path: where the file will be; it appears complete or not at all.
        keys: whatever BloomFilter.contains_many takes, an iterator included. No keys make a filter
            that answers "definitely not" to all.
        fpr: false-positive rate, 2**-32 <= fpr < 1. The filter has the next power of two below it.
        layout: "fuse3", "fuse4" (4 % smaller, one more cache line a look-up), or "auto", which is
            "fuse3".
        seed: as for BloomFilter.create().
        key_form: as for BloomFilter.create().
        metadata: as for BloomFilter.create().
        nulls: "raise", or "skip" the nulls of Arrow data.
        if_exists: "raise" FileExistsError, or "replace" the file that is there; its readers keep
            the old one.
        progress: called from this thread as each phase goes on.

    Raises:
        ConstructionError: the hashes of the keys were chosen so that no filter holds them.
        KeyTypeError, KeyValueError, ParameterError, NoSpaceError, OSError: as build(). No file is
            left.

    Cost: 62 bytes of memory a key beside the payload. The bytes of the payload depend on the set of
    keys and the parameters only, not on order or repetitions; the whole file does so where the
    environment variable SOURCE_DATE_EPOCH gives the date.
    """
    facts: dict[str, Any] = {
        "layout": layout,
        "seed": seed,
        "key_form": key_form,
        "metadata": metadata,
    }
    # Bad parameters are known before the keys are read, and so is a path that cannot be written.
    sample, date = fuse_header(plan_fuse(1, fpr, layout), num_keys=1, fpr=fpr, **facts), _date_ns()
    with NewFile(path, 1, if_exists):
        pass
    report = progress or (lambda _: None)
    hashes = bytearray()
    for piece in pieces_of(keys, nulls):
        hashes += hash_batch(piece.batch, sample.seed, sample.key_form)
        report(Progress("hash", len(hashes) // HASH.size, 0))
    report(Progress("sort", 0, len(hashes) // HASH.size))
    hashes = sort_unique(hashes)
    num_keys = len(hashes) // HASH.size
    bounds = _bounds(hashes, num_shards_for(num_keys))
    most = max((end - start for start, end in bounds), default=0)
    status = Status(
        flags=KEYS_EXACT | FINGERPRINT_KNOWN,
        keys_added=num_keys,
        key_set=sum_hashes(hashes),
        canaries=tuple(_spread(hashes)),
    )

    def written(done: int, total: int) -> None:
        report(Progress("write", done, total))

    def write(shape: FuseShape) -> Header:
        header = fuse_header(shape, num_keys=num_keys, fpr=fpr, **facts)
        header = header._replace(created_unix_ns=date)
        header = header._replace(uuid=_identity(header, hashes))
        view = memoryview(hashes)
        shards = (view[HASH.size * start : HASH.size * end] for start, end in bounds)
        pieces = fuse_pieces(shape, shards, num_threads=len(os.sched_getaffinity(0)))
        stored = header, status
        write_sealed(path, header, pieces, lambda _: stored, if_exists=if_exists, progress=written)
        return header

    with_more_segments(fuse_shape_for(most, len(bounds), fpr, layout), write)
    return FuseFilter.open(path)


def _bounds(hashes: bytearray, num_shards: int) -> list[tuple[int, int]]:
    """Return for each shard which of the sorted hashes are its own: [first, end)."""
    firsts = [first_of_shard(hashes, shard, num_shards) for shard in range(num_shards)]
    return list(pairwise([*firsts, len(hashes) // HASH.size]))
