"""The life of a filter in a file: made, opened, written, read beside a writer, killed, sealed."""

from __future__ import annotations

import errno
import gc
import hashlib
import multiprocessing
import operator
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

import mmbloom
from mmbloom import (
    BloomFilter,
    CapacityError,
    ChecksumError,
    ClosedError,
    FormatError,
    IncompatibleError,
    LockHeldError,
    NoSpaceError,
    ReadOnlyError,
    TruncatedError,
    VersionError,
)
from mmbloom.errors import MmbloomError
from mmbloom.files import mapped
from mmbloom.files.writable import WritableFile
from mmbloom.filters import measure
from mmbloom.format.fields import HEADER, KEYS_EXACT, SLOT_OFFSETS
from mmbloom.format.rules import page_checksum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEVER = 1e-9  # no false positive among the few thousand absent keys of a test
LAYOUTS = ("classic", "line", "page")
NOBODY = 65534
TAIL = 8  # a checksum table of one MiB or less


def keys(count: int, start: int = 0) -> list[str]:
    """Return distinct keys, the same ones in every run."""
    return [f"/srv/pages/{i}.html" for i in range(start, start + count)]


def payload_of(filter_: BloomFilter) -> bytes:
    """Return the bits."""
    return bytes(filter_._open_payload())


def sealed_file(path: Path, count: int = 20, layout: str = "line", fpr: float = NEVER) -> Path:
    """Build a small file."""
    mmbloom.build(path, keys(count), fpr=fpr, layout=layout).close()
    return path


def writable_file(path: Path, count: int = 20, **parameters: object) -> Path:
    """Make a small file that can be added to."""
    given: dict[str, object] = {"capacity": 100, "fpr": NEVER, "layout": "line"} | parameters
    with BloomFilter.create(path, **given) as made:  # type: ignore[arg-type]
        made.update(keys(count))
    return path


class Facts(NamedTuple):
    """What must not change when somebody reads."""

    sha256: str
    mtime_ns: int
    ctime_ns: int
    mode: int


def facts_of(path: Path) -> Facts:
    """Return them."""
    found = path.stat()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Facts(digest, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)


