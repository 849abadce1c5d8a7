"""The metadata: a JSON object that reads back as it was given, or is refused."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest

from mmbloom.errors import ParameterError, ParameterTypeError
from mmbloom.format.metadata import decode_metadata, encode_metadata


@pytest.mark.parametrize(
    ("metadata", "encoded"),
    [
        pytest.param(None, b"{}", id="none"),
        pytest.param({}, b"{}", id="empty"),
        pytest.param({"b": 1, "a": [True, None]}, b'{"a":[true,null],"b":1}', id="sorted-compact"),
        pytest.param({"é": "naïve"}, '{"é":"naïve"}'.encode(), id="utf-8-without-escapes"),
    ],
)
def test_metadata_have_one_encoding(metadata: dict[str, Any] | None, encoded: bytes) -> None:
    """Compact, sorted, UTF-8: equal metadata are equal bytes."""
    assert encode_metadata(metadata) == encoded
    assert decode_metadata(encoded) == (metadata or {})


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({1: "a"}, id="int-key"),
        pytest.param({1: "a", "b": 2}, id="mixed-keys"),
        pytest.param({"a": (1, 2)}, id="tuple"),
        pytest.param({"a": b"bytes"}, id="bytes"),
        pytest.param({"a": {1, 2}}, id="set"),
        pytest.param({"a": math.nan}, id="nan"),
        pytest.param({"a": math.inf}, id="infinity"),
        pytest.param({"a": "\ud800"}, id="lone-surrogate"),
        pytest.param({"a": "x" * 2048}, id="too-long"),
    ],
)
def test_metadata_that_would_not_read_back_are_refused(metadata: dict[Any, Any]) -> None:
    """What is stored is what was given: no key turned into text, no tuple into a list."""
    with pytest.raises(ParameterError, match="metadata: expected"):
        encode_metadata(metadata)


def test_metadata_that_contain_themselves_are_refused() -> None:
    """A cycle is no JSON."""
    metadata: dict[str, Any] = {}
    metadata["self"] = metadata

    with pytest.raises(ParameterError, match="metadata: expected"):
        encode_metadata(metadata)


def test_metadata_nested_without_end_are_refused() -> None:
    """Deeper than Python recurses is an error of the parameter, not a crash."""
    metadata: dict[str, Any] = {}
    for _ in range(100_000):
        metadata = {"a": metadata}

    with pytest.raises(ParameterError, match="metadata: expected"):
        encode_metadata(metadata)


@pytest.mark.parametrize("metadata", [[], "{}", b"{}", 1])
def test_metadata_are_a_dict(metadata: object) -> None:
    """Encoded JSON is not a dict either."""
    with pytest.raises(ParameterTypeError, match="metadata: expected a dict"):
        encode_metadata(metadata)  # type: ignore[arg-type]


def test_metadata_may_fill_their_place() -> None:
    """2048 bytes fit, 2049 do not."""
    longest = {"a": "x" * (2048 - len('{"a":""}'))}

    assert len(encode_metadata(longest)) == 2048
    with pytest.raises(ParameterError, match="at most 2048 bytes as JSON, found '2049 bytes'"):
        encode_metadata({"a": longest["a"] + "x"})


@pytest.mark.parametrize(
    "encoded",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[]", id="array"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{", id="cut"),
        pytest.param(b"{} x", id="more-behind"),
        pytest.param(b'{"a":\xff}', id="not-utf-8"),
        pytest.param(b'{"a":NaN}', id="nan"),
        pytest.param(b'{"a":1e999}', id="beyond-a-double"),
        pytest.param(b'{"a":"\\ud800"}', id="lone-surrogate"),
    ],
)
def test_bytes_that_are_no_object_are_refused(encoded: bytes) -> None:
    """ValueError for each, never another exception: the bytes come from a file."""
    with pytest.raises(ValueError, match=r"\w"):
        decode_metadata(encoded)


def test_bytes_nested_as_deep_as_they_can_be_give_no_other_error() -> None:
    """2048 bytes can nest 1000 levels: a Python that cannot recurse so far says ValueError."""
    with contextlib.suppress(ValueError):
        decode_metadata(b'{"a":' + b"[" * 1020 + b"]" * 1020 + b"}")
