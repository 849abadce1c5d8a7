"""Files that are loaded, and files that are read page by page: no signal, whatever happens."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from file_steps import NUM_LINES, PAYLOAD, held_now

from mmbloom.errors import ClosedError, ParameterError, TruncatedError
from mmbloom.storage.in_memory import LoadedFile, read_into
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.memory import map_memory
from mmbloom.storage.open_options import OpenOptions
from mmbloom.storage.pread import PreadFile

if TYPE_CHECKING:
    from file_steps import MakeFile

NUM_PAGES = -(-64 * NUM_LINES // 4096)


def maps_of(path: Path) -> int:
    """Return how often this process has mapped the file."""
    return Path("/proc/self/maps").read_text(encoding="utf-8").count(str(path))


def test_the_window_has_the_pages_that_were_loaded_during_the_block(sealed: Path) -> None:
    """Byte for byte those of the file, the last one shorter; nothing before and after."""
    with PreadFile.open(sealed) as unmapped:
        for wanted in ([], [0], [1, 2], [0, 2], list(range(NUM_PAGES))):
            expected = bytearray(len(PAYLOAD))
            for number in wanted:
                part = slice(4096 * number, 4096 * (number + 1))
                expected[part] = PAYLOAD[part]
            with unmapped.loaded(wanted):
                assert bytes(unmapped.payload) == expected
            assert not any(unmapped.payload)
        assert maps_of(sealed) == 0


def test_pages_stay_until_the_outermost_block_ends(sealed: Path) -> None:
    """A signal handler may look up what its thread looks up: without the pages, a false no."""
    with PreadFile.open(sealed) as unmapped:
        with unmapped.loaded([0, 1]):
            with unmapped.loaded([1]):
                pass
            assert bytes(unmapped.payload[:8192]) == PAYLOAD[:8192]
        assert not any(unmapped.payload)


@pytest.mark.parametrize("length", [0, 100, 4096, 4097, 9000])
def test_a_file_that_is_cut_is_an_error_in_every_read(sealed: Path, length: int) -> None:
    """Where a map would be a signal."""
    with PreadFile.open(sealed) as unmapped:
        os.truncate(sealed, length)
        with pytest.raises(TruncatedError), unmapped.loaded([NUM_PAGES - 1]):
            pass
        with pytest.raises(TruncatedError):
            unmapped.read(unmapped.header.payload_offset, len(PAYLOAD))
        with pytest.raises(TruncatedError):
            unmapped.check_length()
        assert not any(unmapped.payload)


def test_reading_into_memory_past_the_end_names_the_file(sealed: Path) -> None:
    """The error has the path and where it ends."""
    memory = map_memory(1 << 20)
    fd = os.open(sealed, os.O_RDONLY)
    try:
        with pytest.raises(TruncatedError, match=str(sealed.stat().st_size)):
            read_into(memory, fd, str(sealed), 0, 1 << 20)
    finally:
        os.close(fd)


def test_a_closed_file_is_not_read(sealed: Path) -> None:
    """Its descriptor may be that of another file by then."""
    unmapped = PreadFile.open(sealed)
    unmapped.close()
    unmapped.close()

    with pytest.raises(ClosedError):
        unmapped.read(0, 1)
    with pytest.raises(ClosedError), unmapped.loaded([0]):
        pass


def test_closing_waits_for_the_block_of_another_thread(sealed: Path) -> None:
    """Else the pages would come from whatever gets the descriptor next."""
    unmapped = PreadFile.open(sealed)
    closer = threading.Thread(target=unmapped.close)
    with unmapped.loaded([0]):
        closer.start()
        closer.join(0.05)
        assert closer.is_alive()
        assert bytes(unmapped.payload[:4096]) == PAYLOAD[:4096]
    closer.join()
    with pytest.raises(ClosedError):
        unmapped.check_length()


@pytest.mark.parametrize("kind", [PreadFile, LoadedFile, MappedFile])
def test_a_part_of_the_payload_is_copied_and_stays(
    make_file: MakeFile, kind: type[MappedFile]
) -> None:
    """From every kind, and again: giving memory back must not lose what is nowhere else."""
    opened = _unchecked(kind, make_file())
    out = bytearray(5000)
    for _ in range(2):
        opened.copy_payload(3000, memoryview(out))
        assert out == PAYLOAD[3000:8000]
    opened.close()


def _unchecked(kind: type[MappedFile], path: Path) -> MappedFile:
    """Open a file whose checksums are not those of its payload."""
    with PreadFile.open(path) as unmapped:
        return unmapped.whole() if kind is LoadedFile else kind.open(path)


def test_a_loaded_file_holds_no_descriptor_and_no_map(make_file: MakeFile) -> None:
    """Nothing that happens to the file matters."""
    path = make_file()
    before = held_now()
    with PreadFile.open(path) as unmapped:
        loaded = unmapped.whole()
    os.truncate(path, 0)

    assert held_now() == before
    assert bytes(loaded.payload) == PAYLOAD
    assert loaded.payload.readonly
    loaded.check_length()
    assert loaded.read_status() == loaded.status
    loaded.close()


def test_a_file_that_is_not_sealed_is_not_loaded(writable: Path) -> None:
    """It has no checksums to verify, and a copy would miss the keys that come."""
    before = held_now()
    with pytest.raises(ParameterError, match=r"mode.*not sealed"):
        LoadedFile.open(writable)

    assert held_now() == before


def test_an_unknown_mode_is_refused() -> None:
    """Naming all."""
    with pytest.raises(ParameterError, match="map, ram, pread"):
        OpenOptions(mode="mmap").checked()  # type: ignore[arg-type]