def in_child(act: Callable[[], object]) -> int:
    """Run *act* in a forked child; return its exit code, 1 if it raised."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:  # noqa: BLE001 - the parent needs the exit code, the reader the text
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def unpickle(pickled: bytes) -> BloomFilter:
    """Return what was pickled."""
    found = pickle.loads(pickled)  # noqa: S301 - made by this test
    assert isinstance(found, BloomFilter)
    return found


class Program:
    """Another Python process that runs a few lines, and says so when it is done with them."""

    def __init__(self, code: str, *arguments: object) -> None:
        """Start it; *code* finds its arguments in sys.argv and mmbloom imported."""
        self.process = subprocess.Popen(  # noqa: S603 - this Python
            [sys.executable, "-c", f"import sys, mmbloom\n{code}", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """Wait for the next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, text: str) -> None:
        """Send it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it, as kill -9 does."""
        self.process.kill()
        self.process.communicate()
        assert self.process.returncode == -signal.SIGKILL

    def end(self) -> int:
        """Wait for its end; return the exit code."""
        self.process.communicate()
        return self.process.returncode


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    """Run a test once a layout."""
    return str(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that other users can look into, unlike tmp_path."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


# -- create and open -------------------------------------------------------------------------------


def test_a_created_filter_is_a_file_at_once_and_open_for_writing(
    tmp_path: Path, layout: str
) -> None:
    """Readers may open it before the first key."""
    path = tmp_path / "a.mmb"
    with BloomFilter.create(path, capacity=50, fpr=0.01, layout=layout) as made:
        assert made.path == str(path)
        assert (made.writable, made.sealed, made.closed) == (True, False, False)
        with mmbloom.open(path) as reader:
            assert "ada" not in reader
            assert (reader.writable, reader.sealed) == (False, False)
    assert path.stat().st_size == 4096 + made.geometry.payload_bytes + TAIL


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    """0666 without the umask, and not 0755."""
    umask = os.umask(0o027)
    try:
        writable_file(tmp_path / "created.mmb")
        sealed_file(tmp_path / "built.mmb")
    finally:
        os.umask(umask)

    for name in ("created.mmb", "built.mmb"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("content", [b"", b"precious", None])
def test_create_never_replaces_a_file(tmp_path: Path, content: bytes | None) -> None:
    """Neither a filter nor anything else; not a byte of it changes."""
    path = tmp_path / "a.mmb"
    if content is None:
        sealed_file(path)
    else:
        path.write_bytes(content)
    before = facts_of(path)

    with pytest.raises(FileExistsError, match="choose another path"):
        BloomFilter.create(path, capacity=10, fpr=0.1)
    with pytest.raises(FileExistsError):
        mmbloom.build(path, keys(3), fpr=0.1)
    with BloomFilter.in_memory(capacity=10, fpr=0.1) as found, pytest.raises(FileExistsError):
        found.save(path)

    assert facts_of(path) == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.mmb"]


@pytest.mark.parametrize("kind", [str, os.fsencode, Path], ids=["str", "bytes", "Path"])
def test_a_path_may_have_any_path_type(tmp_path: Path, kind: Callable[[str], object]) -> None:
    """For every call that takes one."""
    path = kind(str(tmp_path / "a.mmb"))
    BloomFilter.create(path, capacity=10, fpr=0.1).close()  # type: ignore[arg-type]
    BloomFilter.open_writable(path).close()  # type: ignore[arg-type]
    mmbloom.build(path, keys(3), fpr=0.1, if_exists="replace").close()  # type: ignore[arg-type]
    with mmbloom.open(path) as found:  # type: ignore[arg-type]
        found.copy().save(path, if_exists="replace")  # type: ignore[arg-type]


def test_opening_needs_no_parameter_and_finds_them_all(tmp_path: Path, layout: str) -> None:
    """One file says everything."""
    path = tmp_path / "a.mmb"
    given = {"seed": 9, "key_form": "hex", "metadata": {"list": "é"}}
    with BloomFilter.create(path, capacity=60, fpr=0.02, layout=layout, **given) as made:  # type: ignore[arg-type]
        made.update(["00ff", "abcd"])
        made.seal()
        facts = made.info()

    with mmbloom.open(path) as found:
        assert found.info() == facts
        assert (found.seed, found.key_form, found.metadata) == (9, "hex", {"list": "é"})
        assert "00FF" in found
        assert found == made.__class__.open(path)


def open_read_only(path: Path) -> BloomFilter:
    """Open to read."""
    return mmbloom.open(path)


def open_to_write(path: Path) -> BloomFilter:
    """Open to write."""
    return mmbloom.open_writable(path)


OPENS = pytest.mark.parametrize("open_", [open_read_only, open_to_write])


@OPENS
def test_what_is_no_file_is_refused_with_the_systems_own_error(
    tmp_path: Path, open_: Callable[[Path], BloomFilter]
) -> None:
    """A missing file, a missing folder, a directory; nothing is made."""
    with pytest.raises(FileNotFoundError):
        open_(tmp_path / "missing.mmb")
    with pytest.raises(FileNotFoundError):
        open_(tmp_path / "missing" / "a.mmb")
    with pytest.raises(IsADirectoryError):
        open_(tmp_path)
    assert list(tmp_path.iterdir()) == []


@OPENS
def test_a_fifo_is_refused_and_does_not_block(
    tmp_path: Path, open_: Callable[[Path], BloomFilter]
) -> None:
    """A filter is mapped, so it cannot be piped."""
    os.mkfifo(tmp_path / "fifo")

    with pytest.raises(FormatError, match="FIFO"):
        open_(tmp_path / "fifo")


def test_what_cannot_be_made_is_refused_with_the_systems_own_error(tmp_path: Path) -> None:
    """By create, build and save alike."""
    with BloomFilter.in_memory(capacity=10, fpr=0.1) as found:
        for make in (
            lambda path: BloomFilter.create(path, capacity=10, fpr=0.1),
            lambda path: mmbloom.build(path, keys(3), fpr=0.1),
            found.save,
        ):
            with pytest.raises(FileNotFoundError, match="folder"):
                make(tmp_path / "missing" / "a.mmb")
            with pytest.raises(IsADirectoryError):
                make(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not")
def test_without_permission_nothing_is_opened_made_or_left(folder: Path) -> None:
    """PermissionError, whoever is asked for what."""
    secret = sealed_file(folder / "secret.mmb")
    secret.chmod(0o600)
    public = writable_file(folder / "public.mmb")
    names = sorted(folder.iterdir())

    def try_as_nobody() -> None:
        os.setuid(NOBODY)
        for refused in (
            lambda: mmbloom.open(secret),
            lambda: mmbloom.open_writable(public),
            lambda: BloomFilter.create(folder / "new.mmb", capacity=10, fpr=0.1),
            lambda: mmbloom.build(folder / "new.mmb", keys(3), fpr=0.1),
        ):
            with pytest.raises(PermissionError):
                refused()

    assert in_child(try_as_nobody) == 0
    assert sorted(folder.iterdir()) == names


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_reads_a_read_only_file_in_a_read_only_folder(folder: Path) -> None:
    """Mode 0444 in 0555: opening and look-ups need nothing else, and leave no trace."""
    path = sealed_file(folder / "a.mmb")
    path.chmod(0o444)
    folder.chmod(0o555)
    before = facts_of(path)
    with mmbloom.open(path) as warm:  # what loads when used is loaded
        warm.contains_many(np.array(keys(20)))

    def read_as_nobody() -> None:
        os.setuid(NOBODY)
        with mmbloom.open(path) as found:
            assert found.contains_many(keys(40)).tolist() == [True] * 20 + [False] * 20
            assert found.verify() > 0

    assert in_child(read_as_nobody) == 0
    assert facts_of(path) == before


def test_reading_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a byte, not a time stamp; the file is not even opened for writing."""
    path = sealed_file(tmp_path / "a.mmb")
    before = facts_of(path)
    flags_used = []
    real_open = os.open

    def recording(name: str, flags: int, *rest: int, **named: int) -> int:
        flags_used.append(flags & os.O_ACCMODE)
        return real_open(name, flags, *rest, **named)

    monkeypatch.setattr(os, "open", recording)
    with mmbloom.open(path) as found:
        for key in keys(200):
            assert key in found or key not in found
        found.contains_many(keys(200))
        found.info()
        found.verify()
        found.copy().close()
        assert found == unpickle(pickle.dumps(found))

    assert set(flags_used) == {os.O_RDONLY}
    assert facts_of(path) == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.mmb"]


@pytest.mark.parametrize("advice", ["normal", "random", "willneed", "preload"])
def test_advice_changes_no_answer(tmp_path: Path, advice: str) -> None:
    """Only how the system reads the file."""
    path = sealed_file(tmp_path / "a.mmb")

    with mmbloom.open(path, advice=advice) as found:  # type: ignore[arg-type]
        assert found.contains_many(keys(40)).tolist() == [True] * 20 + [False] * 20


# -- read-only -------------------------------------------------------------------------------------


CHANGES: list[tuple[str, Callable[[BloomFilter], object]]] = [
    ("add", lambda f: f.add("new")),
    ("add-what-is-in", lambda f: f.add(keys(1)[0])),
    ("update", lambda f: f.update(["new"])),
    ("update-of-nothing", lambda f: f.update([])),
    ("ior", lambda f: f.__ior__(f)),
    ("iand", lambda f: f.__iand__(f)),
    ("clear", lambda f: f.clear()),
    ("seal", lambda f: f.seal()),
]


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in CHANGES])
@pytest.mark.parametrize("make", [sealed_file, writable_file])
def test_a_reader_refuses_every_change(
    tmp_path: Path, make: Callable[[Path], Path], change: Callable[[BloomFilter], object]
) -> None:
    """And says what to do instead; the file is as before."""
    path = make(tmp_path / "a.mmb")
    before = facts_of(path)

    with mmbloom.open(path) as reader:
        with pytest.raises(ReadOnlyError, match="open_writable"):
            change(reader)
        reader.flush()

    assert facts_of(path) == before


def test_a_sealed_file_is_not_opened_for_writing(tmp_path: Path) -> None:
    """It never changes again: readers of it count on that."""
    path = sealed_file(tmp_path / "a.mmb")
    before = facts_of(path)

    with pytest.raises(ReadOnlyError, match="sealed"):
        mmbloom.open_writable(path)
    assert facts_of(path) == before


def test_a_filter_in_memory_has_no_file_to_seal() -> None:
    """The error names the call that makes one."""
    with (
        BloomFilter.in_memory(capacity=10, fpr=0.1) as found,
        pytest.raises(ReadOnlyError, match="save"),
    ):
        found.seal()


# -- writing ---------------------------------------------------------------------------------------


def test_a_writer_goes_on_where_the_last_one_ended(tmp_path: Path, layout: str) -> None:
    """Keys, count and capacity; a filter that was closed in between is like one that was not."""
    path = writable_file(tmp_path / "a.mmb", count=40, layout=layout)
    with mmbloom.open_writable(path) as again:
        assert again.keys_added == 40
        assert again.contains_many(keys(40)).all()
        assert again.update(keys(100)) == 60
        with pytest.raises(CapacityError):
            again.add("one too many")
    whole = writable_file(tmp_path / "whole.mmb", count=100, layout=layout)

    with mmbloom.open(path) as found, mmbloom.open(whole) as at_once:
        assert found == at_once
        assert found.keys_added == at_once.keys_added == 100
        assert found.info()["writer_open"] is False


def test_opening_for_writing_and_closing_changes_nothing(tmp_path: Path) -> None:
    """Nor does adding what is in, or a flush without a change."""
    path = writable_file(tmp_path / "a.mmb")
    before = facts_of(path)
    with mmbloom.open_writable(path) as again:
        again.add(keys(1)[0])
        again.update(keys(20))
        again.flush()

    assert facts_of(path) == before


def test_a_second_writer_is_refused_at_once(tmp_path: Path) -> None:
    """In this process and in another one, until the first has closed; readers are welcome."""
    path = tmp_path / "a.mmb"
    try_it = "try: mmbloom.open_writable(sys.argv[1])\nexcept mmbloom.LockHeldError: print('held')"
    with BloomFilter.create(path, capacity=10, fpr=0.1) as first:
        with pytest.raises(LockHeldError, match="read-only") as caught:
            mmbloom.open_writable(path)
        assert caught.value.path == str(path)
        other = Program(try_it, path)
        assert (other.line(), other.end()) == ("held", 0)
        mmbloom.open(path).close()
        assert first.add("still writing")
    mmbloom.open_writable(path).close()


def test_a_file_that_is_being_written_is_not_replaced(tmp_path: Path) -> None:
    """What the writer adds would be lost with the old file."""
    path = tmp_path / "a.mmb"
    with BloomFilter.create(path, capacity=10, fpr=NEVER) as writer:
        writer.add("kept")
        with pytest.raises(LockHeldError):
            mmbloom.build(path, keys(3), fpr=0.1, if_exists="replace")
        with pytest.raises(LockHeldError):
            writer.save(path, if_exists="replace")
    with mmbloom.open(path) as found:
        assert "kept" in found


def test_a_reader_in_another_process_sees_every_key_added_before_it_looked(tmp_path: Path) -> None:
    """At once, without a flush: single keys and batches, the reader having been there before."""
    path = tmp_path / "a.mmb"
    reader = Program(
        "f = mmbloom.open(sys.argv[1])\n"
        "for line in sys.stdin: print(line.strip() in f, flush=True)\n",
        path := writable_file(path, count=0, capacity=1000),
    )
    with mmbloom.open_writable(path) as writer:
        for number, key in enumerate(keys(300)):
            if number % 3:
                writer.add(key)
            else:
                writer.update([key, f"beside {number}"])
            reader.tell(key)
            assert reader.line() == "True"
        reader.tell("absent")
        assert reader.line() == "False"
    reader.kill()


def test_flush_survives_kill_9_with_keys_and_count(tmp_path: Path, layout: str) -> None:
    """What was added after it is there too, if not counted: the process died, not the system."""
    path = tmp_path / "a.mmb"
    writer = Program(
        "f = mmbloom.BloomFilter.create(sys.argv[1], capacity=400, fpr=1e-9, layout=sys.argv[2])\n"
        "f.update(f'flushed {i}' for i in range(100))\n"
        "f.flush()\n"
        "f.update(f'added {i}' for i in range(200))\n"
        "print('done', flush=True)\n"
        "sys.stdin.read()\n",
        path,
        layout,
    )
    assert writer.line() == "done"
    writer.kill()

    with mmbloom.open(path) as found:
        assert found.keys_added == 100
        assert found.info()["writer_open"] is True
        assert all(f"flushed {i}" in found for i in range(100))
        assert all(f"added {i}" in found for i in range(200))
        assert found.approx_count() == pytest.approx(300, abs=10)
    with mmbloom.open_writable(path) as again:
        assert 270 <= again.keys_added <= 300
        again.add("one more")
    with mmbloom.open(path) as found:
        assert found.info()["writer_open"] is False
        assert 270 <= found.keys_added <= 301


def test_a_writer_killed_anywhere_loses_no_key_that_it_was_told_is_in(tmp_path: Path) -> None:
    """Four times, each killed at another point of adding; every key that came back is found."""
    path = tmp_path / "a.mmb"
    BloomFilter.create(path, capacity=20_000, fpr=0.001).close()
    told: list[str] = []
    for round_number in range(4):
        writer = Program(
            "f = mmbloom.open_writable(sys.argv[1])\n"
            "for i in range(2000):\n"
            "    key = f'{sys.argv[2]}-{i}'\n"
            "    f.add(key)\n"
            "    if i % 50 == 0: f.flush()\n"
            "    print(key, flush=True)\n",
            path,
            round_number,
        )
        told += [writer.line() for _ in range(20 + 37 * round_number)]
        writer.process.kill()
        out, _ = writer.process.communicate()
        told += out.splitlines()[:-1]  # the last line may be cut
        with mmbloom.open(path) as found:
            assert found.contains_many(told).all()

    with mmbloom.open_writable(path) as again:
        assert again.contains_many(told).all()
        assert 0.9 * len(told) <= again.keys_added <= len(told) + 4 * 60


@pytest.mark.parametrize("seed", range(5))
def test_a_count_that_was_rebuilt_takes_no_room_away(layout: str, seed: int) -> None:
    """After a crash the same list is added again: all of it must fit.

    The rebuilt count is never above the truth, and at most eight sigma below; with 1000 keys at
    1 % sigma is 7.7.
    """
    with BloomFilter.in_memory(capacity=1000, fpr=0.01, layout=layout, seed=seed) as found:
        for count in (1, 10, 100, 999, 1000):
            found.update(keys(count))
            rebuilt = measure.fewest_keys(found.geometry, found._open_payload())
            assert count - 62 <= rebuilt <= count


def test_a_list_added_again_after_a_crash_fits(tmp_path: Path) -> None:
    """Although the count had to be estimated."""
    path = writable_file(tmp_path / "a.mmb", count=0, capacity=500, fpr=0.01)

    def die_while_adding() -> None:
        mmbloom.open_writable(path).update(keys(450))
        os._exit(0)

    assert in_child(die_while_adding) == 0
    with mmbloom.open_writable(path) as again:
        assert 400 <= again.keys_added <= 450
        again.update(keys(500))
        assert again.contains_many(keys(500)).all()


def test_flush_makes_keys_and_count_durable_in_that_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys are synced before the slot that counts them is written, and the slot after it."""
    steps = []
    for name in ("pwrite", "fdatasync"):
        real = getattr(os, name)

        def step(
            *arguments: object, name: str = name, real: Callable[..., object] = real
        ) -> object:
            where = (
                "" if name == "fdatasync" else "slot" if arguments[2] in SLOT_OFFSETS else "keys"
            )  # type: ignore[comparison-overlap]
            steps.append(f"{name} {where}".strip())
            return real(*arguments)

        monkeypatch.setattr(os, name, step)
    with BloomFilter.create(tmp_path / "a.mmb", capacity=10, fpr=0.1) as writer:
        writer.add("first")  # sets WRITER_OPEN, durably, before it
        writer.add("second")
        steps.clear()
        writer.flush()
        assert steps == ["fdatasync", "pwrite slot", "fdatasync"]
        writer.flush()
        assert len(steps) == 3


def test_keys_that_the_disk_refused_are_written_by_the_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """add() raised, so nothing was promised; what flush() returns for is in the file."""
    path = tmp_path / "a.mmb"
    with BloomFilter.create(path, capacity=10, fpr=NEVER) as writer:
        writer.add("before")
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", broken_disk)
            with pytest.raises(OSError, match="Input/output error"):
                writer.add("during")
            with pytest.raises(OSError, match="Input/output error"):
                writer.flush()
        with mmbloom.open(path) as reader:
            assert "during" not in reader
            writer.add("during")
            writer.flush()
            assert "during" in reader
    with mmbloom.open(path) as reader:
        assert ("before" in reader, "during" in reader) == (True, True)


def broken_disk(*_arguments: object) -> int:
    """Fail as a disk does."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_close_tells_that_the_disk_failed_and_closes_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is left as after a crash: it opens, and its keys are found."""
    path = tmp_path / "a.mmb"
    writer = BloomFilter.create(path, capacity=10, fpr=NEVER)
    writer.add("ada")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken_disk)
        with pytest.raises(OSError, match="Input/output error"):
            writer.close()

    assert writer.closed
    with mmbloom.open_writable(path) as again:
        assert "ada" in again
        assert again.keys_added == 1


def test_a_writer_whose_file_lost_its_path_says_so(tmp_path: Path) -> None:
    """Nobody would ever see what it adds."""
    path = writable_file(tmp_path / "a.mmb")
    writer = mmbloom.open_writable(path)
    path.unlink()
    writer.add("lost")

    for call in (writer.flush, writer.seal, writer.close):
        with pytest.raises(OSError, match="another file has this path") as caught:
            call()
        assert caught.value.errno == errno.ESTALE
    assert writer.closed


def test_a_writer_that_nobody_closes_warns_and_is_closed(tmp_path: Path) -> None:
    """Its keys are safe; what is lost is the error that close() would have raised."""
    path = tmp_path / "a.mmb"

    def forget_to_close() -> None:
        BloomFilter.create(path, capacity=10, fpr=NEVER).add("ada")

    with pytest.warns(ResourceWarning, match=r"a\.mmb was not closed"):
        forget_to_close()
    with mmbloom.open_writable(path) as again:
        assert ("ada" in again, again.keys_added) == (True, 1)


def test_readers_and_filters_in_memory_need_not_be_closed(tmp_path: Path) -> None:
    """There is nothing to tell."""
    path = sealed_file(tmp_path / "a.mmb")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mmbloom.open(path).contains_many(keys(3))
        BloomFilter.in_memory(capacity=10, fpr=0.1).add("a")
        gc.collect()


def test_counts_that_were_exact_are_not_claimed_after_an_add(tmp_path: Path) -> None:
    """A file of another writer may count exactly; this one cannot vouch for that."""
    path = writable_file(tmp_path / "a.mmb", count=5)
    with WritableFile.open(path) as file:
        file.close(file.status._replace(flags=KEYS_EXACT, keys_added=5))
    before = facts_of(path)
    mmbloom.open_writable(path).close()
    assert facts_of(path) == before
    with mmbloom.open(path) as found:
        assert found.info()["keys_exact"] is True

    with mmbloom.open_writable(path) as writer:
        writer.add("new")
    with mmbloom.open(path) as found:
        assert found.info()["keys_exact"] is False


def test_a_file_with_a_feature_of_a_newer_release_is_read_and_not_written(tmp_path: Path) -> None:
    """A compatible one: readers may pass over it, writers would break its promise."""
    path = writable_file(tmp_path / "a.mmb")
    page = bytearray(path.read_bytes()[:4096])
    offset = HEADER.offsets["compatible_features"]
    page[offset : offset + 8] = (0b100).to_bytes(8, "little")
    page[4088:] = page_checksum(bytes(page)).to_bytes(8, "little")
    path.write_bytes(bytes(page) + path.read_bytes()[4096:])
    before = facts_of(path)

    with pytest.raises(VersionError, match=r"compatible_features.*bit 2"):
        mmbloom.open_writable(path)
    with mmbloom.open(path) as found:
        assert found.contains_many(keys(20)).all()
        found.save(tmp_path / "b.mmb")
    assert facts_of(path) == before
    with mmbloom.open(tmp_path / "b.mmb") as saved:
        assert saved._header.compatible_features == 0


# -- seal and save ---------------------------------------------------------------------------------


def test_a_seal_stores_counts_rate_and_checksums(tmp_path: Path, layout: str) -> None:
    """The handle becomes a reader, and the file never changes again."""
    path = tmp_path / "a.mmb"
    with BloomFilter.create(path, capacity=300, fpr=0.01, layout=layout) as made:
        made.update(keys(300))
        rate, ratio, count = made.expected_fpr(), made.fill_ratio, made.keys_added
        assert made.verify() == 0
        made.seal()
        before = facts_of(path)
        assert (made.sealed, made.writable, made.closed) == (True, False, False)
        assert made.contains_many(keys(300)).all()
        with pytest.raises(ReadOnlyError):
            made.add("new")

    with mmbloom.open(path) as found:
        assert found.sealed
        assert (found.expected_fpr(), found.fill_ratio, found.keys_added) == (rate, ratio, count)
        assert found.verify() == found.geometry.payload_bytes
        assert found.info()["state"] == "sealed"
    assert facts_of(path) == before


def test_a_seal_gives_the_writers_place_free(tmp_path: Path) -> None:
    """Nothing is locked any more, and nothing stays open but the map of the reader."""
    path = tmp_path / "a.mmb"
    with BloomFilter.create(path, capacity=10, fpr=NEVER) as made:
        made.add("ada")
        made.seal()
        mmbloom.build(path, ["grace"], fpr=NEVER, if_exists="replace").close()
        assert ("ada" in made, "grace" in made) == (True, False)


def test_a_reader_learns_that_the_file_was_sealed(tmp_path: Path) -> None:
    """From info() and verify(), which look again."""
    path = tmp_path / "a.mmb"
    with BloomFilter.create(path, capacity=10, fpr=0.1) as writer, mmbloom.open(path) as reader:
        writer.add("ada")
        writer.flush()
        assert (reader.info()["keys_added"], reader.info()["state"]) == (1, "writable")
        assert reader.verify() == 0
        writer.seal()
        assert reader.info()["state"] == "sealed"
        assert reader.verify() == reader.geometry.payload_bytes


def test_a_file_replaced_during_its_seal_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handle would answer for another list."""
    path = tmp_path / "a.mmb"
    other = sealed_file(tmp_path / "other.mmb")
    real_seal = WritableFile.seal

    def seal_and_lose(self: WritableFile, status: object) -> None:
        real_seal(self, status)  # type: ignore[arg-type]
        other.replace(path)

    monkeypatch.setattr(WritableFile, "seal", seal_and_lose)
    with (
        BloomFilter.create(path, capacity=10, fpr=0.1) as writer,
        pytest.raises(IncompatibleError, match="uuid"),
    ):
        writer.seal()


@pytest.mark.parametrize("source", ["memory", "writer", "reader of a writable file", "sealed"])
def test_save_writes_a_sealed_file_of_what_is_in_now(tmp_path: Path, source: str) -> None:
    """From any handle, which stays what it was."""
    if source == "memory":
        found = BloomFilter.in_memory(capacity=100, fpr=NEVER)
        found.update(keys(20))
    elif source == "writer":
        found = mmbloom.open_writable(writable_file(tmp_path / "a.mmb"))
    elif source == "sealed":
        found = mmbloom.open(sealed_file(tmp_path / "a.mmb"))
    else:
        found = mmbloom.open(writable_file(tmp_path / "a.mmb"))
    with found:
        found.save(tmp_path / "saved.mmb")
        assert found.writable == (source in {"memory", "writer"})
        with mmbloom.open(tmp_path / "saved.mmb") as saved:
            assert saved == found
            assert (saved.sealed, saved.keys_added) == (True, 20)
            assert saved.uuid != found.uuid
            assert saved.info()["keys_exact"] == (source == "sealed")
            assert saved.verify() == saved.geometry.payload_bytes
            assert len(saved._status.canaries) == 8


def test_save_is_sound_while_another_thread_adds(tmp_path: Path) -> None:
    """The checksums are those of what was written, and keys added before the call are in."""
    stop = threading.Event()
    with (
        BloomFilter.in_memory(capacity=1_000_000, fpr=0.01) as found,
        ThreadPoolExecutor(1) as pool,
    ):

        def add_on() -> None:
            number = 0
            while not stop.is_set():
                found.add(f"late {number}")
                number += 1

        found.update(keys(1000))
        adding = pool.submit(add_on)
        for number in range(5):
            found.save(tmp_path / f"{number}.mmb")
        stop.set()
        adding.result()

    for number in range(5):
        with mmbloom.open(tmp_path / f"{number}.mmb") as saved:
            assert saved.verify() > 0
            assert saved.contains_many(keys(1000)).all()


def test_a_file_that_replaces_another_has_the_next_generation(tmp_path: Path) -> None:
    """Whoever publishes it; one that is no filter is not counted."""
    path = tmp_path / "a.mmb"
    path.write_bytes(b"no filter")
    generations = []
    for _ in range(2):
        mmbloom.build(path, keys(3), fpr=0.1, if_exists="replace").close()
        with mmbloom.open(path) as found:
            generations.append(found.info()["generation"])
            found.save(path, if_exists="replace")
        with mmbloom.open(path) as found:
            generations.append(found.info()["generation"])

    assert generations == [1, 2, 3, 4]


def test_a_replaced_file_keeps_its_readers_and_new_ones_get_the_new_one(tmp_path: Path) -> None:
    """Replaced by rename, as every published file is."""
    path = sealed_file(tmp_path / "a.mmb")
    with mmbloom.open(path) as old:
        mmbloom.build(path, ["new"], fpr=NEVER, if_exists="replace").close()
        with mmbloom.open(path) as new:
            assert ("new" in new, keys(1)[0] in new) == (True, False)
        assert ("new" in old, keys(1)[0] in old) == (False, True)
        assert old.contains_many(keys(20)).all()
        assert old.verify() > 0


# -- damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [sealed_file, writable_file])
def test_a_file_cut_at_any_length_is_refused(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    """Every one of them, and one byte longer too; never an open filter that misses keys."""
    path = make(tmp_path / "a.mmb")
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(TruncatedError, match=str(size)):
        mmbloom.open(path)

    for length in range(size - 1, -1, -1):
        os.truncate(path, length)
        with pytest.raises(TruncatedError):
            mmbloom.open(path)


def test_any_byte_of_a_sealed_header_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 4096, each in one way."""
    monkeypatch.setattr(mapped, "_READ_PAUSE_SECONDS", 0)  # a bad slot is read five times
    path = sealed_file(tmp_path / "a.mmb")
    content = path.read_bytes()
    with path.open("r+b", buffering=0) as file:
        for offset in range(4096):
            file.seek(offset)
            file.write(bytes([content[offset] ^ (1 << offset % 8)]))
            with pytest.raises(FormatError):
                mmbloom.open(path)
            file.seek(offset)
            file.write(content[offset : offset + 1])
    mmbloom.open(path).close()


def test_any_byte_of_a_writable_header_changed_is_refused_or_harmless(
    tmp_path: Path,
) -> None:
    """One damaged slot is a torn write: the other counts, and every key is found."""
    path = writable_file(tmp_path / "a.mmb")
    content = path.read_bytes()
    slots = range(SLOT_OFFSETS[0], SLOT_OFFSETS[1] + 512)
    with path.open("r+b", buffering=0) as file:
        for offset in range(0, 4096, 3):
            file.seek(offset)
            file.write(bytes([content[offset] ^ 0x55]))
            if offset in slots:
                with mmbloom.open(path) as found:
                    assert found.contains_many(keys(20)).all()
            else:
                with pytest.raises(FormatError):
                    mmbloom.open(path)
            file.seek(offset)
            file.write(content[offset : offset + 1])


@pytest.mark.parametrize("mib", [0, 1, 2])
def test_verify_finds_a_flipped_bit_and_names_its_mib(tmp_path: Path, mib: int) -> None:
    """Opening does not look there; reading everything does."""
    path = tmp_path / "a.mmb"
    with BloomFilter.in_memory(capacity=2_000_000, fpr=0.01) as made:
        made.update(keys(100))
        made.save(path)
    with path.open("r+b") as file:
        file.seek(4096 + (mib << 20) + 12_345)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x10]))

    with mmbloom.open(path) as found, pytest.raises(ChecksumError, match=f"MiB {mib} ") as caught:
        found.verify()
    assert caught.value.offset == 4096 + (mib << 20)


