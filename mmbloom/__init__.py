"""Membership filters that live in a file: fixed size, memory-mapped, shared between processes.

A filter answers "definitely not" or "maybe". It stores no keys, cannot list them, and cannot grow.

    >>> import mmbloom
    >>> mmbloom.build("seen.mmb", ["ada", "grace"], fpr=0.01).close()  # doctest: +SKIP
    >>> with mmbloom.open("seen.mmb") as seen:                         # doctest: +SKIP
    ...     "ada" in seen, "alan" in seen
    (True, False)
"""

import os
import sys

if sys.argv and (
    os.path.basename(sys.argv[0]) == "mmbloom"
    or (
        sys.argv[0] == "-m"
        and ("-m", "mmbloom") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    )
):
    # This is the command: until cli.main() can report Ctrl-C, it ends the process without a trace.
    import signal
    from contextlib import suppress

    with suppress(ValueError):  # another thread than the main one imports it
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)

from importlib import import_module
from typing import TYPE_CHECKING

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
from mmbloom.filters.build_report import BuildReport
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.filters.filter import Filter
from mmbloom.filters.fuse import FuseFilter
from mmbloom.filters.opening import open_any, open_writable
from mmbloom.filters.stack import FilterStack
from mmbloom.keys import int_key
from mmbloom.kinds import KINDS
from mmbloom.kinds.spec import FilterSpec
from mmbloom.storage.guard import install_sigbus_guard
from mmbloom.storage.progress import Progress

if TYPE_CHECKING:
    from mmbloom.building.build import build
    from mmbloom.operations.additions import Additions
    from mmbloom.operations.auditing import AuditReport, RandomKeys, audit
    from mmbloom.operations.merging import UnionCount, merge, union_count
    from mmbloom.operations.publishing import publish
    from mmbloom.operations.removals import RemovalReport, Removals
    from mmbloom.sizing.bloom import BloomGeometry, plan
    from mmbloom.sources.list_reader import ListReader, read_list, read_lists
    from mmbloom.storage.digests import file_digest
    from mmbloom.store.store import Store

__all__ = [
    "DEFAULT_FPR",
    "ENGINE",
    "KINDS",
    "AbsentKeyError",
    "Additions",
    "AuditReport",
    "BloomFilter",
    "BloomGeometry",
    "BuildReport",
    "CapacityError",
    "ChecksumError",
    "ClosedError",
    "ConstructionError",
    "CountingBloomFilter",
    "Filter",
    "FilterSpec",
    "FilterStack",
    "FormatError",
    "FuseFilter",
    "IncompatibleError",
    "KeyTypeError",
    "KeyValueError",
    "ListReader",
    "LockHeldError",
    "MemoryBudgetError",
    "MmbloomError",
    "NoSpaceError",
    "NotInStoreError",
    "ParameterError",
    "ParameterTypeError",
    "Progress",
    "RandomKeys",
    "ReadOnlyError",
    "RemovalReport",
    "Removals",
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
DEFAULT_FPR = 0.001  # of the command line, where no rate is given

open = open_any  # noqa: A001 - mmbloom.open, never imported bare

_LATER = {  # name: where it is, imported when it is first used
    "Additions": "mmbloom.operations.additions",
    "AuditReport": "mmbloom.operations.auditing",
    "BloomGeometry": "mmbloom.sizing.bloom",
    "ListReader": "mmbloom.sources.list_reader",
    "RandomKeys": "mmbloom.operations.auditing",
    "RemovalReport": "mmbloom.operations.removals",
    "Removals": "mmbloom.operations.removals",
    "Store": "mmbloom.store.store",
    "UnionCount": "mmbloom.operations.merging",
    "audit": "mmbloom.operations.auditing",
    "build": "mmbloom.building.build",
    "file_digest": "mmbloom.storage.digests",
    "merge": "mmbloom.operations.merging",
    "plan": "mmbloom.sizing.bloom",
    "publish": "mmbloom.operations.publishing",
    "read_list": "mmbloom.sources.list_reader",
    "read_lists": "mmbloom.sources.list_reader",
    "union_count": "mmbloom.operations.merging",
}


if not TYPE_CHECKING:  # a type checker would take any name for one of these

    def __getattr__(name: str) -> object:
        """Import a name that programs that only look keys up do without."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_LATER[name]), name)
        return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
