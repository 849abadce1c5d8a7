"""The generations of one name in a folder: numbered files, and a link to the one that counts.

On disk, for the name breach:

    breach.mmb       the current generation: a hard link to one of
    .breach.mmb.7    generation 7, a complete file that never changes
    .breach.mmb.8    generation 8

One rename decides which generation is current, so it is always a complete one, whoever is killed
when. Numbers above the current one were withdrawn, or never came to be current; the next
publication removes them, and does not use their numbers again.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from mmbloom.errors import ParameterError, ParameterTypeError
from mmbloom.format.fields import HEADER_BYTES
from mmbloom.storage.descriptors import Descriptor
from mmbloom.storage.locks import folder_locked, writers_kept_out
from mmbloom.storage.paths import open_regular
from mmbloom.storage.publish import sync_folder
from mmbloom.storage.temporary import remove_stale, temporary_name

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_SUFFIX = ".mmb"
_MAX_NAME_BYTES = 200  # of the 255 of a file name; the rest is for suffix and number
_NAME_RULE = f"a file name of 1 to {_MAX_NAME_BYTES} bytes, printable, without / and \\, not hidden"


def check_name(name: str) -> str:
    """Return *name* if it names a filter in a folder, and nothing outside of it."""
    if not isinstance(name, str):
        raise ParameterTypeError("name", "a str", name)
    if not _is_name(name):
        raise ParameterError("name", _NAME_RULE, name)
    return name


def names_in(folder: str) -> list[str]:
    """Return all names that have a current generation, sorted. Symbolic links are ignored."""
    with os.scandir(folder) as entries:
        found = [
            entry.name.removesuffix(_SUFFIX)
            for entry in entries
            if entry.name.endswith(_SUFFIX) and entry.is_file(follow_symlinks=False)
        ]
    return sorted(name for name in found if _is_name(name))


class Generations:
    """The files of one name in *folder*. Call methods that change them inside ``locked()``."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = folder
        self._target = check_name(name) + _SUFFIX
        self.path = os.path.join(folder, self._target)

    def locked(self) -> AbstractContextManager[None]:
        """Wait for others that change the folder, and keep them out during the block."""
        return folder_locked(self._folder)

    @property
    def draft_name(self) -> str:
        """The name for a file whose number is not chosen yet. No generation has this name."""
        return self.file_name(0)

    def file_name(self, number: int) -> str:
        """Return the name of the file of a generation."""
        return f".{self._target}.{number}"

    def path_of(self, number: int) -> str:
        """Return its path."""
        return os.path.join(self._folder, self.file_name(number))

    def numbers(self) -> list[int]:
        """Return the numbers of all generations that have a file, ascending.

        A folder, a link or a FIFO with such a name is ignored.
        """
        form = re.compile(re.escape(f".{self._target}.") + r"([1-9][0-9]{0,19})")
        with os.scandir(self._folder) as entries:
            matches = [
                form.fullmatch(entry.name)
                for entry in entries
                if entry.is_file(follow_symlinks=False)
            ]
        return sorted(int(match[1]) for match in matches if match)

    def next_number(self, previous: int) -> int:
        """Return a free number above *previous* and the numbers of all generations."""
        number = max([previous, *self.numbers()]) + 1
        while os.path.lexists(self.path_of(number)):  # a folder, for instance
            number += 1
        return number

    def current(self) -> int | None:
        """Return the number of the current generation; None if there is no file or no number.

        In a copy of the folder that was made without hard links it is the one with the same header.
        """
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            return None
        numbers = self.numbers()
        for number in numbers:
            if os.path.samestat(found, os.lstat(self.path_of(number))):
                return number
        header = _header_of(self.path)
        return next((n for n in reversed(numbers) if _header_of(self.path_of(n)) == header), None)

    def number_current(self, number: int) -> None:
        """Give a current file that came from elsewhere a number, so that it can be kept."""
        with suppress(FileNotFoundError, FileExistsError):
            os.link(self.path, self.path_of(number), follow_symlinks=False)

    def make_current(self, number: int) -> None:
        """Let the name lead to a generation, in one step that survives power loss.

        Raises:
            LockHeldError: a writer has the current file open.
        """
        folder_fd = Descriptor.of_folder(self._folder)
        name = temporary_name(self._target)
        try:
            remove_stale(folder_fd, self._target)
            with writers_kept_out(self.path):
                os.link(self.file_name(number), name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
                os.replace(name, self._target, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
            sync_folder(folder_fd)
        finally:
            # Still there after an error, or if both names led to one file: then rename does not.
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder_fd)
            folder_fd.close()

    def discard(self, number: int) -> None:
        """Remove the file of a generation; its readers keep it."""
        with suppress(FileNotFoundError):
            os.unlink(self.path_of(number))

    def remove(self) -> None:
        """Remove all generations, and last the name, in a way that survives power loss.

        Who is killed in between leaves a name that leads to its current generation, and can be
        removed once more.

        Raises:
            LockHeldError: a writer has the current file open; nothing was removed.
            FileNotFoundError: there is no such name.
        """
        folder_fd = Descriptor.of_folder(self._folder)
        try:
            with writers_kept_out(self.path):
                # What killed publishers have left would keep its space.
                for name in (self._target, self.draft_name):
                    remove_stale(folder_fd, name)
                for number in self.numbers():
                    self.discard(number)
                os.unlink(self.path)
            sync_folder(folder_fd)
        finally:
            folder_fd.close()


def _header_of(path: str) -> bytes:
    """Return the first page of a file: digest of the content, UUID, and number of generation."""
    fd, _ = open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
    with fd:
        return os.pread(fd, HEADER_BYTES, 0)


def _is_name(name: str) -> bool:
    if not name.isprintable() or name.startswith(".") or "/" in name or "\\" in name:
        return False
    return 0 < len(name.encode()) <= _MAX_NAME_BYTES
