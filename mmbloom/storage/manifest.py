"""Small text files beside filters: read whole, and published like any other file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mmbloom.errors import FormatError
from mmbloom.storage.paths import FilePath, open_regular, path_text
from mmbloom.storage.publish import IfExists, NewFile

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_BYTES = 1 << 20


def read_manifest(path: FilePath) -> bytes:
    """Return the bytes of a small file.

    Raises:
        FormatError: it is larger than a MiB, so it is something else.
        OSError: what the operating system says.
    """
    text = path_text(path)
    fd, found = open_regular(text, os.O_RDONLY)
    with fd:
        if found.st_size > MAX_BYTES:
            hint = "It is no manifest of a stack: check the path"
            raise FormatError(text, "size", 0, f"at most {MAX_BYTES} bytes", found.st_size, hint)
        return os.read(fd, MAX_BYTES)


def write_manifest(path: FilePath, data: bytes, if_exists: IfExists) -> None:
    """Publish *data* under *path*, complete or not at all; see NewFile."""
    with NewFile(path, len(data), if_exists) as new:
        new.write(0, data)
        new.publish()


def beside(path: FilePath, name: str) -> str:
    """Return the path of *name*, which is relative to the folder of the file at *path*."""
    return os.path.join(os.path.dirname(path_text(path)), name)


def relative_names(path: FilePath, others: Iterable[str]) -> list[str]:
    """Return how the *others* are named relative to the folder of the file at *path*."""
    folder = os.path.dirname(os.path.abspath(path_text(path)))
    return [os.path.relpath(os.path.abspath(other), folder) for other in others]
