"""Breach lists as the range API returns them: a file for each prefix of the digests.

The name of a file is the first five hexadecimal digits, with or without an extension. Its lines
have the other digits and a count, SUFFIX:count. The key of a line is the whole digest.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from mmbloom.engine import count_lines
from mmbloom.errors import SourceError
from mmbloom.keys.lines import BLOCK_BYTES, UTF8_MARK, Block, LineFormat, lines_of
from mmbloom.sources.source import SAMPLE_BYTES, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmbloom.sources.bad_lines import BadLines
    from mmbloom.sources.folders import Folder
    from mmbloom.sources.source import KeyBlock

NUM_RANGES = 16**5
_NAME = re.compile(r"([0-9A-Fa-f]{5})(\.[^.]*)?")
_HASH_COUNT = LineFormat(delimiter=ord(":"), field=1)
_JOINED = re.compile(r"(.*) and the files after it, line ([0-9]+): (.*)", re.DOTALL)
# Padding, which the API adds on request: random digits that were never in a breach.
_PADDING = re.compile(rb"(?m)^[0-9A-Fa-f]*:0\r?$")
_STARTS_OF_LINES = re.compile(rb"(?m)^(?=[^\r\n])")


class RangeSource(Source):
    """A folder of range files. Small files are joined to larger text blocks."""

    def __init__(self, folder: Folder, bad: BadLines) -> None:
        """Read from *folder*, which close() closes. Name files in the errors that *bad* gets.

        Raises:
            SourceError: a file has another name.
        """
        super().__init__(folder.name)
        self._folder = folder
        if not folder.files:
            raise SourceError(
                f"{folder.name}: the folder is empty. A folder is read as the range files of a "
                "breach list; give other lists by name, or by a pattern such as FOLDER/*.txt"
            )
        for file in folder.files:
            if not _NAME.fullmatch(file):
                raise SourceError(
                    f"{folder.path_of(file)}: not a range file. A folder is read as the range "
                    "files of a breach list, named by the first five hexadecimal digits of their "
                    "digests, such as 5BAA6.txt; give other lists by name, or by a pattern such as "
                    "FOLDER/*.txt"
                )
        num_missing = NUM_RANGES - len({file[:5].upper() for file in folder.files})
        if num_missing:
            self.note = (
                f"{self.name}: {NUM_RANGES - num_missing} of {NUM_RANGES} ranges; digests in the "
                'others will be answered "definitely not"'
            )
        self._next_file = 0
        self._done_bytes = 0
        self._num_lines: list[int] = []  # of each file so far
        bad.locate_with(self._located)

    @property
    def total_bytes(self) -> int:
        """Size of all files, estimated from those so far: asking for a million takes seconds."""
        return self._done_bytes * len(self._folder.files) // max(self._next_file, 1)

    @property
    def done_bytes(self) -> int:
        """Bytes read so far."""
        return self._done_bytes

    def skip_to(self, position: Any) -> None:  # noqa: ANN401 - what position was
        """Begin after a *position*: a number of files, and their lines and bytes."""
        self._next_file, self.lines_read, self._done_bytes = self.position = position
        self.text_bytes = self._done_bytes
        self._num_lines = [0] * self._next_file

    def blocks(self) -> Iterator[KeyBlock]:
        """Yield the digests of a few files at a time."""
        files = self._folder.files
        while self._next_file < len(files):
            name = self._folder.path_of(files[self._next_file])
            data, num_files = self._read_some()
            num_lines = sum(self._num_lines[self._next_file :])
            self._next_file += num_files
            self.lines_read += num_lines
            self.text_bytes = self._done_bytes
            self.position = [self._next_file, self.lines_read, self._done_bytes]
            shown = name if num_files == 1 else f"{name} and the files after it"
            yield lines_of(Block(memoryview(data), 1, num_lines, 0), shown, _HASH_COUNT)

    def sample(self, block: KeyBlock) -> bytes:
        """Return the first lines of a text block, with their prefix."""
        return bytes(block.data[:SAMPLE_BYTES])

    def close(self) -> None:
        """Close the folder."""
        self._folder.close()

    def _read_some(self) -> tuple[bytes, int]:
        """Return the digests of the next files, about a text block, and the number of files."""
        texts: list[bytes | memoryview] = []
        num_bytes, number = 0, self._next_file
        while number < len(self._folder.files) and num_bytes < BLOCK_BYTES:
            file = self._folder.files[number]
            data = self._folder.read(file)
            texts += self._with_prefix(file, data)
            num_bytes += len(data)
            number += 1
        self._done_bytes += num_bytes
        return b"".join(texts), number - self._next_file

    def _with_prefix(self, file: str, data: bytes) -> list[bytes | memoryview]:
        """Return the lines of a file with the digits of its name before each, and count them."""
        if b"\0" in data:
            raise SourceError(
                f"{self._folder.path_of(file)}: binary data; expected lines SUFFIX:count"
            )
        data = data.removeprefix(UTF8_MARK)
        if data and not data.endswith(b"\n"):
            data += b"\n"
        prefix = file[:5].encode() if data else b""
        num_lines = count_lines(data)
        self._num_lines.append(num_lines)
        if not _is_plain(data, num_lines):
            data = _PADDING.sub(b"", data)
            return [_STARTS_OF_LINES.sub(prefix, data)]
        # The prefix after the last line is one too many.
        text = data.replace(b"\n", b"\n" + prefix)
        return [prefix, memoryview(text)[: len(text) - len(prefix)]]

    def _located(self, error: Exception) -> Exception:
        """Name the file and the line within it, in an error of joined files."""
        found = _JOINED.fullmatch(str(error))
        if found is None or os.path.dirname(found[1]) != os.path.dirname(self._folder.path_of("x")):
            return error
        number = bisect_left(self._folder.files, os.path.basename(found[1]))
        line = int(found[2])
        while line > self._num_lines[number]:
            line -= self._num_lines[number]
            number += 1
        where = self._folder.path_of(self._folder.files[number])
        return type(error)(f"{where}, line {line}: {found[3]}")

    def no_keys(self) -> SourceError:
        """Return the error for a folder without digests."""
        count = len(self._folder.files)
        return SourceError(f"{self.name}: no keys: all {count} range files are empty")


def _is_plain(data: bytes, num_lines: int) -> bool:
    """Return whether each line has exactly one colon, so that none is empty, and none is padding.

    With NumPy: a search of the bytes takes three times as long.
    """
    import numpy as np

    text = np.frombuffer(data, np.uint8)
    colons = (text == ord(":")).nonzero()[0]
    return len(colons) == num_lines and not (text[colons + 1] == ord("0")).any()
