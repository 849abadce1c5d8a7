"""Golden files: made once, read by every release, and answered exactly as on the first day.

A missing or changed one is a failure; no test writes them. tools/make/make_golden.py made them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import mmbloom

if TYPE_CHECKING:
    from types import ModuleType

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
# What is in each folder, by the set of the tool that made it.
FOLDERS = {"bloom": GOLDEN, "counting": GOLDEN / "counting", "fuse": GOLDEN / "fuse"}
ANSWERS: dict[str, dict[str, Any]] = {
    str((folder / name).relative_to(GOLDEN)): answer
    for folder in FOLDERS.values()
    for name, answer in json.loads((folder / "answers.json").read_text()).items()
}
TOOL = HERE.parent / "tools" / "make" / "make_golden.py"


def key(kind: str, number: int, key_form: str) -> str:
    """Return the key "member 5" or "absent 7", under hex the SHA-1 of that text."""
    text = f"{kind} {number}"
    if key_form == "raw":
        return text
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def members_of(name: str) -> list[str]:
    """Return every key that is in a file."""
    return [
        key("member", i, ANSWERS[name]["info"]["key_form"]) for i in range(ANSWERS[name]["members"])
    ]


def absent_of(name: str) -> list[str]:
    """Return keys that were never added."""
    return [
        key("absent", i, ANSWERS[name]["info"]["key_form"]) for i in range(ANSWERS[name]["absent"])
    ]


@pytest.fixture(scope="module")
def independent_reader() -> ModuleType:
    """Return the reader that was written from FORMAT.md alone."""
    path = HERE / "helpers" / "independent_reader.py"
    spec = importlib.util.spec_from_file_location("golden_independent_reader", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_a_golden_file_for_each_layout_and_key_form() -> None:
    """And one that is still WRITABLE; no file without answers, no answers without file."""
    combinations = {
        (answer["info"]["layout"], answer["info"]["key_form"]) for answer in ANSWERS.values()
    }

    assert {str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*.mmb")} == set(ANSWERS)
    layouts = ("classic", "line", "page", "narrow", "counters", "fuse3", "fuse4")
    assert combinations == {(layout, form) for layout in layouts for form in ("raw", "hex")}
    assert {answer["info"]["state"] for answer in ANSWERS.values()} == {"sealed", "writable"}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_golden_file_has_not_changed(name: str) -> None:
    """It is the one that was made."""
    found = hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest()

    assert found == ANSWERS[name]["sha256"]


@pytest.mark.parametrize("name", ANSWERS)
def test_a_golden_file_opens_and_says_what_it_said(name: str) -> None:
    """Every fact of info() that was there on the first day."""
    with mmbloom.open(GOLDEN / name) as found:
        facts = found.info()
        checked = found.verify()

    for fact, value in ANSWERS[name]["info"].items():
        assert facts[fact] == (pytest.approx(value) if isinstance(value, float) else value), fact
    assert checked == (facts["payload_bytes"] if facts["state"] == "sealed" else 0)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_golden_file_answers_as_on_the_first_day(name: str) -> None:
    """Every member is "maybe", and of the absent keys exactly those that were, in every way."""
    absent = absent_of(name)
    with mmbloom.open(GOLDEN / name) as found:
        assert found.contains_many(members_of(name)).all()
        assert all(key in found for key in members_of(name)[:200])
        answers = found.contains_many(absent).tolist()
        assert answers == [key in found for key in absent]

    maybes = [number for number, maybe in enumerate(answers) if maybe]
    assert maybes == ANSWERS[name]["absent_but_maybe"]
    assert 0 < len(maybes) < 40  # 300 keys at 0.05: mean 15, five sigma below 34


@pytest.mark.parametrize("name", ANSWERS)
def test_a_reader_made_from_the_specification_answers_alike(
    name: str, independent_reader: ModuleType
) -> None:
    """So the files mean what FORMAT.md says, not what this program does."""
    reader = independent_reader.Reader(str(GOLDEN / name))

    assert all(reader.maybe(key) for key in members_of(name)[:500])
    maybes = [number for number, key in enumerate(absent_of(name)) if reader.maybe(key)]
    assert maybes == ANSWERS[name]["absent_but_maybe"]
    assert reader.metadata == ANSWERS[name]["info"]["metadata"]


@pytest.mark.parametrize(
    "name", [name for name in ANSWERS if ANSWERS[name]["info"]["key_form"] == "hex"]
)
def test_a_golden_hex_file_takes_digests_in_either_case(name: str) -> None:
    """The reader applies the key form by itself."""
    with mmbloom.open(GOLDEN / name) as found:
        assert all(key.upper() in found for key in members_of(name)[:200])
        assert all(key.upper().encode() in found for key in members_of(name)[:200])


COUNTING = [name for name in ANSWERS if "counts" in ANSWERS[name]]


@pytest.mark.parametrize("name", COUNTING)
def test_a_golden_counting_filter_counts_as_on_the_first_day(name: str) -> None:
    """How often each member is in, at most; one of them has counters that are full."""
    with mmbloom.open(GOLDEN / name) as found:
        assert isinstance(found, mmbloom.CountingBloomFilter)
        assert [found.count_estimate(key) for key in members_of(name)] == ANSWERS[name]["counts"]
        assert found.num_saturated > 0


WRITABLE = [name for name in ANSWERS if ANSWERS[name]["info"]["state"] == "writable"]


@pytest.mark.parametrize("name", WRITABLE)
def test_a_golden_writable_file_is_written_on(name: str, tmp_path: Path) -> None:
    """By a writer of today: capacity, count and keys are still those."""
    path = tmp_path / "written-on.mmb"
    shutil.copyfile(GOLDEN / name, path)

    with mmbloom.open_writable(path) as writer:
        before = writer.keys_added
        assert before == ANSWERS[name]["info"]["keys_added"]
        assert writer.update(f"new {i}" for i in range(50)) > 30
        if isinstance(writer, mmbloom.CountingBloomFilter):
            writer.update(f"passing {i}" for i in range(50))
            assert writer.remove_many(f"passing {i}" for i in range(50)) > 30
        writer.seal()
    with mmbloom.open(path) as found:
        assert found.contains_many(members_of(name)).all()
        assert found.contains_many([f"new {i}" for i in range(50)]).all()
        assert found.keys_added > before


def test_the_tool_does_not_make_golden_files_again(tmp_path: Path) -> None:
    """If one of them is there, none is made."""
    name = "line-raw.mmb"
    shutil.copyfile(GOLDEN / name, tmp_path / name)

    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-P", str(TOOL), str(tmp_path), "bloom"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "never made again" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes()


@pytest.mark.parametrize("which", FOLDERS)
def test_the_tool_makes_files_that_pass_these_tests(which: str, tmp_path: Path) -> None:
    """For the day when a new number needs some: same names, same kinds of answers."""
    subprocess.run([sys.executable, "-P", str(TOOL), str(tmp_path), which], check=True)  # noqa: S603 - as above

    made = json.loads((tmp_path / "answers.json").read_text())
    names = [name for name in ANSWERS if (GOLDEN / name).parent == FOLDERS[which]]
    assert sorted(made) == sorted(Path(name).name for name in names)
    assert {path.name for path in tmp_path.iterdir()} == {*made, "answers.json"}
    for name in names:
        with mmbloom.open(tmp_path / Path(name).name) as found:
            assert found.contains_many(members_of(name)).all()
        assert set(made[Path(name).name]) == set(ANSWERS[name])
