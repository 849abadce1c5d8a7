"""Arrow data -> pieces, through pyarrow.

Accepts any object that supports the Arrow PyCapsule protocol: pyarrow, polars, pandas and duckdb
objects with one column of text, binary or integers. Text, binary and 64-bit integers are read in
place. Dictionaries and run-end encoding are expanded as a whole, views and narrow integers piece by
piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.engine import OffsetsBatch, RowsBatch
from mmbloom.errors import KeyTypeError, KeyValueError
from mmbloom.keys.pieces import (
    NUMBER_BYTES,
    PIECE_KEYS,
    Nulls,
    Piece,
    bytes_of,
    number_batch,
    number_bytes,
)
from mmbloom.keys.records import records_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from mmbloom.keys.pieces import Batch
    from mmbloom.keys.records import Records

INSTALL = "Arrow data needs pyarrow: pip install 'mmbloom[arrow]'"


def arrow_pieces(keys: object, nulls: Nulls) -> Iterator[Piece]:
    """Cut Arrow data into pieces; see ``pieces_of``.

    Types and nulls are checked before the first piece is yielded.
    """
    chunks = [_expanded(chunk) for chunk in _chunks(keys)]
    if nulls == "raise":
        _refuse_nulls(chunks)
    return _pieces(chunks)


def has_canonical_bytes(kind: Any) -> bool:  # noqa: ANN401 - pa.DataType
    """Return whether a column of the Arrow type *kind* can hold keys."""
    pa = _pyarrow()
    if isinstance(kind, pa.BaseExtensionType):
        return has_canonical_bytes(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return has_canonical_bytes(kind.value_type)
    return any(is_type(kind) for is_type in _accepted())


def plain_array(array: Any) -> Any:  # noqa: ANN401 - pa.Array
    """Return a column as plain text, binary or integers: encodings and views are expanded.

    The result has every null of the column, including the nulls inside a dictionary.

    Raises:
        KeyTypeError: its type has no canonical bytes.
    """
    return _without_views(_expanded(array))


def key_records(
    array: Any,  # noqa: ANN401 - pa.Array without nulls
    name: str,
    first: int,
    lines: Sequence[int] | None,
) -> Records:
    """Return rows of the table *name* as keys.

    Args:
        array: a result of plain_array(), without nulls.
        name: the name of the table, for error messages.
        first: the number of rows before the first row of *array*.
        lines: the numbers of the rows, if they are not consecutive.
    """
    import numpy as np

    pa = _pyarrow()
    kind, count = array.type, len(array)
    if pa.types.is_integer(kind) or pa.types.is_fixed_size_binary(kind):
        if pa.types.is_integer(kind):
            width, data = NUMBER_BYTES, number_bytes(array.to_numpy())
        else:
            width = kind.byte_width
            data = _bytes_of(array.buffers()[1])[array.offset * width :]
        steps = np.arange(count + 1, dtype=np.uint64) * np.uint64(width)
        return records_of(data, bytes_of(steps), steps.itemsize, name, first=first, lines=lines)
    size = _offset_bytes(kind)
    _, places, values = array.buffers()
    offsets = _bytes_of(places)[array.offset * size : (array.offset + count + 1) * size]
    data = _bytes_of(values)
    return records_of(data, offsets or bytes(size), size, name, first=first, lines=lines)


def _pyarrow() -> Any:  # noqa: ANN401 - a module
    try:
        import pyarrow as pa
    except ModuleNotFoundError as exc:
        raise KeyTypeError(INSTALL) from exc
    return pa


def _chunks(keys: Any) -> list[Any]:  # noqa: ANN401 - any object with the protocol
    """Return the contiguous arrays of *keys*."""
    pa = _pyarrow()
    if not isinstance(keys, (pa.Array, pa.ChunkedArray, pa.Table, pa.RecordBatch)):
        try:
            keys = _imported(keys)
        except pa.ArrowException as exc:
            raise KeyTypeError(f"keys: the Arrow data does not have one type: {exc}") from exc
    if isinstance(keys, (pa.Table, pa.RecordBatch)):
        keys = _only_column(keys)
    return list(keys.chunks) if isinstance(keys, pa.ChunkedArray) else [keys]


def _only_column(table: Any) -> Any:  # noqa: ANN401 - pa.Table or pa.RecordBatch
    """Return the column of keys. The unnamed index that pandas adds does not count."""
    names = table.schema.names
    columns = [i for i, name in enumerate(names) if not name.startswith("__index_level_")]
    if len(columns) != 1:
        found = f"{len(columns)} ({', '.join(names[i] for i in columns)})"
        raise KeyTypeError(f"keys: expected one column, found {found}: select one of them")
    return table.column(columns[0])


def _imported(keys: Any) -> Any:  # noqa: ANN401 - any object with the protocol
    """Import data of another library as an array, a chunked array, or a table."""
    pa = _pyarrow()
    if hasattr(keys, "__arrow_c_stream__"):
        try:
            # A stream of record batches is a table.
            return pa.RecordBatchReader.from_stream(keys).read_all()
        except pa.ArrowInvalid:
            return pa.chunked_array(keys)  # A stream of arrays is a column.
    array = pa.array(keys)
    # The protocol represents a record batch as a struct.
    return pa.RecordBatch.from_struct_array(array) if pa.types.is_struct(array.type) else array


def _expanded(chunk: Any) -> Any:  # noqa: ANN401 - pa.Array of any type
    """Expand encodings, from the inside out. The values of the result have canonical bytes."""
    pa = _pyarrow()
    types = pa.types
    kind = chunk.type
    if isinstance(kind, pa.BaseExtensionType):
        return _expanded(chunk.storage)
    if types.is_dictionary(kind):
        values = _without_views(_expanded(chunk.dictionary))
        return pa.DictionaryArray.from_arrays(chunk.indices, values).dictionary_decode()
    if types.is_run_end_encoded(kind):
        import pyarrow.compute as pc

        values = _without_views(_expanded(chunk.values))
        runs = pa.RunEndEncodedArray.from_arrays(chunk.run_ends, values)
        return pc.run_end_decode(runs.slice(chunk.offset, len(chunk)))
    if types.is_null(kind):
        return chunk.cast(pa.binary())
    if any(is_type(kind) for is_type in _accepted()):
        return chunk
    hint = "cast it to text, binary or integers"
    raise KeyTypeError(f"keys: values of Arrow type {kind} cannot be keys: {hint}")


def _accepted() -> tuple[Callable[[Any], bool], ...]:
    """Return the tests for types whose values have canonical bytes without conversion."""
    types = _pyarrow().types
    return (
        types.is_string,
        types.is_binary,
        types.is_large_string,
        types.is_large_binary,
        types.is_string_view,
        types.is_binary_view,
        types.is_fixed_size_binary,
        types.is_integer,
    )


def _without_views(chunk: Any) -> Any:  # noqa: ANN401 - pa.Array of any type
    """Convert views to offsets: the engine and much of pyarrow cannot read views."""
    pa = _pyarrow()
    is_view = pa.types.is_string_view(chunk.type) or pa.types.is_binary_view(chunk.type)
    return chunk.cast(pa.large_binary()) if is_view else chunk


def _refuse_nulls(chunks: list[pa.Array]) -> None:
    row = 0
    for chunk in chunks:
        if chunk.null_count:
            row += chunk.is_valid().to_pylist().index(False)
            raise KeyValueError(f"keys: row {row} is null: fill it in, or pass nulls='skip'")
        row += len(chunk)


def _pieces(chunks: list[pa.Array]) -> Iterator[Piece]:
    num_keys = 0
    for chunk in chunks:
        for first in range(0, len(chunk), PIECE_KEYS):
            piece = _without_views(chunk.slice(first, PIECE_KEYS))
            num_rows, valid = len(piece), None
            if piece.null_count:
                valid = piece.is_valid().to_numpy(zero_copy_only=False)
                piece = piece.drop_null()
            yield Piece(_batch(piece, num_keys), num_rows, valid)
            num_keys += len(piece)


def _batch(array: Any, num_before: int) -> Batch:  # noqa: ANN401 - pa.Array without nulls
    """Point the engine at the buffers of *array*, whose first key is number *num_before*."""
    pa = _pyarrow()
    kind = array.type
    if pa.types.is_integer(kind):
        numbers = array.to_numpy()
        return number_batch(numbers, num_before)
    buffers = array.buffers()
    first, count = array.offset, len(array)
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        rows = _bytes_of(buffers[1])[first * width : (first + count) * width]
        return RowsBatch(rows, width, count, "bytes", num_before)
    size = _offset_bytes(kind)
    offsets = _bytes_of(buffers[1])[first * size : (first + count + 1) * size]
    return OffsetsBatch(_bytes_of(buffers[2]), offsets or bytes(size), size, num_before)


def _offset_bytes(kind: Any) -> int:  # noqa: ANN401 - pa.DataType of text or binary
    types = _pyarrow().types
    return 8 if types.is_large_string(kind) or types.is_large_binary(kind) else 4


def _bytes_of(buffer: pa.Buffer | None) -> memoryview:
    """Return the bytes of an Arrow buffer and keep it alive; a missing buffer is empty."""
    return memoryview(b"" if buffer is None else buffer).cast("B")
