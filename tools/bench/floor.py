"""The machine's floor, measured in the same run as the filter: compiles floor.c and calls it."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from .timing import once

if TYPE_CHECKING:
    from collections.abc import Callable

LINE_BYTES = 64
# Prefetch distances: machines differ, so the floor is the best of these.
LINES_AHEAD = (16, 32, 64)
SOURCE = Path(__file__).with_name("floor.c")
HEADER_FOLDERS = (
    Path("/usr/include"),
    Path("/usr/local/include"),
    Path(pa.get_include()) / "arrow" / "vendored" / "xxhash",
)
_ADDRESS, _SIZE, _COUNT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
_SIGNATURES = {
    "floor_hash": [_ADDRESS, _ADDRESS, _SIZE, _COUNT],
    "floor_lines": [_ADDRESS, _COUNT, _SIZE, _SIZE, _COUNT],
    "floor_fused": [_ADDRESS, _ADDRESS, _SIZE, _ADDRESS, _COUNT, _SIZE, _COUNT],
}


def compiled() -> ctypes.CDLL:
    """Compile floor.c with the system's compiler and load it; remove the files afterwards."""
    include = next(folder for folder in HEADER_FOLDERS if (folder / "xxhash.h").exists())
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "floor.so"
        command = ["cc", "-O3", "-std=gnu11", "-Wall", "-Wextra", "-shared", "-fPIC"]
        command += ["-I", str(include), str(SOURCE), "-o", str(library)]
        subprocess.run(command, check=True)  # noqa: S603 -- our own command
        loaded = ctypes.CDLL(str(library))
    for name, arguments in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, ctypes.c_uint64
    return loaded


class Floor:
    """The three loops over one mapped file and an Arrow array of keys (int32 offsets, no nulls)."""

    def __init__(self, path: Path, payload_offset: int, payload_bytes: int) -> None:
        """Map the file and touch every page once, as the map of the filter has been touched."""
        self._loops = compiled()
        with path.open("rb") as file:
            self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._view = np.frombuffer(self._mapping, dtype=np.uint8)
        self._payload = self._view.ctypes.data + payload_offset
        self._num_lines = payload_bytes // LINE_BYTES
        self._seed = 0
        self._view[::4096].sum()

    def close(self) -> None:
        """Unmap."""
        del self._view  # it exports the mapping
        self._mapping.close()

    def jobs(self, keys: pa.StringArray) -> dict[str, Callable[[], float]]:
        """Return the loops as jobs, with the best distance for this machine: hash, line, both."""
        _, offsets, data = keys.buffers()
        num_keys = len(keys)
        loops, payload, num_lines = self._loops, self._payload, self._num_lines

        def hashes() -> float:
            return once(
                lambda: loops.floor_hash(data.address, offsets.address, num_keys, 0), num_keys
            )

        def lines(ahead: int) -> float:
            self._seed += num_keys  # other cache lines each time, as for other keys
            return once(
                lambda: loops.floor_lines(payload, num_lines, num_keys, ahead, self._seed),
                num_keys,
            )

        def both(ahead: int) -> float:
            return once(
                lambda: loops.floor_fused(
                    data.address, offsets.address, num_keys, payload, num_lines, ahead, 0
                ),
                num_keys,
            )

        line_ahead = _best(lines)
        both_ahead = _best(both)
        return {
            "hash": hashes,
            "line": lambda: lines(line_ahead),
            "both": lambda: both(both_ahead),
        }


def _best(job: Callable[[int], float]) -> int:
    """Return the distance with the least best of three runs, measured in turns."""
    best: dict[int, float] = {}
    for _ in range(3):
        for ahead in LINES_AHEAD:
            best[ahead] = min(best.get(ahead, float("inf")), job(ahead))
    return min(best, key=lambda ahead: best[ahead])
