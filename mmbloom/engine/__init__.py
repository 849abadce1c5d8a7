"""Which engine runs: the C kernel, or plain Python where it was not compiled.

Every other room imports the engine from here. Both have the same names and give the same bytes;
``ENGINE`` is ``"kernel"`` or ``"python"``. The environment variable ``MMBLOOM_ENGINE`` set to one
of the two asks for it, and fails where it is not there.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

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


def _kernel_is_wanted() -> bool:
    """Return whether to use the kernel: as the environment says, else if it was compiled."""
    from importlib.machinery import PathFinder

    from mmbloom.errors import ParameterError

    wanted = os.environ.get("MMBLOOM_ENGINE", "")
    compiled = PathFinder.find_spec("mmbloom.engine._kernel", __path__) is not None
    if wanted not in {"", "kernel", "python"}:
        rule = "'kernel' or 'python'"
        raise ParameterError("MMBLOOM_ENGINE", rule, wanted, "or leave it unset")
    if wanted == "kernel" and not compiled:
        hint = "install a C compiler and install mmbloom again"
        raise ParameterError("MMBLOOM_ENGINE", "'python': no kernel was compiled", wanted, hint)
    return compiled and wanted != "python"


def _check_gil() -> None:
    """Raise ImportError where this Python runs without the GIL.

    Views of one memory are counted without a lock in free-threaded builds (python/cpython issue
    127716). Threads that slice the payload at the same time lose count, and it is unmapped while
    others read it: at best that ends the process, at worst another map takes its place. The kernel
    declares nothing, so that importing it puts the GIL on for good, unless that was forbidden.
    """
    is_enabled = getattr(sys, "_is_gil_enabled", None)  # from Python 3.13 on
    if is_enabled is not None and not is_enabled():
        raise ImportError(
            "mmbloom needs the GIL, and this Python runs without: threads would lose keys. Start "
            "it with -X gil=1, or with PYTHON_GIL=1 in the environment"
        )


if TYPE_CHECKING:
    from mmbloom.engine._kernel import *
else:
    _name = "_kernel" if _kernel_is_wanted() else "reference"
    _engine = import_module(f"mmbloom.engine.{_name}")
    globals().update({name: getattr(_engine, name) for name in __all__})

_check_gil()
