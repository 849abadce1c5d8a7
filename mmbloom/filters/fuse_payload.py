"""Payloads of fuse filters: shard after shard, then the table of their seeds.

The builder brings the hashes, shard by shard in ascending order; what it holds in memory beside
them is two shards for each thread.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Any

from mmbloom.engine import fuse_scratch_bytes, fuse_shard
from mmbloom.errors import ConstructionError
from mmbloom.files.memory import map_memory
from mmbloom.filters.fuse_sizing import check_fuse_layout
from mmbloom.format.fields import HASH
from mmbloom.format.fuse import SEED_BYTES
from mmbloom.format.header import new_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from _typeshed import ReadableBuffer

    from mmbloom.format.fuse import FuseShape
    from mmbloom.format.header import Header

    Shard = tuple[int, bytearray]

# Of ordinary sets one in 20 needs a second seed; after so many the shape is to blame.
MAX_SEEDS = 64
# A set of chosen hashes may need any number; chance needs one at most.
MAX_EXTRA_SEGMENTS = 8


def fuse_header(  # noqa: PLR0913 - what the header holds
    shape: FuseShape,
    *,
    num_keys: int,
    fpr: float,
    layout: str = "auto",
    seed: int = 0,
    key_form: str = "raw",
    metadata: dict[str, Any] | None = None,
) -> Header:
    """Return the header of a new fuse filter of *num_keys* keys.

    Raises:
        ParameterError, ParameterTypeError: naming the parameter.
    """
    return new_header(
        layout=check_fuse_layout(layout),
        num_bits=shape.num_bits,
        num_probes=shape.arity,
        shape=shape,
        capacity=max(1, num_keys),
        fpr=fpr,
        uuid=os.urandom(16),
        created_unix_ns=time.time_ns(),
        seed=seed,
        key_form=key_form,
        metadata=metadata,
    )


def fuse_pieces(
    shape: FuseShape, shards: Iterable[ReadableBuffer], *, num_threads: int = 1
) -> Iterator[ReadableBuffer]:
    """Yield the bytes of a payload in order: each shard, then the table of seeds.

    Args:
        shape: of the payload; see ``fuse_sizing.fuse_shape_for``.
        shards: for each of shape.num_shards shards, in order, its distinct hashes, sorted: those
            with ``hi * num_shards >> 64`` the number of the shard. Each must stay as it is until
            the next but num_threads is asked for.
        num_threads: shards under construction at a time.

    Raises:
        ConstructionError: a shard cannot be built in this shape: a segment more may help.

    Cost: 15 bytes of memory a key of the shards under construction, and the shards themselves;
    70 ns a key and more, mostly cache misses.
    """
    if not shape.num_shards:
        yield bytes(shape.num_bits // 8)
        return
    table = bytearray()
    for seed, shard in _constructed(shape, shards, num_threads):
        table += seed.to_bytes(SEED_BYTES, "little")
        yield shard
    yield table.ljust(shape.table_bytes, b"\0")


def cut_into_shards(pieces: Iterable[ReadableBuffer], num_shards: int) -> Iterator[ReadableBuffer]:
    """Yield the hashes of each shard, from sorted hashes in pieces of any lengths.

    For builders that sort by partitions of their own. Each piece is read before the next is asked
    for, and not after. Cost: a copy of each hash.
    """
    shard, number = bytearray(), 0
    for piece in pieces:
        with memoryview(piece) as given, given.cast("B") as view:
            at = 0
            while at < len(view):
                end = HASH.size * first_of_shard(view, number + 1, num_shards, at // HASH.size)
                shard += view[at:end]
                at = end
                if at < len(view):
                    yield shard
                    shard, number = bytearray(), number + 1
    for _ in range(number, num_shards):
        yield shard
        shard = bytearray()


def first_of_shard(hashes: ReadableBuffer, shard: int, num_shards: int, lowest: int = 0) -> int:
    """Return the index of the first of the sorted hashes, from *lowest* on, in *shard* or behind.

    Cost: a binary search.
    """
    with memoryview(hashes) as view:
        numbers = range(view.nbytes // HASH.size)
        return bisect_left(
            numbers,
            shard,
            lowest,
            key=lambda i: HASH.unpack_from(view, HASH.size * i)[0] * num_shards >> 64,
        )


def _constructed(
    shape: FuseShape, shards: Iterable[ReadableBuffer], num_threads: int
) -> Iterator[Shard]:
    """Yield the shards in order, up to num_threads of them under construction at a time."""
    num_threads = max(1, min(num_threads, shape.num_shards))
    needed = fuse_scratch_bytes(shape.arity, shape.segment_slots, shape.num_segments)
    idle = [map_memory(needed) for _ in range(num_threads)]

    def construct(hashes: ReadableBuffer) -> Shard:
        scratch = idle.pop()
        try:
            shard = fuse_shard(hashes, *shape, MAX_SEEDS, scratch)
        finally:
            idle.append(scratch)
        if shard is None:
            with memoryview(hashes) as view:
                raise ConstructionError(view.nbytes // HASH.size, MAX_SEEDS)
        return shard

    if num_threads == 1:
        yield from map(construct, shards)
        return
    # Imported here: it brings in logging, which takes longer to load than all of this package.
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(num_threads) as pool:
        pending: deque[Future[Shard]] = deque()
        for hashes in shards:
            pending.append(pool.submit(construct, hashes))
            if len(pending) >= num_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def with_more_segments(shape: FuseShape, build: Callable[[FuseShape], Header]) -> Header:
    """Call *build* with *shape*, or after a ConstructionError with a segment more, and so on.

    Raises:
        ConstructionError: MAX_EXTRA_SEGMENTS did not help.
    """
    for extra in range(MAX_EXTRA_SEGMENTS):
        try:
            return build(shape._replace(num_segments=shape.num_segments + extra))
        except ConstructionError:
            continue
    return build(shape._replace(num_segments=shape.num_segments + MAX_EXTRA_SEGMENTS))
