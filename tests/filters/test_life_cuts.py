"""Files that are cut short, or cannot be read, while they are open: errors, and nobody dies."""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import tempfile
import threading
from typing import TYPE_CHECKING

import pytest
from filter_files import held_now, in_child, keys, sealed_file, writable_file

import mmbloom
from mmbloom import BloomFilter, TruncatedError
from mmbloom.filters.opened import Opened
from mmbloom.storage.mapped import MappedFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

needs_kernel = pytest.mark.skipif(mmbloom.ENGINE == "python", reason="the guard is in the kernel")
# Of 17 500 bytes: four pages of payload, and a part of a fifth with the table.
NUM_KEYS = 3000
MEMBERS = keys(NUM_KEYS)
HALF = 8192 + 100  # the end of the file moves into its second page of payload


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Build a file of several pages; layout classic spreads the probes of a key over them."""
    return sealed_file(tmp_path / "a.mmb", NUM_KEYS, layout="classic")


def cut(path: Path, length: int = HALF) -> None:
    """Do what nobody should do."""
    os.truncate(path, length)


def outcome(look_up: Callable[[], bool]) -> str:
    """Return what a look-up of a member gives: never "no"."""
    try:
        return "maybe" if look_up() else "no"
    except TruncatedError:
        return "TruncatedError"


# ---- without a guard -----------------------------------------------------------------------------


USES = {
    "a batch": lambda f: f.contains_many(MEMBERS),
    "a batch that is a list of one": lambda f: f.contains_many(MEMBERS[:1]),
    "verify": BloomFilter.verify,
    "info": BloomFilter.info,
    "copy": BloomFilter.copy,
    "union": lambda f: f | f,
    "comparison": lambda f: f == f,  # noqa: PLR0124 - both sides are read
    "approx_count": BloomFilter.approx_count,
    "forecast": lambda f: f.forecast(10),
    "audit": lambda f: mmbloom.audit(f, mmbloom.RandomKeys(100)),
    "new keys": lambda f: mmbloom.Additions(f).take(MEMBERS),
    "preload": lambda f: f._opened.storage.advise("preload"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("length", [5000, HALF])
def test_whatever_reads_much_notices_a_cut_before_it_touches_what_is_gone(
    path: Path, use: Callable[[BloomFilter], object], length: int
) -> None:
    """In a child, which a touch would kill."""

    def act() -> None:
        with mmbloom.open(path) as reader:
            cut(path, length)
            with pytest.raises(TruncatedError, match="file_bytes"):
                use(reader)

    assert in_child(act) == 0


@pytest.mark.parametrize(
    "name", ["a batch", "union", "comparison", "approx_count", "forecast", "audit", "new keys"]
)
def test_a_cut_during_a_pass_is_noticed_after_it(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system fills the last page up with zeros: keys that were in it would not be found."""
    reader = mmbloom.open(path)
    real = Opened.check_length
    num_looks = 0

    def cut_after_the_look(self: Opened) -> None:
        nonlocal num_looks
        real(self)
        num_looks += 1
        if num_looks == 1:
            cut(path, path.stat().st_size - 50)  # within the last page: no touch is a SIGBUS

    monkeypatch.setattr(Opened, "check_length", cut_after_the_look)
    with pytest.raises(TruncatedError):
        USES[name](reader)
    reader.close()


def test_a_cut_while_verify_reads_is_an_error(tmp_path: Path) -> None:
    """It asks for each MiB before it reads it: the kernel then tells, instead of killing."""
    path = tmp_path / "long.mmb"
    with BloomFilter.create(path, capacity=4_000_000, fpr=0.01) as made:
        made.update(MEMBERS)
        made.seal()

    def act() -> None:
        with mmbloom.open(path) as reader, pytest.raises(TruncatedError):
            reader.verify(progress=lambda _at: cut(path), num_threads=1)

    assert in_child(act) == 0


