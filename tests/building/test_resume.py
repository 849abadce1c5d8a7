"""Builds that are interrupted and resumed: nothing is read twice."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from build_steps import (
    IS_KERNEL,
    MANY_KEYS,
    build,
    die,
    keys,
    killed_in_child,
    list_of,
    names_in,
    payload_of,
)

import mmbloom
from mmbloom import LockHeldError, ParameterError, SourceError, SpillError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mmbloom import BuildReport, Progress

pytestmark = pytest.mark.usefixtures("no_pause")
NUM_BAD = 12
HINT = "without resume the build starts over"


@pytest.fixture
def lists(tmp_path: Path) -> list[Path]:
    """Write two lists of hexadecimal keys, some of them repeated, with bad lines among them."""
    digests = [key.encode().hex() for key in keys(MANY_KEYS)]
    half = MANY_KEYS // 2
    (tmp_path / "lists").mkdir()
    found = []
    for name, some in (("one", digests[: half + 100]), ("two", digests[half:])):
        step = len(some) // 6
        for i in range(6):
            some.insert(i * step + 3, "none")
        found.append(list_of(tmp_path / "lists" / name, some))
    return found


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return where the filter will be, in a folder of its own."""
    (tmp_path / "filters").mkdir()
    return tmp_path / "filters" / "a.mmb"


def resumed(
    target: Path, lists: list[Path], memory: int, on_error: str = "skip", **asked: object
) -> BuildReport:
    """Build from the lists, or resume that build."""
    with mmbloom.read_lists(lists, on_error=on_error) as source:  # type: ignore[arg-type]
        parameters = {"key_form": "hex", "memory": memory, "jobs": 1, "resume": True}
        report = build(target, source, **(parameters | asked))
        assert len(source.bad.first) == min(5, source.bad.num_bad)
    return report


def folder_of(target: Path) -> Path:
    """Return the folder where a build keeps its checkpoint."""
    return target.parent / f".{target.name}.resume"


def in_phase(target: Path, phase: str) -> Callable[[Progress], None]:
    """Return a callback that kills the process in a phase, once there is a checkpoint."""

    def watch(state: Progress) -> None:
        if state.phase == phase and (folder_of(target) / "state").exists():
            die()

    return watch


def interrupt(target: Path, lists: list[Path], memory: int, phase: str = "hash") -> None:
    """Kill a build in a phase."""
    killed_in_child(lambda: resumed(target, lists, memory, progress=in_phase(target, phase)))
    assert names_in(target.parent) == [folder_of(target).name]


@pytest.mark.parametrize("phase", ["hash", "spill", "sort", "assemble"])
def test_a_killed_build_continues_where_it_stopped(
    tmp_path: Path, target: Path, lists: list[Path], small_store: int, phase: str
) -> None:
    """Payload, count and bad lines are the same as without the interruption."""
    interrupt(target, lists, small_store, phase)
    text = (folder_of(target) / "state").read_bytes().decode("latin-1")
    read_before = json.JSONDecoder().raw_decode(text)[0]["state"]["keys_read"]
    seen: list[Progress] = []

    report = resumed(target, lists, small_store, progress=seen.append)
    whole = resumed(tmp_path / "whole.mmb", lists, small_store)

    assert 0 < read_before <= MANY_KEYS + 100
    assert min((state.keys for state in seen if state.keys), default=read_before) >= read_before
    assert (report.keys_read, report.keys_added) == (MANY_KEYS + 100, MANY_KEYS)
    assert (report.bad_lines, whole.bad_lines) == (NUM_BAD, NUM_BAD)
    assert payload_of(target) == payload_of(tmp_path / "whole.mmb")
    assert names_in(target.parent) == [target.name]


def test_the_report_of_a_resumed_build_is_that_of_the_whole_build(
    tmp_path: Path, target: Path, lists: list[Path], small_store: int
) -> None:
    """Lines and bytes too, in whatever phase it was interrupted."""
    whole = resumed(tmp_path / "whole.mmb", lists, small_store)
    for phase in ("hash", "sort"):
        interrupt(target, lists, small_store, phase)
        report = resumed(target, lists, small_store)
        target.unlink()

        assert report.lines_read == whole.lines_read == MANY_KEYS + 100 + NUM_BAD
        assert report.bytes_read == whole.bytes_read == sum(p.stat().st_size for p in lists)


def test_a_build_may_be_killed_again_and_again(
    tmp_path: Path, target: Path, lists: list[Path], small_store: int
) -> None:
    """Each build reads one more run."""

    def once(num_runs: int) -> Callable[[Progress], None]:
        def watch(state: Progress) -> None:
            if state.phase != "spill" and (folder_of(target) / f"run-{num_runs}").exists():
                die()

        return watch

    for num_runs in range(2):
        killed_in_child(
            lambda n=num_runs: resumed(target, lists, small_store, progress=once(n))  # type: ignore[misc]
        )
    report = resumed(target, lists, small_store)
    resumed(tmp_path / "whole.mmb", lists, small_store)

    assert report.keys_added == MANY_KEYS
    assert payload_of(target) == payload_of(tmp_path / "whole.mmb")


