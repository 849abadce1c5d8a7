"""Lists from files, pipes and terminals, and files that are not lists."""

from __future__ import annotations

import errno
import gzip
import io
import os
import pty
import tarfile
import threading
import time
import zipfile
from typing import TYPE_CHECKING

import pytest

from mmbloom.errors import SourceError
from mmbloom.sources.files import ListFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TEXT = b"".join(b"line %d\n" % i for i in range(3000))
A_LOT = 1 << 20


class Pipe:
    """A pipe: a list at one end, its writer at the other."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe()

    def write(self, data: bytes, pause: float = 0.0) -> None:
        """Write *data*; with a *pause* byte by byte."""
        for part in [data] if not pause else (data[i : i + 1] for i in range(len(data))):
            os.write(self._in, part)
            time.sleep(pause)

    def end(self) -> None:
        """Close the writing end."""
        os.close(self._in)
        self._in = -1

    def make_non_blocking(self) -> None:
        """Do what another program that shares the pipe may have done."""
        os.set_blocking(self._out, False)

    def open_list(self) -> ListFile:
        """Return the list."""
        return ListFile(io.FileIO(self._out, closefd=False), "pipe")

    def close(self) -> None:
        """Close what is open."""
        os.close(self._out)
        if self._in >= 0:
            self.end()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Return a pipe."""
    both = Pipe()
    yield both
    both.close()


def read(opened: ListFile, size: int = A_LOT) -> bytes:
    """Return the next text of a list, up to *size* bytes."""
    buffer = bytearray(size)
    return bytes(buffer[: opened.readinto(memoryview(buffer))])


def read_all(opened: ListFile) -> bytes:
    """Return the text of a list, read 1 MiB at a time."""
    return b"".join(iter(lambda: read(opened), b""))


# -- files -----------------------------------------------------------------------------------------


def test_a_file_is_read_in_full_text_blocks(tmp_path: Path) -> None:
    """However much was read to recognise it: fewer text blocks mean less work."""
    (tmp_path / "list").write_bytes(TEXT)

    with ListFile.open(tmp_path / "list") as opened:
        blocks = list(iter(lambda: read(opened, 10_000), b""))

    assert b"".join(blocks) == TEXT
    assert all(len(block) == 10_000 for block in blocks[1:-1])


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_reader_knows_how_much_it_has_read(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """In bytes of the file on disk, for a progress bar."""
    compressed = pack(TEXT)
    (tmp_path / "list").write_bytes(compressed)

    with ListFile.open(tmp_path / "list") as opened:
        assert opened.total_bytes == len(compressed)
        assert 0 < opened.done_bytes <= len(compressed)
        read_all(opened)
        assert opened.done_bytes == len(compressed)


def test_a_list_that_grows_while_it_is_read_ends_once(tmp_path: Path) -> None:
    """After the end nothing more is read: a later write could be half a key."""
    path = tmp_path / "list"
    path.write_bytes(b"ada\n")

    with ListFile.open(path) as opened:
        assert read(opened) == b"ada\n"
        assert read(opened) == b""
        with path.open("ab") as file:
            file.write(b"grace\n")
        assert read(opened) == b""


@pytest.mark.parametrize(
    ("name", "error"),
    [("gone", FileNotFoundError), (".", IsADirectoryError), ("", FileNotFoundError)],
)
def test_a_wrong_path_is_an_error_of_the_operating_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: type[OSError]
) -> None:
    """It names the file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as caught:
        ListFile.open(name)

    assert caught.value.filename == name


def test_a_list_that_is_refused_is_closed(tmp_path: Path) -> None:
    """100 refusals leave no descriptor open."""
    (tmp_path / "list").write_bytes(b"PK\x03\x04")
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(100):
        with pytest.raises(SourceError):
            ListFile.open(tmp_path / "list")

    assert len(os.listdir("/proc/self/fd")) == before


def test_a_disk_that_fails_is_not_called_damaged_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EIO is raised unchanged, with the name of the list."""
    (tmp_path / "list").write_bytes(gzip.compress(os.urandom(200_000)))
    calls = iter([False, True])

    class Failing(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if next(calls):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().read(size)

    monkeypatch.setattr(io, "FileIO", Failing)

    with (
        ListFile.open(tmp_path / "list") as opened,
        pytest.raises(OSError, match="Input/output error") as caught,
    ):
        read_all(opened)

    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(tmp_path / "list"))


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b"\xfd7", "xz"),
        (b"\xfd7zXZ", "xz"),
        (b"\x28\xb5", "zstd"),
        (b"7z\xbc", "7-Zip"),
        (b"\x89M", "mmbloom filter"),
    ],
)
def test_a_file_that_was_cut_within_its_magic_is_not_a_list(
    tmp_path: Path, data: bytes, form: str
) -> None:
    """Two bytes of a download are not a list of one key."""
    (tmp_path / "list").write_bytes(data)

    with pytest.raises(SourceError, match=f"list: {form} data of only .* cut short"):
        ListFile.open(tmp_path / "list")


