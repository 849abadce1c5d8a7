"""Payloads of fuse filters: shard after shard, then the table of their seeds.

The builder brings the hashes of each shard, and the memory to construct it in.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, TypeVar

from mmbloom.engine import fuse_shard
from mmbloom.errors import ConstructionError
from mmbloom.filters.parameters import chosen_seed
from mmbloom.format.fields import HASH
from mmbloom.format.fuse import SEED_BYTES
from mmbloom.format.header import new_header
from mmbloom.sizing.fuse import check_fuse_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from _typeshed import ReadableBuffer, WriteableBuffer

    from mmbloom.filters.parameters import Seed
    from mmbloom.format.fuse import FuseShape
    from mmbloom.format.header import Header

    Shard = tuple[int, bytearray]  # seed and bytes

Built = TypeVar("Built")

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
    seed: Seed = 0,
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
        seed=chosen_seed(seed),
        key_form=key_form,
        metadata=metadata,
    )


def construct_shard(shape: FuseShape, hashes: ReadableBuffer, scratch: WriteableBuffer) -> Shard:
    """Return the seed and the bytes of a shard.

    Args:
        shape: of the payload; see ``fuse_sizing.fuse_shape_for``.
        hashes: all of the shard, distinct: those with ``hi * num_shards >> 64`` its number;
            sorted, or at least in the order of ``hi * shape.num_parts >> 64``.
        scratch: memory to work in, engine.fuse_scratch_bytes() of it.

    Raises:
        ConstructionError: it cannot be built in this shape: a segment more may help.

    Cost: 60 to 70 ns a key with its ordering, mostly cache misses. Releases the GIL.
    """
    shard = fuse_shard(hashes, *shape, MAX_SEEDS, scratch)
    if shard is None:
        with memoryview(hashes) as view:
            raise ConstructionError(view.nbytes // HASH.size, MAX_SEEDS)
    return shard


def fuse_pieces(shape: FuseShape, shards: Iterable[Shard]) -> Iterator[ReadableBuffer]:
    """Yield the bytes of a payload in order: each of its shards, then the table of seeds."""
    if not shape.num_shards:
        yield bytes(shape.num_bits // 8)
        return
    table = bytearray()
    for seed, shard in shards:
        table += seed.to_bytes(SEED_BYTES, "little")
        yield shard
    yield table.ljust(shape.table_bytes, b"\0")


def first_of_shard(hashes: ReadableBuffer, shard: int, num_shards: int, lowest: int = 0) -> int:
    """Return the index of the first of the hashes, from *lowest* on, in *shard* or behind.

    They come in the order of their shards.

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


def with_more_segments(shape: FuseShape, build: Callable[[FuseShape], Built]) -> Built:
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
