"""The command as a whole: help, examples, standard streams, signals."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import signal
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
import zstandard
from command_steps import SECONDS

import mmbloom
from mmbloom.cli import BROKEN_PIPE, COMMANDS
from mmbloom.cli.options import Parser

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run, Start

# -- help ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_names_each_option_and_shows_an_example(
    run: Run, command: str
) -> None:
    """80 columns, whatever the terminal: help is read in all of them."""
    module = import_module(f"mmbloom.cli.{command}")
    parser = Parser(f"mmbloom {command}", module.DESCRIPTION, module.EPILOG)
    module.add_arguments(parser)

    outcome = run(command, "--help")

    text = outcome.out.decode()
    assert outcome.code == 0
    for action in parser._actions:
        for word in action.option_strings or [str(action.metavar)]:
            assert re.search(rf"^  (-\w( \w+)?, )?{re.escape(word)}\b", text, re.MULTILINE), word
    assert f"  mmbloom {command} " in module.EPILOG
    assert max(map(len, text.splitlines())) <= 80


def test_the_help_of_all_lists_each_command(run: Run) -> None:
    """With the codes that scripts look at."""
    text = run("--help").out.decode()

    for command in COMMANDS:
        assert re.search(rf"^  {command} +[a-z]", text, re.MULTILINE)
    assert "exit codes: 0 found (or done), 1 nothing found, 2 error" in text


def test_the_version_tells_which_engine_runs(run: Run) -> None:
    """Without a C compiler it says so."""
    expected = f"mmbloom {mmbloom.__version__} ({mmbloom.ENGINE} engine)\n"

    assert run("--version") == (0, expected.encode(), "")


EXAMPLES = [
    pytest.param(line.strip(), id=line.strip()[:50])
    for command in COMMANDS
    for line in import_module(f"mmbloom.cli.{command}").EPILOG.splitlines()
    if "mmbloom " in line
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_example_of_the_help_runs(example: str, folder: Path) -> None:
    """In a shell, on files of the names that it has."""
    lines = b"ada\nhunter2\nhttps://example.org/\n"
    (folder / "passwords.txt.xz").write_bytes(lzma.compress(lines))
    (folder / "urls-1.gz").write_bytes(gzip.compress(lines))
    (folder / "today.txt.gz").write_bytes(gzip.compress(lines))
    (folder / "huge.txt.gz").write_bytes(gzip.compress(lines))
    (folder / "users.csv.zst").write_bytes(zstandard.compress(b"name,email\nada,a@b.c\n"))
    (folder / "never-seen.txt.gz").write_bytes(gzip.compress(b"grace\nhedy\n"))
    (folder / "more.txt").write_bytes(lines)
    (folder / "denied.txt").write_bytes(lines)
    mmbloom.BloomFilter.create(folder / "crawl.mmb", capacity=100, fpr=0.001).close()
    for name in ("urls.txt", "left.txt"):
        (folder / name).write_bytes(lines)
    members = [*lines.split(), "example.org"]
    mmbloom.build(folder / "denied.mmb", members, kind="counting", fpr=0.01).close()
    for name in ("pwned-sha1.txt", "suspects.txt"):
        (folder / name).write_bytes(b"AB" * 20 + b":3\n")
    (folder / "filters").mkdir()
    for name in ("passwords.mmb", "seen.mmb", "filters/leaked.mmb"):
        mmbloom.build(folder / name, lines.split(), fpr=0.01).close()
    for name in ("monday.mmb", "tuesday.mmb"):
        mmbloom.build(folder / name, ["ada"], fpr=0.01, capacity=10).close()
    mmbloom.build(folder / "pwned.mmb", ["AB" * 20], fpr=0.01, key_form="hex").close()
    outputs = {"build": ["passwords.mmb", "pwned.mmb", "denied.mmb"]}
    with mmbloom.FilterStack([folder / "passwords.mmb"]) as stack:
        stack.save(folder / "all.stack")
    outputs["create"] = ["crawl.mmb", "denied.mmb"]
    for name in outputs.get(example.split()[1], []):
        (folder / name).unlink()
    program = f'mmbloom() {{ "{sys.executable}" -P -m mmbloom "$@"; }}\nset -e\n'

    done = subprocess.run(  # noqa: S603
        ["bash", "-o", "pipefail", "-c", program + example.replace("1e6", "1e3")],  # noqa: S607
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )

    # 'check -v' on a list of which every line is in: nothing is selected.
    assert (done.returncode, done.stderr) == (1 if " -v " in example else 0, b"")


# -- standard streams ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('"$@" <&-', b"mmbloom check: error: standard input: Bad file descriptor\n"),
        ('"$@" < names.txt >&-', b"mmbloom check: error: standard output: Bad file descriptor\n"),
        ('"$@" < names.txt >/dev/full', b"standard output: No space left on device\n"),
        ('"$@" < names.txt 2>&- >&-', b""),
        ('"$@" < names.txt <&- >&- 2>&-', b""),
    ],
    ids=["no-stdin", "no-stdout", "full-stdout", "neither-output", "none-at-all"],
)
def test_a_stream_that_cannot_be_used_is_an_error(
    start: Start, names: Path, names_filter: Path, line: str, message: bytes
) -> None:
    """Not "no key found", which 1 or an empty output would say; and never a traceback."""
    del names
    before = names_filter.read_bytes()

    with start("check", names_filter, line=line) as process:
        out, err = process.communicate(timeout=SECONDS)

    assert (process.returncode, out) == (2, b"")
    assert message in err
    assert (err.count(b"\n") == 1) == bool(message)
    assert names_filter.read_bytes() == before


def test_a_closed_stream_lends_its_number_to_no_filter(
    start: Start, names: Path, folder: Path
) -> None:
    """Were the new file descriptor 2, messages would be written into it."""
    with start("build", names, "-o", "new.mmb", "--fpr", "0.01", line='"$@" 2>&- <&-') as process:
        process.communicate(timeout=SECONDS)

    assert process.returncode == 0
    with mmbloom.open(folder / "new.mmb") as built:
        built.verify()


@pytest.mark.parametrize("argv", [["check", "names.mmb"], ["check", "--help"]])
def test_a_reader_that_leaves_early_ends_the_command_quietly(
    start: Start, names: Path, names_filter: Path, argv: list[str]
) -> None:
    """``mmbloom check ... | head -1`` ends as grep does there, with the code of SIGPIPE."""
    del names_filter
    with start(*argv, line='"$@" < "$(cat)"') as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(os.fsencode(names))
        process.stdin.close()
        process.wait(SECONDS)
        assert process.stderr is not None
        assert (process.returncode, process.stderr.read()) == (BROKEN_PIPE, b"")


@pytest.mark.parametrize("argv", [["check", "names.mmb"], ["build", "-", "-o", "b", "--fpr", ".1"]])
def test_ctrl_c_ends_by_the_signal_without_a_traceback_or_a_file(
    start: Start, names_filter: Path, folder: Path, argv: list[str]
) -> None:
    """Ended by the signal itself: a shell then leaves its loop, too."""
    with start(*argv) as process:
        assert process.stdin is not None
        process.stdin.write(b"hopper\n" * 100_000)  # more than a pipe holds: it is at work
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        process.wait(SECONDS)
        assert process.stderr is not None
        assert process.stderr.read().decode() == f"mmbloom {argv[0]}: interrupted\n"
        process.stdin.close()

    assert process.returncode == -signal.SIGINT
    assert list(folder.iterdir()) == [names_filter]


def test_a_fifo_is_a_list(run: Run, names: Path, names_filter: Path, folder: Path) -> None:
    """As the shell's <(...) passes one."""
    os.mkfifo(folder / "fifo")
    with subprocess.Popen(["cp", names, "fifo"]):  # noqa: S603, S607
        assert run("check", names_filter, "-c", "--list", "fifo").out == b"5\n"


