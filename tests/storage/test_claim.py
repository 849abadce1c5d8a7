"""One writer per file, by whatever name, handle, thread or process."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Never

import filelock
import pytest
from file_steps import held_now, in_child

from mmbloom.errors import LockHeldError, ReadOnlyError
from mmbloom.storage import locks
from mmbloom.storage.journal import Journal
from mmbloom.storage.locks import try_flock
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.publish import NewFile
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from file_steps import MakeFile

    from mmbloom.format.header import Header


@contextmanager
def held_by_a_child(path: Path, *, fork_again: bool = False) -> Iterator[int]:
    """Yield the PID of a child that holds *path*; with *fork_again*, one that has a child."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        file = WritableFile.open(path)  # noqa: F841 - held
        grandchild = os.fork() if fork_again else -1
        if grandchild != 0:
            os.write(writing, str(grandchild).encode())
        time.sleep(60)
        os._exit(0)
    os.close(writing)
    grandchild = int(os.read(reading, 20))
    os.close(reading)
    try:
        yield pid
    finally:
        for child in (pid, grandchild):
            if child > 0:
                os.kill(child, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_second_handle_of_one_process_is_refused_at_once(writable: Path) -> None:
    """G1: filelock would let one thread in twice; two handles do not share its lock."""
    with WritableFile.open(writable):
        start = time.monotonic()
        with pytest.raises(LockHeldError, match=r"a\.mmb\.lock") as caught:
            WritableFile.open(writable)
        assert time.monotonic() - start < 1

    assert caught.value.path == str(writable)
    WritableFile.open(writable).close()


def test_a_second_handle_in_another_thread_is_refused(writable: Path) -> None:
    """The lock is of the handle, not of the thread."""
    caught = []

    def open_again() -> None:
        try:
            WritableFile.open(writable)
        except LockHeldError as exc:
            caught.append(exc)

    with WritableFile.open(writable):
        thread = threading.Thread(target=open_again)
        thread.start()
        thread.join()

    assert len(caught) == 1


def test_another_thread_may_close_the_file(writable: Path) -> None:
    """A lock that only its own thread could release would last for ever."""
    file = WritableFile.open(writable)
    thread = threading.Thread(target=file.close)
    thread.start()
    thread.join()

    WritableFile.open(writable).close()


def test_another_process_is_refused_and_readers_are_not(writable: Path) -> None:
    """G1, both ways round."""
    with held_by_a_child(writable):
        with pytest.raises(LockHeldError):
            WritableFile.open(writable)
        MappedFile.open(writable).close()


def test_another_program_is_refused(writable: Path) -> None:
    """Not only a fork of this one."""
    code = (
        "import sys; from mmbloom.storage.writable import WritableFile\n"
        "try: WritableFile.open(sys.argv[1])\n"
        "except Exception as exc: print(type(exc).__name__)"
    )
    with WritableFile.open(writable):
        said = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-P", "-c", code, str(writable)],
            check=True,
            capture_output=True,
            text=True,
        )

    assert said.stdout == "LockHeldError\n"


def test_a_program_that_takes_the_lock_file_keeps_writers_out(writable: Path) -> None:
    """A backup script can use filelock, as the name of the lock file promises."""
    with filelock.FileLock(f"{writable}.lock"), pytest.raises(LockHeldError):
        WritableFile.open(writable)


def test_the_lock_ends_with_a_killed_process(writable: Path) -> None:
    """Kill -9 leaves no lock that somebody has to remove by hand."""
    with held_by_a_child(writable) as pid:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        WritableFile.open(writable).close()


def test_the_lock_ends_with_its_process_although_a_forked_child_lives(writable: Path) -> None:
    """A child inherits the descriptors of both locks; it must not keep them."""
    with held_by_a_child(writable, fork_again=True) as pid:
        with pytest.raises(LockHeldError):
            WritableFile.open(writable)
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        WritableFile.open(writable).close()


