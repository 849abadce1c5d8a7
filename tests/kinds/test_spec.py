"""What a filter is made with: one specification, checked once."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from mmbloom import (
    BloomFilter,
    CountingBloomFilter,
    FilterSpec,
    IncompatibleError,
    ParameterError,
    ParameterTypeError,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_a_filter_has_the_parameters_of_its_specification(tmp_path: Path) -> None:
    """Made in a file or in memory, any number of times."""
    spec = FilterSpec(
        capacity=1000, fpr=0.01, layout="classic", seed=7, key_form="hex", metadata={"source": "x"}
    )
    with (
        BloomFilter.create(tmp_path / "a.mmb", spec) as first,
        BloomFilter.in_memory(spec) as second,
    ):
        for found in (first, second):
            assert (found.capacity, found.fpr, found.layout) == (1000, 0.01, "classic")
            assert (found.seed, found.key_form, found.metadata) == (7, "hex", {"source": "x"})
        assert first.uuid != second.uuid


def test_a_random_seed_is_chosen_once() -> None:
    """So filters of one specification can be united."""
    spec = FilterSpec(capacity=1000, fpr=0.01, seed="random")
    with BloomFilter.in_memory(spec) as one, BloomFilter.in_memory(spec) as two:
        assert one.seed == two.seed == spec.seed
    assert spec.seed != FilterSpec(capacity=1000, fpr=0.01, seed="random").seed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("capacity", 0),
        ("fpr", 1.0),
        ("fpr", float("nan")),
        ("seed", "other"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: object) -> None:
    """Before anything is made."""
    options: dict[str, Any] = {"capacity": 1000, "fpr": 0.01, field: value}
    with pytest.raises(ParameterError, match=field):
        FilterSpec(**options)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("capacity", 1.5),
        ("fpr", "small"),
        ("kind", None),
        ("layout", 3),
        ("key_form", b"hex"),
        ("overfill", 1),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_name(field: str, value: object) -> None:
    """The same."""
    options: dict[str, Any] = {"capacity": 1000, "fpr": 0.01, field: value}
    with pytest.raises(ParameterTypeError, match=field):
        FilterSpec(**options)


def test_a_specification_does_not_change_and_can_be_copied() -> None:
    """Its fields are compared; a copy is checked again."""
    spec = FilterSpec(capacity=1000, fpr=0.01, seed="random")

    assert copy.copy(spec) == pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - our own
    with pytest.raises(AttributeError):
        spec.fpr = 0.5  # type: ignore[misc]
    assert spec != FilterSpec(capacity=1000, fpr=0.02, seed=spec.seed)


@pytest.mark.parametrize("spec", ["line", {"capacity": 10, "fpr": 0.1}, (1, 2)])
def test_only_a_specification_is_taken_for_one(spec: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """Anything else is an error that says so."""
    with pytest.raises(ParameterTypeError, match=r"spec.*FilterSpec"):
        BloomFilter.in_memory(spec)


def test_a_specification_and_parameters_by_name_are_not_mixed(tmp_path: Path) -> None:
    """One of them would have no effect."""
    spec = FilterSpec(capacity=10, fpr=0.1)
    with pytest.raises(ParameterError, match=r"spec.*capacity, fpr"):
        BloomFilter.create(tmp_path / "a.mmb", spec, capacity=5000, fpr=1e-6)
    assert list(tmp_path.iterdir()) == []


def test_a_class_makes_filters_of_its_kind_only() -> None:
    """The specification names another."""
    with pytest.raises(IncompatibleError, match="counting"):
        CountingBloomFilter.in_memory(FilterSpec(capacity=10, fpr=0.1))
