"""Wrong input: what, where, expected, found, what to do; exit code 2, and nothing left behind."""

from __future__ import annotations

import errno
import gzip
import os
from typing import TYPE_CHECKING

import pytest

import mmbloom

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

FPR = ("--fpr", "0.01")
NEW = ("-o", "new.mmb", *FPR)


@pytest.fixture
def files(folder: Path, names: Path, names_filter: Path) -> Path:
    """Return a folder of things that are and are not what a command wants."""
    del names, names_filter
    contents = {
        "empty.txt": b"",
        "blank.txt": b"\n\r\n\n",
        "binary": b"\x7fELF\0\0",
        "utf16.txt": "\ufeffada\n".encode("utf-16-le"),
        "hashes.txt": b"AB" * 20 + b":12\n",
        "oddly.txt": b"ABC\n",
        "cut.gz": gzip.compress(b"ada\n" * 1000)[:-9],
        "cut.xz": b"\xfd7z",
        "quoted.csv": b'\r\n1,"ada"\n2,"grace"\n',
        "text.mmb": b"no filter\n" * 500,
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    (folder / "folder").mkdir()
    with mmbloom.build(folder / "other.mmb", ["ada"], fpr=0.01, seed=1) as other:
        other.save(folder / "copy.mmb")
    mmbloom.build(folder / "hex.mmb", ["ab"], fpr=0.01, key_form="hex").close()
    mmbloom.build(folder / "full1.mmb", map(str, range(99)), fpr=0.01).close()
    mmbloom.build(folder / "full2.mmb", map(str, range(99, 198)), fpr=0.01).close()
    return folder


def case(name: str, *argv: str, says: str) -> object:
    """Return a case: a command line, and what its error message must hold."""
    return pytest.param(argv, says, id=name)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        case("no-command", says="mmbloom: error: the following arguments are required: COMMAND"),
        case("unknown-command", "bild", says="mmbloom: error: COMMAND: invalid choice: 'bild'"),
        case("help-is-named", "build", says="See 'mmbloom build --help'."),
        case("unknown-option", "info", "names.mmb", "--bogus", says="unrecognized arguments: --b"),
        case("abbreviation", "build", "names.txt", *NEW, "--cap", "9", says="unrecognized"),
        # -- lists ---------------------------------------------------------------------------------
        case("no-list", "build", *NEW, says="required: LIST"),
        case("missing-list", "build", "gone.txt", *NEW, says="gone.txt: No such file"),
        case("nameless-list", "build", "", *NEW, says="error: '': No such file"),
        case("directory-as-list", "build", "folder", *NEW, says="folder: the folder is empty"),
        case("empty-list", "build", "empty.txt", *NEW, says="empty.txt: no keys"),
        case("blank-list", "build", "names.txt", "blank.txt", *NEW, says="blank.txt: no keys"),
        case("nothing-on-stdin", "build", "-", *NEW, says="standard input: no keys"),
        case("null-device", "build", "/dev/null", *NEW, says="/dev/null: no keys"),
        case("stdin-twice", "build", "-", "-", *NEW, says="standard input can be read only once"),
        case("binary-list", "build", "binary", *NEW, says="binary: binary: a NUL byte at offset 4"),
        case("utf-16-list", "build", "utf16.txt", *NEW, says="utf16.txt: UTF-16 text: convert it"),
        case("filter-as-list", "build", "names.mmb", *NEW, says="names.mmb: mmbloom filter data"),
        case("cut-list", "build", "cut.gz", *NEW, says="cut.gz: the gzip data ends within"),
        case("cut-list-checked", "check", "names.mmb", "--list", "cut.gz", says="cut.gz: the gzip"),
        case("cut-to-3-bytes", "build", "cut.xz", *NEW, says="cut.xz: xz data of only 3 bytes"),
        case("missing-checked", "check", "names.mmb", "--list", "gone", says="gone: No such file"),
        # -- what to write -------------------------------------------------------------------------
        case("existing", "build", "names.txt", "-o", "names.mmb", *FPR, says="or add --force"),
        case("nameless", "build", "names.txt", "-o", "", *FPR, says="error: '': No such file"),
        case("is-directory", "build", "names.txt", "-o", "folder", *FPR, says="folder: is a dir"),
        case("no-folder", "build", "names.txt", "-o", "no/new.mmb", *FPR, says="no: the folder do"),
        case("stdout", "build", "names.txt", "-o", "-", *FPR, says="cannot be written to standard"),
        case("merge-stdout", "merge", "names.mmb", "-o", "-", says="cannot be written to standard"),
        case(
            *("own-list", "build", "names.txt", "-o", "./names.txt", *FPR, "--force"),
            says="./names.txt: one of the lists",
        ),
        case(
            *("device", "build", "names.txt", "-o", "/dev/null", *FPR, "--force"),
            says="/dev/null: is no regular file",
        ),
        # -- numbers -------------------------------------------------------------------------------
        *(
            case(f"fpr-{p}", "build", "names.txt", "-o", "new.mmb", "--fpr", p, says=says)
            for p, says in {
                "5": "--fpr: expected 0 < fpr < 1, and at least 1e-12, found 5.0 (did you mean 0.0",
                "0": "--fpr: expected 0 < fpr < 1",
                "1": "--fpr: expected 0 < fpr < 1",
                "-0.5": "--fpr: expected 0 < fpr < 1",
                "nan": "--fpr: expected 0 < fpr < 1",
                "1e-80": "--fpr: expected 0 < fpr < 1, and at least 1e-12",
                "low": "--fpr: expected a number such as 0.001, found 'low'",
                "1%": "--fpr: expected a number such as 0.001, found '1%' (did you mean 0.01?)",
            }.items()
        ),
        *(
            case(f"capacity-{n}", "build", "names.txt", *NEW, "--capacity", n, says=says)
            for n, says in {
                "0": "--capacity: expected 1 to 2**48 keys, found 0",
                "-5": "--capacity: expected 1 to 2**48 keys, found -5",
                "1e30": "--capacity: expected 1 to 2**48 keys, found 1000000000000000",
                "1.5": "--capacity: expected a whole number, for instance 1000000 or 1e6",
                "inf": "--capacity: expected a whole number",
                "many": "--capacity: expected a whole number",
                "4": "5 distinct keys in the list, and --capacity is 4: raise it, or leave it out",
            }.items()
        ),
        case("plan-keys", "plan", "--keys", "0", *FPR, says="--keys: expected 1 to 2**48 keys"),
        case("plan-fpr", "plan", "--keys", "9", "--fpr", "2", says="--fpr: expected 0 < fpr < 1"),
        case("demo-keys", "demo", "--keys", "0", says="--keys: expected 1 or more, found 0"),
        case("seed", "build", "names.txt", *NEW, "--seed", "-1", says="--seed: expected 0 to"),
        case(
            "layout",
            "build",
            "names.txt",
            *NEW,
            "--layout",
            "x",
            says="--layout: expected 'auto' or",
        ),
        case("key-form", "build", "names.txt", *NEW, "--key-form", "x", says="--key-form: expec"),
        case("no-equals", "build", "names.txt", *NEW, "--meta", "x", says="--meta: expected NAME"),
        case(
            *("meta-twice", "build", "names.txt", *NEW, "--meta", "a=1", "--meta", "a=2"),
            says="--meta: 'a' is given twice",
        ),
        case(
            *("meta-too-long", "build", "names.txt", *NEW, "--meta", f"a={'x' * 3000}"),
            says="--meta: expected at most 2048 bytes",
        ),
        # -- the shape of lines --------------------------------------------------------------------
        case("delimiter", "build", "names.txt", *NEW, "--delimiter", "ab", says="--delimiter: exp"),
        case(
            "lone-field", "build", "names.txt", *NEW, "--field", "2", says="--field: expected a d"
        ),
        case(
            *("field-0", "build", "names.txt", *NEW, "--delimiter", ":", "--field", "0"),
            says="--field: expected 1 to 1073741824, found 0",
        ),
        case(
            *("no-such-field", "build", "hashes.txt", *NEW, "--delimiter", ":", "--field", "3"),
            says="hashes.txt, line 1: ",
        ),
        case(
            *("quoted", "build", "quoted.csv", *NEW, "--delimiter", ",", "--field", "2"),
            says="quoted.csv, line 2: the key begins with a double quote",
        ),
        case(
            *("hibp-delimiter", "build", "hashes.txt", *NEW, "--hibp", "--delimiter", ":"),
            says="--hibp already implies --delimiter",
        ),
        case(
            *("hibp-key-form", "build", "hashes.txt", *NEW, "--hibp", "--key-form", "raw"),
            says="--hibp already implies --key-form",
        ),
        case(
            *("hash-count-as-hex", "build", "hashes.txt", *NEW, "--key-form", "hex"),
            says="hashes.txt, line 1: key form hex: ",
        ),
        case(
            *("hash-count-as-hex-hint", "build", "hashes.txt", *NEW, "--key-form", "hex"),
            says="If the lines are HASH:count, add --hibp",
        ),
        case(
            "odd-digits", "build", "oddly.txt", *NEW, "--hibp", says="oddly.txt, line 1: key form"
        ),
        case(
            *("hash-count-checked", "check", "hex.mmb", "--list", "hashes.txt"),
            says="If the lines are HASH:count, add --hibp",
        ),
        case(
            "hibp-on-raw", "check", "names.mmb", "--hibp", says="names.mmb: --hibp needs a filter"
        ),
        case("text-on-hex", "check", "hex.mmb", "hunter2", says="'hunter2': key form hex: "),
        case("key-and-field", "check", "names.mmb", "ada", "--field", "2", says="leave out"),
        case("empty-key", "check", "names.mmb", "", says="KEY is empty: is a variable of the sh"),
        case("empty-key-of-two", "check", "names.mmb", "ada", "", says="KEY is empty"),
        case("key-and-list", "check", "names.mmb", "ada", "--list", "names.txt", says="leave out"),
        # -- filters -------------------------------------------------------------------------------
        case("no-filter", "check", says="required: FILE"),
        case("missing-filter", "check", "gone.mmb", "ada", says="gone.mmb: No such file"),
        case("directory-as-filter", "info", "folder", says="folder: is a directory"),
        case("text-as-filter", "info", "text.mmb", says="text.mmb: magic at offset 0"),
        case("list-as-filter", "check", "names.txt", "ada", says="It is not an mmbloom filter"),
        case("verify-missing", "verify", "gone.mmb", says="gone.mmb: No such file"),
        # -- merge ---------------------------------------------------------------------------------
        case("merge-exists", "merge", "names.mmb", "-o", "other.mmb", says="or add --force"),
        case("merge-missing", "merge", "gone.mmb", "-o", "new.mmb", says="gone.mmb: No such file"),
        case(
            *("merge-unlike", "merge", "names.mmb", "other.mmb", "-o", "new.mmb"),
            says="the files differ in ",
        ),
        case(
            *("merge-overfull", "merge", "full1.mmb", "full2.mmb", "-o", "new.mmb"),
            says="or add --overfill",
        ),
        # -- demo ----------------------------------------------------------------------------------
        case("demo-in-a-file", "demo", "--keys", "9", "--keep", "names.txt", says="names.txt: "),
    ],
)
def test_wrong_input_is_refused_and_named(
    run: Run, files: Path, argv: tuple[str, ...], says: str
) -> None:
    """Exit code 2, one message on standard error, no result, no new file, no changed file."""
    before = {path: path.read_bytes() for path in files.iterdir() if path.is_file()}

    outcome = run(*argv)

    assert outcome.code == 2
    assert outcome.out == b""
    assert says in outcome.err
    assert outcome.err.startswith(f"mmbloom {argv[0]}: error: " if len(argv) > 1 else "mmbloom")
    assert {path: path.read_bytes() for path in files.iterdir() if path.is_file()} == before


