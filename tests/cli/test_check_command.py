"""``mmbloom check``: which lines come out, and the exit code."""

from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING

import pytest
from command_steps import SECONDS

import mmbloom

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run, Start

HASHES = b"AB" * 20 + b":3\n" + b"0d" * 16 + b":12\n"
LINES = b"ada\nalan\r\n\ngrace\r\nkurt\n\r\nhedy"  # CR LF, empty lines, and no LF at the end


def test_a_key_of_the_list_is_printed_and_found(run: Run, names_filter: Path) -> None:
    """0 is grep's exit code for "found"."""
    assert run("check", names_filter, "ada") == (0, b"ada\n", "")


def test_a_key_that_was_never_added_is_neither_printed_nor_found(
    run: Run, names_filter: Path
) -> None:
    """1 is grep's exit code for "not found"."""
    assert run("check", names_filter, "alan") == (1, b"", "")


@pytest.mark.parametrize(
    ("options", "code", "out"),
    [
        pytest.param([], 0, b"ada\ngrace\r\nhedy\n", id="maybe"),
        pytest.param(["-v"], 0, b"alan\r\nkurt\n", id="definitely-not"),
        pytest.param(["-c"], 0, b"3\n", id="how-many-maybe"),
        pytest.param(["-vc"], 0, b"2\n", id="how-many-definitely-not"),
        pytest.param(["-q"], 0, b"", id="quiet"),
        pytest.param(["-qc"], 0, b"", id="quiet-beats-count"),
        pytest.param(["-q", "--json"], 0, b"", id="quiet-beats-json"),
    ],
)
def test_lines_come_out_whole_and_in_order(
    run: Run, names_filter: Path, options: list[str], code: int, out: bytes
) -> None:
    """A line keeps its CR, the last one gets an LF, empty lines are no keys and no answers."""
    assert run("check", names_filter, *options, stdin=LINES) == (code, out, "")


@pytest.mark.parametrize(
    ("options", "stdin", "code"),
    [
        pytest.param([], b"alan\n", 1, id="none-maybe"),
        pytest.param(["-v"], b"ada\n", 1, id="none-definitely-not"),
        pytest.param(["-q"], b"alan\n", 1, id="none-maybe-quietly"),
        pytest.param(["-c"], b"alan\n", 1, id="none-to-count"),
        pytest.param(["--json"], b"alan\n", 1, id="none-in-json"),
        pytest.param([], b"", 1, id="no-key-at-all"),
        pytest.param(["-v"], b"\n\n", 1, id="empty-lines-only"),
    ],
)
def test_the_exit_code_is_1_when_no_line_is_selected(
    run: Run, names_filter: Path, options: list[str], stdin: bytes, code: int
) -> None:
    """Whatever is printed, the code tells whether there was a line to print."""
    assert run("check", names_filter, *options, stdin=stdin).code == code


@pytest.mark.parametrize("num_lines", [3, 30_000], ids=["few", "many"])
def test_a_list_of_any_length_gets_the_answers_of_the_filter(
    run: Run, folder: Path, num_lines: int
) -> None:
    """Few keys take a shorter way through the program."""
    lines = [b"%d" % i for i in range(num_lines)]
    with mmbloom.build(folder / "even.mmb", lines[::2], fpr=0.1) as even:
        expected = [line for line in lines if line in even]

    outcome = run("check", "even.mmb", stdin=b"\n".join(lines))

    assert outcome.out.split() == expected


def test_options_may_stand_between_the_keys(run: Run, names_filter: Path) -> None:
    """Fingers that know grep put them anywhere."""
    assert run("check", "-v", names_filter, "ada", "-c", "alan") == (0, b"1\n", "")


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["names.mmb", "--", "-v", "ada"], id="behind-the-file"),
        pytest.param(["--", "names.mmb", "-v", "ada"], id="before-the-file"),
        pytest.param(["--", "names.mmb", "ada", "--"], id="twice"),
    ],
)
def test_words_behind_two_hyphens_are_keys(run: Run, names_filter: Path, argv: list[str]) -> None:
    """A key may begin with a hyphen, and be two of them."""
    del names_filter
    assert run("check", *argv) == (0, b"ada\n", "")