def test_an_interrupt_keeps_what_was_read_for_the_next_build(
    target: Path, lists: list[Path], small_store: int
) -> None:
    """Ctrl-C and errors keep it too: only a build that succeeds removes the folder."""

    def watch(state: Progress) -> None:
        if state.phase == "assemble":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resumed(target, lists, small_store, progress=watch)
    assert names_in(target.parent) == [folder_of(target).name]

    assert resumed(target, lists, small_store).keys_added == MANY_KEYS
    assert names_in(target.parent) == [target.name]


def test_without_a_checkpoint_a_build_begins_at_the_start(
    target: Path, lists: list[Path], small_store: int
) -> None:
    """Even if the folder exists."""
    folder_of(target).mkdir()

    report = resumed(target, lists, small_store)

    assert report.keys_read == MANY_KEYS + 100
    assert names_in(target.parent) == [target.name]


def appended(lists: list[Path]) -> None:
    """Make a list longer."""
    with lists[1].open("ab") as file:
        file.write(b"00\n")


@pytest.mark.parametrize(
    ("change", "asked", "name"),
    [
        pytest.param(appended, {}, "lists", id="another-list"),
        pytest.param(None, {"on_error": "count"}, "lists", id="on_error"),
        pytest.param(None, {"fpr": 0.01}, "fpr", id="fpr"),
        pytest.param(None, {"capacity": 10**6}, "capacity", id="capacity"),
        pytest.param(None, {"layout": "page"}, "layout", id="layout"),
        pytest.param(None, {"seed": 3}, "seed", id="seed"),
        pytest.param(None, {"key_form": "raw"}, "key_form", id="key_form"),
        pytest.param(None, {"metadata": {"a": 1}}, "metadata", id="metadata"),
        pytest.param(None, {"nulls": "skip"}, "nulls", id="nulls"),
    ],
)
def test_another_build_is_not_continued(  # noqa: PLR0913, PLR0917 - fixtures and a case
    target: Path,
    lists: list[Path],
    small_store: int,
    change: Callable[[list[Path]], None] | None,
    asked: dict[str, object],
    name: str,
) -> None:
    """The error names what differs, and the checkpoint is kept."""
    interrupt(target, lists, small_store)
    before = names_in(folder_of(target))
    if change is not None:
        change(lists)

    with pytest.raises(
        ParameterError, match=f"(?s)resume.*the {name} of the interrupted build.*{HINT}"
    ):
        resumed(target, lists, small_store, **asked)  # type: ignore[arg-type]

    assert names_in(folder_of(target)) == before


def edit(path: Path, change: Callable[[bytearray], None]) -> None:
    """Change the bytes of a file."""
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)


def flip_last(content: bytearray) -> None:
    """Flip a bit of the last byte."""
    content[-1] ^= 1


def flip_a_digit(content: bytearray) -> None:
    """Change the number of keys that were read."""
    at = content.index(b'"keys_read": ') + len(b'"keys_read": ')
    content[at] = ord("1") + (content[at] == ord("1"))


def cut_last(content: bytearray) -> None:
    """Drop the last byte."""
    del content[-1]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        pytest.param("state", bytearray.clear, id="state-empty"),
        pytest.param("state", lambda content: content.__setitem__(0, 0x5B), id="state-no-object"),
        pytest.param("state", flip_a_digit, id="state-another-number"),
        pytest.param("state", lambda content: content.__delitem__(slice(40, None)), id="state-cut"),
        pytest.param("run-0", flip_last, id="table-flipped"),
        pytest.param("run-0", lambda content: content.__setitem__(0, 1), id="table-first-byte"),
        pytest.param("run-0", bytearray.clear, id="table-empty"),
        pytest.param("spill", flip_last, id="hashes-flipped"),
        pytest.param("spill", cut_last, id="hashes-cut"),
        pytest.param("spill", bytearray.clear, id="hashes-gone"),
    ],
)
def test_a_damaged_folder_is_detected(
    target: Path,
    lists: list[Path],
    small_store: int,
    name: str,
    damage: Callable[[bytearray], None],
) -> None:
    """Before a filter is made from it; a build without resume ignores it."""
    # Killed while it sorts. When it reads on, spilled hashes after the last checkpoint are dropped.
    interrupt(target, lists, small_store, "sort")
    edit(folder_of(target) / name, damage)

    for _ in range(2):
        with pytest.raises(SpillError, match="build again"):
            resumed(target, lists, small_store)
        assert names_in(target.parent) == [folder_of(target).name]

    assert resumed(target, lists, small_store, resume=False).keys_added == MANY_KEYS
    assert names_in(target.parent) == [target.name]


