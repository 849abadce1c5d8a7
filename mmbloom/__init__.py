"""Membership filters that live in a file: fixed size, memory-mapped, shared between processes.

A filter answers "definitely not" or "maybe". It stores no keys, cannot list them, and cannot grow.

    >>> import mmbloom
    >>> mmbloom.build("seen.mmb", ["ada", "grace"], fpr=0.01).close()  # doctest: +SKIP
    >>> with mmbloom.open("seen.mmb") as seen:                         # doctest: +SKIP
    ...     "ada" in seen, "alan" in seen
    (True, False)
"""

from mmbloom.build.memory import BuildReport, Progress, build
from mmbloom.build.sources import KeyList, read_list
from mmbloom.engine import ENGINE
from mmbloom.errors import (
    CapacityError,
    ChecksumError,
    ClosedError,
    FormatError,
    IncompatibleError,
    KeyTypeError,
    KeyValueError,
    LockHeldError,
    MmbloomError,
    NoSpaceError,
    NotInStoreError,
    ParameterError,
    ParameterTypeError,
    ReadOnlyError,
    SourceError,
    TruncatedError,
    VersionError,
)
from mmbloom.files.digests import file_digest
from mmbloom.files.guard import install_sigbus_guard
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.publishing import publish
from mmbloom.filters.sizing import Geometry, plan
from mmbloom.keys import int_key
from mmbloom.store import Store

__all__ = [
    "ENGINE",
    "BloomFilter",
    "BuildReport",
    "CapacityError",
    "ChecksumError",
    "ClosedError",
    "FormatError",
    "Geometry",
    "IncompatibleError",
    "KeyList",
    "KeyTypeError",
    "KeyValueError",
    "LockHeldError",
    "MmbloomError",
    "NoSpaceError",
    "NotInStoreError",
    "ParameterError",
    "ParameterTypeError",
    "Progress",
    "ReadOnlyError",
    "SourceError",
    "Store",
    "TruncatedError",
    "VersionError",
    "build",
    "file_digest",
    "install_sigbus_guard",
    "int_key",
    "open",
    "open_writable",
    "plan",
    "publish",
    "read_list",
]

__version__ = "0.1.0"

open = BloomFilter.open  # noqa: A001 - mmbloom.open, never imported bare
open_writable = BloomFilter.open_writable
