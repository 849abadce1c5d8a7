"""Shards of fuse payloads: constructing one, dividing hashes among them, and their order in a file.

Each shard is constructed alone, from its distinct hashes. A payload is shard after shard, then the
table of their seeds.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from mmbloom.engine import fuse_shard
from mmbloom.errors import ConstructionError
from mmbloom.format.fields import HASH
from mmbloom.format.fuse import SEED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _typeshed import ReadableBuffer, WriteableBuffer

    from mmbloom.format.fuse import FuseShape

    Shard = tuple[int, bytearray]  # seed and bytes

# One ordinary set in 20 needs a second seed. After this many the shape is to blame.
MAX_SEEDS = 64
# By chance a set needs one at most; a set of crafted hashes may need any number.
MAX_EXTRA_SEGMENTS = 8


def construct_shard(shape: FuseShape, hashes: ReadableBuffer, scratch: WriteableBuffer) -> Shard:
    """Return the seed and the bytes of a shard.

    Args:
        shape: of the payload; see ``mmbloom.sizing.fuse.fuse_shape_for``.
        hashes: all hashes of the shard, distinct: those with ``hi * num_shards >> 64`` its number.
            They must be sorted, or at least in the order of ``hi * shape.num_parts >> 64``.
        scratch: memory to work in, as large as engine.fuse_scratch_bytes() says.

    Raises:
        ConstructionError: it cannot be built in this shape. One more segment may help.

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
    """Return the index of the first hash, from *lowest* on, that is in *shard* or a later one.

    The hashes are in the order of their shards.

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


def shapes_to_try(shape: FuseShape) -> Iterator[FuseShape]:
    """Yield *shape*, then shapes with one more segment each, MAX_EXTRA_SEGMENTS at most."""
    for extra in range(MAX_EXTRA_SEGMENTS + 1):
        yield shape._replace(num_segments=shape.num_segments + extra)
