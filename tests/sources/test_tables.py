"""Parquet and Arrow files as lists of keys."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from key_lists import keys_of, read_in_two

import mmbloom
from mmbloom import int_key
from mmbloom.sources import tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write_parquet(path: Path, table: Any) -> None:  # noqa: ANN401 - pa.Table
    """Write a table in row groups of three."""
    pq.write_table(table, path, row_group_size=3)


def write_file(path: Path, table: Any) -> None:  # noqa: ANN401 - pa.Table
    """Write a table in record batches of three."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
        out.write_table(table, 3)


def write_stream(path: Path, table: Any) -> None:  # noqa: ANN401 - pa.Table
    """Write a table as a stream."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table, 3)


WRITERS = [
    pytest.param(write_parquet, id="parquet"),
    pytest.param(write_file, id="arrow-file"),
    pytest.param(write_stream, id="arrow-stream"),
]
every_table = pytest.mark.parametrize("write", WRITERS)
TEXTS = ["a", "", "b", "a", "ccc", "dé", "7"]


@every_table
@pytest.mark.parametrize(
    ("values", "kind", "keys"),
    [
        pytest.param(TEXTS, "string", [t.encode() for t in TEXTS], id="text"),
        pytest.param(TEXTS, "large_string", [t.encode() for t in TEXTS], id="large-text"),
        pytest.param([b"\0\n", b"\xff"], "binary", [b"\0\n", b"\xff"], id="binary"),
        pytest.param([1, -2, 3, 4], "int8", [*map(int_key, [1, -2, 3, 4])], id="narrow-integers"),
        pytest.param([1, 2**64 - 1], "uint64", [*map(int_key, [1, 2**64 - 1])], id="integers"),
    ],
)
def test_the_column_is_the_list(
    tmp_path: Path,
    write: Callable[[Path, Any], None],
    values: list[Any],
    kind: str,
    keys: list[bytes],
) -> None:
    """It gives the same keys as the same Arrow data in memory."""
    column = pa.array(values, getattr(pa, kind)())
    write(tmp_path / "t", pa.table({"x": [0.5] * len(values), "k": column}))
    filled, expected = (mmbloom.BloomFilter.in_memory(capacity=99, fpr=1e-9) for _ in range(2))
    expected.update(keys)

    for chosen in ("k", 2, None):
        with mmbloom.read_list(tmp_path / "t", column=chosen) as found:
            filled.update(found)
            assert found.lines_read == len(values)
            assert found.done_bytes == found.total_bytes
        assert filled == expected


@every_table
@pytest.mark.parametrize(
    ("make", "keys", "nulls"),
    [
        pytest.param(
            lambda: pa.array(["a", None, "b", "a", None]), [b"a", b"b", b"a"], [2, 5], id="text"
        ),
        pytest.param(
            lambda: pa.array(["a", "b", "a", None]).dictionary_encode(),
            [b"a", b"b", b"a"],
            [4],
            id="dictionary",
        ),
    ],
)
def test_nulls_are_bad_rows(
    tmp_path: Path,
    write: Callable[[Path, Any], None],
    make: Callable[[], Any],
    keys: list[bytes],
    nulls: list[int],
) -> None:
    """Rows are counted from 1 over the whole table."""
    path = tmp_path / "t"
    write(path, pa.table({"k": make()}))

    with mmbloom.read_list(path, on_error="skip") as found:
        assert keys_of(found) == keys
        assert found.bad.first == [f"{path}, row {row}: null" for row in nulls]
    with (
        mmbloom.read_list(path) as found,
        pytest.raises(mmbloom.SourceError, match=f"t, row {nulls[0]}: null"),
    ):
        keys_of(found)


def test_a_null_in_a_dictionary_is_a_null(tmp_path: Path) -> None:
    """It is not among the column's own nulls, and would be the empty key otherwise."""
    column = pa.DictionaryArray.from_arrays([0, 1, 0, 0, 1], pa.array(["a", None]))
    write_file(tmp_path / "t", pa.table({"k": column}))

    with mmbloom.read_list(tmp_path / "t", on_error="count") as found:
        assert keys_of(found) == [b"a", b"a", b"a"]
        assert found.bad.num_bad == 2


@every_table
def test_a_key_that_the_filter_refuses_is_named_by_its_row(
    tmp_path: Path, write: Callable[[Path, Any], None]
) -> None:
    """In whatever piece it is."""
    write(tmp_path / "t", pa.table({"k": ["ab", "cd", "ef", "01", "xy"]}))
    digests = mmbloom.BloomFilter.in_memory(capacity=10, fpr=0.01, key_form="hex")

    with (
        mmbloom.read_list(tmp_path / "t") as found,
        pytest.raises(mmbloom.KeyValueError, match="t, row 5: key form hex"),
    ):
        digests.update(found)


