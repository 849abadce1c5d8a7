"""Folders of many small files, listed and read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mmbloom.storage.descriptors import Descriptor

if TYPE_CHECKING:
    from mmbloom.storage.paths import FilePath

_READ_BYTES = 1 << 16


class Folder:
    """The visible files of a folder, in the order of their names.

    Files whose names begin with a dot are skipped, and so are the lock files of writers.

    Attributes:
        name: the path.
        files: the names within.
    """

    def __init__(self, path: FilePath) -> None:
        """List the folder at *path*. Raises OSError."""
        self.name = os.fsdecode(path)
        self._fd = Descriptor.of_folder(self.name)
        try:
            names = os.listdir(self._fd)
        except BaseException:
            self.close()
            raise
        self.files = sorted(n for n in names if not n.startswith(".") and not n.endswith(".lock"))

    def path_of(self, file: str) -> str:
        """Return the path of a file in the folder."""
        return os.path.join(self.name, file)

    def read(self, file: str) -> bytes:
        """Return the bytes of a file in the folder. Raises: OSError, which names the file."""
        try:
            with Descriptor.opened(file, os.O_RDONLY, dir_fd=self._fd) as fd:
                data = os.read(fd, _READ_BYTES)
                while more := len(data) >= _READ_BYTES and os.read(fd, _READ_BYTES):
                    data += more
        except OSError as exc:
            exc.filename = self.path_of(file)
            raise
        return data

    def digest(self) -> str:
        """Return a digest of the names, sizes and dates of all files."""
        from hashlib import sha256

        facts = sha256()
        for file in self.files:
            found = os.stat(file, dir_fd=self._fd)
            numbers = found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
            facts.update(os.fsencode(f"{file}\0{numbers}\0"))
        return facts.hexdigest()

    def close(self) -> None:
        """Close the folder."""
        self._fd.close()
