"""Filters and other processes: started anew or forked."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import operator
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from filter_files import NEVER, in_child, keys, sealed_file

import mmbloom
from mmbloom import BloomFilter, ClosedError, LockHeldError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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


def exit_code_within(seconds: float, act: Callable[[], object]) -> int | None:
    """Run *act* in a forked child, as in_child(); None if it hangs."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 says: may hang
def test_a_fork_while_other_threads_add_does_not_hang(tmp_path: Path) -> None:
    """What a thread of the parent was changing is closed, or goes on; locks are not waited for."""
    stop = threading.Event()
    path = tmp_path / "a.mmb"
    memory = BloomFilter.in_memory(capacity=10**6, fpr=0.01, overfill=True)
    memory.add("before")
    with (
        BloomFilter.create(path, capacity=10**6, fpr=0.01, overfill=True) as writer,
        ThreadPoolExecutor(2) as pool,
    ):
        writer.add("before")

        def add_on(found: BloomFilter) -> None:
            number = 0
            while not stop.is_set():
                found.update(keys(3000, start=number))
                number += 3000

        def use_in_child() -> None:
            with pytest.raises(ClosedError, match="parent"):
                writer.contains_many(["before"])
            with contextlib.suppress(ClosedError):
                assert "before" in memory
            for found in (memory, writer):
                found.close()
            with mmbloom.open(path) as reader:
                assert "before" in reader

        adding = [pool.submit(add_on, found) for found in (memory, writer)]
        codes = [exit_code_within(20, use_in_child) for _ in range(20)]
        stop.set()
        for future in adding:
            future.result()
    assert codes == [0] * 20


def test_keys_are_the_same_in_processes_with_other_hash_seeds(tmp_path: Path) -> None:
    """Python's own hash() is salted; that of the file is not."""
    path = tmp_path / "a.mmb"
    build = "mmbloom.build(sys.argv[1], [f'k{i}' for i in range(50)] + [b'\\xff'], fpr=1e-9)"
    look = (
        "f = mmbloom.open(sys.argv[1])\nprint(all(f'k{i}' in f for i in range(50)), b'\\xff' in f)"
    )
    for code, seed in ((build, "1"), (look, "2")):
        done = subprocess.run(  # noqa: S603 - this Python
            [sys.executable, "-P", "-c", f"import sys, mmbloom\n{code}", str(path)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == "True True\n"