def test_quiet_ends_at_the_first_key_that_tells(start: Start, names_filter: Path) -> None:
    """As grep -q does: who writes an endless list need not end it."""
    with start("check", "-q", names_filter) as process:
        assert process.stdin is not None
        process.stdin.write(b"alan\nada\n")
        process.stdin.flush()
        assert process.wait(SECONDS) == 0


def test_keys_are_the_bytes_that_were_typed(run: Run, names_filter: Path) -> None:
    """An argument that is no UTF-8 is looked up and printed as it is."""
    key = os.fsdecode(b"caf\xe9")

    assert run("check", names_filter, key) == (0, b"caf\xe9\n", "")


def test_lines_are_bytes_in_no_encoding(run: Run, names_filter: Path) -> None:
    """A list may mix encodings; each line comes out as it went in."""
    stdin = b"caf\xe9\ncaf\xc3\xa9\n\xff\xfe\n"

    assert run("check", names_filter, stdin=stdin) == (0, b"caf\xe9\ncaf\xc3\xa9\n", "")


def test_the_empty_key_can_be_asked_for_in_a_field(run: Run, folder: Path) -> None:
    """M4: it is a key like any other, but as an argument it is most often a slip."""
    mmbloom.build(folder / "empty.mmb", [b""], fpr=1e-9).close()

    assert run("check", "empty.mmb", "--delimiter", ",", stdin=b",\n") == (0, b",\n", "")


def test_json_counts_both_answers_and_tells_the_rate_of_false_ones(
    run: Run, names_filter: Path
) -> None:
    """What a program needs to judge the answers is in one object."""
    result = json.loads(run("check", names_filter, "-v", "--json", stdin=LINES).out)

    assert result.pop("expected_fpr") < 1e-9
    assert result == {"keys": 5, "maybe": 3, "definitely_not": 2}


@pytest.mark.parametrize("options", [[], ["-v"]], ids=["maybe", "inverted"])
def test_json_names_the_keys_of_the_command_line_that_may_be_in(
    run: Run, names_filter: Path, options: list[str]
) -> None:
    """The same with -v: the name of the field says which they are."""
    keys = ["hedy", "alan", "ada", os.fsdecode(b"caf\xe9")]

    result = json.loads(run("check", names_filter, *keys, "--json", *options).out)

    assert result["maybe_keys"] == ["hedy", "ada", os.fsdecode(b"caf\xe9")]
    assert (result["keys"], result["maybe"]) == (4, 3)


@pytest.mark.parametrize(
    ("stdin", "options", "is_noted"),
    [
        pytest.param(HASHES, [], True, id="hash-count"),
        pytest.param(HASHES.replace(b"\n", b"\r\n\r\n"), [], True, id="CR-LF-and-empty-lines"),
        pytest.param(HASHES, ["-q"], False, id="quiet"),
        pytest.param(HASHES, ["--delimiter", ":"], False, id="delimiter"),
        pytest.param(HASHES + b"ada\n", [], False, id="another-line"),
        pytest.param(b"ada:3\n", [], False, id="no-hash"),
        pytest.param(b"ab" * 20 + b"\n", [], False, id="no-count"),
        pytest.param(b"\n", [], False, id="no-line"),
    ],
)
def test_lines_that_look_like_hash_count_are_noted(
    run: Run, names_filter: Path, stdin: bytes, options: list[str], *, is_noted: bool
) -> None:
    """Read as whole lines all of them are "definitely not", which is no answer."""
    note = (
        "mmbloom check: note: standard input: the lines look like HASH:count; did you mean "
        "--hibp?\n"
    )

    outcome = run("check", names_filter, *options, stdin=stdin)

    assert outcome.err == (note if is_noted else "")