@pytest.mark.parametrize("data", [b"\xfd", b"\xfd7\n", b"7z", b"PK", b"BZh9", b"(", b"\xef\xbb"])
def test_a_short_list_may_begin_as_a_magic_does(tmp_path: Path, data: bytes) -> None:
    """ASCII is text, one byte is not enough to tell, and a line with an end is a line."""
    (tmp_path / "list").write_bytes(data)

    with ListFile.open(tmp_path / "list") as opened:
        assert read_all(opened) == data


# -- pipes and terminals ---------------------------------------------------------------------------


def test_a_pipe_returns_the_data_that_it_has(pipe: Pipe) -> None:
    """A program that writes one key and waits for the answer would wait forever otherwise."""
    pipe.write(b"ada\n")
    opened = pipe.open_list()

    assert read(opened) == b"ada\n"
    pipe.write(b"grace\n")
    assert read(opened) == b"grace\n"
    pipe.end()
    assert read(opened) == b""
    assert opened.total_bytes == 0


def test_the_data_in_a_pipe_becomes_one_text_block(pipe: Pipe) -> None:
    """A pipe returns at most 64 KiB at a time; a text block of 1 MiB is cheaper to work on."""
    writer = threading.Thread(target=lambda: (pipe.write(b"x" * 500_000), pipe.end()))
    writer.start()
    opened = pipe.open_list()

    blocks = list(iter(lambda: read(opened), b""))

    writer.join()
    assert b"".join(blocks) == b"x" * 500_000
    assert len(blocks) < 500_000 // 4096


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(gzip.compress(b"ada\n", mtime=0), id="gzip"),
        pytest.param(b"\xef\xbb\xbfada\n", id="byte-order-mark"),
        pytest.param(b"BZh9 is a password\n", id="text-like-bzip2"),
        pytest.param(b"P\n", id="one-letter-of-a-magic"),
    ],
)
def test_a_list_that_arrives_byte_by_byte_is_recognised(pipe: Pipe, data: bytes) -> None:
    """It is examined when its first bytes have arrived, and not before."""
    writer = threading.Thread(target=lambda: (pipe.write(data, pause=0.001), pipe.end()))
    writer.start()

    opened = pipe.open_list()
    text = read_all(opened)

    writer.join()
    assert text == (b"ada\n" if opened.compression else data)
    assert (opened.compression is not None) == data.startswith(b"\x1f\x8b")


def test_a_byte_order_mark_is_whole_in_the_first_read(pipe: Pipe) -> None:
    """The code that splits text into lines looks for it there."""
    writer = threading.Thread(target=pipe.write, args=(b"\xef\xbb\xbfada\n", 0.01))
    writer.start()

    first = read(pipe.open_list())

    writer.join()
    assert first.startswith(b"\xef\xbb\xbf")