def test_a_cut_while_a_cold_batch_waits_for_its_pages_is_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch against the disk waits for its pages by a call that can fail."""
    real = MappedFile.start_reading

    def cut_first(self: MappedFile, pages: list[int]) -> None:
        cut(path)
        real(self, pages)

    def act() -> None:
        with mmbloom.open(path) as reader:
            monkeypatch.setattr(MappedFile, "is_cold", lambda _: True)
            monkeypatch.setattr(MappedFile, "start_reading", cut_first)
            with pytest.raises(TruncatedError):
                reader.contains_many(MEMBERS)

    assert in_child(act) == 0


def test_a_save_of_a_file_that_is_cut_meanwhile_publishes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its zeros would get sound checksums."""
    target = path.with_name("b.mmb")
    with mmbloom.open(path) as reader:
        real = Opened.verify

        def cut_then(self: Opened) -> int:
            num_bytes = real(self)
            cut(path, path.stat().st_size - 50)
            return num_bytes

        monkeypatch.setattr(Opened, "verify", cut_then)
        with pytest.raises(TruncatedError):
            reader.save(target)
    assert not target.exists()


def test_a_cut_of_the_other_filter_takes_no_key_away(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept in common is decided by a copy of the bits of the other, taken while whole."""
    real = BloomFilter._clear_bits

    def cut_then(self: BloomFilter, *arguments: object) -> None:
        cut(path, path.stat().st_size - 50)
        real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(BloomFilter, "_clear_bits", cut_then)
    with mmbloom.open(path) as reader, reader.copy() as kept:
        kept.__iand__(reader)
        assert kept.contains_many(MEMBERS).all()


@pytest.mark.parametrize("length", [HALF, -50])
@pytest.mark.parametrize("state", ["sealed", "writable"])
def test_a_file_that_is_cut_while_it_is_merged_is_an_error(
    path: Path, state: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut after the look at its length; nothing is published, as zeros would be in the union."""
    if state == "writable":
        path.unlink()
        path = writable_file(path, NUM_KEYS, capacity=NUM_KEYS, layout="classic")
    target = path.with_name("union.mmb")
    real = MappedFile.check_length

    def look_then_cut(self: MappedFile) -> None:
        real(self)
        cut(path, length if length > 0 else path.stat().st_size + length)

    def act() -> None:
        monkeypatch.setattr(MappedFile, "check_length", look_then_cut)
        with pytest.raises(TruncatedError):
            mmbloom.merge(target, [path])

    assert in_child(act) == 0
    assert not target.exists()


# ---- with the guard ------------------------------------------------------------------------------


def guarded(act: Callable[[], None]) -> int:
    """Run *act* in a child with the guard: the handler of this process stays what it is."""

    def install_and_act() -> None:
        mmbloom.install_sigbus_guard()
        act()

    return in_child(install_and_act)


@needs_kernel
@pytest.mark.parametrize("layout", ["classic", "line", "page"])
@pytest.mark.parametrize("length", [4096, 5000, HALF])
def test_a_single_look_up_in_a_file_that_was_cut_raises_or_is_right(
    tmp_path: Path, layout: str, length: int
) -> None:
    """Of keys whose bits are still there the answer is "maybe"; no other answer is given."""
    path = sealed_file(tmp_path / "a.mmb", NUM_KEYS, layout=layout)

    def act() -> None:
        with mmbloom.open(path) as reader:
            cut(path, length)
            found = [outcome(lambda key=key: key in reader) for key in MEMBERS]
            assert found.count("no") == 0
            assert found.count("TruncatedError") > 0
            assert outcome(lambda: "never added" in reader) == "TruncatedError"
            with pytest.raises(TruncatedError):
                reader.contains_many(MEMBERS)

    assert guarded(act) == 0


@needs_kernel
def test_without_the_guard_the_same_look_up_kills(tmp_path: Path) -> None:
    """So the tests above test something."""
    path = sealed_file(tmp_path / "a.mmb", NUM_KEYS, layout="classic")

    def act() -> None:
        faulthandler.disable()
        with mmbloom.open(path) as reader:
            cut(path, 4096)
            assert MEMBERS[0] in reader

    assert in_child(act) == -signal.SIGBUS


@needs_kernel
def test_a_file_that_was_cut_and_grew_again_gives_no_answer_of_zeros(path: Path) -> None:
    """As by a copy onto it: its length is right again, and the map has lost what it was."""

    def act() -> None:
        whole = path.read_bytes()
        with mmbloom.open(path) as reader:
            cut(path, 4096)
            assert outcome(lambda: MEMBERS[0] in reader) == "TruncatedError"
            path.write_bytes(whole)
            with pytest.raises(OSError, match="could not be read"):
                MEMBERS[1] in reader  # noqa: B015 - it raises
            with pytest.raises(OSError, match="could not be read"):
                reader.contains_many(MEMBERS)

    assert guarded(act) == 0


@needs_kernel
def test_a_file_cut_while_eight_threads_look_up_kills_nobody(path: Path) -> None:
    """Each answer is right, or an error."""

    def act() -> None:
        reader = mmbloom.open(path)
        found: set[str] = set()
        start = threading.Barrier(9)

        def look_up(first: int) -> None:
            start.wait()
            for i in range(2000):
                some = MEMBERS[(first + 7 * i) % NUM_KEYS :][:300]
                found.add(outcome(lambda some=some: some[0] in reader))
                found.add(outcome(lambda some=some: bool(reader.contains_many(some).all())))
                if len(found) > 1:
                    return

        threads = [threading.Thread(target=look_up, args=(100 * i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        start.wait()
        cut(path)
        for thread in threads:
            thread.join()
        assert found - {"maybe"} == {"TruncatedError"}

    assert guarded(act) == 0


def touch_another_cut_map() -> None:
    """Die of a SIGBUS that has nothing to do with any filter."""
    with tempfile.TemporaryFile() as file:
        file.truncate(8192)
        other = mmap.mmap(file.fileno(), 8192, prot=mmap.PROT_READ)
        file.truncate(0)
        other[5000]


def raise_sigbus() -> None:
    """Die of a SIGBUS that a program sends."""
    signal.raise_signal(signal.SIGBUS)


@needs_kernel
@pytest.mark.parametrize("die", [touch_another_cut_map, raise_sigbus])
@pytest.mark.parametrize("handler", ["none", "faulthandler before", "faulthandler after"])
def test_a_sigbus_elsewhere_does_what_it_did_before(
    path: Path, die: Callable[[], None], handler: str
) -> None:
    """It kills, and faulthandler, set before or after, writes where it came from."""
    log = path.with_suffix(".log")

    def act() -> None:
        faulthandler.disable()
        with log.open("w") as file:
            if handler == "faulthandler before":
                faulthandler.enable(file)
            mmbloom.install_sigbus_guard()
            if handler == "faulthandler after":
                faulthandler.enable(file)
            with mmbloom.open(path) as reader:
                assert MEMBERS[0] in reader
                die()

    assert in_child(act) == -signal.SIGBUS
    assert log.read_text().count("Fatal Python error: Bus error") == (handler != "none")


@needs_kernel
def test_a_forked_child_is_guarded_too(path: Path) -> None:
    """It has the handler, the maps and their records."""

    def act() -> None:
        reader = mmbloom.open(path)

        def look_up_in_the_grandchild() -> None:
            cut(path, 4096)
            assert outcome(lambda: MEMBERS[0] in reader) == "TruncatedError"

        assert in_child(look_up_in_the_grandchild) == 0
        assert outcome(lambda: MEMBERS[0] in reader) == "TruncatedError"

    assert guarded(act) == 0


@needs_kernel
def test_guarded_files_leave_no_descriptor_and_no_map(path: Path) -> None:
    """Ten thousand would not fit in the table of the guard if they stayed in it."""

    def act() -> None:
        mmbloom.open(path).close()
        before = held_now()
        for _ in range(300):
            with mmbloom.open(path) as reader:
                held = reader._opened.payload
            assert held[0] >= 0  # a payload that is still held outlives close()
        del held, reader
        assert held_now() == before

    assert guarded(act) == 0


@needs_kernel
def test_more_guarded_files_than_the_table_holds_are_refused(path: Path) -> None:
    """Not opened without the guard that was asked for."""

    def act() -> None:
        from mmbloom.engine import Guard

        memory = memoryview(bytes(4096))
        guards = [Guard(memory, 0) for _ in range(4096)]
        before = held_now()
        with pytest.raises(OSError, match="too many files"):
            mmbloom.open(path)
        assert held_now() == before
        guards.pop().forget()
        with mmbloom.open(path) as reader:
            assert MEMBERS[0] in reader

    assert guarded(act) == 0


@pytest.mark.skipif(mmbloom.ENGINE != "python", reason="of the Python engine")
def test_the_python_engine_has_no_guard_and_says_so() -> None:
    """A guard that does nothing would be a promise broken later."""
    with pytest.raises(mmbloom.ParameterError, match="the guard is a part of"):
        mmbloom.install_sigbus_guard()
