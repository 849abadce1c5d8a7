"""List readers: one list of keys, or several, read as the keys of a build or a check."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mmbloom.errors import ParameterError, SourceError
from mmbloom.sources.bad_lines import BadLines, OnError
from mmbloom.sources.files import STDIN
from mmbloom.sources.formats import Format, ListOptions, open_source
from mmbloom.sources.patterns import facts_of, matching
from mmbloom.storage.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mmbloom.keys.lines import Blank
    from mmbloom.keys.pieces import Piece
    from mmbloom.sources.patterns import FileFacts
    from mmbloom.sources.source import KeyBlock, Source
    from mmbloom.storage.paths import FilePath

    Watch = Callable[["Source", KeyBlock], object]


class ListReader(Closing):
    """A list of keys, or several lists read one after the other. It can be read once.

    Pass it to build(), update() or contains_many(), or iterate over it to get batches of keys:
    Lines of text, or Records of a table. The policy for bad lines applies to build(); the others
    raise an error for a key that the filter refuses.

    Attributes:
        name: the path, or "standard input"; of several lists, the one that is being read.
        bad: the policy for bad lines, and how many there were.
    """

    def __init__(
        self,
        lists: list[FileFacts],
        options: ListOptions,
        bad: BadLines,
        *,
        need_keys: bool,
        watch: Watch | None = None,
    ) -> None:
        """Read the *lists*. The first is opened now, the others when they are reached.

        Args:
            lists: at least one.
            options: how to read them all.
            bad: what to do about bad lines.
            need_keys: whether a list without keys, or with keys that nobody would ask for, is an
                error: it is probably the wrong file.
            watch: called with each source and its first batch.
        """
        self._lists, self._options = lists, options
        self._need_keys, self._watch = need_keys, watch
        self.bad = bad
        self._index = 0
        self._source = open_source(lists[0], options, bad)
        self._lines_before = self._text_before = self._done_before = 0
        self._is_resumed = self._is_begun = False
        self._blocks = self._read()

    @property
    def name(self) -> str:
        """The path of the list that is being read, or "standard input"."""
        return self._source.name

    @property
    def total_bytes(self) -> int:
        """Size of all files on disk; 0 if it is not known, because one is a pipe."""
        others = [facts for facts in self._lists if facts is not self._lists[self._index]]
        own = self._source.total_bytes
        is_known = own > 0 or self._lists[self._index].is_regular
        if not is_known or not all(facts.is_regular for facts in others):
            return 0
        return own + sum(facts.size for facts in others)

    @property
    def done_bytes(self) -> int:
        """Bytes of the files read so far."""
        return self._done_before + self._source.done_bytes

    @property
    def lines_read(self) -> int:
        """Lines so far, or rows of tables."""
        return self._lines_before + self._source.lines_read

    @property
    def text_bytes(self) -> int:
        """Bytes of text so far, decompressed; 0 for tables."""
        return self._text_before + self._source.text_bytes

    @property
    def position(self) -> Any:  # noqa: ANN401 - JSON
        """The end of the keys so far, for skip_to()."""
        before = [self._lines_before, self._text_before, self._done_before]
        return [self._index, before, self._source.position]

    def skip_to(self, position: Any) -> None:  # noqa: ANN401 - JSON
        """Continue after a *position* of a list with the same signature(), before reading."""
        index, before, within = position
        if index != self._index:
            self._source.close()
            self._source = open_source(self._lists[index], self._options, self.bad)
            self._index = index
        self._lines_before, self._text_before, self._done_before = before
        if within is not None:
            self._source.skip_to(within)
        self._is_resumed = True

    def signature(self) -> list[Any]:
        """Return a value that changes when the lists change, or are read in another way.

        Raises:
            ParameterError: standard input, a pipe or a device, which cannot be read again.
        """
        files = [_signature_of(facts) for facts in self._lists]
        return [files, list(self._options), self.bad.policy]

    def reads_from(self, path: str) -> bool:
        """Return whether the file at *path* is one of the lists, or in one of their folders."""
        try:
            found, folder = os.stat(path), os.stat(os.path.dirname(os.path.realpath(path)))
        except OSError:
            return False
        own = (found.st_dev, found.st_ino), (folder.st_dev, folder.st_ino)
        return any(facts.identity == own[facts.is_folder] for facts in self._lists)

    def __iter__(self) -> Iterator[KeyBlock]:
        """Return the iterator of batches of keys."""
        return self._blocks

    def __key_pieces__(self) -> Iterator[Piece]:
        """Yield the keys in pieces.

        Raises:
            SourceError: some keys were already read, and would be missing.
        """
        if self._is_begun:
            raise SourceError(f"{self.name}: the list was already read in part; open it again")
        for block in self._blocks:
            yield from block.__key_pieces__()

    def sample(self, block: KeyBlock) -> bytes:
        """Return some of the lines of a batch; b"" for a table."""
        return self._source.sample(block)

    def close(self) -> None:
        """Close the file that is open."""
        self._source.close()

    def _read(self) -> Iterator[KeyBlock]:
        self._is_begun = True
        while True:
            yield from self._read_one()
            if self._index + 1 == len(self._lists):
                return
            self._lines_before, self._text_before = self.lines_read, self.text_bytes
            self._done_before = self.done_bytes
            self._source.close()
            self._source = open_source(self._lists[self._index + 1], self._options, self.bad)
            self._index += 1

    def _read_one(self) -> Iterator[KeyBlock]:
        source, has_key, is_first = self._source, self._is_resumed, not self._is_resumed
        self._is_resumed = False
        for block in source.blocks():
            if is_first and self._need_keys and (mistake := source.sure_mistake(block)):
                raise mistake
            if is_first and self._watch is not None:
                self._watch(source, block)
            is_first = False
            has_key = has_key or not self._need_keys or source.has_key(block)
            yield block
        if self._need_keys and not has_key:
            raise source.no_keys()


def read_list(  # noqa: PLR0913 - the formats that lists of keys have
    path: FilePath,
    *,
    delimiter: str | None = None,
    field: int | None = None,
    comment: str | None = None,
    blank: Blank = "skip",
    format: Format | None = None,  # noqa: A002 - what it is called everywhere
    column: str | int | None = None,
    header: bool | None = None,
    digests: bool = False,
    on_error: OnError = "raise",
) -> ListReader:
    """Open a list of keys: a text, a table, or a folder of range files.

    Args:
        path: the file; "-" is standard input. gzip, xz, zstd and bzip2 are recognised by content. A
            folder is read as the range files of a breach list, as the range API returns them.
        delimiter: in text, one ASCII character between fields; ":" for HASH:count lists. Without
            one the whole line is the key, without its LF or CR LF. Fields are split at every
            delimiter, quotes have no meaning, and a header line is a key. In CSV, the character
            used in place of the comma.
        field: number of the field that is the key, from 1; None is the first.
        comment: one ASCII character; lines that begin with it are ignored.
        blank: what to do with an empty line of text: "skip" it, take it as the empty "key", or
            treat it as a "bad" line.
        format: "text"; "csv" or "tsv", with quotes; "jsonl", one object per line; "parquet" or
            "arrow" (a file, Feather, or a stream); "ranges", a folder. None detects tables and
            folders; with a *column*, the name decides (.csv, .tsv, .jsonl, .ndjson, compressed or
            not); everything else is text.
        column: the column, or the field of an object, that is the key: its name, or its number from
            1. A table with a single column of text, binary or integers needs none. Empty text is
            the empty key. Integers of tables are keys as int_key() makes them; those of CSV are
            text as written.
        header: whether the first record of CSV has the names of the columns. None: yes if *column*
            is a name; otherwise the record is a key, since leaving out a key would cause a false
            "no".
        digests: whether keys in text are digests, which cannot be empty: a line whose field is
            empty, such as ":3", is a bad line.
        on_error: what a build does about a bad line: too few fields, a record with the wrong number
            of fields, a null, invalid JSON, invalid hexadecimal in key form hex ... "raise" stops
            at the first; "skip" leaves them out and keeps the first messages; "count" leaves them
            out and only counts.

    Returns:
        The reader: pass it to build(), update() or contains_many(), or iterate over it.

    Raises:
        SourceError: binary data, or an unknown compression; damage is found while reading.
        ParameterError: an option is out of range, or not for this format.
        OSError: from the operating system.
    """
    options = ListOptions(delimiter, field, comment, blank, format, column, header, digests)
    options.check()
    return ListReader([facts_of(path)], options, BadLines(on_error), need_keys=False)


def read_lists(  # noqa: PLR0913 - as read_list()
    paths: Iterable[FilePath],
    *,
    delimiter: str | None = None,
    field: int | None = None,
    comment: str | None = None,
    blank: Blank = "skip",
    format: Format | None = None,  # noqa: A002 - as read_list()
    column: str | int | None = None,
    header: bool | None = None,
    digests: bool = False,
    on_error: OnError = "raise",
    watch: Watch | None = None,
) -> ListReader:
    """Open several lists of keys, which are read one after the other.

    Args:
        paths: paths and patterns, such as "urls-*.gz"; ** matches folders within folders. A path
            that exists is not taken as a pattern. The matches of a pattern are read in the order of
            their names. "-" is standard input.
        delimiter: this and all other options are as for read_list(), and apply to every list.
        field: as for read_list().
        comment: as for read_list().
        blank: as for read_list().
        format: as for read_list(); None is decided for each list separately.
        column: as for read_list().
        header: as for read_list().
        digests: as for read_list().
        on_error: as for read_list().
        watch: called with each list and its first block of keys.

    Raises:
        SourceError: as read_list(); or a pattern matches nothing, or a file is given twice. While
            reading: a list has no keys, or its first key, a field of a line, begins with a double
            quote.
        ParameterError, OSError: as read_list().
    """
    options = ListOptions(delimiter, field, comment, blank, format, column, header, digests)
    return open_lists(paths, options._asdict(), on_error, watch)


def open_lists(
    paths: Iterable[FilePath],
    asked_for: dict[str, Any],
    on_error: OnError = "raise",
    watch: Watch | None = None,
) -> ListReader:
    """Open lists of keys; see ``read_lists``.

    *asked_for* are its options by name; *watch* is called with each source and its first batch.
    """
    options = ListOptions(**asked_for)
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise ParameterError("paths", "several paths or patterns", paths, "use read_list() for one")
    options.check()
    lists = matching(paths)
    bad = BadLines(on_error)
    for facts in lists[1:]:
        # Find unreadable lists now, not after hours of reading those before them.
        if facts.path != STDIN and (facts.is_regular or facts.is_folder):
            open_source(facts, options, BadLines(on_error)).close()
    return ListReader(lists, options, bad, need_keys=True, watch=watch)


def _signature_of(facts: FileFacts) -> list[Any]:
    path = os.path.abspath(facts.path)
    if facts.is_folder:
        from mmbloom.sources.folders import Folder

        folder = Folder(path)
        try:
            return [path, len(folder.files), folder.digest()]
        finally:
            folder.close()
    if facts.path == STDIN or not facts.is_regular:
        rule = "files: a build from a pipe cannot be resumed"
        raise ParameterError("paths", rule, facts.path, "save the list to a file first")
    return [path, facts.size, *facts.times_ns, facts.identity[1]]
