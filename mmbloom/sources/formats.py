"""The format of a list, from the options, its content, and its name; and the source for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from mmbloom.errors import ParameterError, ParameterTypeError, SourceError
from mmbloom.keys.lines import Blank, LineFormat, ascii_character, line_format
from mmbloom.sources.files import ListFile
from mmbloom.sources.source import TextSource

if TYPE_CHECKING:
    from mmbloom.sources.bad_lines import BadLines
    from mmbloom.sources.patterns import FileFacts
    from mmbloom.sources.source import Source

Format = Literal["text", "csv", "tsv", "jsonl", "parquet", "arrow", "ranges"]
_FORMATS: tuple[str, ...] = get_args(Format)
_SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_COMPRESSED_SUFFIXES = (".gz", ".zst", ".xz", ".bz2")
_TABLE_FORMATS = {"Parquet": "parquet", "Arrow file": "arrow", "Arrow stream": "arrow"}
# The formats that each option applies to.
_MEANT_FOR = {
    "delimiter": {"text", "csv"},
    "field": {"text"},
    "comment": {"text", "csv", "tsv"},
    "blank": {"text"},
    "digests": {"text", "ranges"},
    "header": {"csv", "tsv"},
    "column": {"csv", "tsv", "jsonl", "parquet", "arrow"},
}


class ListOptions(NamedTuple):
    """How lists are read; see ``read_list``."""

    delimiter: str | None = None
    field: int | None = None
    comment: str | None = None
    blank: Blank = "skip"
    format: Format | None = None
    column: str | int | None = None
    header: bool | None = None
    digests: bool = False

    def check(self) -> None:
        """Refuse options that no list can be read with.

        Raises:
            ParameterError, ParameterTypeError: the error names the option.
        """
        if self.format is not None and self.format not in _FORMATS:
            raise ParameterError("format", f"one of {', '.join(_FORMATS)}", self.format)
        _check_column(self.column)
        if self.format is not None:
            self.check_for(self.format)
        self.line_format()
        if self.header is False and isinstance(self.column, str):
            raise ParameterError("header", "True if the column is a name", self.header)

    def check_for(self, form: str) -> None:
        """Refuse options that do not apply to the format *form*, and would have no effect."""
        plain = ListOptions()
        for name, formats in _MEANT_FOR.items():
            value = getattr(self, name)
            if value != getattr(plain, name) and form not in formats:
                rule = f"no value for the format {form}"
                hint = f"it applies to {', '.join(sorted(formats))}"
                raise ParameterError(name, rule, value, hint)

    def line_format(self) -> LineFormat:
        """Return the options for lines of text. Raises: as check()."""
        if self.format in {"csv", "tsv"}:
            return LineFormat()
        form = line_format(self.delimiter, self.field, self.comment, self.blank)
        return form._replace(digests=self.digests)


def open_source(facts: FileFacts, options: ListOptions, bad: BadLines) -> Source:
    """Open one list.

    Raises:
        SourceError: it cannot be read, or has another format than asked for.
        ParameterError: an option does not apply to its format. OSError.
    """
    if facts.is_folder and options.format in {None, "ranges"}:
        from mmbloom.sources.folders import Folder
        from mmbloom.sources.ranges import RangeSource

        # Range files are always split at the colon.
        options._replace(
            delimiter=None if options.delimiter == ":" else options.delimiter
        ).check_for("ranges")
        folder = Folder(facts.path)
        try:
            return RangeSource(folder, bad)
        except BaseException:
            folder.close()
            raise
    if options.format == "ranges":
        raise SourceError(
            f"{facts.path}: is a file; the format ranges needs a folder of range files"
        )
    file = ListFile.open(facts.path)
    try:
        return _source_of(file, options, bad)
    except BaseException:
        file.close()
        raise


def _source_of(file: ListFile, options: ListOptions, bad: BadLines) -> Source:
    form = _format_of(file, options)
    options.check_for(form)
    column = options.column
    if form in {"parquet", "arrow"}:
        from mmbloom.sources.tables import TableSource

        return TableSource(file, column, bad)
    if form in {"csv", "tsv"}:
        from mmbloom.sources.delimited import Delimited, Dialect

        delimiter = "\t" if form == "tsv" else options.delimiter or ","
        if ascii_character("delimiter", delimiter) == ord('"'):
            raise ParameterError("delimiter", "a character other than the quote of CSV", delimiter)
        if options.comment is not None:
            ascii_character("comment", options.comment)
        has_header = isinstance(column, str) if options.header is None else options.header
        return Delimited(file, Dialect(delimiter, column, has_header, options.comment), bad)
    if form == "jsonl":
        from mmbloom.sources.json_lines import JsonLines

        if not isinstance(column, str):
            raise ParameterError("column", "the name of a field for the format jsonl", column)
        return JsonLines(file, column, bad)
    return TextSource(file, options.line_format())


def _format_of(file: ListFile, options: ListOptions) -> str:
    """Return the format of a file."""
    found = None if file.table is None else _TABLE_FORMATS[file.table]
    wanted = options.format
    if wanted in {"parquet", "arrow"} and found != wanted:
        what = "something else" if file.table is None else f"{file.table} data"
        raise SourceError(f"{file.name}: expected {wanted} data, found {what}")
    if wanted is not None and found is not None and found != wanted:
        raise SourceError(f"{file.name}: expected {wanted}, found {file.table} data")
    if wanted is not None or found is not None:
        return wanted or found or ""
    if options.column is None:
        return "text"
    name = file.name.lower()
    for suffix in _COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    form = next((form for suffix, form in _SUFFIXES.items() if name.endswith(suffix)), None)
    if form is None:
        rule = f"a format with it, since the name of {file.name} does not tell"
        raise ParameterError("column", rule, options.column, "csv, tsv or jsonl")
    return form


def _check_column(column: str | int | None) -> None:
    if column is None or isinstance(column, str):
        return
    if not isinstance(column, int) or isinstance(column, bool):
        raise ParameterTypeError("column", "a name, or a number from 1", column)
    if column < 1:
        raise ParameterError("column", "a name, or a number from 1", column)
