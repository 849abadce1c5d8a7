"""What the kernel is told, and what it answers."""

from __future__ import annotations

import errno
import mmap
from typing import TYPE_CHECKING, Never, cast

import pytest
from file_steps import PAYLOAD, held_now

from mmbloom.errors import ParameterError
from mmbloom.storage.advice import advise
from mmbloom.storage.mapped import MappedFile

if TYPE_CHECKING:
    from pathlib import Path


def test_a_failing_advice_leaves_nothing_open(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map exists already when it is advised."""

    def fail(_map: object, _advice: object) -> Never:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    before = held_now()
    monkeypatch.setattr("mmbloom.storage.mapped.advise", fail)
    with pytest.raises(OSError, match="Cannot allocate") as caught:
        MappedFile.open(sealed)

    assert caught.value.filename == str(sealed)
    assert held_now() == before


def test_a_preload_from_a_bad_disk_is_an_io_error(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EFAULT from the kernel means a SIGBUS avoided; with the length unchanged it is the disk."""

    def unreadable(_map: object, _advice: object) -> Never:
        raise OSError(errno.EFAULT, "Bad address")

    with MappedFile.open(sealed) as mapped:
        monkeypatch.setattr("mmbloom.storage.mapped.advise", unreadable)
        with pytest.raises(OSError, match="Input/output") as caught:
            mapped.advise("preload")

    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(sealed))


def test_an_older_kernel_preloads_in_the_background(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MADV_POPULATE_READ is of Linux 5.14; EINVAL before."""
    monkeypatch.setattr("mmbloom.storage.advice._MADV_POPULATE_READ", 9999)
    with MappedFile.open(sealed, "preload") as mapped:
        assert bytes(mapped.payload) == PAYLOAD


def test_any_other_advice_is_refused_before_the_file_is_opened(sealed: Path) -> None:
    """A misspelt advice is an error, not the default."""
    with pytest.raises(ParameterError, match="advice: expected one of normal, random"):
        MappedFile.open(sealed, "sequential")
    with pytest.raises(ParameterError, match="advice"):
        MappedFile.open(sealed).advise("fast")


def test_advice_may_change_and_pages_may_be_asked_for(sealed: Path) -> None:
    """Preload after random must not populate page by page, so normal comes between."""
    with MappedFile.open(sealed, "random") as mapped:
        mapped.advise("preload")
        mapped.advise("normal")
        mapped.start_reading([0, 1, 3])
        mapped.start_reading(iter(()))
        assert bytes(mapped.payload) == PAYLOAD


class FakeMap:
    """A map of 1 GiB that only writes down what it is advised."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

    def madvise(self, *call: int) -> None:
        """Write it down."""
        self.calls.append(call)

    def __len__(self) -> int:
        return 1 << 30


def test_preload_populates_before_it_sets_random() -> None:
    """The other order took 38 s for 1.2 GB instead of 0.4."""
    fake = FakeMap()
    advise(cast("mmap.mmap", fake), "preload")

    assert [call[0] for call in fake.calls] == [mmap.MADV_NORMAL, *[22] * 16, mmap.MADV_RANDOM]
    assert sum(call[2] for call in fake.calls if call[0] == 22) == len(fake)


def test_willneed_asks_in_pieces_no_larger_than_any_read_ahead() -> None:
    """One call for all of a 1.2 GB file read 8 MiB of it, and said nothing."""
    fake = FakeMap()
    advise(cast("mmap.mmap", fake), "willneed")
    pieces = [call[1:] for call in fake.calls if call[0] == mmap.MADV_WILLNEED]

    assert {num_bytes for _, num_bytes in pieces} == {128 << 10}
    assert [start for start, _ in pieces] == list(range(0, 1 << 30, 128 << 10))
