"""Lists that change, or were already read in part: a build never takes a part for the whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from build_steps import names_in

import mmbloom
from mmbloom import ParameterError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_a_list_that_is_cut_while_it_is_read_is_refused(tmp_path: Path) -> None:
    """The keys in the rest of it would be missing."""
    path = tmp_path / "list.txt"
    path.write_bytes(b"".join(b"key-%07d\n" % i for i in range(400_000)))

    def cut(_: object) -> None:
        os.truncate(path, 2_000_000)

    with (
        mmbloom.read_list(path) as found,
        pytest.raises(SourceError, match="cut to 2000000 of its 4800000 bytes"),
    ):
        mmbloom.build(tmp_path / "a.mmb", found, fpr=0.01, jobs=1, progress=cut)
    assert names_in(tmp_path) == ["list.txt"]


def test_a_list_that_was_already_read_in_part_is_refused(tmp_path: Path) -> None:
    """The keys that were read would be missing."""
    (tmp_path / "list.txt").write_bytes(b"ada\n")
    with mmbloom.read_list(tmp_path / "list.txt") as found:
        next(iter(found))
        with pytest.raises(SourceError, match="already read in part"):
            mmbloom.build(tmp_path / "a.mmb", found, fpr=0.01)


def test_a_buffer_that_an_iterator_reuses_is_copied_in_time(tmp_path: Path) -> None:
    """Each of its keys is in the filter."""

    def same_buffer() -> Iterator[bytearray]:
        buffer = bytearray(4)
        for i in range(300):
            buffer[:] = i.to_bytes(4, "little")
            yield buffer

    with mmbloom.build(tmp_path / "a.mmb", same_buffer(), fpr=1e-6) as built:
        assert built.keys_added == 300
        assert built.contains_many([i.to_bytes(4, "little") for i in range(300)]).all()


@pytest.mark.parametrize("pattern", ["*.txt", "b.txt"])
def test_a_list_is_not_replaced_by_its_filter(tmp_path: Path, pattern: str) -> None:
    """Whether named or matched by a pattern, the list would be lost."""
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(name.encode())
    with (
        mmbloom.read_lists([str(tmp_path / pattern)]) as found,
        pytest.raises(ParameterError, match="not one of the lists"),
    ):
        mmbloom.build(tmp_path / "b.txt", found, fpr=0.01, if_exists="replace")
    assert (tmp_path / "b.txt").read_bytes() == b"b.txt"


def test_a_fork_does_not_continue_a_build(tmp_path: Path) -> None:
    """It has no copy of the threads, so it would wait forever."""

    def forking() -> Iterator[str]:
        yield "ada"
        pid = os.fork()
        if pid == 0:
            yield from ("child", "process")
        else:
            _, code = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(code) == 7
            yield "grace"

    parent = os.getpid()
    try:
        mmbloom.build(tmp_path / "a.mmb", forking(), fpr=1e-6, jobs=2).close()
    except RuntimeError:
        if os.getpid() != parent:
            os._exit(7)
        raise
    finally:
        if os.getpid() != parent:
            os._exit(1)
    with mmbloom.open(tmp_path / "a.mmb") as built:
        assert "grace" in built
        assert built.keys_added == 2


def test_a_mark_at_the_start_of_a_csv_key_stays(tmp_path: Path) -> None:
    """At the start of its input pyarrow drops it."""
    pytest.importorskip("pyarrow")
    (tmp_path / "list.csv").write_bytes("email\n\ufeffbob\nann\n".encode())
    with (
        mmbloom.read_list(tmp_path / "list.csv", column="email") as found,
        mmbloom.build(tmp_path / "a.mmb", found, fpr=1e-9) as built,
    ):
        assert "\ufeffbob" in built
        assert "bob" not in built
