"""Modes "ram" and "pread": the answers of a map, without what can go wrong with one."""

from __future__ import annotations

import os
import pickle
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from filter_files import NEVER, held_now, in_child, keys, sealed_file, unpickle, writable_file

import mmbloom
from mmbloom import BloomFilter, ChecksumError, ClosedError, ParameterError, TruncatedError

if TYPE_CHECKING:
    from pathlib import Path

    from mmbloom.storage.mapped import Mode

OTHERS: tuple[Mode, ...] = ("ram", "pread")
OTHER_MODES = pytest.mark.parametrize("mode", OTHERS)


@OTHER_MODES
def test_every_mode_answers_as_a_map_does(tmp_path: Path, layout: str, mode: Mode) -> None:
    """Single keys, lists, arrays; hits, misses and false positives."""
    path = sealed_file(tmp_path / "a.mmb", count=5000, layout=layout, fpr=0.05)
    asked = keys(6000)
    with mmbloom.open(path) as mapped, mmbloom.open(path, mode=mode) as found:
        expected = mapped.contains_many(asked)
        assert (expected[:5000].all(), expected[5000:].any()) == (True, True)
        assert [key in found for key in asked[::97]] == expected[::97].tolist()
        assert [found.might_contain(key) for key in asked[:5]] == expected[:5].tolist()
        assert (found.contains_many(asked) == expected).all()
        assert (found.contains_many(np.array(asked, "S")) == expected).all()
        assert (found.contains_many(iter(asked)) == expected).all()
        assert found.contains_many([]).tolist() == []
        assert (found.mode, mapped.mode) == (mode, "map")


@OTHER_MODES
def test_every_mode_knows_the_facts_of_the_file(tmp_path: Path, layout: str, mode: Mode) -> None:
    """Those that are stored, and those that are counted from all bytes."""
    path = sealed_file(tmp_path / "a.mmb", count=300, layout=layout, fpr=0.01)
    with mmbloom.open(path) as mapped, mmbloom.open(path, mode=mode) as found:
        assert found.info() == mapped.info()
        assert found.approx_count() == mapped.approx_count()
        assert found.fill_by_region(4) == mapped.fill_by_region(4)
        assert found.fill_ratio() == mapped.fill_ratio()
        assert found.forecast(100) == mapped.forecast(100)
        assert mmbloom.audit(found, keys(99, 500)) == mmbloom.audit(mapped, keys(99, 500))
        assert found.verify() == mapped.verify() > 0
        assert found == mapped
        assert mapped == found
        with found.copy() as copied, found | mapped as union, mapped & found as common:
            assert copied == mapped
            assert union == mapped
            assert common == mapped
        found.save(tmp_path / "b.mmb")
    with mmbloom.open(tmp_path / "b.mmb") as saved, mmbloom.open(path) as mapped:
        assert saved == mapped


def test_pread_sees_what_a_writer_adds(tmp_path: Path) -> None:
    """Each look-up reads the file; facts too."""
    path = writable_file(tmp_path / "a.mmb")
    with mmbloom.open(path, mode="pread") as found, mmbloom.open_writable(path) as writer:
        assert "new" not in found
        writer.add("new")
        assert "new" in found
        assert found.approx_count() == writer.approx_count() == 21
        writer.__iand__(found)
        assert "new" in writer


def test_a_file_cut_short_under_pread_is_an_error(tmp_path: Path) -> None:
    """For each kind of call; a map would end the process. Nothing wrong is answered before."""
    path = sealed_file(tmp_path / "a.mmb", count=2000)
    with mmbloom.open(path, mode="pread") as found:
        os.truncate(path, 4096)
        for call in (
            lambda: "key" in found,
            lambda: found.contains_many(keys(3)),
            lambda: found.contains_many(np.array(keys(3), "S")),
            found.verify,
            found.copy,
            found.approx_count,
        ):
            with pytest.raises(TruncatedError):
                call()


def test_nothing_that_happens_to_the_file_changes_what_ram_answers(tmp_path: Path) -> None:
    """Cut, overwritten, removed."""
    path = sealed_file(tmp_path / "a.mmb", count=2000)
    with mmbloom.open(path, mode="ram") as found:
        for damage in (
            lambda: path.write_bytes(bytes(path.stat().st_size)),
            lambda: os.truncate(path, 0),
            path.unlink,
        ):
            damage()
            assert found.contains_many(keys(2000)).all()
            assert "absent" not in found
            assert found.verify() > 0