@every_table
@pytest.mark.parametrize("num_blocks", range(6))
def test_a_table_is_continued_from_a_position(
    tmp_path: Path,
    write: Callable[[Path, Any], None],
    monkeypatch: pytest.MonkeyPatch,
    num_blocks: int,
) -> None:
    """In the middle of a piece, or at the end of one. The count of rows continues."""
    monkeypatch.setattr(tables, "_PIECE_ROWS", 2)
    write(tmp_path / "t", pa.table({"k": [str(i) for i in range(8)]}))
    first, second = (mmbloom.read_list(tmp_path / "t") for _ in range(2))

    with first, second:
        assert read_in_two(first, second, num_blocks) == [b"%d" % i for i in range(8)]
        assert second.lines_read == 8


@every_table
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "has 3 columns; give one as column: k, m, x"),
        ({"column": "v"}, "no column named 'v'; there are: k, m, x"),
        ({"column": 4}, "no column 4; there are 3: k, m, x"),
        ({"column": "x"}, "column 'x' has type double; keys are text, binary or integers"),
    ],
)
def test_the_error_for_a_wrong_column_lists_the_columns(
    tmp_path: Path, write: Callable[[Path, Any], None], options: dict[str, Any], says: str
) -> None:
    """So it says what to type instead."""
    write(tmp_path / "t", pa.table({"k": ["a"], "m": ["b"], "x": [0.5]}))

    with (
        mmbloom.read_list(tmp_path / "t", **options) as found,
        pytest.raises(mmbloom.SourceError, match=says),
    ):
        keys_of(found)


@every_table
def test_an_empty_table_has_no_keys(tmp_path: Path, write: Callable[[Path, Any], None]) -> None:
    """The error of a build has its name."""
    write(tmp_path / "t", pa.table({"k": pa.array([], pa.string())}))

    with mmbloom.read_list(tmp_path / "t") as found:
        assert keys_of(found) == []
    with (
        mmbloom.read_lists([tmp_path / "t"]) as found,
        pytest.raises(mmbloom.SourceError, match="t: no valid keys"),
    ):
        keys_of(found)


@every_table
def test_a_table_that_was_cut_short_is_refused(
    tmp_path: Path, write: Callable[[Path, Any], None]
) -> None:
    """At any length: it is never taken as a shorter list."""
    write(tmp_path / "t", pa.table({"k": [str(i) for i in range(8)]}))
    whole = (tmp_path / "t").read_bytes()

    for length in range(64, len(whole) - 9, 97):
        (tmp_path / "t").write_bytes(whole[:length])
        with mmbloom.read_list(tmp_path / "t") as found:
            try:
                keys = keys_of(found)
            except mmbloom.SourceError as exc:
                assert re.search("data (is damaged|was cut short)", str(exc))  # noqa: PT017
            else:
                pytest.fail(f"{len(keys)} keys of 8")


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_an_error_says_how_to_get_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It is an extra: lists of text and JSON do not need it."""
    write_parquet(tmp_path / "t.parquet", pa.table({"k": ["a"]}))
    (tmp_path / "t.csv").write_text("k\na\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with (
        mmbloom.read_list(tmp_path / name, column="k") as found,
        pytest.raises(mmbloom.SourceError, match="install pyarrow"),
    ):
        keys_of(found)


def test_a_table_in_another_format_than_asked_for_is_refused(tmp_path: Path) -> None:
    """The error has the format that was asked for, and the one found."""
    write_parquet(tmp_path / "t", pa.table({"k": ["a"]}))

    for form, says in {
        "arrow": "expected arrow data, found Parquet",
        "csv": "expected csv",
    }.items():
        with pytest.raises(mmbloom.SourceError, match=says):
            mmbloom.read_list(tmp_path / "t", format=form)  # type: ignore[arg-type]
    (tmp_path / "t").write_text("a\n")
    with pytest.raises(mmbloom.SourceError, match="expected parquet data, found something else"):
        mmbloom.read_list(tmp_path / "t", format="parquet")


def test_a_name_of_two_columns_is_refused(tmp_path: Path) -> None:
    """Columns of Parquet are selected by name: the wrong one would be read."""
    table = pa.Table.from_arrays([pa.array(["a1"]), pa.array(["b1"])], names=["k", "k"])
    write_parquet(tmp_path / "t", table)

    with (
        mmbloom.read_list(tmp_path / "t", column=2) as found,
        pytest.raises(mmbloom.SourceError, match="more than one column is named 'k'"),
    ):
        keys_of(found)
