"""Sources, where keys come from: what all of them have in common, and lines of text."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from mmbloom.errors import SourceError
from mmbloom.keys.lines import Blocks, Lines, lines_of

NEEDS_PYARROW = "CSV, Parquet and Arrow files need pyarrow: install pyarrow"
_HAS_COLUMNS = re.compile(r"\.(csv|tsv|jsonl|ndjson)(\.(gz|xz|zst|bz2))?", re.IGNORECASE)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmbloom.keys.lines import Block, LineFormat
    from mmbloom.keys.records import Records
    from mmbloom.sources.files import ListFile

    KeyBlock = Lines | Records

SAMPLE_BYTES = 1 << 12


class Source(ABC):
    """One list of keys, read once, batch by batch.

    Attributes:
        name: the path, or "standard input".
        lines_read: lines or rows so far.
        text_bytes: bytes of its text so far; 0 if it has none.
        position: the end of the batches so far, as JSON, for skip_to().
        note: something that the user should know about it, or "".
    """

    note = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines_read = 0
        self.text_bytes = 0
        self.position: Any = None

    @property
    @abstractmethod
    def total_bytes(self) -> int:
        """Size on disk; 0 if it is not known."""

    @property
    @abstractmethod
    def done_bytes(self) -> int:
        """Bytes on disk that were read so far."""

    @abstractmethod
    def skip_to(self, position: Any) -> None:  # noqa: ANN401 - what position was
        """Begin after a *position*. Call it before blocks()."""

    @abstractmethod
    def blocks(self) -> Iterator[KeyBlock]:
        """Yield the keys."""

    def has_key(self, block: KeyBlock) -> bool:
        """Return whether a batch has a key, good or bad."""
        return len(block.batch) > 0

    def sure_mistake(self, block: KeyBlock) -> SourceError | None:
        """Return an error if the first batch has keys that nobody would ask for."""
        del block
        return None

    def sample(self, block: KeyBlock) -> bytes:
        """Return some of the lines of a batch, to show or examine them; b"" for a table."""
        del block
        return b""

    def no_keys(self) -> SourceError:
        """Return the error for a list without keys."""
        return SourceError(f"{self.name}: no valid keys found")

    @abstractmethod
    def close(self) -> None:
        """Close the files."""


class FileSource(Source):
    """A list in one file."""

    def __init__(self, file: ListFile) -> None:
        """Read from *file*, which close() closes."""
        super().__init__(file.name)
        self._file = file
        self._blocks = Blocks(file, file.name)

    @property
    def total_bytes(self) -> int:
        """Size of the file on disk; 0 for a pipe."""
        return self._file.total_bytes

    @property
    def done_bytes(self) -> int:
        """Bytes of the file read so far."""
        return self._file.done_bytes

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def skip_to(self, position: Any) -> None:  # noqa: ANN401 - what position was
        """Begin after a *position* that note_end() stored. Uncompressed text is not read again."""
        self.text_bytes, self.lines_read = self.position = position
        self._blocks.skip_to(*position)

    def note_end(self, block: Block) -> None:
        """Store where the text blocks so far end."""
        self.lines_read, self.text_bytes = block.first_line + block.num_lines - 1, block.end
        self.position = [self.text_bytes, self.lines_read]


class TextSource(FileSource):
    """Lines of text."""

    def __init__(self, file: ListFile, form: LineFormat) -> None:
        super().__init__(file)
        self._form = form
        if not form.field and _HAS_COLUMNS.search(file.name):
            self.note = (
                f"{file.name}: each line is a key; give a column to use one column as the key"
            )

    def blocks(self) -> Iterator[KeyBlock]:
        """Yield the lines of text blocks."""
        for block in self._blocks:
            self.note_end(block)
            yield lines_of(block, self.name, self._form)

    def has_key(self, block: KeyBlock) -> bool:
        """Return whether a line is neither empty nor a comment."""
        if self._form.blank != "skip":
            return True
        comment = re.escape(bytes([self._form.comment])) if self._form.comment else b"\n"
        return re.search(rb"(?m)^(?!%b)[^\r\n]" % comment, block.data) is not None

    def sure_mistake(self, block: KeyBlock) -> SourceError | None:
        """Return an error if the first key, a field of a line, begins with a double quote."""
        if not self._form.field:
            return None
        first = re.search(rb"[^\r\n]+", block.data)
        delimiter, field = bytes([self._form.delimiter]), self._form.field
        fields = first[0].split(delimiter, field) if first else []
        if first and fields[field - 1 : field] and fields[field - 1].startswith(b'"'):
            number = 1 + bytes(block.data[: first.start()]).count(b"\n")
            return SourceError(
                f"{self.name}, line {number}: the key begins with a double quote, which would be "
                "part of the key: in text, quotes have no meaning. For CSV with quotes, give the "
                "format csv and a column"
            )
        return None

    def sample(self, block: KeyBlock) -> bytes:
        """Return the first lines of a text block."""
        return bytes(block.data[:SAMPLE_BYTES])

    def no_keys(self) -> SourceError:
        """Return the error for a list without keys."""
        lines = "empty lines and comments" if self._form.comment else "empty lines"
        return SourceError(f"{self.name}: no keys: the list is empty, or has only {lines}")
