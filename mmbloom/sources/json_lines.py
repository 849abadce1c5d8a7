"""JSON Lines: one object per line, of which one field is the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.errors import SourceError
from mmbloom.keys.records import records_of_keys
from mmbloom.sources.source import FileSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmbloom.keys.lines import Block
    from mmbloom.keys.records import Records
    from mmbloom.sources.bad_lines import BadLines
    from mmbloom.sources.files import ListFile
    from mmbloom.sources.source import KeyBlock


class JsonLines(FileSource):
    """Lines of JSON. Lines of white space are ignored."""

    def __init__(self, file: ListFile, field: str, bad: BadLines) -> None:
        super().__init__(file)
        self._field, self._bad = field, bad

    def blocks(self) -> Iterator[KeyBlock]:
        """Yield the keys of text blocks."""
        for block in self._blocks:
            records = self._records(block)
            self.note_end(block)
            yield records

    def _records(self, block: Block) -> Records:
        from orjson import loads

        field = self._field
        keys: list[bytes] = []
        numbers: list[int] = []
        for number, line in enumerate(block.data.tobytes().split(b"\n"), block.first_line):
            try:
                key = loads(line)[field].encode()
            # Invalid JSON, not an object, no such field, or not text.
            except (ValueError, KeyError, TypeError, AttributeError):
                if line.strip():
                    why = f"{self.name}, line {number}: {_reason(line, field)}"
                    self._bad.add(SourceError(why))
                continue
            keys.append(key)
            numbers.append(number)
        return records_of_keys(keys, self.name, numbers)


def _reason(line: bytes, field: str) -> str:
    """Return why a line has no key."""
    from orjson import JSONDecodeError, loads

    try:
        value = loads(line)
    except JSONDecodeError as exc:
        return f"invalid JSON: {exc}"
    if not isinstance(value, dict):
        return f"expected a JSON object, found {_kind(value)}"
    if field not in value:
        names = ", ".join(list(value)[:8])
        return f"no field {field!r}; there are: {names}"
    return f"field {field!r}: expected a string, found {_kind(value[field])}"


def _kind(value: object) -> str:
    """Return the JSON name of the type of a value."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "an object" if isinstance(value, dict) else "an array")