def test_verify_says_what_it_has_read(tmp_path: Path) -> None:
    """Bytes done and in all, up to the end; the result is what was compared."""
    path = sealed_file(tmp_path / "a.mmb", count=5000, layout="page")
    seen: list[tuple[int, int]] = []
    with mmbloom.open(path) as found:
        checked = found.verify(progress=lambda done, total: seen.append((done, total)))

    assert seen[-1] == (checked, checked)
    assert checked == found.geometry.payload_bytes


def test_verify_finds_a_cut_before_it_touches_what_is_gone(tmp_path: Path) -> None:
    """Touching it would kill the process."""
    path = sealed_file(tmp_path / "a.mmb", count=5000)
    with mmbloom.open(path) as found:
        os.truncate(path, 4096)
        with pytest.raises(TruncatedError):
            found.verify()


def test_a_table_of_checksums_that_was_changed_is_found(tmp_path: Path) -> None:
    """It has a checksum of its own."""
    path = sealed_file(tmp_path / "a.mmb")
    with path.open("r+b") as file:
        file.seek(-TAIL, os.SEEK_END)
        file.write(bytes(TAIL))

    with mmbloom.open(path) as found, pytest.raises(ChecksumError, match="table"):
        found.verify()


def file_of_a_dead_writer(path: Path) -> Path:
    """Leave a file as a writer does that is killed after a flush."""

    def die() -> None:
        with BloomFilter.create(path, capacity=100, fpr=NEVER) as writer:
            writer.update(keys(20))
            writer.flush()
            writer.add("more")
            os._exit(0)

    assert in_child(die) == 0
    return path


