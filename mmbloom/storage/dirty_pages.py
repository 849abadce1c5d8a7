"""Which 4 KiB pages of a payload have changed since they were last written to the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmbloom.storage.writable import WritableFile

PAGE_BYTES = 4096
GROUP_PAGES = 512  # that share a mark: few changed pages of a huge payload are found without a scan

Runs = list[tuple[int, int]]  # (first page, number of pages), ascending


class DirtyPages:
    """Marks that the engine sets, and the order in which they are cleared.

    Attributes:
        pages: one byte for each page, 1 if it has changed.
        groups: one byte for each GROUP_PAGES pages.
    """

    def __init__(self, payload_bytes: int, target: WritableFile) -> None:
        """Start with no changed page of a payload in *target*."""
        num_pages = -(-payload_bytes // PAGE_BYTES)
        self.pages = bytearray(num_pages)
        self.groups = bytearray(num_pages // GROUP_PAGES + 1)
        self._target = target
        self._changes = 0

    def begin_change(self) -> None:
        """Note that a change is about to set marks, or has just set them."""
        self._changes += 1

    def mark_all(self) -> None:
        """Mark every page."""
        self.begin_change()
        self.pages[:] = b"\1" * len(self.pages)
        self.groups[:] = b"\1" * len(self.groups)

    def write(self) -> None:
        """Bring all marked pages into the file, and clear the marks.

        Marks are cleared only once the pages are in the file: writing may fail, or a signal may
        interrupt it, and the handler may change the filter and come here again. What is marked
        meanwhile starts another round.
        """
        runs = self._runs()
        while runs:
            goal = self._changes
            self._target.write_through(runs)
            if self._changes == goal:
                for first, count in runs:
                    self.pages[first : first + count] = bytes(count)
                self.groups[:] = bytes(len(self.groups))
                return
            runs = self._runs()

    def _runs(self) -> Runs:
        """Return the runs of marked pages."""
        runs, end, pages, groups = [], 0, self.pages, self.groups
        group = groups.find(1)
        while group >= 0:
            first = pages.find(1, max(end, GROUP_PAGES * group), GROUP_PAGES * (group + 1))
            if first < 0:
                group = groups.find(1, group + 1)
                continue
            end = pages.find(0, first)
            if end < 0:
                end = len(pages)
            runs.append((first, end - first))
            group = groups.find(1, end // GROUP_PAGES)
        return runs
