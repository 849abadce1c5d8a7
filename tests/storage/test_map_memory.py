"""Payloads without a file."""

from __future__ import annotations

import mmap
from typing import Never

import pytest
from file_steps import in_child

from mmbloom.storage.memory import map_memory


def test_the_memory_is_zero_and_writable() -> None:
    """Nothing is set before somebody adds a key."""
    with map_memory(5 << 20) as memory:
        assert memory[:] == bytes(5 << 20)
        memory[-1] = 7


@pytest.mark.parametrize("num_bytes", [1 << 46, 1 << 50])
def test_more_than_the_machine_has_is_refused_with_both_numbers(num_bytes: int) -> None:
    """A14: the kernel would lend it, and kill somebody later."""
    with pytest.raises(MemoryError, match=f"needs {num_bytes} bytes of memory, this machine has"):
        map_memory(num_bytes)


def test_what_the_system_refuses_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a limit of the process."""

    def refuse(*_args: object, **_kwargs: object) -> Never:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(MemoryError, match="Cannot allocate memory"):
        map_memory(4096)


def test_a_forked_child_changes_its_own_copy() -> None:
    """Shared memory would let it set bits in its parent's filter."""
    with map_memory(4096) as memory:

        def change() -> None:
            memory[0] = 1

        assert in_child(change) == 0
        assert memory[0] == 0
