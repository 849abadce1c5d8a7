"""Opening a file without knowing its kind: the header says which class answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.changeable import ChangeableFilter, claim_file
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.following import Follower
from mmbloom.filters.fuse import FuseFilter
from mmbloom.kinds import kind_of
from mmbloom.storage.open_options import OpenOptions

if TYPE_CHECKING:
    from mmbloom.filters.filter import Filter
    from mmbloom.storage.advice import Advice
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.storage import Mode

CLASSES: dict[str, type[Filter]] = {
    each.kind: each for each in (BloomFilter, FuseFilter, CountingBloomFilter)
}
CHANGEABLE = {name: each for name, each in CLASSES.items() if issubclass(each, ChangeableFilter)}


def open_any(
    path: FilePath,
    *,
    advice: Advice = "random",
    mode: Mode = "map",
    follow: float | None = None,
    expected_digest: str | None = None,
) -> Filter:
    """Open a filter file of any kind read-only. Nothing else needs to be known about it.

    Args:
        path: as for BloomFilter.open().
        advice: as for BloomFilter.open().
        mode: as for BloomFilter.open().
        follow: as for BloomFilter.open(). A file of another kind is not a successor.
        expected_digest: as for BloomFilter.open().

    Returns:
        A BloomFilter, a CountingBloomFilter or a FuseFilter, as the file says.

    Raises:
        FormatError, OSError: as BloomFilter.open().

    Cost: one page is read, whatever the size, and one more for each of up to 8 canaries.
    """
    return open_with(path, OpenOptions(advice, mode, expected_digest).checked(), follow)


def open_with(path: FilePath, options: OpenOptions, follow: float | None = None) -> Filter:
    """Open a reader of any kind; *options* have been checked."""
    follower = Follower.checked(follow, options)  # before a file is touched
    storage = options.open(path)
    return CLASSES[kind_of(storage.header).name]._of_reader(storage, options, follower)


def open_writable(path: FilePath) -> ChangeableFilter:
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
    return CHANGEABLE[kind_of(storage.header).name]._of_storage(storage)
