"""Folders of range files as lists of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from key_lists import keys_of, read_in_two

import mmbloom
from mmbloom.sources import ranges

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[[dict[str, bytes]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that makes a folder of range files."""

    def written(files: dict[str, bytes]) -> Path:
        for name, data in files.items():
            (tmp_path / name).write_bytes(data)
        return tmp_path

    return written


@pytest.mark.parametrize(
    ("files", "keys"),
    [
        pytest.param({"00000": b"AB:1\nCD:2\n"}, ["00000AB", "00000CD"], id="LF"),
        pytest.param({"00000.txt": b"AB:1\r\nCD:2"}, ["00000AB", "00000CD"], id="CRLF-no-end"),
        pytest.param(
            {"0000B.txt": b"CD:2", "0000A.txt": b"AB:1"}, ["0000AAB", "0000BCD"], id="in-order"
        ),
        pytest.param({"0000a": b"", "0000b": b"AB:1\n"}, ["0000bAB"], id="an-empty-file"),
        pytest.param({"00000": b"\nAB:1\n\r\nCD:2\n\n"}, ["00000AB", "00000CD"], id="blank-lines"),
        pytest.param({"00000": b"AB:1\nEF:0\nCD:10\n"}, ["00000AB", "00000CD"], id="padding"),
        pytest.param({"00000": b"AB:1\r\nEF:0"}, ["00000AB"], id="padding-CRLF"),
        pytest.param({"00000": b"AB:1:7\nCD\n"}, ["00000AB", "00000CD"], id="other-counts"),
        pytest.param({"00000": b"\xef\xbb\xbfAB:1\n"}, ["00000AB"], id="byte-order-mark"),
        pytest.param(
            {"00000": b"AB:1\n", ".part": b"x", "00001.txt.lock": b""},
            ["00000AB"],
            id="passed-over",
        ),
        pytest.param({"00000": b"A:1\n" * 40_000}, ["00000A"] * 40_000, id="a-large-file"),
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_the_keys_are_prefix_and_suffix(
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, bytes],
    keys: list[str],
    block_bytes: int,
) -> None:
    """Together they are the whole digest, in single files or joined ones."""
    monkeypatch.setattr(ranges, "BLOCK_BYTES", block_bytes)

    with mmbloom.read_list(write(files)) as found:
        lines = keys_of(found)  # each with its count
        assert [line.partition(b":")[0].strip().decode() for line in lines] == keys
        assert found.done_bytes == found.total_bytes > 0


def test_a_filter_of_digests_finds_them_in_either_case(write: Write) -> None:
    """The prefix comes from the name of the file, in either case."""
    folder = write({"0000a.txt": b"B:1\nD:2\n", "FFFFF.txt": b"A:1\n"})

    with mmbloom.read_lists([folder]) as found:
        path = folder / "f.mmb"
        built = mmbloom.build(path, found, fpr=1e-9, key_form="hex")
    with built:
        assert built.contains_many(["0000AB", "fffffa", "0000AC"]).tolist() == [True, True, False]


@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_a_bad_line_is_named_by_its_file_and_line(
    write: Write, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    """Also if small files were joined, and some were empty."""
    monkeypatch.setattr(ranges, "BLOCK_BYTES", block_bytes)
    files = {"00000": b"A:1\nB:1\n", "00001": b"", "00002.txt": b"C:1\n\nX:1\nD:1"}
    folder = write(files)

    with mmbloom.read_lists([folder], on_error="skip") as found:
        mmbloom.build(folder / "f.mmb", found, fpr=0.01, key_form="hex").close()
        assert found.bad.num_bad == 1
        assert found.bad.first[0].startswith(f"{folder}/00002.txt, line 3: key form hex")
        assert found.lines_read == 6


def test_a_line_of_joined_files_is_named_without_a_build_too(write: Write) -> None:
    """The error then names the file where the joined text begins."""
    folder = write({"00000": b"A:1\n", "00001": b"X:1\n"})
    digests = mmbloom.BloomFilter.in_memory(capacity=10, fpr=0.01, key_form="hex")

    with mmbloom.read_list(folder) as found:
        with pytest.raises(
            mmbloom.KeyValueError, match="00000 and the files after it, line 2"
        ) as e:
            digests.update(found)
        assert str(found.bad.located(e.value)).startswith(f"{folder}/00001, line 1: ")
        other = mmbloom.SourceError("another list, line 2: an empty line")
        assert found.bad.located(other) is other


@pytest.mark.parametrize(
    "name", ["readme.txt", "0000", "000000", "0000G", "00000.txt.gz", "pwned-00000.txt"]
)
def test_a_file_with_another_name_is_refused(write: Write, name: str) -> None:
    """It may contain anything, and the digits of its name would be missing."""
    folder = write({"00000": b"A:1\n", name: b"A:1\n"})

    with pytest.raises(mmbloom.SourceError, match=f"{name}: not a range file"):
        mmbloom.read_list(folder)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    """Before anything is built."""
    with pytest.raises(mmbloom.SourceError, match="the folder is empty"):
        mmbloom.read_list(tmp_path)


def test_binary_data_is_refused(write: Write) -> None:
    """Compressed files are not read as digests."""
    with (
        mmbloom.read_list(write({"00000": b"\x1f\x8b\0"})) as found,
        pytest.raises(mmbloom.SourceError, match="00000: binary"),
    ):
        keys_of(found)


@pytest.mark.parametrize("num_blocks", [0, 1, 4])
def test_a_folder_is_continued_from_a_position(
    write: Write, monkeypatch: pytest.MonkeyPatch, num_blocks: int
) -> None:
    """Between two files."""
    monkeypatch.setattr(ranges, "BLOCK_BYTES", 12)
    folder = write({f"{i:05X}": b"A:1\nB:2\n" for i in range(8)})
    expected = [b"%05X%b" % (i, line) for i in range(8) for line in (b"A:1", b"B:2")]
    first, second = (mmbloom.read_list(folder) for _ in range(2))

    with first, second:
        assert read_in_two(first, second, num_blocks) == expected
        assert (second.lines_read, second.done_bytes) == (16, 64)


def test_a_folder_without_digests_has_no_keys(write: Write) -> None:
    """It is probably the wrong folder, or an interrupted download."""
    with (
        mmbloom.read_lists([write({"00000": b""})]) as found,
        pytest.raises(mmbloom.SourceError, match="no keys: all 1 range files are empty"),
    ):
        keys_of(found)
