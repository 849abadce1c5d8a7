"""Names of lists: paths and patterns, and the properties that show that a file has changed."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.errors import ParameterError, SourceError
from mmbloom.sources.files import STDIN, STDIN_NAME
from mmbloom.storage.paths import path_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmbloom.storage.paths import FilePath

_PATTERN = frozenset("*?[")


class FileFacts(NamedTuple):
    """What is known about a list before it is read. *size* is 0 unless it is a regular file."""

    path: str
    is_folder: bool
    is_regular: bool
    size: int
    times_ns: tuple[int, int]
    identity: tuple[int, int]


def facts_of(path: FilePath) -> FileFacts:
    """Return the facts of one list; "-" is standard input.

    Raises:
        OSError: from the operating system.
    """
    text = path_text(path)
    try:
        found = os.fstat(0) if text == STDIN else os.stat(text)
    except OSError as exc:
        exc.filename = STDIN_NAME if text == STDIN else text
        raise
    is_regular = stat.S_ISREG(found.st_mode)
    return FileFacts(
        text,
        stat.S_ISDIR(found.st_mode),
        is_regular,
        found.st_size if is_regular else 0,
        (found.st_mtime_ns, found.st_ctime_ns),
        (found.st_dev, found.st_ino),
    )


def matching(patterns: Iterable[FilePath]) -> list[FileFacts]:
    """Return the lists that paths and patterns stand for; the matches of a pattern are sorted.

    A path that exists is never taken as a pattern. "-" is standard input.

    Raises:
        SourceError: a pattern matches nothing, or a file is given twice, which is probably a
            mistake. ParameterError: no lists.
        OSError: from the operating system.
    """
    found: list[FileFacts] = []
    for pattern in patterns:
        text = path_text(pattern)
        if not _PATTERN.isdisjoint(text) and not os.path.lexists(text):
            found += map(facts_of, _matches(text))
        else:
            found.append(facts_of(text))
    if not found:
        raise ParameterError("paths", "at least one list", list(patterns))
    if [facts.path for facts in found].count(STDIN) > 1:
        raise SourceError("standard input can be read only once: give - once")
    _refuse_repeated(found)
    return found


def _matches(pattern: str) -> list[str]:
    from glob import glob

    found = sorted(glob(pattern, recursive=True))
    if not found:
        raise SourceError(f"{pattern}: no file matches this pattern or has this name")
    return found


def _refuse_repeated(lists: list[FileFacts]) -> None:
    seen: dict[tuple[int, int], str] = {}
    for facts in lists:
        if not (facts.is_regular or facts.is_folder):
            continue  # the same pipe or terminal gives other data the next time
        if facts.identity in seen:
            before = seen[facts.identity]
            same = "" if before == facts.path else f", the same file as {before}"
            raise SourceError(f"{facts.path}: the list is given twice{same}; leave one out")
        seen[facts.identity] = facts.path
