"""A filter in a file is made and opened: never over another one, and reading changes nothing."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from filter_files import OPENS, TAIL, facts_of, in_child, keys, sealed_file, unpickle, writable_file

import mmbloom
from mmbloom import BloomFilter, FormatError, ReadOnlyError
from mmbloom.storage import mapped

if TYPE_CHECKING:
    from collections.abc import Callable

NOBODY = 65534


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


def test_a_cold_file_gives_the_same_answers(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages are asked for ahead, some thousand keys at a time: here more than one round."""
    path = sealed_file(tmp_path / "a.mmb", count=3000, layout=layout, fpr=0.1)
    asked = keys(9000)
    read_ahead = []
    real_start = mapped.MappedFile.start_reading

    def start_reading(self: mapped.MappedFile, page_numbers: list[int]) -> None:
        read_ahead.append(page_numbers)
        real_start(self, page_numbers)

    with mmbloom.open(path) as found:
        warm = found.contains_many(asked).tolist()
        monkeypatch.setattr("mmbloom.storage.residency.is_cold", lambda _: True)
        monkeypatch.setattr(mapped, "_SMALLEST_COLD_BYTES", 0)
        monkeypatch.setattr(mapped.MappedFile, "start_reading", start_reading)
        out = np.empty(9000, np.bool_)
        assert found.contains_many(asked).tolist() == warm
        assert found.contains_many(iter(asked), out=out).tolist() == warm
        assert found.contains_many(asked[:5]).tolist() == warm[:5]  # too few to ask for pages

    assert len(read_ahead) >= 6
    last_page = (found.geometry.payload_bytes - 1) // 4096
    assert all(pages[-1] <= last_page for pages in read_ahead)


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
