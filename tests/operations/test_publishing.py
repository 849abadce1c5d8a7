"""Publishing a finished file: copied and verified, numbered, visible in one step or not at all."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filter_files import facts_of, held_now, in_child, keys, sealed_file, writable_file

import mmbloom
from mmbloom import (
    ChecksumError,
    FormatError,
    LockHeldError,
    NoSpaceError,
    ParameterError,
    ParameterTypeError,
    TruncatedError,
)
from mmbloom.format.fields import SLOT_BYTES, SLOT_OFFSETS
from mmbloom.operations import publishing

if TYPE_CHECKING:
    from collections.abc import Callable

# Every call by which publishing changes a file or a folder.
STEPS = ("open", "posix_fallocate", "pwrite", "fchmod", "fsync", "link", "replace", "unlink")


def test_the_copy_is_the_file_but_for_its_generation(tmp_path: Path, layout: str) -> None:
    """The UUID too, so that it can be told where it came from; the file itself stays."""
    new = sealed_file(tmp_path / "new.mmb", count=3000, layout=layout)
    before = facts_of(new)
    for number in (1, 2, 3):
        assert mmbloom.publish(tmp_path / "a.mmb", new) == number
        with mmbloom.open(tmp_path / "a.mmb") as found, mmbloom.open(new) as source:
            assert (found.generation, source.generation) == (number, 1)
            assert found.verify() > 0
            assert (found == source, found.uuid == source.uuid) == (True, True)
    assert facts_of(new) == before
    original, copy = bytearray(new.read_bytes()), bytearray((tmp_path / "a.mmb").read_bytes())
    for offset in SLOT_OFFSETS:
        for content in (original, copy):
            content[offset : offset + SLOT_BYTES] = bytes(SLOT_BYTES)
    assert original == copy


def test_a_copy_of_several_pieces_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One MiB at a time here; the last piece is shorter."""
    monkeypatch.setattr(publishing, "_CHUNKS_AT_ONCE", 1)
    monkeypatch.setattr("mmbloom.storage.progress._PAUSE_SECONDS", -1.0)
    new = tmp_path / "new.mmb"
    mmbloom.build(new, keys(10), fpr=0.001, capacity=10**6, layout="line").close()
    told: list[tuple[int, int]] = []
    mmbloom.publish(tmp_path / "a.mmb", new, progress=lambda at: told.append(at[1:3]))

    with mmbloom.open(tmp_path / "a.mmb") as found:
        total = found.info()["payload_bytes"]
        assert found.verify() == total
    assert told == [(min(at + (1 << 20), total), total) for at in range(0, total, 1 << 20)]
    assert len(told) == 2


@pytest.mark.parametrize("offset", [4096, 5000, -9, -1])
def test_a_file_with_one_changed_bit_is_not_published(tmp_path: Path, offset: int) -> None:
    """Neither over an old file nor as a new one."""
    new = sealed_file(tmp_path / "new.mmb", count=2000)
    old = sealed_file(tmp_path / "old.mmb")
    content = bytearray(new.read_bytes())
    content[offset] ^= 1
    new.write_bytes(content)
    before, held = facts_of(old), held_now()

    for path in (old, tmp_path / "a.mmb"):
        with pytest.raises(ChecksumError):
            mmbloom.publish(path, new)
    assert facts_of(old) == before
    assert sorted(os.listdir(tmp_path)) == ["new.mmb", "old.mmb"]
    assert held_now() == held


def test_a_file_that_is_cut_while_it_is_copied_is_not_published(tmp_path: Path) -> None:
    """It is read, not mapped: an error, not a signal."""
    new = tmp_path / "new.mmb"
    mmbloom.build(new, keys(10), fpr=0.001, capacity=10**7, layout="line").close()

    with pytest.raises(TruncatedError):
        mmbloom.publish(tmp_path / "a.mmb", new, progress=lambda *_: os.truncate(new, 1 << 20))
    assert os.listdir(tmp_path) == ["new.mmb"]


def test_what_is_not_sealed_is_not_published(tmp_path: Path) -> None:
    """It has no checksums, and is still to change."""
    with pytest.raises(ParameterError, match=r"seal\(\)"):
        mmbloom.publish(tmp_path / "a.mmb", writable_file(tmp_path / "new.mmb"))


@pytest.mark.parametrize("content", [b"", b"precious", b"x" * 9000])
def test_a_file_that_is_no_filter_is_never_replaced(tmp_path: Path, content: bytes) -> None:
    """Two paths in the wrong order must not cost anybody a file."""
    new = sealed_file(tmp_path / "new.mmb")
    (tmp_path / "notes.txt").write_bytes(content)
    with pytest.raises(FormatError, match="magic"):
        mmbloom.publish(tmp_path / "notes.txt", new)

    assert (tmp_path / "notes.txt").read_bytes() == content


