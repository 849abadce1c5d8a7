"""JSON Lines as lists of keys."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from key_lists import keys_of, read_in_two

import mmbloom
from mmbloom.keys import lines

if TYPE_CHECKING:
    from pathlib import Path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))))
def test_every_string_that_json_can_hold_is_a_key(tmp_path: Path, keys: list[str]) -> None:
    """Escapes are decoded, and lines of white space are ignored."""
    path = tmp_path / "list.ndjson"
    path.write_text("".join(json.dumps({"n": 1, "k": key}) + "\r\n\n" for key in keys))

    with mmbloom.read_list(path, column="k") as found:
        assert keys_of(found) == [key.encode() for key in keys]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "invalid JSON: "),
        ('{"k": "a"} {"k": "b"}', "invalid JSON: "),
        ('{"k": "\\ud800"}', "invalid JSON: "),
        ('["a"]', "expected a JSON object, found an array"),
        ('"a"', "expected a JSON object, found a string"),
        ("null", "expected a JSON object, found null"),
        ('{"n": 1, "m": 2}', "no field 'k'; there are: n, m"),
        ('{"k": null}', "field 'k': expected a string, found null"),
        ('{"k": 7}', "field 'k': expected a string, found a number"),
        ('{"k": true}', "field 'k': expected a string, found a boolean"),
        ('{"k": {}}', "field 'k': expected a string, found an object"),
        ('{"k": []}', "field 'k': expected a string, found an array"),
    ],
)
def test_a_line_without_its_string_is_bad(tmp_path: Path, line: str, says: str) -> None:
    """Numbers have no canonical bytes: 7, 7.0 and "7" could be one key or three."""
    path = tmp_path / "list.jsonl"
    path.write_text(f'{{"k": "a"}}\n\n{line}\n{{"k": "b"}}\n')

    with mmbloom.read_list(path, column="k", on_error="skip") as found:
        assert keys_of(found) == [b"a", b"b"]
        assert found.bad.num_bad == 1
        assert found.bad.first[0].startswith(f"{path}, line 3: {says}")
    with (
        mmbloom.read_list(path, column="k") as found,
        pytest.raises(mmbloom.SourceError, match=r"list.jsonl, line 3: "),
    ):
        keys_of(found)


def test_a_key_that_the_filter_refuses_is_named_by_its_line(tmp_path: Path) -> None:
    """Bad lines before it are counted."""
    (tmp_path / "list").write_text('{"k": "ab"}\n\n{}\n{"k": "xy"}\n')
    digests = mmbloom.BloomFilter.in_memory(capacity=10, fpr=0.01, key_form="hex")
    options = {"column": "k", "format": "jsonl", "on_error": "count"}

    with (
        mmbloom.read_list(tmp_path / "list", **options) as found,  # type: ignore[arg-type]
        pytest.raises(mmbloom.KeyValueError, match="list, line 4: key form hex"),
    ):
        digests.update(found)


@pytest.mark.parametrize("num_blocks", [0, 1, 3])
def test_a_list_is_continued_from_a_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_blocks: int
) -> None:
    """In the middle of compressed text."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 64)
    path = tmp_path / "list.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(b'{"k": "%d"}\n' % i for i in range(100))))
    first, second = (mmbloom.read_list(path, column="k") for _ in range(2))

    with first, second:
        assert read_in_two(first, second, num_blocks) == [b"%d" % i for i in range(100)]
        assert second.lines_read == 100


@pytest.mark.parametrize("column", [None, 1])
def test_a_field_has_a_name(tmp_path: Path, column: int | None) -> None:
    """The fields of an object have no order."""
    (tmp_path / "list").write_text("{}\n")

    with pytest.raises(mmbloom.ParameterError, match="column: expected the name of a field"):
        mmbloom.read_list(tmp_path / "list", format="jsonl", column=column)