@pytest.mark.parametrize("offset", [4096, 5000, -9, -1])
def test_ram_refuses_a_file_with_one_changed_bit(tmp_path: Path, offset: int) -> None:
    """In the payload or in the checksums: all is compared before the first answer."""
    path = sealed_file(tmp_path / "a.mmb", count=2000)
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    before = held_now()

    with pytest.raises(ChecksumError):
        mmbloom.open(path, mode="ram")
    assert held_now() == before


@pytest.mark.parametrize("mode", ["copy", None, []])
def test_an_unknown_mode_is_refused(tmp_path: Path, mode: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """Whatever its type."""
    path = sealed_file(tmp_path / "a.mmb")
    with pytest.raises(ParameterError, match="one of map, ram, pread"):
        mmbloom.open(path, mode=mode)


def test_ram_is_for_sealed_files(tmp_path: Path) -> None:
    """A copy would miss what is added."""
    with pytest.raises(ParameterError, match="not sealed"):
        mmbloom.open(writable_file(tmp_path / "a.mmb"), mode="ram")


@OTHER_MODES
def test_a_pickled_reader_keeps_its_mode(tmp_path: Path, mode: Mode) -> None:
    """And its pin: the file is checked again where it is opened again."""
    path = sealed_file(tmp_path / "a.mmb")
    digest = mmbloom.file_digest(path)
    with (
        mmbloom.open(path, mode=mode, expected_digest=digest) as found,
        unpickle(pickle.dumps(found)) as again,
    ):
        assert (again.mode, again._options) == (mode, found._options)
        assert again.contains_many(keys(20)).all()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 says: may hang
@OTHER_MODES
def test_a_forked_child_goes_on_with_every_mode(tmp_path: Path, mode: Mode) -> None:
    """Even while a thread of the parent is in a look-up."""
    path = sealed_file(tmp_path / "a.mmb")
    found = mmbloom.open(path, mode=mode)

    def look() -> None:
        assert keys(1)[0] in found
        assert found.contains_many(keys(20)).all()
        found.close()

    if mode == "pread":
        inside, over = threading.Event(), threading.Event()

        def stay_inside() -> None:
            with found._opened.storage.loaded([0]):  # type: ignore[attr-defined]
                inside.set()
                over.wait()

        thread = threading.Thread(target=stay_inside)
        thread.start()
        inside.wait()
        try:
            assert in_child(look, seconds=10) == 0
        finally:
            over.set()
            thread.join()
    assert in_child(look) == 0
    assert keys(1)[0] in found
    found.close()


@OTHER_MODES
def test_a_closed_reader_of_every_mode_says_so(tmp_path: Path, mode: Mode) -> None:
    """And holds nothing."""
    before = held_now()
    found = mmbloom.open(sealed_file(tmp_path / "a.mmb"), mode=mode)
    assert found.contains_many(keys(20)).all()
    found.close()

    for call in (lambda: "a" in found, lambda: found.contains_many(["a"]), found.verify):
        with pytest.raises(ClosedError):
            call()
    assert held_now() == before


@OTHER_MODES
def test_threads_look_up_and_close_in_every_mode(tmp_path: Path, mode: Mode) -> None:
    """Right answers, or ClosedError."""
    path = sealed_file(tmp_path / "a.mmb", count=3000)
    wrong: list[object] = []
    found = mmbloom.open(path, mode=mode)
    started = threading.Barrier(5)

    def look() -> None:
        started.wait()
        try:
            while True:
                if not (found.contains_many(keys(500)).all() and keys(1)[0] in found):
                    wrong.append("a false no")
        except ClosedError:
            pass
        except BaseException as exc:  # noqa: BLE001 - the test names it
            wrong.append(exc)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    threading.Event().wait(0.05)
    found.close()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_wrong_word_is_refused_before_the_file_is_opened(tmp_path: Path) -> None:
    """A missing file is not the first of two mistakes."""
    for given in ({"mode": "mmap"}, {"expected_digest": "0" * 64}, {"advice": "fast"}):
        with pytest.raises(ParameterError):
            mmbloom.open(tmp_path / "missing.mmb", **given)  # type: ignore[arg-type]


def test_a_subclass_stays_one_in_every_mode(tmp_path: Path) -> None:
    """Opened by its own name it has its own methods."""

    class Named(BloomFilter):
        def has_ada(self) -> bool:
            return "ada" in self

    with BloomFilter.in_memory(capacity=5, fpr=NEVER) as made:
        made.add("ada")
        made.save(tmp_path / "a.mmb")
    for mode in ("map", *OTHERS):
        with Named.open(tmp_path / "a.mmb", mode=mode, follow=1) as found:
            assert isinstance(found, Named)
            assert found.has_ada()