def test_a_filter_that_is_damaged_is_replaced(tmp_path: Path) -> None:
    """That is the remedy; its generation cannot be read, so numbers start anew."""
    new, path = sealed_file(tmp_path / "new.mmb"), sealed_file(tmp_path / "a.mmb")
    assert [mmbloom.publish(path, new) for _ in range(2)] == [2, 3]
    os.truncate(path, 5000)

    assert mmbloom.publish(path, new) == 1


def test_a_file_is_not_published_over_itself(tmp_path: Path) -> None:
    """By whatever name."""
    path = sealed_file(tmp_path / "a.mmb")
    (tmp_path / "link.mmb").symlink_to(path)
    for other in (path, tmp_path / "link.mmb"):
        with pytest.raises(ParameterError, match="new"):
            mmbloom.publish(other, path)


def test_a_file_that_somebody_writes_is_not_replaced(tmp_path: Path) -> None:
    """What is added afterwards would be lost."""
    new, path = sealed_file(tmp_path / "new.mmb"), writable_file(tmp_path / "a.mmb")
    with mmbloom.open_writable(path), pytest.raises(LockHeldError):
        mmbloom.publish(path, new)
    assert mmbloom.publish(path, new) == 2


def test_a_symbolic_link_is_replaced_itself(tmp_path: Path) -> None:
    """What it leads to may be somebody else's."""
    new, target = sealed_file(tmp_path / "new.mmb"), sealed_file(tmp_path / "target.mmb")
    before = facts_of(target)
    (tmp_path / "link.mmb").symlink_to(target)
    assert mmbloom.publish(tmp_path / "link.mmb", new) == 2

    assert not (tmp_path / "link.mmb").is_symlink()
    assert facts_of(target) == before


def test_a_full_disk_leaves_the_old_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error before anything is copied."""
    new, path = sealed_file(tmp_path / "new.mmb"), sealed_file(tmp_path / "a.mmb", count=5)
    before = facts_of(path)

    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(NoSpaceError):
        mmbloom.publish(path, new)
    assert facts_of(path) == before


def die_at(fatal: int, act: Callable[[], object]) -> None:
    """Run *act*, and kill this process before that step of it."""
    left = iter(range(1, 1000))

    def dying(real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **named: object) -> object:
            if next(left) == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **named)

        return step

    for name in STEPS:
        setattr(os, name, dying(getattr(os, name)))
    act()


def test_a_publisher_killed_at_any_step_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    """Complete, and with its keys; then the next publisher goes on."""
    new = sealed_file(tmp_path / "new.mmb", count=30)
    path = sealed_file(tmp_path / "a.mmb")
    for fatal in range(1, 1000):
        code = in_child(lambda: die_at(fatal, lambda: mmbloom.publish(path, new)))  # noqa: B023
        with mmbloom.open(path) as found:
            assert found.verify() > 0
            assert found.contains_many(keys(20 if found.generation == 1 else 30)).all()
            published = found.generation == 2
        if code == 0:
            break
        assert code == -signal.SIGKILL
        if published:
            sealed_file(path.with_name("old.mmb")).replace(path)
    assert published
    assert fatal > 8
    mmbloom.publish(path, new)
    assert sorted(os.listdir(tmp_path)) == ["a.mmb", "new.mmb"]


def test_of_publishers_at_the_same_time_each_gets_a_number_of_its_own(tmp_path: Path) -> None:
    """Or is told that another one is at it."""
    new, path = sealed_file(tmp_path / "new.mmb"), sealed_file(tmp_path / "a.mmb")

    def publish_some() -> None:
        with Path(tmp_path / f"numbers-{os.getpid()}").open("w") as numbers:
            while numbers.tell() < 30:
                try:
                    numbers.write(f"{mmbloom.publish(path, new)}\n")
                except LockHeldError:
                    continue

    children = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                publish_some()
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
    numbers = [
        int(line) for file in tmp_path.glob("numbers-*") for line in file.read_text().split()
    ]
    assert sorted(numbers) == list(range(2, len(numbers) + 2))


def test_where_to_publish_is_checked_at_the_door(tmp_path: Path) -> None:
    """As every other path is."""
    new = sealed_file(tmp_path / "new.mmb")
    with pytest.raises(ParameterTypeError, match="path"):
        mmbloom.publish(3, new)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="surrogates"):
        mmbloom.publish("\ud800", new)
