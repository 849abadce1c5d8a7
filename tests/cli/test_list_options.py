"""The options that say what a list is, through ``mmbloom build`` and ``mmbloom check``."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

import mmbloom

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

NEW = ("-o", "new.mmb", "--fpr", "1e-9")
KEYS = [b"ada", b"grace", b"hedy"]


@pytest.fixture
def lists(folder: Path) -> Path:
    """Return a folder with the same keys in lists of many forms."""
    texts = {
        "plain.txt": "# names\nada\n\ngrace\nhedy\n",
        "names.csv": 'id,"name"\n1,ada\n2,"grace"\n3,hedy\n',
        "names.tsv": "ada\t1\ngrace\t2\nhedy\t3\n",
        "names.jsonl": '{"name": "ada"}\n{"name": "grace"}\n{"name": "hedy"}\n',
        "part-2.txt": "grace\nhedy\n",
        "part-1.txt": "ada\n",
        "dirty.txt": "ada\n\ngrace\nhedy\n\n",
        "dirty.csv": "name,n\nada,1\nalan\ngrace,2\nhedy,3\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "names.csv.gz").write_bytes(gzip.compress(texts["names.csv"].encode()))
    return folder


@pytest.mark.parametrize(
    "argv",
    [
        ["plain.txt", "--comment", "#"],
        ["names.csv.gz", "--column", "name"],
        ["names.csv", "--column", "2", "--header"],
        ["names.tsv", "--column", "1"],
        ["names.jsonl", "--column", "name"],
        ["names.txt", "--format", "csv", "--column", "name"],
        ["part-*.txt"],
        ["dirty.txt", "--blank", "bad", "--on-error", "skip"],
        ["dirty.csv", "--column", "name", "--on-error", "count"],
    ],
    ids=" ".join,
)
def test_each_form_of_list_gives_the_same_filter(run: Run, lists: Path, argv: list[str]) -> None:
    """Nothing more, nothing less than its keys."""
    (lists / "names.txt").write_bytes((lists / "names.csv").read_bytes())

    assert run("build", *argv, *NEW, "-q") == (0, b"", "")

    with mmbloom.open("new.mmb") as built:
        assert built.keys_added == len(KEYS)
        assert built.contains_many(KEYS).all()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["names.csv", "--column", "nam"], "names.csv: no column named 'nam'; there are: id, name"),
        (["plain.txt", "--column", "name"], "--column: expected a format with it"),
        (["names.csv", "--format", "xml"], "--format: expected one of text, csv"),
        (["names.csv", "--column", "name", "--no-header"], "--header: expected True"),
        (["plain.txt", "--comment", "##"], "--comment: expected one ASCII character"),
        (["plain.txt", "--blank", "bad"], "plain.txt, line 3: an empty line"),
        (["dirty.csv", "--column", "name"], "dirty.csv, line 3: expected 2 fields, found 1"),
        (["x-*.txt"], "x-*.txt: no file matches this pattern"),
        (["part-1.txt", "part-*.txt"], "part-1.txt: the list is given twice; leave one out"),
    ],
)
def test_what_does_not_fit_is_named_as_it_was_typed(
    run: Run, lists: Path, argv: list[str], says: str
) -> None:
    """By the option, or by the list and its line; no file is left."""
    outcome = run("build", *argv, *NEW)

    assert outcome.code == 2
    assert outcome.err.startswith(f"mmbloom build: error: {says}")
    assert not (lists / "new.mmb").exists()


@pytest.mark.parametrize(
    ("argv", "out"),
    [
        (["plain.txt", "--comment", "#"], b"ada\nhedy\n"),
        (["names.tsv", "--delimiter", "\\t"], b"ada\t1\nhedy\t3\n"),
        (["names.tsv", "--column", "1"], b"ada\nhedy\n"),
        (["names.csv.gz", "--column", "name"], b"ada\nhedy\n"),
        (["names.jsonl", "--column", "name"], b"ada\nhedy\n"),
    ],
)
def test_check_prints_lines_whole_and_of_records_the_key(
    run: Run, lists: Path, argv: list[str], out: bytes
) -> None:
    """What goes in comes out."""
    mmbloom.build(lists / "few.mmb", ["ada", "hedy"], fpr=1e-9).close()

    assert run("check", "few.mmb", "--list", *argv) == (0, out, "")


@pytest.mark.usefixtures("lists")
def test_a_key_that_is_typed_goes_with_no_option_for_lists(run: Run) -> None:
    """It would be without effect."""
    assert run("build", "plain.txt", *NEW, "-q").code == 0
    for option in (["--comment", "#"], ["--blank", "key"], ["--column", "1"], ["--header"]):
        assert (
            "leave out the options that are for lists"
            in run("check", "new.mmb", "ada", *option).err
        )


def test_a_digest_is_never_empty(run: Run, lists: Path) -> None:
    """A line without one is a bad line, for every command that reads lists of digests."""
    (lists / "digests.txt").write_bytes(b"AB:1\n:3\n")
    says = "error: digests.txt, line 2: an empty digest"

    assert run("build", "digests.txt", "--hibp", *NEW).err.startswith(f"mmbloom build: {says}")
    left_out = run("build", "digests.txt", "--hibp", *NEW, "--on-error", "skip", "--json")
    assert left_out.code == 0
    assert json.loads(left_out.out)["bad_lines"] == 1
    checked = run("check", "new.mmb", "--hibp", "--list", "digests.txt")
    assert checked.code == 2
    assert checked.err.startswith(f"mmbloom check: {says}")


def test_range_files_are_noted_where_they_are_not_whole(run: Run, lists: Path) -> None:
    """The digests of a range that is not there are "definitely not" in, which may be false."""
    (lists / "ranges").mkdir()
    (lists / "ranges" / "0018A.txt").write_bytes(b"AB" * 17 + b"C:1\r\n" + b"CD" * 17 + b"E:3\r\n")

    outcome = run("build", "ranges", "--hibp", *NEW)

    assert outcome.code == 0
    assert outcome.err.startswith("mmbloom build: note: ranges: 1 of 1048576 ranges; digests in ")
    with mmbloom.open("new.mmb") as built:
        assert "0018a" + "ab" * 17 + "c" in built
