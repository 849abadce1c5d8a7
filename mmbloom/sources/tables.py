"""Parquet and Arrow files: one column is the key, read in pieces through pyarrow."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mmbloom.errors import SourceError
from mmbloom.keys.arrow import has_canonical_bytes, key_records, plain_array
from mmbloom.sources.delimited import column_number
from mmbloom.sources.source import NEEDS_PYARROW, FileSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmbloom.sources.bad_lines import BadLines
    from mmbloom.sources.files import ListFile
    from mmbloom.sources.source import KeyBlock

_PIECE_ROWS = 1 << 16
_READ_BYTES = 1 << 20  # of a column at a time, for any size of a row group
_SHOWN_ERRORS = 5
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"


class TableSource(FileSource):
    """A column of text, binary or integers. Nulls are bad rows."""

    def __init__(self, file: ListFile, column: str | int | None, bad: BadLines) -> None:
        super().__init__(file)
        self._wanted, self._bad = column, bad
        self._begin = 0
        self._done_fraction = 0.0
        self._raw = file.open_table()

    @property
    def done_bytes(self) -> int:
        """Bytes read so far, estimated from the fraction of rows: a table is not read in order."""
        return round(self._done_fraction * self.total_bytes)

    def skip_to(self, position: Any) -> None:  # noqa: ANN401 - what position was
        """Begin after a *position*, a number of rows."""
        self._begin = self.position = position

    def blocks(self) -> Iterator[KeyBlock]:
        """Yield pieces of the column."""
        for array, fraction in self._arrays():
            for first in range(0, max(len(array), 1), _PIECE_ROWS):
                piece = array.slice(first, _PIECE_ROWS)
                before, self.lines_read = self.lines_read, self.lines_read + len(piece)
                if self.lines_read <= self._begin:
                    continue
                skipped = max(0, self._begin - before)
                records = self._records(piece.slice(skipped), before + skipped)
                self.position = self.lines_read
                yield records
            self._done_fraction = fraction
        self._done_fraction = 1.0

    def _records(self, array: Any, before: int) -> KeyBlock:  # noqa: ANN401 - pa.Array
        lines = None
        array = plain_array(array)
        if array.null_count:
            valid = array.is_valid().to_numpy(zero_copy_only=False)
            nulls = [before + 1 + int(i) for i in (~valid).nonzero()[0]]
            errors = [SourceError(f"{self.name}, row {row}: null") for row in nulls[:_SHOWN_ERRORS]]
            self._bad.add_many(errors, len(nulls))
            lines = (valid.nonzero()[0] + before + 1).tolist()
            array = array.drop_null()
        return key_records(array, self.name, before, lines)

    def _arrays(self) -> Iterator[tuple[Any, float]]:
        """Yield arrays of the column, each with the fraction of the table that ends with it."""
        try:
            import pyarrow as pa
        except ModuleNotFoundError as exc:
            raise SourceError(f"{self.name}: {NEEDS_PYARROW}") from exc
        with self._damage_is_named(pa):
            if self._file.table == "Parquet":
                yield from self._parquet_arrays()
            elif self._file.table == "Arrow file":
                yield from self._arrow_arrays(pa)
            else:
                yield from self._stream_arrays(pa)

    def _parquet_arrays(self) -> Iterator[tuple[Any, float]]:
        from pyarrow import parquet

        table = parquet.ParquetFile(self._raw, buffer_size=_READ_BYTES, pre_buffer=False)
        names = table.schema_arrow.names
        name = names[self._column(table.schema_arrow)]
        if sum(other == name or other.partition(".")[0] == name for other in names) > 1 or (
            "." in name and name.partition(".")[0] in names
        ):  # columns of Parquet are selected by name
            raise SourceError(f"{self.name}: more than one column is named {name!r}; rename one")
        total = max(table.metadata.num_rows, 1)
        done, groups = 0, list(range(table.metadata.num_row_groups))
        while groups and done + table.metadata.row_group(groups[0]).num_rows <= self._begin:
            done += table.metadata.row_group(groups.pop(0)).num_rows
        self.lines_read = done
        if not groups:
            return
        for batch in table.iter_batches(_PIECE_ROWS, groups, columns=[name], use_threads=False):
            done += batch.num_rows
            yield batch.column(0), done / total
        if done != table.metadata.num_rows:
            raise self._cut_short(f"{done} of {table.metadata.num_rows} rows")

    def _arrow_arrays(self, pa: Any) -> Iterator[tuple[Any, float]]:  # noqa: ANN401 - a module
        column = self._column(pa.ipc.open_file(self._raw).schema)
        # It is the only column that is read, so it becomes column 0.
        options = pa.ipc.IpcReadOptions(included_fields=[column], use_threads=False)
        table = pa.ipc.open_file(self._raw, options=options)
        for number in range(table.num_record_batches):
            yield table.get_batch(number).column(0), (number + 1) / table.num_record_batches

    def _stream_arrays(self, pa: Any) -> Iterator[tuple[Any, float]]:  # noqa: ANN401 - a module
        column = self._column(pa.ipc.open_stream(self._raw).schema)
        self._raw.seek(-len(_STREAM_END), os.SEEK_END)
        if self._raw.read(len(_STREAM_END)) != _STREAM_END:
            # The mark is optional. Without it, nothing shows that the stream is complete.
            raise self._cut_short("no end mark. If it is complete, write it again as an Arrow file")
        self._raw.seek(0)
        options = pa.ipc.IpcReadOptions(included_fields=[column], use_threads=False)
        for batch in pa.ipc.open_stream(self._raw, options=options):
            yield batch.column(0), self._raw.tell() / max(self.total_bytes, 1)

    def _cut_short(self, what: str) -> SourceError:
        kind = self._file.table
        return SourceError(f"{self.name}: the {kind} data was cut short: {what}")

    def _column(self, schema: Any) -> int:  # noqa: ANN401 - pa.Schema
        """Return the number of the column of keys, from 0."""
        if self._wanted is None:
            usable = [i for i, kind in enumerate(schema.types) if has_canonical_bytes(kind)]
            if len(usable) == 1:
                return usable[0]
        number = column_number(self.name, self._wanted, schema.names)
        kind = schema.types[number]
        if not has_canonical_bytes(kind):
            raise SourceError(
                f"{self.name}: column {schema.names[number]!r} has type {kind}; keys are text, "
                "binary or integers"
            )
        return number

    @contextmanager
    def _damage_is_named(self, pa: Any) -> Iterator[None]:  # noqa: ANN401 - a module
        """Turn the errors of pyarrow for a damaged table into errors that name the list."""
        try:
            yield
        except (pa.ArrowException, OSError) as exc:
            if isinstance(exc, OSError) and exc.errno is not None:
                raise
            raise SourceError(
                f"{self.name}: the {self._file.table} data is damaged: {exc}. Copy the file again"
            ) from exc
