"""Filters together: whether they answer alike, how many keys they have in all and in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.errors import IncompatibleError
from mmbloom.filters import measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmbloom.filters.adding import AddingHandle

# What must be equal for two filters to answer alike, in the order in which a difference is named.
IDENTITY = ("kind", "layout", "num_bits", "num_probes", "seed", "key_form")


def check_compatible(left: AddingHandle, right: AddingHandle) -> None:
    """Raise IncompatibleError for the first field in which the two filters differ."""
    for field in IDENTITY:
        mine, its = getattr(left, field), getattr(right, field)
        if mine != its:
            raise IncompatibleError(field, mine, its)


def same_identity(left: AddingHandle, right: AddingHandle) -> bool:
    """Return whether the two filters answer alike for every key once their payloads are equal."""
    return all(getattr(left, field) == getattr(right, field) for field in IDENTITY)


def keys_of_union(left: AddingHandle, right: AddingHandle, union: memoryview) -> int:
    """Return how many keys the payload *union* of both holds, as far as that can be told.

    What *right* adds is estimated from the bits it adds, and bounded by what the two counted. More
    than the capacity is answered only if it is more beyond chance (``fewest_keys``), so that a
    union of as many keys as the capacity is never refused.

    Cost: three passes over the payload.
    """
    counts = left._count_now(), right._count_now()
    geometry = left.geometry
    with left._whole_payload() as payload:
        before = measure.approx_keys(geometry, payload)
    after = measure.approx_keys(geometry, union)
    return bounded_count(left, counts, counts[0] + after - before, after)


def bounded_count(
    filter_: AddingHandle, counts: Sequence[int], keys: float, estimate: float
) -> int:
    """Return how many keys a union has, as an integer that can be true.

    Args:
        filter_: one of the united, for capacity and geometry.
        counts: the keys of each.
        keys: of the union, as estimated.
        estimate: of the keys of the union, from its bits alone.

    Returns:
        Not less than the largest has, nor more than all together; the capacity where *keys* is
        above it by chance.
    """
    count = min(max(round(keys), *counts), sum(counts))
    if count > filter_.capacity >= measure.least_of(filter_.geometry, estimate):
        return filter_.capacity
    return count


def keys_of_intersection(left: AddingHandle, right: AddingHandle, common: memoryview) -> int:
    """Return how many keys set the payload *common*, the bits of both: as many as could be common.

    The share of the keys of *left* that its bits speak for. Cost: two passes over the payload.
    """
    geometry, mine = left.geometry, left._count_now()
    with left._whole_payload() as payload:
        before = measure.approx_keys(geometry, payload)
    share = measure.approx_keys(geometry, common) / before if before else 0.0
    return min(round(mine * share), mine, right._count_now())
