"""``mmbloom build``: from lists to a sealed file."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
from typing import TYPE_CHECKING

import pytest
import zstandard

import mmbloom

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Run

BUILD = ("build", "names.txt", "-o", "new.mmb", "--fpr", "0.001")


def test_every_line_of_the_list_is_found_afterwards(run: Run, names: Path, folder: Path) -> None:
    """The main job: a list becomes a file that answers for each of its keys."""
    assert run(*BUILD).code == 0

    with mmbloom.open(folder / "new.mmb") as built:
        assert built.contains_many(names.read_bytes().split()).all()
        assert built.sealed


def test_the_summary_says_what_was_made(run: Run, names: Path) -> None:
    """What was read, what became of it, and what that took, each on a line of its own."""
    size = 2 * names.stat().st_size
    names.with_name("again.txt").write_bytes(names.read_bytes())
    out = run(*BUILD, "again.txt").out.decode()

    rows = {line.split("  ")[0]: line.split("  ")[-1] for line in out.splitlines()}
    assert list(rows) == ["file", "read", "keys", "layout", "fpr", "time", "memory"]
    assert rows["file"].startswith("new.mmb, 4.")
    assert rows["read"] == f"{size} bytes, 10 lines"
    assert rows["keys"] == "5 distinct, 5 repeated"
    assert "asked for 0.001" in rows["fpr"]
    assert re.search(r"hash \d.*sort \d.*assemble \d.*keys/s", rows["time"])
    assert rows["memory"].endswith("at most")


def test_json_has_the_facts_of_the_file_and_of_the_build(run: Run, names: Path) -> None:
    """One object: what info prints, what was read, and how long each phase took."""
    names.with_name("again.txt").write_bytes(names.read_bytes())
    result = json.loads(run(*BUILD, "again.txt", "--json").out)

    assert (result["keys_read"], result["keys_added"], result["capacity"]) == (10, 5, 5)
    assert (result["lines_read"], result["bytes_read"]) == (10, 2 * names.stat().st_size)
    assert (result["bad_lines"], result["is_exact"], result["spilled_bytes"]) == (0, True, 0)
    assert result["file_bytes"] == (names.parent / "new.mmb").stat().st_size
    assert result["peak_memory_bytes"] > 1 << 20
    assert list(result["seconds"]) == ["hash", "sort", "assemble"]


@pytest.mark.parametrize(
    ("policy", "complaints"),
    [("skip", ["names.txt, line 2: ", "names.txt, line 4: "]), ("count", [])],
)
def test_bad_lines_are_left_out_if_asked_for(
    run: Run, folder: Path, policy: str, complaints: list[str]
) -> None:
    """Counted in any case; the first of them are shown, unless they are only to be counted."""
    (folder / "names.txt").write_bytes(b"00\nxy\n01\nabc\n02\n")

    done = run(*BUILD, "--key-form", "hex", "--on-error", policy)

    assert done.code == 0
    left_out = [line for line in done.err.splitlines() if "left out" in line]
    assert len(left_out) == len(complaints)
    for line, start in zip(left_out, complaints, strict=True):
        assert line.startswith(f"mmbloom build: left out: {start}")
    assert "5 lines, 2 bad ones left out" in done.out.decode()
    with mmbloom.open("new.mmb") as built:
        assert built.keys_added == 3


def test_a_bad_line_ends_a_build_otherwise(run: Run, folder: Path) -> None:
    """It is named, and no file is left."""
    (folder / "names.txt").write_bytes(b"00\nxy\n")

    done = run(*BUILD, "--key-form", "hex")

    assert done.code == 2
    assert "names.txt, line 2" in done.err
    assert not (folder / "new.mmb").exists()


def test_quiet_prints_nothing(run: Run, names: Path) -> None:
    """For scripts that look at the exit code."""
    del names
    assert run(*BUILD, "-q") == (0, b"", "")


@pytest.mark.parametrize(
    "pack",
    [
        pytest.param(gzip.compress, id="gzip"),
        pytest.param(lzma.compress, id="xz"),
        pytest.param(zstandard.compress, id="zstd"),
        pytest.param(bz2.compress, id="bzip2"),
    ],
)
def test_compressed_lists_are_recognised_by_content(
    run: Run, names: Path, folder: Path, pack: Callable[[bytes], bytes]
) -> None:
    """The name says nothing: all of these are called names.txt."""
    keys = names.read_bytes()
    names.write_bytes(pack(keys))

    assert run(*BUILD).code == 0

    with mmbloom.open(folder / "new.mmb") as built:
        assert built.contains_many(keys.split()).all()


def test_lists_and_standard_input_go_into_one_filter(run: Run, names: Path, folder: Path) -> None:
    """Each is read in its turn; none needs an LF at its end."""
    names.write_bytes(b"ada")

    assert run("build", names, "-", "-o", "new.mmb", "--fpr", "1e-6", stdin=b"alan").code == 0

    with mmbloom.open(folder / "new.mmb") as built:
        assert built.contains_many(["ada", "alan", "adaalan"]).tolist() == [True, True, False]


def test_a_breach_list_needs_one_flag(run: Run, folder: Path) -> None:
    """HASH:count with CR LF: the key is the digest alone, its case does not matter."""
    (folder / "pwned.txt").write_bytes(b"AB" * 20 + b":12\r\n" + b"CD" * 20 + b":7\r\n")

    assert run("build", "pwned.txt", "--hibp", "-o", "pwned.mmb", "--fpr", "1e-6").code == 0

    with mmbloom.open(folder / "pwned.mmb") as built:
        assert built.key_form == "hex"
        assert built.contains_many(["ab" * 20, "Cd" * 20, "ef" * 20]).tolist() == [
            True,
            True,
            False,
        ]


def test_a_breach_list_without_its_flag_is_noted(run: Run, folder: Path) -> None:
    """Once a list, and not with -q: the filter is built as asked."""
    (folder / "names.txt").write_bytes(b"AB" * 20 + b":12\n" + b"CD" * 20 + b":7\n")
    note = "names.txt: the lines look like HASH:count; did you mean --hibp?\n"

    assert run(*BUILD).err == f"mmbloom build: note: {note}"
    assert run(*BUILD, "-q", "--force") == (0, b"", "")


@pytest.mark.parametrize(
    "options",
    [[], ["--delimiter", ","], ["--delimiter", ",", "--field", "3"]],
    ids=["whole-lines", "another-field", "third-field"],
)
def test_a_quote_that_is_no_start_of_a_field_is_text(
    run: Run, folder: Path, options: list[str]
) -> None:
    """A whole line may begin with one, and so may a field that is not asked for."""
    first = b'ada,"x",1\n' if options else b'"ada",x,1\n'
    (folder / "names.txt").write_bytes(first)

    assert run(*BUILD, *options).code == 0


def test_a_byte_order_mark_is_no_part_of_the_first_key(run: Run, folder: Path) -> None:
    """Editors hide it, so whoever asks for the first key would get a false "no"."""
    (folder / "names.txt").write_bytes(b"\xef\xbb\xbfada\ngrace\n")

    assert run(*BUILD).code == 0

    assert run("check", "new.mmb", "ada").out == b"ada\n"


@pytest.mark.parametrize(
    ("options", "fact", "value"),
    [
        (["--capacity", "1e4"], "capacity", 10_000),
        (["--capacity", "1_000"], "capacity", 1000),
        (["--layout", "classic"], "layout", "classic"),
        (["--seed", "7"], "seed", 7),
        (["--key-form", "raw"], "key_form", "raw"),
        (["--meta", "source=crawl"], "metadata", {"source": "crawl"}),
        (["--meta", "n=3", "--meta", 'd={"x": [1]}'], "metadata", {"n": 3, "d": {"x": [1]}}),
        (["--meta", "version=2026-11"], "metadata", {"version": "2026-11"}),
        (["--meta", "formula=a=b"], "metadata", {"formula": "a=b"}),
        (["--meta", f"deep={'[' * 1500}"], "metadata", {"deep": "[" * 1500}),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("names")
def test_each_option_is_stored_in_the_file(
    run: Run, options: list[str], fact: str, value: object
) -> None:
    """No option is without effect."""
    assert run(*BUILD, *options).code == 0

    with mmbloom.open("new.mmb") as built:
        assert built.info()[fact] == value


@pytest.mark.parametrize(
    "options",
    [
        ["--memory", "64M", "--jobs", "1"],
        ["--memory", "1G", "--jobs", "3"],
        ["--spill-folder", "elsewhere"],
        ["--resume"],
        ["--resume", "--spill-folder", "elsewhere"],
        ["--capacity", "5", "--exact"],
    ],
    ids=" ".join,
)
def test_resources_do_not_show_in_the_file(
    run: Run, names: Path, folder: Path, options: list[str]
) -> None:
    """The same bytes with any of them, and nothing beside the file."""
    del names
    (folder / "elsewhere").mkdir()
    run(*BUILD)

    assert run("build", "names.txt", "-o", "same.mmb", "--fpr", "0.001", *options).code == 0

    with mmbloom.open("new.mmb") as one, mmbloom.open("same.mmb") as two:
        assert one == two
        assert one.uuid == two.uuid
    assert list((folder / "elsewhere").iterdir()) == []
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--memory", "1M"], "at least 33554432 bytes"),
        (["--memory", "32M", "--jobs", "8"], "fewer jobs"),
        (["--jobs", "0"], "1 to 256"),
        (["--spill-folder", "nowhere", "--resume"], "nowhere"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("names")
def test_resources_that_will_not_do_are_refused(
    run: Run, folder: Path, options: list[str], words: str
) -> None:
    """In one line that says what would do; no file is left."""
    done = run(*BUILD, *options)

    assert done.code in {1, 2}
    assert words in done.err
    assert not (folder / "new.mmb").exists()


def test_a_build_from_standard_input_cannot_be_resumed(run: Run) -> None:
    """It cannot be read again."""
    done = run("build", "-", "-o", "new.mmb", "--fpr", "0.001", "--resume", stdin=b"ada\n")

    assert done.code != 0
    assert "pipe" in done.err


def test_force_replaces_the_file(run: Run, names: Path, folder: Path) -> None:
    """Only when asked; the old file stays whole until the new one is."""
    del names
    (folder / "new.mmb").write_bytes(b"precious")

    assert run(*BUILD, "--force").code == 0

    with mmbloom.open(folder / "new.mmb") as built:
        assert "ada" in built


def test_the_same_list_gives_the_same_bytes(
    run: Run, names: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C10: order, repetitions and line ends leave no trace; SOURCE_DATE_EPOCH sets the date."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    lines = names.read_bytes().split()
    (folder / "shuffled.txt").write_bytes(b"\r\n".join([*reversed(lines), *lines]))

    assert run(*BUILD).code == 0
    assert run("build", "shuffled.txt", "-o", "same.mmb", "--fpr", "0.001").code == 0

    assert (folder / "new.mmb").read_bytes() == (folder / "same.mmb").read_bytes()
