"""Which pages were changed, and when that is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbloom.storage.dirty_pages import GROUP_PAGES, PAGE_BYTES, DirtyPages, Runs

NUM_PAGES = 3 * GROUP_PAGES + 100
NEAR = st.sampled_from([g * GROUP_PAGES + i for g in range(4) for i in (-2, -1, 0, 1)])
PAGES = st.sets((NEAR | st.integers(0, NUM_PAGES - 1)).filter(lambda page: page >= 0), max_size=40)


class File:
    """What pages are written to: it fails, or does something else first, when it is told to."""

    def __init__(self) -> None:
        self.written: list[list[int]] = []
        self.failures = 0
        self.then: list[list[int]] = []
        self.dirty: DirtyPages

    def write_through(self, runs: Runs) -> None:
        """Note the pages of *runs*."""
        if self.failures:
            self.failures -= 1
            raise OSError("disk full")
        self.written.append([page for first, n in runs for page in range(first, first + n)])
        if self.then:
            mark(self.dirty, self.then.pop())


def mark(dirty: DirtyPages, pages: list[int] | set[int]) -> None:
    """Mark pages as the engine does."""
    dirty.begin_change()
    for page in pages:
        dirty.pages[page] = dirty.groups[page // GROUP_PAGES] = 1


def dirty_in(file: File, num_pages: int = NUM_PAGES) -> DirtyPages:
    """Return the marks of a payload of *num_pages*, the last of them short."""
    file.dirty = DirtyPages(PAGE_BYTES * num_pages - 64, file)
    return file.dirty


@given(PAGES, PAGES)
def test_exactly_the_marked_pages_are_written_in_order(first: set[int], second: set[int]) -> None:
    """Once: what is in the file is forgotten. Without marks nothing is written."""
    file = File()
    dirty = dirty_in(file)

    for pages in (first, second):
        mark(dirty, pages)
        dirty.write()
        dirty.write()

    assert file.written == [sorted(pages) for pages in (first, second) if pages]


@given(PAGES)
def test_runs_are_as_long_as_they_can_be(pages: set[int]) -> None:
    """Neighbouring pages make one write, also across groups."""
    runs: list[tuple[int, int]] = []

    class Target:
        def write_through(self, found: Runs) -> None:
            runs.extend(found)

    dirty = DirtyPages(PAGE_BYTES * NUM_PAGES, Target())
    mark(dirty, pages)
    dirty.write()

    ends = [first + count for first, count in runs]
    assert all(end < first for end, (first, _) in zip(ends, runs[1:], strict=False))
    assert all(count > 0 for _, count in runs)


@given(PAGES, PAGES, st.integers(1, 3))
def test_marks_survive_a_write_that_raises(first: set[int], second: set[int], num: int) -> None:
    """The next write brings what the failed ones did not."""
    file = File()
    dirty = dirty_in(file)
    mark(dirty, first | {7})
    file.failures = num
    for _ in range(num):
        with pytest.raises(OSError, match="disk full"):
            dirty.write()

    mark(dirty, second)
    dirty.write()

    assert file.written == [sorted(first | second | {7})]


@given(PAGES, st.lists(PAGES.filter(bool), max_size=3))
def test_what_is_marked_during_a_write_is_written_too(
    first: set[int], during: list[set[int]]
) -> None:
    """A signal handler may change the filter while pages are being written."""
    file = File()
    dirty = dirty_in(file)
    mark(dirty, first | {7})
    file.then = [sorted(pages) for pages in during]

    dirty.write()

    assert not any(dirty.pages)
    assert not any(dirty.groups)
    assert len(file.written) == 1 + len(during)
    assert set(file.written[-1]) == (first | {7}).union(*during)


@given(PAGES, PAGES)
def test_a_write_inside_a_write_loses_nothing(first: set[int], second: set[int]) -> None:
    """The handler's own write clears its marks, and the interrupted one must not clear others."""
    written: set[int] = set()

    class Target:
        depth = 0

        def write_through(self, runs: Runs) -> None:
            self.depth += 1
            if self.depth == 1:
                mark(dirty, second)
                dirty.write()
            written.update(page for start, n in runs for page in range(start, start + n))

    dirty = DirtyPages(PAGE_BYTES * NUM_PAGES, Target())
    mark(dirty, first | {7})

    dirty.write()

    assert written == first | second | {7}
    assert not any(dirty.pages)


@pytest.mark.parametrize("num_pages", [1, 511, 512, 513, 1024, 2000])
def test_all_pages_are_one_run(num_pages: int) -> None:
    """The last, shorter page too."""
    runs: list[Runs] = []

    class Target:
        def write_through(self, found: Runs) -> None:
            runs.append(found)

    dirty = DirtyPages(PAGE_BYTES * num_pages - 1, Target())
    dirty.mark_all()
    dirty.write()

    assert runs == [[(0, num_pages)]]
