"""What other rooms may do with a filter, and users may not: pass hashes in place of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmbloom.filters.changeable import ChangeableFilter
    from mmbloom.filters.counting import CountingBloomFilter
    from mmbloom.filters.filter import Filter
    from mmbloom.filters.opened import Opened

    Hashes = bytes | bytearray | memoryview


def opened_now(filter_: Filter) -> Opened:
    """Return the opened file that *filter_* answers from now. Raises ClosedError."""
    return filter_._now()


def writable_now(target: ChangeableFilter) -> Opened:
    """Return the same for a filter that keys can be added to. Raises ClosedError, ReadOnlyError."""
    return target._check_writable()


def has_room_for(target: ChangeableFilter, num_keys: int) -> bool:
    """Return whether *num_keys* new keys fit; if not by the count, as the payload tells."""
    return target._has_room_for(num_keys)


def add_hashes(target: ChangeableFilter, hashes: Hashes) -> int:
    """Add hashes in order; return how many were new. Raises CapacityError."""
    return target._add_hashes(hashes)


def remove_hashes(target: CountingBloomFilter, hashes: Hashes) -> int:
    """Remove hashes in order; return how many are certainly absent now. Raises AbsentKeyError."""
    return target._remove_hashes(hashes)