@pytest.mark.parametrize(
    ("make", "open_"),
    [
        (sealed_file, open_read_only),
        (writable_file, open_read_only),
        (writable_file, open_to_write),
        (file_of_a_dead_writer, open_read_only),
        (file_of_a_dead_writer, open_to_write),
    ],
)
def test_a_payload_of_zeros_is_refused_by_the_canaries(
    tmp_path: Path, make: Callable[[Path], Path], open_: Callable[[Path], BloomFilter]
) -> None:
    """Lost by a copy, or a hole in the disk: opening proves that member keys are still found."""
    path = make(tmp_path / "a.mmb")
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096 - TAIL) + content[-TAIL:])
    before = path.read_bytes()

    with pytest.raises(FormatError, match="canar") as caught:
        open_(path)

    assert caught.value.field == "canaries"
    assert path.read_bytes() == before


def test_a_reader_that_meets_a_writer_clearing_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the canaries, then the writer took them back and cleared the bits."""
    path = writable_file(tmp_path / "a.mmb")
    real_start = BloomFilter._start
    writer = mmbloom.open_writable(path)

    def start_slowly(self: BloomFilter, *arguments: object) -> BloomFilter:
        monkeypatch.undo()
        writer.clear()
        return real_start(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(BloomFilter, "_start", start_slowly)
    with mmbloom.open(path) as reader:
        assert reader == writer
    writer.close()


def test_flushes_during_a_clear_store_no_canary_of_what_is_cleared(tmp_path: Path) -> None:
    """Between taking canaries back and clearing the bits another thread adds a key and flushes."""
    path = writable_file(tmp_path / "a.mmb")
    with mmbloom.open_writable(path) as writer:
        real_combine = writer._combine

        def combine_late(*arguments: object) -> None:
            writer.add("between")
            writer.flush()
            real_combine(*arguments)  # type: ignore[arg-type]

        writer._combine = combine_late  # type: ignore[method-assign]
        writer.clear()
        with mmbloom.open(path) as reader:
            assert "between" not in reader
    mmbloom.open_writable(path).close()


@pytest.mark.parametrize("shrink", [BloomFilter.clear, lambda f: f.__iand__(f.copy())])
@pytest.mark.parametrize("moment", ["before the payload is written", "after it"])
def test_a_writer_killed_while_it_clears_bits_leaves_a_file_that_opens(
    tmp_path: Path, shrink: Callable[[BloomFilter], object], moment: str
) -> None:
    """At no moment a canary is stored whose bits may be gone."""
    path = writable_file(tmp_path / "a.mmb", count=50)
    real_write = WritableFile.write_through

    def write_and_die(self: WritableFile, runs: list[tuple[int, int]]) -> None:
        if moment == "after it":
            real_write(self, runs)
        os._exit(7)

    def die() -> None:
        with mmbloom.open_writable(path) as writer:
            WritableFile.write_through = write_and_die  # type: ignore[method-assign]
            shrink(writer)

    assert in_child(die) == 7
    with mmbloom.open(path) as reader:
        assert reader._status.canaries == ()
        found = reader.contains_many(keys(50))
        assert found.all() or not found.any()
    with mmbloom.open_writable(path) as again:
        assert again.keys_added in range(40, 51) if found.all() else again.keys_added == 0
        again.update(keys(100))


def test_nothing_stays_open_after_opens_that_succeed_or_fail(tmp_path: Path) -> None:
    """400 that succeed and 600 that fail: as many descriptors and maps as before."""
    path = sealed_file(tmp_path / "a.mmb")
    unsealed = writable_file(tmp_path / "b.mmb")
    damaged = tmp_path / "damaged.mmb"
    damaged.write_bytes(path.read_bytes()[:-1])
    lost = tmp_path / "lost.mmb"
    lost.write_bytes(path.read_bytes()[:4096] + bytes(path.stat().st_size - 4096))

    def open_all() -> None:
        mmbloom.open(path).close()
        with mmbloom.open(path) as found:
            found.contains_many(keys(3))
        mmbloom.open_writable(unsealed).close()
        mmbloom.open(path)  # closed by its end
        for refused in (damaged, lost, tmp_path / "missing.mmb"):
            for open_ in (open_read_only, open_to_write):
                try:
                    open_(refused)
                except (MmbloomError, OSError):
                    continue
                pytest.fail("it opened")

    open_all()
    before = held_now()
    for _ in range(100):
        open_all()
    assert held_now() == before


def held_now() -> tuple[int, int]:
    """Return how many descriptors and file maps this process has."""
    gc.collect()
    maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if ".mmb" in line]
    return len(os.listdir("/proc/self/fd")), len(maps)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 2 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if mount is None or unmount is None or os.geteuid():
        pytest.skip("mounting a small disk needs root")
    command = [mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if subprocess.run(command, check=False, capture_output=True).returncode:  # noqa: S603 - as above
        pytest.skip("this root may not mount")
    yield disk
    subprocess.run([unmount, str(disk)], check=True)  # noqa: S603 - as above


def test_a_full_disk_is_an_error_and_nothing_is_left(small_disk: Path) -> None:
    """12 MB on a disk of 2: at once, with both numbers, and not while adding."""
    with BloomFilter.in_memory(capacity=10_000_000, fpr=0.01) as found:
        for make in (
            lambda: BloomFilter.create(small_disk / "a.mmb", capacity=10_000_000, fpr=0.01),
            lambda: mmbloom.build(small_disk / "a.mmb", ["a"], fpr=0.01, capacity=10_000_000),
            lambda: found.save(small_disk / "a.mmb"),
        ):
            with pytest.raises(NoSpaceError, match="free") as caught:
                make()
            assert caught.value.needed_bytes > 10_000_000 > caught.value.free_bytes
            assert isinstance(caught.value, OSError)
            assert list(small_disk.iterdir()) == []


def test_a_created_filter_has_its_space_and_never_fails_while_adding(small_disk: Path) -> None:
    """A disk that fills up later does not matter: the space was reserved."""
    with BloomFilter.create(small_disk / "a.mmb", capacity=1_000_000, fpr=0.01) as made:
        blocker = small_disk / "blocker"
        with blocker.open("wb") as file, pytest.raises(OSError, match="No space"):
            file.write(bytes(2 << 20))
        made.update(keys(2000))
        made.seal()
    with mmbloom.open(small_disk / "a.mmb") as found:
        assert found.contains_many(keys(2000)).all()


# -- processes -------------------------------------------------------------------------------------


def test_a_pickled_reader_is_its_path_and_opens_it_again(tmp_path: Path) -> None:
    """Not its bits: less than 1 kB whatever the size; the copy is a handle of its own."""
    path = sealed_file(tmp_path / "a.mmb", count=5000)
    with mmbloom.open(path) as found:
        pickled = pickle.dumps(found)
        with unpickle(pickled) as again:
            assert len(pickled) < 1000
            assert again == found
            assert again.path == str(path)
        assert keys(1)[0] in found


def test_a_pickled_reader_means_the_file_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened by a relative path, pickled in another folder."""
    sealed_file(tmp_path / "a.mmb")
    (tmp_path / "sub").mkdir()
    sealed_file(tmp_path / "sub" / "a.mmb", count=7)
    monkeypatch.chdir(tmp_path)
    with mmbloom.open("a.mmb") as found:
        monkeypatch.chdir(tmp_path / "sub")
        with unpickle(pickle.dumps(found)) as again:
            assert again == found