def test_a_list_may_be_named_and_compressed(run: Run, names_filter: Path, folder: Path) -> None:
    """--list reads what standard input reads, and says by itself how it is packed."""
    (folder / "suspects").write_bytes(gzip.compress(LINES))

    assert run("check", names_filter, "--list", "suspects").out == b"ada\ngrace\r\nhedy\n"


def test_a_compressed_stream_may_come_in_through_standard_input(
    run: Run, names_filter: Path
) -> None:
    """It is recognised by content there, too."""
    assert run("check", names_filter, "-c", stdin=gzip.compress(LINES)).out == b"3\n"


@pytest.mark.parametrize(
    "options", [["--delimiter", ",", "--field", "2"], ["--delimiter", "\\t", "--field", "1"]]
)
def test_one_field_of_a_line_can_be_the_key(
    run: Run, names_filter: Path, options: list[str]
) -> None:
    """The whole line is printed all the same; a tab may be typed as backslash and t."""
    stdin = b"ada\tx,ada\nalan\tx,alan\n"

    assert run("check", names_filter, *options, stdin=stdin).out == b"ada\tx,ada\n"


def test_hash_count_lines_are_looked_up_by_one_flag(run: Run, folder: Path) -> None:
    """M6: the key is the digest, in either case, whatever count is behind it."""
    mmbloom.build(folder / "p.mmb", ["AB" * 20], fpr=1e-9, key_form="hex").close()
    stdin = b"AB" * 20 + b":17\r\n" + b"ab" * 20 + b":3\n" + b"cd" * 20 + b":3\n"

    outcome = run("check", "p.mmb", "--hibp", stdin=stdin)

    assert outcome == (0, stdin[: stdin.index(b"cd")], "")


def test_answers_come_before_the_next_key_is_asked(start: Start, names_filter: Path) -> None:
    """A program that writes one key and waits for the answer does not wait for ever."""
    with start("check", names_filter) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for key in (b"ada\n", b"hedy\n"):
            process.stdin.write(b"alan\n" + key)
            process.stdin.flush()
            assert process.stdout.readline() == key


def test_a_filter_that_is_still_written_can_be_asked(run: Run, folder: Path) -> None:
    """Adds are seen at once; the rate is that of the filter as it is."""
    path = folder / "growing.mmb"
    with mmbloom.BloomFilter.create(path, capacity=10, fpr=1e-6) as growing:
        growing.add("ada")
        assert run("check", path, "ada").code == 0
        assert json.loads(run("check", path, "ada", "--json").out)["expected_fpr"] < 1e-6


def test_a_stack_is_checked_by_its_manifest(run: Run, folder: Path) -> None:
    """A key is "maybe" if one member says so; few lines and many are answered alike."""
    many = [f"key {number}" for number in range(2000)]
    mmbloom.build(folder / "base.mmb", many, fpr=1e-9).close()
    mmbloom.build(folder / "delta.mmb", ["hedy"], fpr=1e-9, kind="fuse").close()
    with mmbloom.FilterStack([folder / "base.mmb", folder / "delta.mmb"]) as stack:
        stack.save(folder / "all.stack")

    assert run("check", "all.stack", "hedy", "ada", "key 7") == (0, b"hedy\nkey 7\n", "")
    assert run("check", "all.stack", stdin=b"ada\r\n\nhedy\r\n") == (0, b"hedy\r\n", "")
    lines = "\n".join([*many, "ada", ""]).encode()
    assert run("check", "all.stack", "-v", stdin=lines) == (0, b"ada\n", "")
    assert json.loads(run("check", "all.stack", "ada", "--json").out)["maybe"] == 0
    outcome = run("check", "all.stack", "--times", "hedy")
    assert (outcome.code, outcome.out) == (2, b"")
    (folder / "bad.stack").write_text("{}")
    assert "bad.stack: mmbloom_stack" in run("check", "bad.stack", "ada").err
