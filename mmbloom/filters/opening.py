"""Opening a file without knowing its kind: the header says which class answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.changing import claim_file
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.fuse import FuseFilter
from mmbloom.filters.handle import map_file
from mmbloom.format.fields import KIND_NAMES

if TYPE_CHECKING:
    from mmbloom.files.advice import Advice
    from mmbloom.files.paths import FilePath
    from mmbloom.filters.changing import ChangingHandle
    from mmbloom.filters.handle import FilterHandle

CHANGING: dict[str, type[ChangingHandle]] = {"bloom": BloomFilter, "counting": CountingBloomFilter}
KINDS: dict[str, type[FilterHandle]] = {**CHANGING, "fuse": FuseFilter}


def open_any(path: FilePath, *, advice: Advice = "random") -> FilterHandle:
    """Open a filter file of any kind read-only. Nothing else needs to be known of it.

    Args:
        path: as for BloomFilter.open().
        advice: as for BloomFilter.open().

    Returns:
        A BloomFilter, a CountingBloomFilter or a FuseFilter, as the file says.

    Raises:
        FormatError, OSError: as BloomFilter.open().

    Cost: one page read, whatever the size, and one more for each of up to 8 canaries.
    """
    mapped = map_file(path, advice)
    return KINDS[KIND_NAMES[mapped.header.kind]]._of_map(mapped, advice)


def open_writable(path: FilePath) -> ChangingHandle:
    """Open a filter file that is not sealed, to add to it.

    Args:
        path: any path type.

    Returns:
        A BloomFilter or a CountingBloomFilter, as the file says.

    Raises:
        LockHeldError, ReadOnlyError, VersionError, FormatError, OSError: as
            BloomFilter.open_writable().
    """
    storage = claim_file(path)
    return CHANGING[KIND_NAMES[storage.header.kind]]._of_file(storage)
