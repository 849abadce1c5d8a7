"""One check for every kind of batch: it means the same as single calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mmbloom import BloomFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    Check = Callable[..., None]


@pytest.fixture
def bloom() -> BloomFilter:
    """Return an empty filter in memory."""
    return BloomFilter.in_memory(capacity=10_000, fpr=0.01)


@pytest.fixture(scope="session")
def means() -> Check:
    """Return the check that a batch means some single keys, None being a null.

    It takes the batch, or a function that makes it again, for what can be read but once.
    """

    def check(batch: Any, keys: list[Any], **options: Any) -> None:  # noqa: ANN401 - of any type
        make = batch if callable(batch) else lambda: batch
        singly, at_once, half = (
            BloomFilter.in_memory(capacity=10_000, fpr=0.3, layout="line") for _ in range(3)
        )
        present = [key for key in keys if key is not None]
        num_new = sum(singly.add(key) for key in present)
        half.update(present[::2])

        assert at_once.update(make(), **options) == num_new
        assert at_once == singly
        for some in (at_once, half):
            expected = [key is not None and key in some for key in keys]
            assert some.contains_many(make(), **options).tolist() == expected

    return check