def test_a_non_blocking_pipe_is_waited_for(pipe: Pipe) -> None:
    """Node and ssh make pipes non-blocking: no data yet is not the end of the list."""
    pipe.make_non_blocking()
    writer = threading.Thread(target=lambda: (pipe.write(b"ad\n", pause=0.02), pipe.end()))
    writer.start()

    text = read_all(pipe.open_list())

    writer.join()
    assert text == b"ad\n"


def test_a_terminal_ends_at_the_first_ctrl_d() -> None:
    """Although it would return more."""
    ours, theirs = pty.openpty()
    os.write(ours, b"ada\n\x04")
    opened = ListFile(io.FileIO(theirs, closefd=False), "terminal")

    assert read(opened) == b"ada\n"
    assert read(opened) == b""
    os.write(ours, b"grace\n")
    assert read(opened) == b""
    os.close(ours)
    os.close(theirs)


def test_standard_input_stays_open(tmp_path: Path) -> None:
    """It belongs to the process, and to its children."""
    (tmp_path / "list").write_bytes(b"ada\n")
    saved = os.dup(0)
    with (tmp_path / "list").open("rb") as file:
        os.dup2(file.fileno(), 0)
    try:
        with ListFile.open("-") as opened:
            assert (opened.name, read_all(opened)) == ("standard input", b"ada\n")
        os.fstat(0)
    finally:
        os.dup2(saved, 0)
        os.close(saved)


def test_a_closed_standard_input_is_an_error_that_names_it() -> None:
    """It is not taken as an empty list."""
    saved = os.dup(0)
    os.close(0)
    try:
        with pytest.raises(OSError, match="standard input") as caught:
            ListFile.open("-")
    finally:
        os.dup2(saved, 0)
        os.close(saved)

    assert caught.value.errno == errno.EBADF


# -- what is no list -------------------------------------------------------------------------------


def tar_of(text: bytes) -> bytes:
    """Return a tar archive with one file."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("list")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    return archive.getvalue()


def zip_of(text: bytes) -> bytes:
    """Return a zip archive with one file."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("list", text)
    return archive.getvalue()


