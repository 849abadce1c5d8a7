"""The algorithms in plain Python: specification, oracle of the tests, engine without a compiler.

Written to be read beside FORMAT.md, not to be fast: a look-up takes microseconds where the kernel
takes nanoseconds. Data flows as in the kernel: ``keys`` -> ``hashes`` -> ``probes`` ->
``payloads``; ``view`` puts them together, ``core`` holds what a filter answers from. The names are
those of ``_kernel.pyi``, which documents them; tests/engine/test_engines.py holds the two engines
together byte for byte.
"""

from mmbloom.engine.reference.core import Core
from mmbloom.engine.reference.counting import (
    count_part,
    counter_histogram,
    flatten_counters,
    unite_counters,
)
from mmbloom.engine.reference.fuse import fuse_scratch_bytes, fuse_shard
from mmbloom.engine.reference.guard import Guard, guard_is_installed, install_guard
from mmbloom.engine.reference.hashes import (
    hash_batch,
    hash_bytes,
    hash_key,
    order_by_part,
    sort_unique,
    sum_hashes,
)
from mmbloom.engine.reference.keys import (
    LinesBatch,
    ObjectBatch,
    OffsetsBatch,
    RowsBatch,
    count_lines,
)
from mmbloom.engine.reference.partitions import Partitions, add_part, span
from mmbloom.engine.reference.payloads import (
    checksum64,
    line_histogram,
    narrow_histogram,
    page_fill,
    page_halves,
    payloads_equal,
    popcount,
)
from mmbloom.engine.reference.probes import probes
from mmbloom.engine.reference.view import View

__all__ = [
    "ENGINE",
    "Core",
    "Guard",
    "LinesBatch",
    "ObjectBatch",
    "OffsetsBatch",
    "Partitions",
    "RowsBatch",
    "View",
    "add_part",
    "checksum64",
    "count_lines",
    "count_part",
    "counter_histogram",
    "flatten_counters",
    "fuse_scratch_bytes",
    "fuse_shard",
    "guard_is_installed",
    "hash_batch",
    "hash_bytes",
    "hash_key",
    "install_guard",
    "line_histogram",
    "narrow_histogram",
    "order_by_part",
    "page_fill",
    "page_halves",
    "payloads_equal",
    "popcount",
    "probes",
    "sort_unique",
    "span",
    "sum_hashes",
    "unite_counters",
]

ENGINE = "python"