def test_a_missing_table_is_detected(target: Path, lists: list[Path], small_store: int) -> None:
    """The error has its number."""
    interrupt(target, lists, small_store)
    (folder_of(target) / "run-0").unlink()

    with pytest.raises(SpillError, match="run 0"):
        resumed(target, lists, small_store)


def test_two_builds_do_not_use_the_same_folder(
    target: Path, lists: list[Path], small_store: int
) -> None:
    """One holds the folder; the other is refused at once, and does no harm."""
    refused = []

    def watch(state: Progress) -> None:
        if state.phase == "sort" and not refused:
            with pytest.raises(LockHeldError) as caught:
                resumed(target, lists, small_store)
            refused.append(caught.value)

    assert resumed(target, lists, small_store, progress=watch).keys_added == MANY_KEYS
    assert refused[0].path == str(folder_of(target))


def test_a_build_without_resume_keeps_the_folder_of_a_running_build(
    target: Path, lists: list[Path], small_store: int
) -> None:
    """Only a folder that no process uses is removed."""
    is_done = False

    def watch(state: Progress) -> None:
        nonlocal is_done
        if state.phase == "sort" and not is_done:
            is_done = True
            build(target, keys(5))

    report = resumed(target, lists, small_store, progress=watch, if_exists="replace")

    assert is_done
    assert report.keys_added == MANY_KEYS
    assert names_in(target.parent) == [target.name]


def test_a_build_without_resume_removes_an_unused_folder(
    target: Path, lists: list[Path], small_store: int
) -> None:
    """It is not needed any more: the file exists."""
    interrupt(target, lists, small_store)

    build(target, keys(5))

    assert names_in(target.parent) == [target.name]


def test_the_folder_is_beside_the_spill_file(
    tmp_path: Path, target: Path, lists: list[Path], small_store: int
) -> None:
    """Only its owner can read it, since it has hashes of the keys."""
    spills = tmp_path / "spills"
    spills.mkdir()
    modes = []

    def watch(state: Progress) -> None:
        folder = spills / f".{target.name}.resume"
        if state.phase == "sort" and not modes:
            modes.extend(oct(path.stat().st_mode & 0o777) for path in (folder, folder / "spill"))

    resumed(target, lists, small_store, spill_folder=spills, progress=watch)

    assert modes == ["0o700", "0o600"]
    assert names_in(spills) == []


@pytest.mark.parametrize(
    "some", [["ada"], iter(["ada"])], ids=["list-of-python", "iterator-of-python"]
)
def test_keys_from_python_cannot_be_resumed(target: Path, some: object) -> None:
    """Only lists on disk can; no folder is made."""
    with pytest.raises(ParameterError, match="resume"):
        build(target, some, resume=True)
    assert names_in(target.parent) == []


def test_standard_input_cannot_be_resumed(target: Path) -> None:
    """Nor can a pipe. No folder is made."""
    fd = os.open(os.devnull, os.O_RDONLY)
    saved = os.dup(0)
    os.dup2(fd, 0)
    try:
        with (
            pytest.raises(ParameterError, match="pipe"),
            mmbloom.read_list("-") as source,
        ):
            build(target, source, resume=True)
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(fd)
    assert names_in(target.parent) == []


def test_a_list_without_keys_is_an_error_that_leaves_no_folder(
    tmp_path: Path, target: Path
) -> None:
    """There is nothing to resume."""
    (tmp_path / "empty").write_bytes(b"\n")

    with mmbloom.read_list(tmp_path / "empty") as source, pytest.raises(SourceError):
        build(target, source, resume=True)
    assert names_in(target.parent) == []


@pytest.mark.skipif(not IS_KERNEL, reason="too few keys for two jobs to spill")
def test_jobs_and_memory_may_differ_from_those_of_the_interrupted_build(
    tmp_path: Path, target: Path, lists: list[Path], small_store: int
) -> None:
    """The file does not depend on them."""
    interrupt(target, lists, small_store)

    resumed(target, lists, small_store * 4, jobs=3)
    resumed(tmp_path / "whole.mmb", lists, small_store)

    assert payload_of(target) == payload_of(tmp_path / "whole.mmb")


def test_a_random_seed_cannot_be_resumed(target: Path, lists: list[Path]) -> None:
    """The resumed build would hash in another way. It is refused before anything is read."""
    with (
        mmbloom.read_lists(lists) as opened,
        pytest.raises(ParameterError, match="seed: expected a number, with resume"),
    ):
        mmbloom.build(target, opened, fpr=0.01, seed="random", resume=True)
    assert names_in(target.parent) == []
