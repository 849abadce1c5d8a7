"""Lists of keys as sources of a build or a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from mmbloom.files.lists import ListFile
from mmbloom.keys.lines import Lines, line_format, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from mmbloom.files.paths import FilePath
    from mmbloom.keys.pieces import Piece


class KeyList:
    """A list of keys, one a line, read once.

    build(), update() and contains_many() take it; iterating over it gives blocks of lines.
    """

    def __init__(self, file: ListFile, delimiter: str | None, field: int | None) -> None:
        """Read from *file*, which close() closes."""
        self._file = file
        self._lines = read_lines(file, file.name, line_format(delimiter, field))

    @property
    def name(self) -> str:
        """The path, or "standard input"."""
        return self._file.name

    @property
    def total_bytes(self) -> int:
        """Size of the file, compressed as it is; 0 for a pipe."""
        return self._file.total_bytes

    @property
    def done_bytes(self) -> int:
        """Bytes of the file read so far."""
        return self._file.done_bytes

    def __iter__(self) -> Iterator[Lines]:
        """Return the iterator of blocks of lines."""
        return self._lines

    def __key_pieces__(self) -> Iterator[Piece]:
        """Yield the lines as pieces of keys."""
        for lines in self._lines:
            yield from lines.__key_pieces__()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        """Return the list; leaving the block closes it."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the list."""
        self.close()


def read_list(path: FilePath, *, delimiter: str | None = None, field: int | None = None) -> KeyList:
    """Open a list of keys: text, one key a line, ending in LF or CR LF; empty lines are no keys.

    Args:
        path: the file; "-" is standard input. gzip, xz, zstd and bzip2 are recognised by content.
        delimiter: one ASCII character between fields; ":" for HASH:count lists. Without it the
            whole line is the key. Fields are split at each delimiter, quotes have no meaning: for
            CSV with quotes use Python's csv module or pyarrow.csv. A header line is a key.
        field: which field is the key, from 1; None is the first.

    Returns:
        The list: pass it to build(), update() or contains_many(), or iterate over its blocks of
        lines.

    Raises:
        SourceError: binary, or compressed in an unknown way; damage is found while reading.
        ParameterError: delimiter or field.
        OSError: what the operating system says.
    """
    line_format(delimiter, field)
    return KeyList(ListFile.open(path), delimiter, field)
