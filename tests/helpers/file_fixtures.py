"""Fixtures of the room: small filter files, and file systems that lack something."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from file_steps import NUM_LINES, PAYLOAD, MakeFile

from mmbloom.format.fields import SEALED
from mmbloom.format.header import Header, new_header
from mmbloom.format.status import Status

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def header() -> Header:
    """Return a header of 200 lines."""
    return new_header(
        layout="line",
        num_bits=512 * NUM_LINES,
        num_probes=7,
        capacity=1000,
        fpr=0.01,
        uuid=bytes(range(16)),
        created_unix_ns=1,
    )


@pytest.fixture
def make_file(tmp_path: Path, header: Header) -> MakeFile:
    """Return a function that writes filter files."""

    def make(name: str = "a.mmb", status: Status | None = None) -> Path:
        path = tmp_path / name
        page = header.pack(status or Status())
        path.write_bytes(page + PAYLOAD + bytes(8 * header.num_checksums))
        return path

    return make


@pytest.fixture
def writable(make_file: MakeFile) -> Path:
    """Write a WRITABLE file."""
    return make_file()


@pytest.fixture
def sealed(make_file: MakeFile) -> Path:
    """Write a SEALED file."""
    return make_file("sealed.mmb", Status(state=SEALED))


@pytest.fixture
def no_tmpfile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file system without unnamed files."""
    real_open = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported", path)
        return real_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)


@pytest.fixture(params=["O_TMPFILE", "named"])
def file_kind(request: pytest.FixtureRequest) -> str:
    """Run a test with and without unnamed files."""
    if request.param == "named":
        request.getfixturevalue("no_tmpfile")
    return str(request.param)