def test_a_pickle_of_a_file_that_was_replaced_is_refused(tmp_path: Path) -> None:
    """Its answers would be those of another list."""
    path = sealed_file(tmp_path / "a.mmb")
    with mmbloom.open(path) as found:
        pickled = pickle.dumps(found)
    sealed_file(tmp_path / "b.mmb", count=21).replace(path)

    with pytest.raises(IncompatibleError, match="uuid") as caught:
        unpickle(pickled)
    assert str(path) in str(caught.value)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        unpickle(pickled)


def test_a_filter_in_memory_is_pickled_whole(layout: str) -> None:
    """With its count and capacity; the copy can be added to."""
    with BloomFilter.in_memory(capacity=30, fpr=NEVER, layout=layout, seed=3) as found:
        found.update(keys(29))
        with unpickle(pickle.dumps(found)) as again:
            assert again == found
            assert (again.keys_added, again.uuid, again.writable) == (29, found.uuid, True)
            again.add("new")
            assert "new" not in found
            with pytest.raises(CapacityError):
                again.add("one too many")


def test_a_writer_is_not_pickled(tmp_path: Path) -> None:
    """There is one writer; the error says what to pickle."""
    with (
        BloomFilter.create(tmp_path / "a.mmb", capacity=10, fpr=0.1) as writer,
        pytest.raises(ReadOnlyError, match="pickle"),
    ):
        pickle.dumps(writer)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_readers_go_to_other_processes(tmp_path: Path, method: str) -> None:
    """However these are started; each opens the file for itself."""
    path = sealed_file(tmp_path / "a.mmb")
    context = multiprocessing.get_context(method)
    with mmbloom.open(path) as found, context.Pool(2) as pool:
        wanted = [(found, key) for key in [*keys(5), "absent"]]
        answers = pool.starmap(operator.contains, wanted)
        pool.close()
        pool.join()

    assert answers == [True] * 5 + [False]


