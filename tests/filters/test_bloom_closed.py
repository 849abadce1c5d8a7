"""A closed filter answers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from filter_files import payload_of

from mmbloom import BloomFilter, ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., BloomFilter]


USES: list[tuple[str, Callable[[BloomFilter], object]]] = [
    ("in", lambda f: "a" in f),
    ("might_contain", lambda f: f.might_contain("a")),
    ("contains_many", lambda f: f.contains_many(["a"])),
    ("contains_many-of-nothing", lambda f: f.contains_many([])),
    ("add", lambda f: f.add("a")),
    ("update", lambda f: f.update(["a"])),
    ("update-of-nothing", lambda f: f.update([])),
    ("or", lambda f: f | f),
    ("and", lambda f: f & f),
    ("ior", lambda f: f.__ior__(f)),
    ("iand", lambda f: f.__iand__(f)),
    ("eq", lambda f: f == f),  # noqa: PLR0124 - the point is the closed filter
    ("copy", lambda f: f.copy()),
    ("clear", lambda f: f.clear()),
    ("save", lambda f: f.save("/nowhere/a.mmb")),
    ("flush", lambda f: f.flush()),
    ("seal", lambda f: f.seal()),
    ("fill_ratio", lambda f: f.fill_ratio()),
    ("approx_count", lambda f: f.approx_count()),
    ("expected_fpr", lambda f: f.expected_fpr()),
    ("fill_by_region", lambda f: f.fill_by_region()),
    ("info", lambda f: f.info()),
    ("verify", lambda f: f.verify()),
    ("with", lambda f: f.__enter__()),
    ("pickle", lambda f: f.__reduce__()),
]


@pytest.mark.parametrize("use", [pytest.param(use, id=name) for name, use in USES])
def test_a_closed_filter_answers_nothing(make: Make, use: Callable[[BloomFilter], object]) -> None:
    """Every use says that it is closed; none crashes or makes an answer up."""
    found = make()
    found.add("a")
    found.close()

    with pytest.raises(ClosedError, match="closed"):
        use(found)


def test_an_open_filter_does_not_combine_with_a_closed_one(make: Make) -> None:
    """From either side, and it is as before."""
    found, closed = make(), make()
    found.add("a")
    closed.close()
    before = payload_of(found)

    for use in (
        lambda: found | closed,
        lambda: closed | found,
        lambda: found & closed,
        lambda: found.__ior__(closed),
        lambda: found.__iand__(closed),
        lambda: found == closed,
    ):
        with pytest.raises(ClosedError):
            use()
    assert payload_of(found) == before


def test_parameters_and_counts_outlive_the_close(make: Make) -> None:
    """They need no payload."""
    found = make(capacity=50, metadata={"a": 1})
    found.add("ada")
    before = found.uuid, found.path, found.geometry
    found.close()

    assert (found.uuid, found.path, found.geometry) == before
    assert (found.capacity, found.keys_added, found.metadata) == (50, 1, {"a": 1})
    assert (found.closed, found.writable) == (True, False)


def test_close_may_be_called_again_and_with_calls_it(make: Make) -> None:
    """A block that ends with an error closes too."""
    with make() as found:
        found.add("a")
        assert not found.closed
    assert found.closed
    found.close()

    with pytest.raises(ZeroDivisionError), make() as other:
        other.add(1 / 0)  # type: ignore[arg-type]
    assert other.closed