def parquet_of(text: bytes) -> bytes:
    """Return a Parquet file with one column."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = io.BytesIO()
    pq.write_table(pa.table({"key": text.split()}), table)
    return table.getvalue()


def arrow_of(text: bytes) -> bytes:
    """Return an Arrow file with one column."""
    pa = pytest.importorskip("pyarrow")
    sink = io.BytesIO()
    table = pa.table({"key": text.split()})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write(table)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"7z\xbc\xaf\x27\x1c\0\4", "7-Zip data, .* 7z x -so FILE", id="7-zip"),
        pytest.param(zip_of, "zip data, .* unzip -p FILE", id="zip"),
        pytest.param(tar_of, "a tar archive, .* tar -xOf FILE", id="tar"),
        pytest.param(lambda t: gzip.compress(tar_of(t)), "a tar archive", id="tar-in-gzip"),
        pytest.param(lambda t: gzip.compress(zip_of(t)), "zip data", id="zip-in-gzip"),
        pytest.param(
            lambda t: gzip.compress(gzip.compress(t)),
            "gzip data within gzip data; decompress it once",
            id="gzip-in-gzip",
        ),
        pytest.param(b"Rar!\x1a\x07\1\0", "RAR data, .* unrar p -inul FILE", id="rar"),
        pytest.param(b"\x04\x22\x4d\x18\x64\x40", "LZ4 data, .* lz4cat FILE", id="lz4"),
        pytest.param(b"\x1f\x9d\x90", r"compress \(\.Z\) data, .* zcat FILE", id="compress"),
        pytest.param(b"LZIP\1\x0c", "lzip data, .* lzip -dc FILE", id="lzip"),
        pytest.param(
            lambda t: gzip.compress(parquet_of(t)),
            "Parquet data within gzip data; decompress it once",
            id="parquet-in-gzip",
        ),
        pytest.param(b"FEA1\0\0\0\0", "Feather version 1 data, .* export", id="feather-1"),
        pytest.param(b"SQLite format 3\0\x10\0", "SQLite data, .* export", id="sqlite"),
        pytest.param(b"%PDF-1.7\n%\xb5\xb5", "PDF data, .* export", id="pdf"),
        pytest.param(
            b"\x89MMB\r\n\x1a\n\1\0",
            "mmbloom filter data, .* does not contain its keys",
            id="filter",
        ),
    ],
)
def test_archives_and_tables_are_refused_with_what_to_do(
    tmp_path: Path, data: bytes | Callable[[bytes], bytes], says: str
) -> None:
    """Read as text, they would be a list of nonsense, and every password would look secure."""
    path = tmp_path / "keys.txt"
    path.write_bytes(data(TEXT) if callable(data) else data)

    with pytest.raises(SourceError, match=f"^{path}: {says}"):
        ListFile.open(path)


@pytest.mark.parametrize(
    ("data", "table"),
    [
        pytest.param(parquet_of, "Parquet", id="parquet"),
        pytest.param(arrow_of, "Arrow file", id="arrow-file"),
        pytest.param(b"\xff\xff\xff\xff\x78\0\0\0" + bytes(120), "Arrow stream", id="arrow-stream"),
    ],
)
def test_tables_are_recognised_by_content(
    tmp_path: Path, data: bytes | Callable[[bytes], bytes], table: str
) -> None:
    """They are returned as files, at their start, and closed with the list."""
    path = tmp_path / "keys.txt"
    compressed = data(TEXT) if callable(data) else data
    path.write_bytes(compressed)

    with ListFile.open(path) as opened:
        file = opened.open_table()
        assert (opened.table, opened.compression) == (table, None)
        assert file.read() == compressed
    assert file.closed


def test_a_table_in_a_pipe_is_refused(pipe: Pipe) -> None:
    """A table needs random access, which a pipe does not have."""
    pipe.write(arrow_of(TEXT[:100]))
    pipe.end()

    with pytest.raises(SourceError, match="pipe: Arrow file data needs random access"):
        pipe.open_list().open_table()


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("before", [0, 7], ids=["from-the-start", "from-within"])
@pytest.mark.parametrize("num_bytes", [0, 5, 20_000, len(TEXT) - 7])
def test_text_can_be_skipped(
    tmp_path: Path, pack: Callable[[bytes], bytes], before: int, num_bytes: int
) -> None:
    """A build that is resumed continues where it stopped."""
    (tmp_path / "list").write_bytes(pack(TEXT))

    with ListFile.open(tmp_path / "list") as opened:
        assert read(opened, before) == TEXT[:before]
        opened.skip(num_bytes)
        assert read_all(opened) == TEXT[before + num_bytes :]
        assert opened.done_bytes == opened.total_bytes


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_list_that_has_become_shorter_is_not_continued(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """The keys after the position do not exist any more."""
    (tmp_path / "list").write_bytes(pack(TEXT))

    with (
        ListFile.open(tmp_path / "list") as opened,
        pytest.raises(SourceError, match="list: ends 1 bytes before the position to continue from"),
    ):
        opened.skip(len(TEXT) + 1)


@pytest.mark.parametrize(
    "text",
    [
        b"PAR1S2024\n",
        b"LZIP\n",
        b"ARROW1\n",
        b"FEA1\n",
        b"\xff\xff\xff\xff\n",
        b"BZh9\nBZh\n",
        b"7z\n",
        b"PK\n",
        b"Rar!\n",
        b"(\xb5/\n",
        b"ustar",
        b"",
        b"\n",
        b"\xff",
    ],
)
def test_text_that_begins_like_another_format_is_text(tmp_path: Path, text: bytes) -> None:
    """A password can be anything."""
    (tmp_path / "list").write_bytes(text)

    with ListFile.open(tmp_path / "list") as opened:
        assert (opened.compression, read_all(opened)) == (None, text)
