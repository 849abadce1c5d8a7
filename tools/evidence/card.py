"""The machine card: what a reader needs to judge a figure, without the name of the host."""

from __future__ import annotations

import importlib
import os
import platform
import re
import subprocess
import time
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "mmbloom",
    "abloom",
    "rbloom",
    "fastbloom-rs",
    "pybloomfiltermmap3",
    "pyfusefilter",
    "binaryfuse",
    "pyprobables",
    "numpy",
    "pyarrow",
    "xxhash",
)


def machine_card() -> dict[str, object]:
    """Describe processor, memory, kernel, Python, compiler and library versions."""
    cpu = _text("/proc/cpuinfo")
    flags = _first(r"^flags\s*:\s*(.*)$", cpu).split()
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "cpu": _first(r"^model name\s*:\s*(.*)$", cpu),
        "cpu_family": _first(r"^cpu family\s*:\s*(.*)$", cpu),
        "cpu_model_number": _first(r"^model\s*:\s*(.*)$", cpu),
        "cores": os.cpu_count(),
        "last_level_cache": _text("/sys/devices/system/cpu/cpu0/cache/index3/size").strip(),
        "simd": [flag for flag in ("avx2", "avx512f", "asimd") if flag in flags],
        "virtual_machine": "hypervisor" in flags,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "huge_pages": _first(r"\[(\w+)\]", _text("/sys/kernel/mm/transparent_hugepage/enabled")),
        "kernel": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "compiler": _compiler(),
        "load_before": round(os.getloadavg()[0], 2),
        "mmbloom_engine": _engine(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:  # not Linux, or a machine without this cache
        return ""


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else "unknown"


def _compiler() -> str:
    shown = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=False)  # noqa: S607 -- the compiler of the path
    return shown.stdout.partition("\n")[0]


def _engine() -> str:
    """Return "kernel", or "python" if no C kernel was compiled, which is far slower."""
    try:
        return str(importlib.import_module("mmbloom").ENGINE)
    except ModuleNotFoundError as exc:
        if exc.name != "mmbloom":
            raise
        return "not installed"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