def test_a_forked_child_that_closes_or_exits_does_not_unlock_its_parent(writable: Path) -> None:
    """A flock is shared with a child; unlocking there would unlock here."""
    with WritableFile.open(writable) as file:
        assert in_child(file.close) == 0
        assert in_child(file._claim._lock.release) == 0
        assert in_child(gc.collect) == 0
        with pytest.raises(LockHeldError):
            WritableFile.open(writable)


def test_a_forked_child_is_refused_and_told_why(writable: Path, header: Header) -> None:
    """Its private copy misses what the parent adds, and nobody would see what it adds."""
    with WritableFile.open(writable) as file:

        def write() -> None:
            for call in (
                lambda: file.payload,
                file.check_own,
                lambda: file.write_through([(0, 1)]),
                lambda: file.write(header.checksums_offset, bytes(8)),
                lambda: file.flush(file.status),
                lambda: file.seal(file.status),
            ):
                with pytest.raises(ReadOnlyError, match="Open the file again in the child"):
                    call()
            with pytest.raises(LockHeldError):
                WritableFile.open(writable)
            file.close(file.status._replace(keys_added=99))

        assert in_child(write) == 0
        file.flush(file.status._replace(keys_added=3))

    with MappedFile.open(writable) as mapped:
        assert mapped.status.keys_added == 3


@pytest.mark.parametrize("link", ["symbolic", "hard"])
def test_a_link_to_a_file_that_is_written_is_the_same_file(
    writable: Path, tmp_path: Path, link: str
) -> None:
    """Two paths have two lock files, but only one file is there to be spoilt."""
    other = tmp_path / "other.mmb"
    if link == "symbolic":
        other.symlink_to(writable)
    else:
        other.hardlink_to(writable)
    before = held_now()
    with WritableFile.open(writable), pytest.raises(LockHeldError):
        WritableFile.open(other)

    assert held_now() == before
    WritableFile.open(other).close()


def test_a_refused_open_leaves_nothing_behind(sealed: Path, writable: Path) -> None:
    """100 times each: sealed, held, missing."""
    with WritableFile.open(writable):
        before = held_now()
        for _ in range(100):
            for path, error in (
                (sealed, ReadOnlyError),
                (writable, LockHeldError),
                (sealed.with_name("none"), FileNotFoundError),
            ):
                with pytest.raises(error):
                    WritableFile.open(path)
        assert held_now() == before

    assert not sealed.with_name("sealed.mmb.lock").exists()