def test_the_list_on_standard_input_is_not_replaced_by_its_filter(run: Run, files: Path) -> None:
    """``build - -o names.txt --force < names.txt``: the shell's arrow does not hide the slip."""
    target = files / "descriptor 0"  # what run() puts there

    outcome = run("build", "-", "-o", target, *FPR, "--force", stdin=b"ada\n")

    assert outcome.code == 2
    assert "one of the lists" in outcome.err


def test_a_demo_keeps_what_is_already_in_its_folder(run: Run, files: Path) -> None:
    """--keep writes beside files of the same name, never over them."""
    (files / "folder" / "breached.txt").write_text("precious")

    outcome = run("demo", "--keys", "9", "--keep", "folder")

    assert outcome.code == 2
    assert "breached.txt: File exists" in outcome.err
    assert (files / "folder" / "breached.txt").read_text() == "precious"


def test_a_full_disk_leaves_no_file(run: Run, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E2: the message has the bytes that are needed; there is nothing to clean up."""
    before = set(files.iterdir())

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)

    outcome = run("build", "names.txt", *NEW, "--capacity", "1e6")

    assert outcome.code == 2
    assert outcome.err.startswith("mmbloom build: error: new.mmb: needs ")
    assert set(files.iterdir()) == before


def test_too_little_memory_is_an_error_not_a_traceback(
    run: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MemoryError comes without a text of its own."""
    del files

    def starve(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(mmbloom, "build", starve)

    assert run("build", "names.txt", *NEW) == (2, b"", "mmbloom build: error: out of memory\n")