def test_a_forked_child_goes_on_with_readers_and_with_its_copy_of_memory(tmp_path: Path) -> None:
    """And closes them without touching those of its parent."""
    path = sealed_file(tmp_path / "a.mmb")
    reader = mmbloom.open(path)
    memory = BloomFilter.in_memory(capacity=10, fpr=NEVER)
    memory.add("before")

    def look_and_close() -> None:
        assert reader.contains_many(keys(20)).all()
        assert "before" in memory
        memory.add("in the child")
        reader.close()
        memory.close()

    assert in_child(look_and_close) == 0
    assert reader.contains_many(keys(20)).all()
    assert "in the child" not in memory
    memory.add("after")
    reader.close()


def test_a_writer_is_closed_in_a_forked_child_and_goes_on_in_the_parent(tmp_path: Path) -> None:
    """The child's copy would miss what the parent adds: a false "no". It opens a reader."""
    path = tmp_path / "a.mmb"
    writer = BloomFilter.create(path, capacity=10, fpr=NEVER)
    writer.add("before")
    before = path.read_bytes()

    def use_in_child() -> None:
        for use in (
            lambda: "before" in writer,
            lambda: writer.add("child"),
            lambda: writer.update(["child"]),
            writer.flush,
            writer.clear,
        ):
            with pytest.raises(ClosedError, match="parent"):
                use()
        writer.close()
        with pytest.raises(LockHeldError):
            mmbloom.open_writable(path)
        with mmbloom.open(path) as reader:
            assert "before" in reader
        gc.collect()

    assert in_child(use_in_child) == 0
    assert path.read_bytes() == before
    writer.add("after")
    writer.close()
    with mmbloom.open(path) as reader:
        assert ("before" in reader, "after" in reader) == (True, True)


