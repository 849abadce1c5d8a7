"""A folder of named filters, each with its generations: publish, open, roll back, remove.

``mmbloom.store.generations`` has the layout on disk. The files are ordinary filter files: any
reader can open ``FOLDER/NAME.mmb`` by itself.
"""

from __future__ import annotations

import operator
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from mmbloom.errors import FormatError, NotInStoreError, ParameterError, ParameterTypeError
from mmbloom.filters.access import opened_now
from mmbloom.filters.filter import check_successor
from mmbloom.filters.following import Follower
from mmbloom.filters.opening import open_with
from mmbloom.filters.sealing import next_generation
from mmbloom.operations.publishing import (
    open_finished,
    refuse_foreign,
    write_copy,
    write_generation,
)
from mmbloom.storage.open_options import OpenOptions
from mmbloom.storage.paths import path_text
from mmbloom.storage.progress import Reporter
from mmbloom.storage.publish import NewFile
from mmbloom.store.generations import Generations, check_name, names_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmbloom.filters.filter import Filter
    from mmbloom.filters.opened import Opened
    from mmbloom.storage.advice import Advice
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.progress import Progress
    from mmbloom.storage.storage import Mode


class Store:
    """Named filters in one folder.

    Guarantee: a name always leads to a complete, verified generation, whoever is killed when, and
        to nothing outside the folder: names with separators, hidden names and symbolic links are
        refused.
    Durability: what publish(), roll_back() and remove() returned for survives power loss.
    Sharing: any number of processes and readers. Those that change the folder take turns, for the
        milliseconds of a change, by a lock on the folder.
    Limits: the file system must have hard links. Generations that were built elsewhere are copied
        in.
    """

    def __init__(
        self,
        folder: FilePath,
        *,
        keep: int = 1,
        mode: Mode = "map",
        follow: float | None = None,
    ) -> None:
        """Use a folder that exists.

        Args:
            folder: where the files are.
            keep: how many generations before the current one publish() keeps, 0 or more.
            mode: as for BloomFilter.open(), for the filters that are opened here.
            follow: the same.

        Raises:
            OSError: FileNotFoundError, NotADirectoryError and the like.
            ParameterError: naming the parameter.
        """
        self.folder = os.path.abspath(path_text(folder))
        try:
            self._keep = operator.index(keep)
        except TypeError as exc:
            raise ParameterTypeError("keep", "an int", keep) from exc
        if self._keep < 0:
            raise ParameterError("keep", "0 or more", keep)
        self._options = OpenOptions(mode=mode, follow_links=False).checked()
        Follower.checked(follow, self._options)
        self._follow = follow
        names_in(self.folder)

    def __getitem__(self, name: str) -> Filter:
        """Open the current generation of *name* read-only.

        Raises:
            NotInStoreError: there is none, a KeyError.
            ParameterError: no name of a filter.
            FormatError, OSError: as BloomFilter.open(); FormatError also for a symbolic link.
        """
        return self._open(name, self._options, self._follow)

    def open(
        self,
        name: str,
        *,
        advice: Advice = "random",
        mode: Mode | None = None,
        follow: float | None = None,
    ) -> Filter:
        """Open the current generation of *name* read-only, in another way than ``store[name]``.

        Args:
            name: of the filter.
            advice: as for BloomFilter.open().
            mode: as for BloomFilter.open(); None is that of the store.
            follow: as for BloomFilter.open(); None is that of the store.

        Raises:
            NotInStoreError, ParameterError, FormatError, OSError: as ``store[name]``.
        """
        options = self._options._replace(advice=advice, mode=mode or self._options.mode).checked()
        return self._open(name, options, self._follow if follow is None else follow)

    def _open(self, name: str, options: OpenOptions, follow: float | None) -> Filter:
        path = self._generations(name).path
        try:
            return open_with(path, options, follow)
        except FileNotFoundError as exc:
            raise self._no_filter(name) from exc

    def __contains__(self, name: object) -> bool:
        """Return whether there is a filter of this name."""
        return name in names_in(self.folder)

    def __iter__(self) -> Iterator[str]:
        """Yield all names, sorted."""
        return iter(names_in(self.folder))

    def publish(
        self,
        name: str,
        new: FilePath,
        *,
        progress: Callable[[Progress], object] | None = None,
    ) -> int:
        """Make a copy of a sealed file the current generation of *name*, which may be new.

        Args:
            name: printable, up to 200 bytes, without separators, not hidden.
            new: the file; it stays as it is.
            progress: called with a Progress from this thread, at most every 0.1 s.

        Returns:
            The number of the generation, which the header of the copy has too: higher than all
            before under this name.

        Raises:
            IncompatibleError: the current generation has another kind or key form, so readers that
                follow it would refuse this one. remove() the name first.
            As ``mmbloom.publish``; FormatError also for a symbolic link that has the name. The
            current generation is then still the old one.

        Cost: one read and one write of the file.
        """
        files = self._generations(name)
        refuse_foreign(files.path, follow_links=False)  # better now than after the copy
        # The number is chosen when all else is done.
        draft = os.path.join(self.folder, files.draft_name)
        with open_finished(new) as finished, ExitStack() as stack:
            self._check_successor(files, finished)
            copy = stack.enter_context(NewFile(draft, finished.header.file_bytes))
            write_copy(finished, copy, Reporter(progress, "copy", "bytes").tell)
            with files.locked():
                refuse_foreign(files.path, follow_links=False)
                self._check_successor(files, finished)
                previous = self._number_current(files)
                number = files.next_number(previous)
                write_generation(finished, copy, number)
                copy.rename(files.file_name(number))
                copy.publish()
                _discard(files, [other for other in files.numbers() if previous < other < number])
                try:
                    files.make_current(number)
                except BaseException:
                    files.discard(number)
                    raise
                older = [other for other in files.numbers() if other < number]
                _discard(files, older[: max(0, len(older) - self._keep)])
        return number

    def path(self, name: str) -> str:
        """Return the path of the current generation of *name*: an ordinary file for any reader.

        The next generation will have the same path.

        Raises:
            NotInStoreError: there is no filter of this name.
            ParameterError: no name of a filter.
        """
        files = self._generations(name)
        if name not in self:
            raise self._no_filter(name)
        return files.path

    def generations(self, name: str) -> list[int]:
        """Return the numbers of the generations of *name* that can be had, the current one last.

        Raises:
            NotInStoreError: there is no filter of this name.
        """
        files = self._generations(name)
        with files.locked():  # else one that is listed could go before it is looked at
            return self._to_be_had(files, name)

    def roll_back(self, name: str) -> int:
        """Make the generation before the current one current again; return its number.

        The generation that was current is withdrawn: the next publication removes it. Followers
        change to the older file as to any other.

        Raises:
            NotInStoreError: no filter of this name, or no older generation.
            FormatError: the older file cannot be trusted; nothing was changed.
        """
        files = self._generations(name)
        with files.locked():
            older = self._to_be_had(files, name)[:-1]
            if not older:
                raise NotInStoreError(self.folder, name, "older generation of a filter")
            self._check(files.path_of(older[-1]))
            files.make_current(older[-1])
        return older[-1]

    def remove(self, name: str) -> None:
        """Remove a filter with all its generations; its readers keep what they have open.

        Raises:
            NotInStoreError: there is no filter of this name.
            LockHeldError: a writer has the current file open; nothing was removed.
        """
        files = self._generations(name)
        with files.locked():
            if name not in self:
                raise self._no_filter(name)
            files.remove()

    def __repr__(self) -> str:
        """Tell which folder it is."""
        return f"<Store {self.folder!r}>"

    def _generations(self, name: str) -> Generations:
        return Generations(self.folder, check_name(name))

    def _to_be_had(self, files: Generations, name: str) -> list[int]:
        """Return what generations() does. The folder is locked."""
        if name not in self:
            raise self._no_filter(name)
        current = files.current()
        if current is None:  # put there by other means: its own number, nothing to go back to
            return [next_generation(files.path) - 1]
        return [number for number in files.numbers() if number <= current]

    def _no_filter(self, name: str) -> NotInStoreError:
        return NotInStoreError(self.folder, name, "filter")

    def _check_successor(self, files: Generations, new: Opened) -> None:
        """Raise IncompatibleError if readers that follow the name would refuse *new*.

        A current file that cannot be opened has no followers.
        """
        try:
            with open_with(files.path, self._options) as current:
                check_successor(opened_now(current), new)
        except (FileNotFoundError, FormatError):
            return

    def _check(self, path: str) -> None:
        open_with(path, self._options).close()

    def _number_current(self, files: Generations) -> int:
        """Return the number of the current generation, 0 if there is none."""
        current = files.current()
        if current is None:
            current = next_generation(files.path) - 1
            if current > 0:
                if current in (
                    numbers := files.numbers()
                ):  # of one that was withdrawn, for example
                    current = numbers[-1] + 1
                files.number_current(current)
        return current


def _discard(files: Generations, numbers: list[int]) -> None:
    for number in numbers:
        files.discard(number)
