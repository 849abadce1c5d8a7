"""Arrow data -> pieces, through pyarrow.

Anything that speaks the Arrow PyCapsule protocol comes in without a copy: pyarrow, polars, pandas and duckdb objects with
one column of text, binary or integers. Dictionaries, views and run-end encoding are expanded by pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.engine import OffsetsBatch, RowsBatch
from mmbloom.errors import KeyTypeError, KeyValueError
from mmbloom.keys.batches import PIECE_KEYS, Nulls, Piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

INSTALL = "Arrow data needs pyarrow: pip install 'mmbloom[arrow]'"


def arrow_pieces(keys: object, nulls: Nulls) -> Iterator[Piece]:
    """Cut Arrow data into pieces; see ``pieces_of``. Types and nulls are checked before the first is yielded."""
    chunks = [_plain(chunk) for chunk in _chunks(keys)]
    if nulls == "raise":
        _refuse_nulls(chunks)
    return _pieces(chunks)


def _pyarrow() -> Any:  # noqa: ANN401 - a module
    try:
        import pyarrow as pa  # noqa: PLC0415 - optional, and slow to load
    except ModuleNotFoundError as exc:
        raise KeyTypeError(INSTALL) from exc
    return pa


def _chunks(keys: Any) -> list[Any]:  # noqa: ANN401 - whatever speaks the protocol
    """Return the contiguous arrays of *keys*."""
    pa = _pyarrow()
    if isinstance(keys, pa.Array):
        return [keys]
    if not isinstance(keys, (pa.ChunkedArray, pa.Table, pa.RecordBatch)):
        keys = _imported(keys)
    if isinstance(keys, pa.RecordBatch):
        keys = pa.Table.from_batches([keys])
    if isinstance(keys, pa.Table):
        if keys.num_columns != 1:
            names = ", ".join(keys.column_names)
            raise KeyTypeError(f"keys: expected one column, found {keys.num_columns} ({names}): select one")
        keys = keys.column(0)
    return list(keys.chunks) if isinstance(keys, pa.ChunkedArray) else [keys]


def _imported(keys: Any) -> Any:  # noqa: ANN401 - whatever speaks the protocol
    """Take data of another library over: an array, a chunked array, or a table."""
    pa = _pyarrow()
    if hasattr(keys, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader
        try:
            return reader.from_stream(keys).read_all()  # a stream of record batches: a table
        except pa.ArrowInvalid:
            return pa.chunked_array(keys)  # a stream of arrays: a column
    return pa.array(keys)


def _plain(chunk: Any) -> Any:  # noqa: ANN401 - pa.Array of any type
    """Expand encodings; return an array of text, binary, fixed-size binary or 64-bit integers."""
    pa = _pyarrow()
    types = pa.types
    if isinstance(chunk, pa.ExtensionArray):
        chunk = chunk.storage
    if types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_decode()
    if types.is_run_end_encoded(chunk.type):
        import pyarrow.compute as pc  # noqa: PLC0415 - rare

        chunk = pc.run_end_decode(chunk)
    kind = chunk.type
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return chunk.cast(pa.large_binary())
    if types.is_null(kind):
        return chunk.cast(pa.binary())
    if types.is_integer(kind):
        return chunk.cast(pa.int64() if types.is_signed_integer(kind) else pa.uint64())
    variable = types.is_string(kind) or types.is_binary(kind)
    if variable or types.is_large_string(kind) or types.is_large_binary(kind):
        return chunk
    if types.is_fixed_size_binary(kind):
        return chunk
    raise KeyTypeError(f"keys: no canonical bytes for Arrow type {kind}: cast it to text, binary or integers")


def _refuse_nulls(chunks: list[pa.Array]) -> None:
    row = 0
    for chunk in chunks:
        if chunk.null_count:
            row += chunk.is_valid().to_pylist().index(False)
            raise KeyValueError(f"keys: row {row} is null: fill it, or pass nulls='skip'")
        row += len(chunk)


def _pieces(chunks: list[pa.Array]) -> Iterator[Piece]:
    for chunk in chunks:
        for first in range(0, len(chunk), PIECE_KEYS):
            piece = chunk.slice(first, PIECE_KEYS)
            if piece.null_count:
                valid = piece.is_valid().to_numpy(zero_copy_only=False)
                yield Piece(_batch(piece.drop_null()), len(piece), valid)
            else:
                yield Piece(_batch(piece), len(piece))


def _batch(array: pa.Array) -> OffsetsBatch | RowsBatch:
    """Point the engine at the buffers of an array without nulls."""
    pa = _pyarrow()
    kind = array.type
    buffers = array.buffers()
    first, count = array.offset, len(array)
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_integer(kind):
        width = kind.byte_width
        rows = _bytes_of(buffers[1])[first * width : (first + count) * width]
        return RowsBatch(rows, width, count, "bytes")
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    size = 8 if large else 4
    offsets = _bytes_of(buffers[1])[first * size : (first + count + 1) * size]
    return OffsetsBatch(_bytes_of(buffers[2]), offsets or bytes(size), size)


def _bytes_of(buffer: pa.Buffer | None) -> memoryview:
    """Return the bytes of an Arrow buffer, which stays alive with them; a missing one is empty."""
    return memoryview(b"" if buffer is None else buffer).cast("B")
