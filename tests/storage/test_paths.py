"""The door for paths."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mmbloom.errors import FormatError, ParameterError, ParameterTypeError
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.paths import path_text
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from file_steps import MakeFile

    from mmbloom.storage.paths import FilePath


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("a.mmb", id="str"),
        pytest.param(b"a.mmb", id="bytes"),
        pytest.param(Path("a.mmb"), id="pathlib"),
    ],
)
def test_every_path_type_becomes_the_same_str(path: FilePath) -> None:
    """R14: str, bytes and os.PathLike are all paths."""
    assert path_text(path) == "a.mmb"


def test_bytes_that_are_no_utf8_name_their_file(make_file: MakeFile, tmp_path: Path) -> None:
    """A file name is bytes; one that no text encoding knows can be opened like any other."""
    odd = os.fsencode(tmp_path) + b"/caf\xe9.mmb"
    make_file().rename(os.fsdecode(odd))

    with MappedFile.open(odd) as mapped:
        assert mapped.path == os.fsdecode(odd)


@pytest.mark.parametrize("path", [3, None, 1.5, True, ["a.mmb"]])
def test_what_is_no_path_is_refused_by_type(path: FilePath) -> None:
    """An int is no descriptor here: closing somebody's descriptor would be worse than an error."""
    with pytest.raises(ParameterTypeError, match=r"path: expected a str, bytes or os\.PathLike"):
        path_text(path)


def test_a_nul_character_is_refused_before_it_cuts_the_path_short() -> None:
    """No file system can store one."""
    with pytest.raises(ParameterError, match="NUL"):
        path_text("a\0.mmb")


def test_a_surrogate_that_stands_for_no_byte_is_refused() -> None:
    """Python would raise a UnicodeEncodeError, from wherever the path is used first."""
    with pytest.raises(ParameterError, match="lone surrogates"):
        path_text("\ud800.mmb")
    assert path_text(b"\xff.mmb") == "\udcff.mmb"


@pytest.mark.parametrize("opener", [MappedFile.open, WritableFile.open])
def test_a_missing_file_is_not_found(tmp_path: Path, opener: Callable[[Path], object]) -> None:
    """The operating system's own error, with the path."""
    with pytest.raises(FileNotFoundError) as caught:
        opener(tmp_path / "none.mmb")

    assert caught.value.filename == str(tmp_path / "none.mmb")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("opener", [MappedFile.open, WritableFile.open])
def test_a_directory_is_refused_as_one(tmp_path: Path, opener: Callable[[Path], object]) -> None:
    """Not as a damaged file."""
    with pytest.raises(IsADirectoryError):
        opener(tmp_path)


@pytest.mark.parametrize("opener", [MappedFile.open, WritableFile.open])
def test_a_fifo_is_refused_and_nobody_waits_for_its_other_end(
    tmp_path: Path, opener: Callable[[Path], object]
) -> None:
    """A plain open() of a FIFO hangs; the alarm would kill this test."""
    os.mkfifo(tmp_path / "pipe")
    signal.alarm(5)
    try:
        with pytest.raises(FormatError, match="expected a regular file, found a FIFO"):
            opener(tmp_path / "pipe")
    finally:
        signal.alarm(0)


def test_a_socket_and_a_device_are_refused_by_name(tmp_path: Path) -> None:
    """Both are readable, neither can be mapped."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        with pytest.raises(FormatError, match="found a socket"):
            MappedFile.open(tmp_path / "socket")
    with pytest.raises(FormatError, match="found a character device"):
        MappedFile.open("/dev/null")
