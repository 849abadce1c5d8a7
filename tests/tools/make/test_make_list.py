"""Generated lists: what the measurements of builds rely on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

TOOL = Path(__file__).parents[3] / "tools" / "make" / "make_list.py"
NUM_LINES = 70_000  # more than a block


def lines_of(make_list: ModuleType, kind: str, **shape: Any) -> list[bytes]:  # noqa: ANN401 - of any type
    """Return the lines of a list of NUM_LINES."""
    asked = make_list.ListShape(kind, NUM_LINES, **shape)
    text = b"".join(make_list.blocks(asked))
    assert text.endswith(b"\n")
    return text[:-1].split(b"\n")


def keys_of(lines: list[bytes]) -> list[bytes]:
    """Return the hashes of HASH:COUNT lines."""
    return [line.partition(b":")[0] for line in lines]


def run(*words: object) -> subprocess.CompletedProcess[bytes]:
    """Run the tool as a command."""
    command = [sys.executable, "-P", str(TOOL), *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - this Python


def test_a_breach_list_is_sorted_and_its_keys_are_distinct(make_list: ModuleType) -> None:
    """HASH:COUNT with 40 upper-case digits, like the real ones, and of their length."""
    lines = lines_of(make_list, "hibp")

    hashes = keys_of(lines)
    assert hashes == sorted(set(hashes))
    assert len(hashes) == NUM_LINES
    assert all(len(found) == 40 and not set(found) - set(b"0123456789ABCDEF") for found in hashes)
    assert all(int(line.partition(b":")[2]) >= 1 for line in lines)
    assert 43 <= sum(map(len, lines)) / NUM_LINES + 1 <= 45


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [pytest.param("urls", 42, 56, id="urls"), pytest.param("keys", 32, 32, id="keys")],
)
def test_other_lists_have_distinct_keys_in_no_order(
    make_list: ModuleType, kind: str, least: int, most: int
) -> None:
    """And lines of the documented lengths."""
    lines = lines_of(make_list, kind)

    assert len(set(lines)) == len(lines) == NUM_LINES
    assert lines != sorted(lines)
    assert {min(map(len, lines)), max(map(len, lines))} == {least, most}


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_share_of_duplicates_is_exact(make_list: ModuleType, *, shuffle: bool) -> None:
    """The tool reports the number of distinct keys; a sorted list stays sorted."""
    hashes = keys_of(lines_of(make_list, "hibp", duplicates=0.3, shuffle=shuffle))

    assert len(hashes) == NUM_LINES
    assert len(set(hashes)) == 49_000
    assert (hashes == sorted(hashes)) is not shuffle


def test_a_seed_gives_the_same_list_and_another_seed_another(make_list: ModuleType) -> None:
    """So that a measurement can be repeated elsewhere."""
    first = lines_of(make_list, "urls", seed=5)

    assert lines_of(make_list, "urls", seed=5) == first
    assert not set(lines_of(make_list, "urls", seed=6)) & set(first)


def test_the_command_writes_the_list_and_tells_what_it_has(make_list: ModuleType) -> None:
    """To standard output unless a file is named."""
    done = run("--kind", "keys", "--lines", "1e3", "--duplicates", "0.2", "--seed", "9")

    shape = make_list.ListShape("keys", 1000, 9, 0.2)
    assert done.stdout == b"".join(make_list.blocks(shape))
    assert done.stderr == b"1000 lines, 800 distinct keys\n"


def test_a_list_is_never_replaced(make_list: ModuleType, tmp_path: Path) -> None:
    """An existing file may be a real list."""
    path = tmp_path / "list.txt"
    path.write_bytes(b"real\n")

    with pytest.raises(FileExistsError):
        make_list.write(str(path), make_list.ListShape("keys", 10))

    assert path.read_bytes() == b"real\n"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--lines", "0"], id="none"),
        pytest.param(["--lines", "1.5"], id="half-a-line"),
        pytest.param(["--duplicates", "1", "--lines", "5"], id="nothing-but-duplicates"),
    ],
)
def test_numbers_that_make_no_list_are_refused(words: list[str]) -> None:
    """The message has the name of the option and what was expected."""
    done = run(*words)

    assert done.returncode == 1
    assert done.stderr.startswith(f"{words[0]}: expected".encode())
