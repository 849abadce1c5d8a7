"""List readers, of one list and of several: formats, positions and signatures."""

from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from key_lists import keys_of, read_in_two

import mmbloom
from mmbloom.keys import lines
from mmbloom.sources import list_reader as sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mmbloom.sources.source import KeyBlock, Source


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with lists, as the current folder."""
    (tmp_path / "a.txt").write_bytes(b"ada\nalan\n")
    (tmp_path / "b.txt").write_bytes(b"barbara")
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"\nclaude\n"))
    (tmp_path / "empty.txt").write_bytes(b"\n\r\n")
    (tmp_path / "ranges").mkdir()
    (tmp_path / "ranges" / "00000").write_bytes(b"A:1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- lines of text ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, [b"#c", b"a:1", b" #", b"b"]),
        ({"comment": "#"}, [b"a:1", b" #", b"b"]),
        ({"comment": "a"}, [b"#c", b" #", b"b"]),
        ({"blank": "key"}, [b"#c", b"a:1", b"", b"\r", b" #", b"b"]),
        ({"blank": "key", "comment": "#"}, [b"a:1", b"", b"\r", b" #", b"b"]),
    ],
)
def test_options_say_what_to_do_with_comments_and_empty_lines(
    folder: Path, options: dict[str, Any], keys: list[bytes]
) -> None:
    """A comment begins a line; an empty line may have a CR."""
    (folder / "list").write_bytes(b"#c\na:1\n\n\r\n #\nb")
    blooms = [mmbloom.BloomFilter.in_memory(capacity=99, fpr=1e-9) for _ in range(2)]

    with mmbloom.read_list("list", **options) as found:
        assert keys_of(found) == keys
        assert (found.lines_read, found.text_bytes) == (6, 14)
    with mmbloom.read_list("list", **options) as found:
        blooms[0].update(found)
    blooms[1].update([key.removesuffix(b"\r") for key in keys])
    assert blooms[0] == blooms[1]


def test_an_empty_line_can_be_a_bad_line(folder: Path) -> None:
    """The error has its number; a build may leave it out."""
    (folder / "list").write_bytes(b"a\n\nb\n")

    with (
        mmbloom.read_list("list", blank="bad") as found,
        pytest.raises(mmbloom.SourceError, match=r"^list, line 2: an empty line"),
    ):
        mmbloom.build("f.mmb", found, fpr=0.01)
    with mmbloom.read_list("list", blank="bad", on_error="skip") as found:
        built = mmbloom.build("f.mmb", found, fpr=0.01)
    with built:
        assert built.keys_added == 2
    assert (found.bad.num_bad, found.bad.first) == (1, ["list, line 2: an empty line"])


@pytest.mark.parametrize(
    ("text", "options", "bad"),
    [
        pytest.param(b"AB:1\n:3\r\n\nCD:2\n", {}, [2], id="first-field"),
        pytest.param(b":3\nAB:1\nCD:2\n:\n:", {}, [1, 4, 5], id="first-and-last-line"),
        pytest.param(b"AB:1\n\nCD:2\n", {"blank": "key"}, [2], id="empty-line"),
        pytest.param(b"AB:1\n:3\nCD:2\n", {"comment": ":"}, [], id="comment"),
        pytest.param(b"1:AB\n2:\n3::4\n5:CD:\n", {"field": 2}, [2, 3], id="second-field"),
    ],
)
def test_an_empty_digest_is_a_bad_line(
    folder: Path, text: bytes, options: dict[str, Any], bad: list[int]
) -> None:
    """Only of a list of digests, and the lines keep their numbers."""
    (folder / "list").write_bytes(text)
    options = {"delimiter": ":", "digests": True} | options

    with mmbloom.read_list("list", **options, on_error="skip") as found:
        built = mmbloom.build("f.mmb", found, fpr=0.01, key_form="hex")
    with built:
        assert built.keys_added == 2
    assert found.bad.first == [f"list, line {line}: an empty digest" for line in bad]
    assert found.bad.num_bad == len(bad)
    if bad:
        message = rf"^list, line {bad[0]}: an empty digest"
        with (
            mmbloom.read_list("list", **options) as found,
            pytest.raises(mmbloom.SourceError, match=message),
        ):
            mmbloom.build("g.mmb", found, fpr=0.01, key_form="hex")


# -- what a list is read as ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"format": "xml"},
            "format: expected one of text, csv, tsv, jsonl, parquet, arrow, ranges",
        ),
        ({"column": 0}, "column: expected a name, or a number from 1, found 0"),
        ({"column": True}, "column: expected a name, or a number from 1, found True"),
        ({"column": "a", "format": "text"}, "column: expected no value for the format text"),
        ({"column": "a"}, "column: expected a format with it"),
        ({"column": "a", "format": "csv", "header": False}, "header: expected True if"),
        (
            {"field": 2, "delimiter": ",", "format": "csv"},
            "field: expected no value for the format csv",
        ),
        ({"blank": "bad", "format": "csv"}, "blank: expected no value for the format csv"),
        ({"delimiter": ",", "format": "tsv"}, "delimiter: expected no value for the format tsv"),
        ({"header": True}, "header: expected no value for the format text"),
        (
            {"comment": "#", "column": "a", "format": "jsonl"},
            "comment: expected no value for the format",
        ),
        ({"comment": "##"}, "comment: expected one ASCII character"),
        ({"comment": "##", "format": "csv"}, "comment: expected one ASCII character"),
        ({"blank": "no"}, "blank: expected 'skip', 'key' or 'bad'"),
        ({"on_error": "no"}, "on_error: expected 'raise', 'skip' or 'count'"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_options_that_do_not_go_together_are_refused_by_name(
    options: dict[str, Any], says: str
) -> None:
    """An option without effect would mean a list that is not read as asked for."""
    with pytest.raises(mmbloom.ParameterError, match=says):
        mmbloom.read_list("a.txt", **options)


@pytest.mark.parametrize(
    ("name", "options", "error", "says"),
    [
        (
            "ranges",
            {"comment": "#"},
            mmbloom.ParameterError,
            "comment: expected no value for the format",
        ),
        ("ranges", {"format": "text"}, IsADirectoryError, "ranges"),
        (
            "a.txt",
            {"format": "ranges"},
            mmbloom.SourceError,
            "a.txt: is a file; the format ranges needs",
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_folder_can_only_have_the_format_ranges(
    name: str, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    """And that format needs a folder."""
    with pytest.raises(error, match=says):
        mmbloom.read_list(name, **options)


@pytest.mark.usefixtures("folder")
def test_hash_count_is_split_at_the_colon_in_folders_too() -> None:
    """The option for breach lists is accepted for folders of range files."""
    with mmbloom.read_list("ranges", delimiter=":") as found:
        assert keys_of(found) == [b"00000A:1"]


# -- many ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
def test_many_lists_are_read_as_one() -> None:
    """Each has its own format; counts include all lists."""
    paths = ["b.txt", "a*.txt", "c.gz"]

    with mmbloom.read_lists(paths) as found:
        assert found.total_bytes == sum(map(os.path.getsize, ["b.txt", "a.txt", "c.gz"]))
        assert found.name == "b.txt"
        assert keys_of(found) == [b"barbara", b"ada", b"alan", b"claude"]
        assert found.done_bytes == found.total_bytes
        assert (found.lines_read, found.text_bytes, found.name) == (5, 24, "c.gz")
    with mmbloom.read_lists(["a.txt", "ranges"]) as found:
        assert found.total_bytes == 0  # the size of folders is not known before
        assert keys_of(found) == [b"ada", b"alan", b"00000A:1"]


@pytest.mark.usefixtures("folder")
def test_one_file_is_open_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand lists do not need a thousand descriptors."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 4)
    before = len(os.listdir("/proc/self/fd"))

    with mmbloom.read_lists(["a.txt", "b.txt", "c.gz"]) as found:
        for _ in found:
            assert len(os.listdir("/proc/self/fd")) == before + 1
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.usefixtures("folder")
def test_one_of_many_lists_must_not_be_empty() -> None:
    """It is probably the wrong file, or an interrupted download. A single list may be empty."""
    says = "empty.txt: no keys: the list is empty, or has only empty lines"
    for paths in (["empty.txt"], ["a.txt", "empty.txt", "b.txt"]):
        with mmbloom.read_lists(paths) as found, pytest.raises(mmbloom.SourceError, match=says):
            keys_of(found)
    with (
        mmbloom.read_lists(["a.txt"], comment="a") as found,
        pytest.raises(mmbloom.SourceError, match="or has only empty lines and comments"),
    ):
        keys_of(found)
    with mmbloom.read_list("empty.txt") as found:
        assert keys_of(found) == []
    with mmbloom.read_lists(["empty.txt"], blank="key") as found:
        assert len(keys_of(found)) == 2


def test_an_unreadable_list_is_an_error_before_the_first_key(folder: Path) -> None:
    """Not after hours of reading the lists before it."""
    (folder / "d.txt").write_bytes(b"7z\xbc\xaf\x27\x1c")

    with pytest.raises(mmbloom.SourceError, match=r"d.txt: 7-Zip data"):
        mmbloom.read_lists(["a.txt", "d.txt"])
    with pytest.raises(FileNotFoundError):
        mmbloom.read_lists(["a.txt", "gone.txt"])
    with pytest.raises(mmbloom.ParameterError, match="paths: expected several paths"):
        mmbloom.read_lists("a.txt")  # type: ignore[arg-type]


def test_a_quoted_key_is_refused_among_many_lists(folder: Path) -> None:
    """Nobody asks for a key with quotes. Whole lines and other fields may begin with a quote."""
    (folder / "q.txt").write_bytes(b'\n1,"ada"\n2,"grace"\n')

    with (
        mmbloom.read_lists(["q.txt"], delimiter=",", field=2) as found,
        pytest.raises(mmbloom.SourceError, match=r"q.txt, line 2: the key begins with a double"),
    ):
        keys_of(found)
    for options in ({}, {"delimiter": ","}, {"delimiter": ",", "field": 3}):
        with mmbloom.read_lists(["q.txt"], **options) as found:  # type: ignore[arg-type]
            next(iter(found))
    with mmbloom.read_lists(["q.txt"], format="csv", column=2) as found:
        assert keys_of(found) == [b"ada", b"grace"]


@pytest.mark.usefixtures("folder")
def test_the_first_batch_of_each_list_can_be_examined() -> None:
    """To warn about what looks wrong."""
    seen = []

    def look(source: Source, block: KeyBlock) -> None:
        seen.append((source.name, source.sample(block), source.note[:24]))

    with sources.open_lists(["a.txt", "ranges"], {}, watch=look) as found:
        keys_of(found)

    assert seen == [
        ("a.txt", b"ada\nalan\n", ""),
        ("ranges", b"00000A:1\n", "ranges: 1 of 1048576 ran"),
    ]


# -- going on --------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_blocks", range(7))
def test_lists_are_continued_from_a_position(
    folder: Path, monkeypatch: pytest.MonkeyPatch, num_blocks: int
) -> None:
    """In any list, at its start, in the middle and at its end. The position is JSON."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 16)
    (folder / "d.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + b"dennis\n" * 9))
    paths = ["a.txt", "c.gz", "d.gz", "b.txt"]
    with mmbloom.read_lists(paths) as whole:
        expected = keys_of(whole)

    with mmbloom.read_lists(paths) as first, mmbloom.read_lists(paths) as second:
        assert first.signature() == second.signature()
        found = read_in_two(first, second, num_blocks)
        assert json.loads(json.dumps(first.position)) == first.position
        assert found == expected
        for name in ("lines_read", "text_bytes", "done_bytes", "position"):
            assert getattr(second, name) == getattr(whole, name), name


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda: os.utime("a.txt", ns=(1, 1)), id="date"),
        pytest.param(lambda: os.truncate("a.txt", 3), id="size"),
        pytest.param(lambda: os.utime("ranges/00000", ns=(1, 1)), id="range-file"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_the_signature_changes_with_the_files(change: Callable[[], None]) -> None:
    """An interrupted build is not continued with another list."""
    before = _signature("a.txt", "ranges")
    assert json.loads(json.dumps(before)) == before

    change()

    assert _signature("a.txt", "ranges") != before


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": ":"},
        {"delimiter": ":", "field": 2},
        {"comment": "#"},
        {"blank": "key"},
        {"format": "csv"},
        {"format": "csv", "column": 1},
        {"format": "csv", "column": "ada"},
        {"format": "csv", "column": 1, "header": True},
        {"on_error": "skip"},
    ],
)
@pytest.mark.usefixtures("folder")
def test_the_signature_changes_with_the_options(options: dict[str, Any]) -> None:
    """Other options give other keys."""
    assert _signature("a.txt", **options) != _signature("a.txt")


@pytest.mark.parametrize("path", ["-", "/dev/null"])
def test_a_list_that_cannot_be_read_again_has_no_signature(path: str) -> None:
    """A pipe can be read only once."""
    with (
        mmbloom.read_list(path) as found,
        pytest.raises(mmbloom.ParameterError, match="files: a build from a pipe"),
    ):
        found.signature()


def _signature(*paths: str, **options: Any) -> list[Any]:  # noqa: ANN401 - any option
    with mmbloom.read_lists(paths, **options) as found:
        return found.signature()
