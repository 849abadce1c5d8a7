"""Lists of keys, one or many, as sources of a build or a check."""

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


class KeyList(Closing):
    """One list of keys, or several one after the other, read once.

    build(), update() and contains_many() take it; iterating over it gives blocks: Lines of text, or
    Records of a table. What is done about bad lines concerns build(); the others raise for a key
    that the filter refuses.

    Attributes:
        name: the path, or "standard input"; of several, that of the one that is being read.
        bad: the policy for bad lines, and their tally.
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
        """Read the *lists*; the first is opened now, each other when its turn comes.

        Args:
            lists: at least one.
            options: how to read them all.
            bad: what to do about bad lines.
            need_keys: whether a list without any key, or with keys that nobody would ask for, is
                an error: a wrong file in a build.
            watch: called with each list and its first block.
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
        """Size of all files, compressed as they are; 0 if one is a pipe."""
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
        """Bytes of text so far, unpacked; tables have none."""
        return self._text_before + self._source.text_bytes

    @property
    def position(self) -> Any:  # noqa: ANN401 - JSON
        """Where the keys so far end, for skip_to()."""
        before = [self._lines_before, self._text_before, self._done_before]
        return [self._index, before, self._source.position]

    def skip_to(self, position: Any) -> None:  # noqa: ANN401 - JSON
        """Go on behind a *position* of a list with equal signature(): before the first key."""
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
        """Return what tells whether the lists have changed, and would give other keys.

        Raises:
            ParameterError: standard input, a pipe or a device: it cannot be read again.
        """
        files = [_signature_of(facts) for facts in self._lists]
        return [files, list(self._options), self.bad.policy]

    def reads_from(self, path: str) -> bool:
        """Tell whether the file at *path* is one of the lists, or in one of their folders."""
        try:
            found, folder = os.stat(path), os.stat(os.path.dirname(os.path.realpath(path)))
        except OSError:
            return False
        own = (found.st_dev, found.st_ino), (folder.st_dev, folder.st_ino)
        return any(facts.identity == own[facts.is_folder] for facts in self._lists)

    def __iter__(self) -> Iterator[KeyBlock]:
        """Return the iterator of blocks of keys."""
        return self._blocks

    def __key_pieces__(self) -> Iterator[Piece]:
        """Yield the keys in pieces.

        Raises:
            SourceError: some were read before: they would be missing.
        """
        if self._is_begun:
            raise SourceError(f"{self.name}: the list was read from before: open it again")
        for block in self._blocks:
            yield from block.__key_pieces__()

    def sample(self, block: KeyBlock) -> bytes:
        """Return some of the lines of a block; b"" of a table, which has none."""
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


def read_list(  # noqa: PLR0913 - every property of a list that people have
    path: FilePath,
    *,
    delimiter: str | None = None,
    field: int | None = None,
    comment: str | None = None,
    blank: Blank = "skip",
    format: Format | None = None,  # noqa: A002 - what it is called everywhere
    column: str | int | None = None,
    header: bool | None = None,
    on_error: OnError = "raise",
) -> KeyList:
    """Open a list of keys: a text, a table, or a folder of range files.

    Args:
        path: the file; "-" is standard input. gzip, xz, zstd and bzip2 are recognised by content. A
            folder holds range files of a breach list, as the range API hands them out.
        delimiter: of text, one ASCII character between fields; ":" for HASH:count lists. Without it
            the whole line is the key, without its LF or CR LF. Fields are split at each delimiter,
            quotes have no meaning, and a header line is a key. Of CSV, what stands for the comma.
        field: which field is the key, from 1; None is the first.
        comment: one ASCII character; a line that begins with it is no key.
        blank: what an empty line of text is: no key ("skip"), the empty key ("key"), or "bad".
        format: "text"; "csv" or "tsv", with quotes; "jsonl", one object a line; "parquet" or
            "arrow" (a file, Feather, or a stream); "ranges", a folder. None recognises tables and
            folders; where a column is asked for, the name tells (.csv, .tsv, .jsonl, .ndjson,
            packed or not); all else is text.
        column: which column or field of an object is the key: its name, or its number from 1. A
            table with one column of text, binary or integers needs none. Empty text is the empty
            key. Integers of tables are keys as of int_key(), those of CSV are text as it is there.
        header: whether the first record of CSV names the columns. None: it does if *column* is a
            name; else it is a key, for a key that is left out would be a false "no".
        on_error: what a bad line does to a build: a line with too few fields, a record with a wrong
            number of them, a null, no JSON, no hexadecimal in the key form hex ... "raise" stops at
            the first; "skip" leaves them out and keeps the first messages; "count" only counts.

    Returns:
        The list: pass it to build(), update() or contains_many(), or iterate over its blocks.

    Raises:
        SourceError: binary, or compressed in an unknown way; damage is found while reading.
        ParameterError: an option that is out of range, or not for this format.
        OSError: what the operating system says.
    """
    options = ListOptions(delimiter, field, comment, blank, format, column, header)
    options.check()
    return KeyList([facts_of(path)], options, BadLines(on_error), need_keys=False)


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
    on_error: OnError = "raise",
) -> KeyList:
    """Open lists of keys, which are read one after the other as one.

    Args:
        paths: paths and patterns, such as "urls-*.gz"; ** stands for folders within folders. A path
            that is there is no pattern. The matches of a pattern are read in the order of their
            names. "-" is standard input.
        delimiter: this and all else as for read_list(), the same for every list.
        field: as above.
        comment: as above.
        blank: as above.
        format: as above; None is decided for each list by itself.
        column: as above.
        header: as above.
        on_error: as above.

    Raises:
        SourceError: as read_list(); a pattern that matches nothing, or a file that is given twice;
            while reading: a list without any key, or whose first key, one field of a line, begins
            with a double quote.
        ParameterError, OSError: as read_list().
    """
    options = ListOptions(delimiter, field, comment, blank, format, column, header)
    return open_lists(paths, options._asdict(), on_error)


def open_lists(
    paths: Iterable[FilePath],
    asked_for: dict[str, Any],
    on_error: OnError = "raise",
    watch: Watch | None = None,
) -> KeyList:
    """Open lists of keys; see ``read_lists``.

    *asked_for* are its options by name; *watch* gets each list and its first block.
    """
    options = ListOptions(**asked_for)
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise ParameterError("paths", "several paths or patterns", paths, "read_list() takes one")
    options.check()
    lists = matching(paths)
    bad = BadLines(on_error)
    for facts in lists[1:]:
        # What cannot be read is known before hours are spent on what is before it.
        if facts.path != STDIN and (facts.is_regular or facts.is_folder):
            open_source(facts, options, BadLines(on_error)).close()
    return KeyList(lists, options, bad, need_keys=True, watch=watch)


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
        rule = "files, which can be read again: a build from a pipe cannot be taken up"
        raise ParameterError("paths", rule, facts.path, "save the list to a file, or do not resume")
    return [path, facts.size, *facts.times_ns, facts.identity[1]]
