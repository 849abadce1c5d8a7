"""Other fuse filters for Python, and the floor of the machine for building and look-ups.

pyfusefilter wraps the C code of the authors of binary fuse filters, binaryfuse a Rust crate. Both
take one key per call. pyfusefilter is also measured without Python: its compiled functions are
called with an array and in a loop in C, which it does not offer, but could.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import mmap
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

SOURCE = Path(__file__).with_name("fuse_floor.c")
WINDOW_BYTES = 512 << 10  # fits in a second-level cache
_ADDRESS, _SIZE, _COUNT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
_SIGNATURES = {
    "floor_changes": [_ADDRESS, _COUNT, _SIZE, _COUNT],
    "ask_each": [_ADDRESS, _ADDRESS, _ADDRESS, _SIZE, _ADDRESS],
}


def is_installed(module: str) -> bool:
    """Return whether a peer can be measured here."""
    return importlib.util.find_spec(module) is not None


def compiled() -> ctypes.CDLL:
    """Compile fuse_floor.c with the system's compiler and load it; remove the files afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "fuse_floor.so"
        command = ["cc", "-O3", "-std=gnu11", "-Wall", "-Wextra", "-shared", "-fPIC"]
        subprocess.run([*command, str(SOURCE), "-o", str(library)], check=True)  # noqa: S603 -- our own command
        loaded = ctypes.CDLL(str(library))
    for name, arguments in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, None
    return loaded


class Floor:
    """Scattered changes of four bytes in a window of the second-level cache."""

    def __init__(self) -> None:
        self._change = compiled().floor_changes
        self._window = np.zeros(WINDOW_BYTES // 4, dtype=np.uint32)

    def change(self, count: int) -> None:
        """Make this many changes."""
        self._change(self._window.ctypes.data, len(self._window), count, 1)


class CFuse:
    """pyfusefilter's C functions: 3 slots per key, fingerprints of 8 or 16 bits."""

    def __init__(self, num_keys: int, width: int = 8) -> None:
        """Make an empty filter for *num_keys* keys.

        Raises:
            ImportError: pyfusefilter is not installed.
            MemoryError: it could not allocate the filter.
        """
        module = importlib.import_module("pyfusefilter._xorfilter")
        self._lib, self._ffi = module.lib, module.ffi
        self._name = f"binary_fuse{width}"
        self._filter: Any = self._ffi.new(f"{self._name}_t *")
        if not self._function("allocate")(num_keys, self._filter):
            raise MemoryError(f"{self._name}: {num_keys} keys")
        self.num_bits = self._filter.ArrayLength * width
        self._contains = int(
            self._ffi.cast("uintptr_t", self._ffi.addressof(self._lib, f"{self._name}_contain"))
        )
        self._ask = compiled().ask_each

    def populate(self, hashes: Hashes) -> None:
        """Fill it from the hashes of all keys, which may be reordered."""
        pointer = self._ffi.cast("uint64_t *", hashes.ctypes.data)
        if not self._function("populate")(pointer, len(hashes), self._filter):
            raise ValueError(f"{self._name}: {len(hashes)} keys cannot be built")

    def fill_at_random(self) -> None:
        """Fill it with random fingerprints, in seconds. Look-ups read the same slots.

        Uses huge pages if the system has them, as the maps of files beside it do.
        """
        count = self.num_bits // 8
        address = int(self._ffi.cast("uintptr_t", self._filter.Fingerprints))
        first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
        ctypes.CDLL(None).madvise(_ADDRESS(first), _SIZE(address + count - first), 14)
        view = np.frombuffer(self._ffi.buffer(self._filter.Fingerprints, count), dtype=np.uint8)
        random = np.random.default_rng(12)
        for start in range(0, count, 1 << 24):
            some = view[start : start + (1 << 24)]
            some[:] = np.frombuffer(random.bytes(len(some)), dtype=np.uint8)

    def contains_many(self, hashes: Hashes, out: NDArray[np.uint8]) -> None:
        """Look up every hash with its function, in a loop in C."""
        filter_address = int(self._ffi.cast("uintptr_t", self._filter))
        self._ask(self._contains, filter_address, hashes.ctypes.data, len(hashes), out.ctypes.data)

    def close(self) -> None:
        """Free its memory."""
        self._function("free")(self._filter)

    def _function(self, name: str) -> Any:  # noqa: ANN401 -- a function of a library that may be absent
        return getattr(self._lib, f"{self._name}_{name}")


def py_fuse8(keys: list[str]) -> Any:  # noqa: ANN401 -- a library that may be absent
    """Return pyfusefilter's Fuse8 of *keys*, as its users make it.

    Version 1.3.0 passes text to xxhash, which accepts only bytes since 4.0. So its hash function is
    replaced by one that encodes the text as xxhash used to.
    """
    module = importlib.import_module("pyfusefilter.pyfusefilter")
    digest = importlib.import_module("xxhash").xxh64_intdigest
    module.hash = lambda key: digest(str(key).encode())  # type: ignore[attr-defined]
    return module.Fuse8(keys)


def binary_fuse8(hashes: list[int]) -> Any:  # noqa: ANN401 -- a library that may be absent
    """Return binaryfuse's BinaryFuse8; its keys are numbers of 64 bits."""
    return importlib.import_module("binary_fuse").BinaryFuse8(hashes)