def test_a_fifo_is_no_filter(run: Run, folder: Path) -> None:
    """It is refused, and nobody waits for its other end."""
    os.mkfifo(folder / "fifo")
    outcome = run("check", "fifo", "ada")
    assert outcome.code == 2
    assert "a FIFO" in outcome.err


def test_the_module_is_the_command(start: Start, names_filter: Path) -> None:
    """``python -m mmbloom`` where the script is not on the path."""
    with start("check", names_filter, "ada") as process:
        out, err = process.communicate(timeout=SECONDS)

    assert (process.returncode, out, err) == (0, b"ada\n", b"")


def test_a_list_packed_by_two_programs_is_read_to_its_end(
    run: Run, names_filter: Path, folder: Path
) -> None:
    """``cat a.bz2 b.bz2``: the second half is no ornament."""
    (folder / "both").write_bytes(bz2.compress(b"ada\n") + bz2.compress(b"hedy\n"))

    assert run("check", names_filter, "--list", "both").out == b"ada\nhedy\n"


@pytest.mark.parametrize("stdin", [None, b"ada\n"], ids=["as-argument", "on-standard-input"])
def test_one_command_loads_neither_the_others_nor_numpy(
    names_filter: Path, stdin: bytes | None
) -> None:
    """What makes a look-up of one key quick; figures are in the README."""
    code = (
        "import sys; from mmbloom.cli import main; main(sys.argv[1:]);"
        "slow = {'numpy', 'rich', 'subprocess', 'lzma', 'mmbloom.cli.demo'};"
        "print(*sorted(slow & {*sys.modules}))"
    )

    done = subprocess.run(  # noqa: S603
        [sys.executable, "-P", "-c", code, "check", names_filter, *([] if stdin else ["ada"])],
        input=stdin,
        capture_output=True,
        check=True,
        timeout=SECONDS,
    )

    assert done.stdout == b"ada\n\n"
