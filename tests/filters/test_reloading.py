"""Readers and new generations: noticed, checked, swapped in one step, and the old one let go."""

from __future__ import annotations

import pickle
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filter_files import Program, held_now, keys, sealed_file, unpickle, writable_file

import mmbloom
from mmbloom import (
    BloomFilter,
    ChecksumError,
    ClosedError,
    FormatError,
    IncompatibleError,
    ParameterError,
    ParameterTypeError,
    TruncatedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmbloom.storage.mapped import Mode

MODES: tuple[Mode, ...] = ("map", "ram", "pread")
ALL_MODES = pytest.mark.parametrize("mode", MODES)


def generation(path: Path, number: int, **changes: object) -> Path:
    """Build a file with 20 keys of all generations and 20 of this one, of its own seed and size."""
    given: dict[str, object] = {"fpr": 1e-9, "seed": number, "layout": "line"} | changes
    members = keys(20) + keys(20, start=1000 * number)
    mmbloom.build(path, members, **given).close()  # type: ignore[arg-type]
    return path


@pytest.fixture
def new(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that builds a generation beside the path."""

    def make(number: int, **changes: object) -> Path:
        path = tmp_path / f"new-{number}.mmb"
        path.unlink(missing_ok=True)
        return generation(path, number, **changes)

    return make


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of generation 1."""
    return generation(tmp_path / "a.mmb", 1)


def only(number: int) -> str:
    """Return a key of one generation."""
    return keys(1, start=1000 * number)[0]


@ALL_MODES
def test_a_reader_changes_to_the_new_file_when_it_is_told(
    path: Path, new: Callable[..., Path], mode: Mode
) -> None:
    """Seed, size and layout may all be others; nothing happens while nothing is new."""
    before = held_now()
    with mmbloom.open(path, mode=mode) as found:
        assert not found.reload_if_changed()
        held = held_now()
        for number, layout in ((2, "page"), (3, "classic"), (4, "line")):
            mmbloom.publish(path, new(number, layout=layout, capacity=10**number))
            assert (only(number - 1) in found, only(number) in found) == (True, False)
            assert found.reload_if_changed()
            assert not found.reload_if_changed()
            assert (only(number - 1) in found, only(number) in found) == (False, True)
            assert found.contains_many([only(number - 1), only(number)]).tolist() == [False, True]
            assert (found.seed, found.layout, found.generation) == (number, layout, number)
            assert found.info()["generation"] == number
            assert found.verify() > 0
            assert held_now() == held
    assert held_now() == before


def test_a_running_batch_ends_on_the_file_that_it_began_with(
    path: Path, new: Callable[..., Path]
) -> None:
    """All of its answers are of one generation; then the old map and its descriptor go."""
    with mmbloom.open(path) as found:
        held = held_now()

        def asked() -> Iterator[str]:
            yield only(1)
            mmbloom.publish(path, new(2))
            assert found.reload_if_changed()
            assert only(2) in found
            assert held_now()[1] == held[1] + 1
            yield from [only(1), only(2)]

        assert found.contains_many(asked()).tolist() == [True, True, False]
        assert found.contains_many([only(1), only(2)]).tolist() == [False, True]
        assert held_now() == held


def broken(path: Path) -> None:
    """Put a file of zeros at the path."""
    other = path.with_name("broken.mmb")
    other.write_bytes(bytes(5000))
    other.replace(path)


def cut(path: Path) -> None:
    """Put a part of a file at the path."""
    other = path.with_name("cut.mmb")
    other.write_bytes(generation(other, 2).read_bytes()[:-100])
    other.replace(path)


def emptied(path: Path) -> None:
    """Put a file that has lost its keys at the path: its canaries tell."""
    other = generation(path.with_name("lost.mmb"), 2)
    content = bytearray(other.read_bytes())
    content[4096:-8] = bytes(len(content) - 4104)
    other.write_bytes(content)
    other.replace(path)


def of_another_form(path: Path) -> None:
    """Put a file of hexadecimal keys at the path: each key would mean something else."""
    other = path.with_name("hex.mmb")
    mmbloom.build(other, ["00ff"], fpr=0.01, key_form="hex").close()
    other.replace(path)


BAD = {
    broken: FormatError,
    cut: TruncatedError,
    emptied: FormatError,
    of_another_form: IncompatibleError,
    Path.unlink: FileNotFoundError,
}
BAD_FILES = pytest.mark.parametrize(
    ("damage", "error"), BAD.items(), ids=lambda found: found.__name__
)


@ALL_MODES
@BAD_FILES
def test_a_bad_new_file_is_an_error_and_the_old_one_goes_on(
    path: Path,
    new: Callable[..., Path],
    mode: Mode,
    damage: Callable[[Path], None],
    error: type[Exception],
) -> None:
    """Each time it is asked for, until there is a good one."""
    expected = ChecksumError if mode == "ram" and damage is emptied else error
    with mmbloom.open(path, mode=mode) as found:
        damage(path)
        held = held_now()
        for _ in range(2):
            with pytest.raises(expected):
                found.reload_if_changed()
            assert (only(1) in found, only(2) in found) == (True, False)
            assert found.contains_many(keys(20)).all()
            assert held_now() == held
        new(3).replace(path)
        assert found.reload_if_changed()
        assert only(3) in found


@ALL_MODES
def test_a_follower_changes_by_itself(path: Path, new: Callable[..., Path], mode: Mode) -> None:
    """Single keys and batches look; so does an unpickled one, at whatever has the path."""
    with mmbloom.open(path, mode=mode, follow=0) as found:
        held = held_now()
        for number in range(2, 6):
            mmbloom.publish(path, new(number))
            if number % 2:
                assert only(number) in found
            assert found.contains_many([only(number - 1), only(number)]).tolist() == [False, True]
            assert found.generation == number
            assert found.reload_error is None
        assert held_now() == held
        pickled = pickle.dumps(found)
    mmbloom.publish(path, new(7))
    with unpickle(pickled) as again:
        assert (again.mode, again._follower.seconds, only(7) in again) == (mode, 0, True)


@BAD_FILES
def test_a_follower_of_a_bad_file_goes_on_and_reports_once(
    path: Path, new: Callable[..., Path], damage: Callable[[Path], None], error: type[Exception]
) -> None:
    """A warning and reload_error; both end with the next good file."""
    with mmbloom.open(path, follow=0) as found:
        damage(path)
        with pytest.warns(RuntimeWarning, match="goes on answering"):
            assert only(1) in found
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                assert only(1) in found
                assert found.contains_many(keys(20)).all()
            assert isinstance(found.reload_error, error)
            new(3).replace(path)
            assert only(3) in found
            assert found.reload_error is None


def test_a_follower_opens_a_bad_file_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In mode "ram" each time would read all of it."""
    with mmbloom.open(path, mode="ram", follow=0) as found:
        cut(path)
        with pytest.warns(RuntimeWarning, match="goes on answering"):
            assert only(1) in found
        monkeypatch.setattr(type(found), "reload_if_changed", lambda _: pytest.fail("opened again"))
        assert found.contains_many([only(1)] * 3).all()
        assert only(1) in found


def test_a_follower_looks_no_more_often_than_it_is_told(
    path: Path, new: Callable[..., Path]
) -> None:
    """An hour is not over; reload_if_changed() does not wait for it."""
    with mmbloom.open(path, follow=3600) as found:
        assert only(1) in found
        mmbloom.publish(path, new(2))
        assert only(2) not in found
        assert not found.contains_many([only(2)]).any()
        assert found.reload_if_changed()
        assert only(2) in found


def test_a_follower_looks_again_after_its_time(path: Path, new: Callable[..., Path]) -> None:
    """Within a second for a tenth of one."""
    with mmbloom.open(path, follow=0.1) as found:
        assert only(1) in found
        mmbloom.publish(path, new(2))
        end = time.monotonic() + 10
        while only(2) not in found:
            assert time.monotonic() < end


@pytest.mark.parametrize("follow", [-1, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(path: Path, follow: float) -> None:
    """Naming the parameter."""
    with pytest.raises(ParameterError, match="follow"):
        mmbloom.open(path, follow=follow)


def test_a_type_that_is_no_time_is_refused(path: Path) -> None:
    """True is not a second."""
    for follow in (True, "1"):
        with pytest.raises(ParameterTypeError, match="follow"):
            mmbloom.open(path, follow=follow)  # type: ignore[arg-type]


def test_a_pinned_file_has_no_next_generation(path: Path, new: Callable[..., Path]) -> None:
    """To follow it makes no sense, and to reload it refuses all others."""
    digest = mmbloom.file_digest(path)
    with pytest.raises(ParameterError, match="follow"):
        mmbloom.open(path, expected_digest=digest, follow=1)
    with mmbloom.open(path, expected_digest=digest) as found:
        mmbloom.publish(path, new(2))
        with pytest.raises(ChecksumError):
            found.reload_if_changed()
        assert only(1) in found


def test_a_writable_file_that_is_added_to_is_not_another_file(tmp_path: Path) -> None:
    """Readers see what is added anyway."""
    path = writable_file(tmp_path / "a.mmb")
    with mmbloom.open(path) as found, mmbloom.open_writable(path) as writer:
        writer.add("new")
        writer.flush()
        assert "new" in found
        assert not found.reload_if_changed()


def test_writers_and_filters_in_memory_have_nothing_to_reload(tmp_path: Path) -> None:
    """They are what they are."""
    path = writable_file(tmp_path / "a.mmb")
    with mmbloom.open_writable(path) as writer, writer.copy() as memory:
        sealed_file(tmp_path / "b.mmb").rename(tmp_path / "c.mmb")
        assert not writer.reload_if_changed()
        assert not memory.reload_if_changed()


def test_a_reader_finds_its_path_after_a_chdir(
    path: Path, new: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path means what it meant when the filter was opened."""
    monkeypatch.chdir(path.parent)
    with mmbloom.open("a.mmb") as found:
        mmbloom.publish(path, new(2))
        monkeypatch.chdir("/")
        assert found.reload_if_changed()
        assert only(2) in found


def test_a_closed_reader_does_not_reload(path: Path, new: Callable[..., Path]) -> None:
    """Not by itself either."""
    for follow in (None, 0):
        found = mmbloom.open(path, follow=follow)
        found.close()
        new(2).replace(path)
        with pytest.raises(ClosedError):
            found.reload_if_changed()
        with pytest.raises(ClosedError):
            _ = only(1) in found
        with pytest.raises(ClosedError):
            found.contains_many([only(1)])


def test_threads_look_up_while_others_reload(path: Path, new: Callable[..., Path]) -> None:
    """No error, no false no, no batch of two generations; one handle for all."""
    files = [new(number) for number in range(2, 5)]
    stop = threading.Event()
    faults: list[object] = []
    held = held_now()
    asked = keys(20) + [only(number) for number in range(1, 5)]
    with mmbloom.open(path) as found:

        def look() -> None:
            try:
                while not stop.is_set():
                    answers = found.contains_many(asked).tolist()
                    if not (all(answers[:20]) and sum(answers[20:]) == 1 and asked[3] in found):
                        faults.append(answers)
            except BaseException as exc:  # noqa: BLE001 - the test names it
                faults.append(exc)

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(10):
            mmbloom.publish(path, files[number % 3])
            assert found.reload_if_changed()
        stop.set()
        for thread in threads:
            thread.join()
    assert faults == []
    assert held_now() == held


FOLLOW = """
path, asked = sys.argv[1], sys.argv[2].split()
maps = lambda: sum(path in line for line in open("/proc/self/maps"))
import os
with mmbloom.open(path, follow=0) as found:
    descriptors = len(os.listdir("/proc/self/fd"))
    print("ready", flush=True)
    faults, seen = 0, set()
    while found.generation < int(sys.argv[3]):
        answers = found.contains_many(asked)
        seen.add(found.generation)
        faults += not answers[:20].all() or answers[20:].sum() != 1
        faults += sum(key not in found for key in asked[:20])
    print(faults, found.reload_error, maps(), len(os.listdir("/proc/self/fd")) - descriptors)
"""


def test_processes_follow_a_path_through_many_generations(
    path: Path, new: Callable[..., Path]
) -> None:
    """No error, no false no, no mixed batch, one map; the campaign follow does more."""
    asked = keys(20) + [only(number) for number in range(1, 5)]
    files = [new(number) for number in range(2, 5)]
    programs = [Program(FOLLOW, path, " ".join(asked), 40) for _ in range(3)]
    assert [program.line() for program in programs] == ["ready"] * 3
    for number in range(2, 41):
        assert mmbloom.publish(path, files[number % 3]) == number

    for program in programs:
        assert program.line() == "0 None 1 0"
        assert program.end() == 0


def test_a_reload_of_what_has_no_file_does_nothing(path: Path) -> None:
    """A filter in memory has nothing to change to; one that is closed says so."""
    with BloomFilter.in_memory(capacity=5, fpr=0.1) as memory:
        assert not memory.reload_if_changed()
    with mmbloom.open(path) as found:
        pass
    with pytest.raises(ClosedError):
        found.reload_if_changed()


def test_a_successor_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    """Kinds are words to people, numbers to files only."""
    path = tmp_path / "a.mmb"
    mmbloom.build(path, ["ada"], fpr=0.01).close()
    with mmbloom.open(path) as reader:
        mmbloom.build(path, ["ada"], kind="fuse", fpr=0.01, if_exists="replace").close()
        with pytest.raises(mmbloom.IncompatibleError, match="kind: bloom and fuse"):
            reader.reload_if_changed()
        assert "ada" in reader
