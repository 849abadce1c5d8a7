"""Membership filters that live in a file: fixed size, memory-mapped, shared between processes.

A filter answers "definitely not" or "maybe". It stores no keys, cannot list them, and cannot grow.

    >>> import mmbloom
    >>> mmbloom.build("seen.mmb", ["ada", "grace"], fpr=0.01).close()  # doctest: +SKIP
    >>> with mmbloom.open("seen.mmb") as seen:                         # doctest: +SKIP
    ...     "ada" in seen, "alan" in seen
    (True, False)
"""

from mmbloom.building.builder import build
from mmbloom.building.progress import BuildReport, Progress
from mmbloom.engine import ENGINE
from mmbloom.errors import (
    AbsentKeyError,
    CapacityError,
    ChecksumError,
    ClosedError,
    ConstructionError,
    FormatError,
    IncompatibleError,
    KeyTypeError,
    KeyValueError,
    LockHeldError,
    MemoryBudgetError,
    MmbloomError,
    NoSpaceError,
    NotInStoreError,
    ParameterError,
    ParameterTypeError,
    ReadOnlyError,
    SourceError,
    SpillError,
    TruncatedError,
    VersionError,
    WrongKindError,
)
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.fuse import FuseFilter
from mmbloom.filters.opening import open_any, open_writable
from mmbloom.filters.stack import FilterStack
from mmbloom.keys import int_key
from mmbloom.operations.additions import NewKeys
from mmbloom.operations.auditing import AuditReport, RandomKeys, audit
from mmbloom.operations.merging import UnionCount, merge, union_count
from mmbloom.operations.publishing import publish
from mmbloom.operations.removals import LeavingKeys, Removed
from mmbloom.sizing.bloom import Geometry, plan
from mmbloom.sources.list_reader import KeyList, read_list, read_lists
from mmbloom.storage.digests import file_digest
from mmbloom.storage.guard import install_sigbus_guard
from mmbloom.store.store import Store

__all__ = [
    "ENGINE",
    "AbsentKeyError",
    "AuditReport",
    "BloomFilter",
    "BuildReport",
    "CapacityError",
    "ChecksumError",
    "ClosedError",
    "ConstructionError",
    "CountingBloomFilter",
    "FilterStack",
    "FormatError",
    "FuseFilter",
    "Geometry",
    "IncompatibleError",
    "KeyList",
    "KeyTypeError",
    "KeyValueError",
    "LeavingKeys",
    "LockHeldError",
    "MemoryBudgetError",
    "MmbloomError",
    "NewKeys",
    "NoSpaceError",
    "NotInStoreError",
    "ParameterError",
    "ParameterTypeError",
    "Progress",
    "RandomKeys",
    "ReadOnlyError",
    "Removed",
    "SourceError",
    "SpillError",
    "Store",
    "TruncatedError",
    "UnionCount",
    "VersionError",
    "WrongKindError",
    "audit",
    "build",
    "file_digest",
    "install_sigbus_guard",
    "int_key",
    "merge",
    "open",
    "open_writable",
    "plan",
    "publish",
    "read_list",
    "read_lists",
    "union_count",
]

__version__ = "0.1.0"

open = open_any  # noqa: A001 - mmbloom.open, never imported bare
