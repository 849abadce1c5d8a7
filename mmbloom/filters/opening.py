"""Opening a file without knowing its kind: the header says which class answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.changing import claim_file
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.following import check_follow, reader_class
from mmbloom.filters.fuse import FuseFilter
from mmbloom.format.fields import KIND_NAMES
from mmbloom.storage.open_options import Reading

if TYPE_CHECKING:
    from mmbloom.filters.changing import ChangingHandle
    from mmbloom.filters.reloading import ReloadableHandle
    from mmbloom.storage.advice import Advice
    from mmbloom.storage.mapped import Mode
    from mmbloom.storage.paths import FilePath

CHANGING: dict[str, type[ChangingHandle]] = {"bloom": BloomFilter, "counting": CountingBloomFilter}
KINDS: dict[str, type[ReloadableHandle]] = {**CHANGING, "fuse": FuseFilter}


def open_any(
    path: FilePath,
    *,
    advice: Advice = "random",
    mode: Mode = "map",
    follow: float | None = None,
    expected_digest: str | None = None,
) -> ReloadableHandle:
    """Open a filter file of any kind read-only. Nothing else needs to be known of it.

    Args:
        path: as for BloomFilter.open().
        advice: as for BloomFilter.open().
        mode: as for BloomFilter.open().
        follow: as for BloomFilter.open(). A file of another kind is no successor.
        expected_digest: as for BloomFilter.open().

    Returns:
        A BloomFilter, a CountingBloomFilter or a FuseFilter, as the file says.

    Raises:
        FormatError, OSError: as BloomFilter.open().

    Cost: one page read, whatever the size, and one more for each of up to 8 canaries.
    """
    return open_reading(path, Reading(advice, mode, expected_digest).checked(), follow)


def open_reading(path: FilePath, reading: Reading, follow: float | None = None) -> ReloadableHandle:
    """Open a reader of any kind; *reading* has been checked."""
    check_follow(follow, reading)  # before a file is touched
    storage = reading.open(path)
    kind: type[ReloadableHandle] = reader_class(
        KINDS[KIND_NAMES[storage.header.kind]], reading, follow
    )
    return kind._of_reading(storage, reading, follow)


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
