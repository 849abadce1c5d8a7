"""Fixtures of the filters: layouts, places, folders."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mmbloom import BloomFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LAYOUTS = ("classic", "line", "page")
PLACES = ("in memory", "in a file")


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


@pytest.fixture(params=PLACES)
def make(
    request: pytest.FixtureRequest, layout: str, tmp_path: Path
) -> Iterator[Callable[..., BloomFilter]]:
    """Return a function that makes filters of one layout in one place; the end closes them."""
    made: list[BloomFilter] = []

    def make_one(**given: object) -> BloomFilter:
        parameters: Any = {"capacity": 1000, "fpr": 0.01, "layout": layout} | given
        if request.param == "in memory":
            made.append(BloomFilter.in_memory(**parameters))
        else:
            path = tmp_path / f"{len(made)}.mmb"
            made.append(BloomFilter.create(path, **parameters))
        return made[-1]

    yield make_one
    for filter_ in made:
        filter_.close()