def test_keys_are_the_same_in_processes_with_other_hash_seeds(tmp_path: Path) -> None:
    """Python's own hash() is salted; that of the file is not."""
    path = tmp_path / "a.mmb"
    build = "mmbloom.build(sys.argv[1], [f'k{i}' for i in range(50)] + [b'\\xff'], fpr=1e-9)"
    look = (
        "f = mmbloom.open(sys.argv[1])\nprint(all(f'k{i}' in f for i in range(50)), b'\\xff' in f)"
    )
    for code, seed in ((build, "1"), (look, "2")):
        done = subprocess.run(  # noqa: S603 - this Python
            [sys.executable, "-c", f"import sys, mmbloom\n{code}", str(path)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == "True True\n"


# -- threads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["memory", "writer", "reader"])
def test_a_filter_closed_while_eight_threads_look_up_gives_no_wrong_answer(
    tmp_path: Path, place: str
) -> None:
    """Each look-up is right, or says that the filter is closed."""
    path = writable_file(tmp_path / "a.mmb", count=50)
    for _ in range(5):
        if place == "memory":
            with mmbloom.open(path) as stored:
                found = stored.copy()
        else:
            found = mmbloom.open(path) if place == "reader" else mmbloom.open_writable(path)
        started = threading.Barrier(9)

        def look_until_closed(
            number: int, found: BloomFilter = found, started: threading.Barrier = started
        ) -> int:
            present, absent = keys(50), keys(2000, start=1000)
            started.wait()
            for rounds in range(1_000_000):
                try:
                    if number == 0:
                        assert found.approx_count() == pytest.approx(50, abs=3)
                    elif number % 2:
                        assert found.contains_many(present).all()
                        assert not found.contains_many(absent).any()
                    else:
                        assert all(key in found for key in present)
                except ClosedError:
                    return rounds
            return -1

        with ThreadPoolExecutor(8) as pool:
            looking = [pool.submit(look_until_closed, number) for number in range(8)]
            started.wait()
            threading.Event().wait(0.01)
            found.close()
            assert all(future.result() >= 0 for future in looking)


def test_sixteen_threads_get_the_answers_of_one(tmp_path: Path, layout: str) -> None:
    """Look-ups share nothing that they write."""
    path = sealed_file(tmp_path / "a.mmb", count=500, layout=layout, fpr=0.3)
    asked = keys(2000)
    with mmbloom.open(path) as found, ThreadPoolExecutor(16) as pool:
        serial = found.contains_many(asked).tolist()
        batches = [pool.submit(found.contains_many, asked) for _ in range(16)]
        singles = [pool.submit(lambda: [key in found for key in asked]) for _ in range(4)]

        assert all(future.result().tolist() == serial for future in batches)
        assert all(future.result() == serial for future in singles)
    assert serial[:500] == [True] * 500
    assert False in serial


@pytest.mark.parametrize("place", ["memory", "file"])
def test_threads_that_add_lose_no_bit_and_no_count(tmp_path: Path, layout: str, place: str) -> None:
    """Single adds and batches mixed, four threads each, with readers among them."""
    parameters = {"capacity": 4000, "fpr": NEVER, "layout": layout}
    if place == "memory":
        found = BloomFilter.in_memory(**parameters)  # type: ignore[arg-type]
    else:
        found = BloomFilter.create(tmp_path / "a.mmb", **parameters)  # type: ignore[arg-type]
    count = 400 if place == "memory" else 100

    def add_singly(start: int) -> None:
        for key in keys(count, start):
            assert found.add(key)
            assert key in found

    def add_in_batches(start: int) -> None:
        for first in range(start, start + count, 20):
            assert found.update(keys(20, first)) == 20
            assert found.contains_many(keys(20, first)).all()

    with found, ThreadPoolExecutor(8) as pool:
        calls = [
            pool.submit(add_singly if number % 2 else add_in_batches, number * count)
            for number in range(8)
        ]
        for call in calls:
            call.result()
        assert found.keys_added == 8 * count
        with BloomFilter.in_memory(**parameters) as serial:  # type: ignore[arg-type]
            serial.update(keys(8 * count))
            assert found == serial
        if place == "file":
            with mmbloom.open(tmp_path / "a.mmb") as reader:
                assert reader == found


def test_a_file_is_sealed_while_threads_look_up(tmp_path: Path) -> None:
    """Answers before and after are right; in the moment between, it may be closed."""
    path = writable_file(tmp_path / "a.mmb", count=50)
    asked = np.array(keys(50) * 400)
    stop = threading.Event()
    with mmbloom.open_writable(path) as found, ThreadPoolExecutor(4) as pool:

        def look() -> int:
            rounds = 0
            while not stop.is_set():
                try:
                    assert found.contains_many(asked).all()
                    rounds += 1
                except ClosedError:
                    continue
            return rounds

        looking = [pool.submit(look) for _ in range(4)]
        threading.Event().wait(0.02)
        found.seal()
        threading.Event().wait(0.02)
        stop.set()
        assert all(future.result() > 0 for future in looking)
        assert found.sealed
        mmbloom.build(path, keys(2), fpr=0.1, if_exists="replace").close()
    assert held_now()[1] == 0  # the map of the writer went with the last batch that read it