def test_a_failing_map_releases_everything(writable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is held already when the file is mapped."""

    def fail(*_args: object) -> Never:
        raise MemoryError

    before = held_now()
    monkeypatch.setattr("mmbloom.storage.writable.map_file", fail)
    with pytest.raises(MemoryError):
        WritableFile.open(writable)
    monkeypatch.undo()

    assert held_now() == before
    WritableFile.open(writable).close()


def test_a_file_replaced_between_open_and_lock_is_opened_again(
    writable: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer of the old file would add keys to a file without a name."""
    others = [make_file("b.mmb")]

    def lock_late(fd: int) -> bool:
        if others:
            os.replace(others.pop(), writable)
        return try_flock(fd)

    monkeypatch.setattr("mmbloom.storage.writer_claim.try_flock", lock_late)
    with WritableFile.open(writable) as file:
        file.flush(file.status._replace(keys_added=5))

    with MappedFile.open(writable) as mapped:
        assert mapped.status.keys_added == 5


def test_a_file_replaced_again_and_again_is_given_up(
    writable: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not an endless loop."""

    def lock_late(fd: int) -> bool:
        os.replace(make_file("b.mmb"), writable)
        return try_flock(fd)

    monkeypatch.setattr("mmbloom.storage.writer_claim.try_flock", lock_late)
    with pytest.raises(OSError, match="another file has this path"):
        WritableFile.open(writable)


def test_a_file_system_without_flock_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can hold such a lock there, so everybody has it; a real fault passes through."""

    def answer(number: int) -> Callable[[int, int], None]:
        def flock(_fd: int, _how: int) -> Never:
            raise OSError(number, os.strerror(number))

        return flock

    monkeypatch.setattr("fcntl.flock", answer(95))
    assert try_flock(0)
    monkeypatch.setattr("fcntl.flock", answer(5))
    with pytest.raises(OSError, match="Input/output"):
        try_flock(0)


def test_the_lock_file_stays(writable: Path) -> None:
    """Removing it would let two writers in: one with the removed file, one with a new one."""
    WritableFile.open(writable).close()

    assert writable.with_name("a.mmb.lock").exists()


def test_a_file_that_may_not_be_written_is_refused_by_the_system(writable: Path) -> None:
    """PermissionError for mode 0444, as for any file."""
    writable.chmod(0o444)

    def as_nobody() -> None:
        os.chdir(writable.parent)
        if os.geteuid() == 0:
            os.setuid(65534)
        with pytest.raises(PermissionError):
            WritableFile.open(os.path.relpath(writable))

    assert in_child(as_nobody) == 0


def test_a_lock_file_that_is_a_symbolic_link_is_not_followed(writable: Path) -> None:
    """Else who may make files beside the filter could have any file of the writer opened."""
    victim = writable.parent / "victim"
    victim.write_bytes(b"precious")
    writable.with_name("a.mmb.lock").symlink_to(victim)

    with pytest.raises(OSError, match="symbolic link"):
        WritableFile.open(writable)
    assert victim.read_bytes() == b"precious"


def test_a_file_that_is_replaced_before_it_is_locked_is_locked_anew(
    make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock on a file that has lost its path keeps nobody out of the new one."""
    path, other = make_file(), make_file("b.mmb")
    real_flock = locks.try_flock

    def replace_first(fd: int) -> bool:
        if other.exists():
            other.replace(path)
        return real_flock(fd)

    monkeypatch.setattr(locks, "try_flock", replace_first)
    with locks.writers_kept_out(str(path)), pytest.raises(LockHeldError):
        WritableFile.open(path)


@contextmanager
def idle_child() -> Iterator[None]:
    """Fork a child that lives through the block and does nothing."""
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("hold", "locked"),
    [
        pytest.param(lambda path: locks.writers_kept_out(str(path)), "file", id="file"),
        pytest.param(lambda path: locks.folder_locked(str(path.parent)), "folder", id="folder"),
        pytest.param(lambda path: Journal(str(path.parent / "j")), "journal", id="journal"),
    ],
)
def test_a_lock_that_was_given_back_is_free_although_a_forked_child_lives(
    make_file: MakeFile, hold: Callable[[Path], AbstractContextManager[object]], locked: str
) -> None:
    """A child inherits the descriptor of every lock that another thread holds just then."""
    path = make_file()
    with ExitStack() as children:
        with hold(path):
            children.enter_context(idle_child())
        name = {"file": path, "folder": path.parent, "journal": path.parent / "j"}[locked]
        fd = os.open(name, os.O_RDONLY)
        try:
            assert try_flock(fd)
        finally:
            os.close(fd)


def test_a_replaced_file_can_be_replaced_again_although_a_forked_child_lives(
    make_file: MakeFile,
) -> None:
    """The new file is locked before it has its name: the child must not keep that lock."""
    path = make_file()
    with ExitStack() as children:
        for _ in range(2):
            with NewFile(path, path.stat().st_size, "replace") as new:
                new.publish(lambda: children.enter_context(idle_child()))


def test_a_child_that_leaves_the_block_does_not_unlock_its_parents_file(
    make_file: MakeFile,
) -> None:
    """Its copy of the descriptor goes, the lock stays."""
    path = make_file()
    with locks.writers_kept_out(str(path)), ExitStack() as inner:
        inner.enter_context(locks.folder_locked(str(path.parent)))
        assert in_child(inner.close) == 0
        fd = os.open(path.parent, os.O_RDONLY)
        try:
            assert not try_flock(fd)
        finally:
            os.close(fd)
