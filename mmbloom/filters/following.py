"""Readers that cost more a look-up than others: followers of a path, and files without a map.

Each is a class that is put before that of a kind, so that all other readers keep their look-up in
C.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, Self

from mmbloom.engine import CountingCore, hash_batch, hash_key
from mmbloom.errors import ClosedError, MmbloomError, ParameterError, ParameterTypeError
from mmbloom.filters.reloading import ReloadableHandle
from mmbloom.format.fields import HASH
from mmbloom.storage.mapped import stamp_at
from mmbloom.storage.unmapped import UnmappedFile

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    from mmbloom.keys.pieces import Batch
    from mmbloom.storage.mapped import Stamp
    from mmbloom.storage.open_options import Reading

# Keys whose pages are read together: at most 32 pages a key, so 16 MiB.
_KEYS_AT_ONCE = 4096
_PROBES_AT_ONCE = 4096
_ONE_PAGE_LAYOUTS = ("line", "page", "narrow", "counters")


def reader_class(kind: type[Any], reading: Reading, follow: float | None) -> type[Any]:
    """Return the class of readers that are opened so: *kind* itself for a map nobody follows."""
    traits: list[type] = []
    if reading.mode == "pread":
        # First: it must not be looked up in the map that it has not.
        traits.append(UnmappedCounters if issubclass(kind, CountingCore) else Unmapped)
    if follow is not None:
        traits.append(Following)
    return _with_traits((*traits, kind)) if traits else kind


@functools.cache
def _with_traits(bases: tuple[type[Any], ...]) -> type[Any]:
    kind = bases[-1]
    return type(kind.__name__, bases, {"_plain_class": kind, "__doc__": kind.__doc__})


def check_follow(follow: float | None, reading: Reading) -> None:
    """Raise ParameterError, ParameterTypeError if a reader cannot follow so."""
    if follow is None:
        return
    rule = "seconds, 0 or more"
    if isinstance(follow, bool) or not isinstance(follow, int | float):
        raise ParameterTypeError("follow", rule, follow)
    if not 0 <= follow < math.inf:
        raise ParameterError("follow", rule, follow)
    if reading.expected_digest is not None:
        hint = "a pinned file has no next generation"
        raise ParameterError("follow", "None beside expected_digest", follow, hint)


class Following(ReloadableHandle):
    """Looks now and then whether another file was published, and changes to it."""

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as BloomFilter
    _follow_seconds: float
    _refused: Stamp | None = None

    def _steady(self) -> Self:
        if self._is_due() and not self.closed:
            self._look_at_path()
        return super()._steady()

    def _look_at_path(self) -> None:
        # One thread looks; the others go on with the file that they have.
        if not self._reload_lock.acquire(blocking=False):
            return
        try:
            self._rest(self._follow_seconds)
            self._change_or_report()
        finally:
            self._reload_lock.release()

    def _change_or_report(self) -> None:
        stamp = None
        try:
            stamp = stamp_at(self._absolute_path)
            if stamp == self._refused:  # looking at it again would not mend it
                return
            self.reload_if_changed()
        except ClosedError:
            raise
        except (MmbloomError, OSError, MemoryError) as exc:
            self._refused = stamp
            is_news = str(exc) != str(self._reload_error)
            self._reload_error = exc.with_traceback(None)  # which would keep the bad file open
            if is_news:
                message = f"the filter that was opened before goes on answering: {exc}"
                warnings.warn(message, RuntimeWarning, stacklevel=4)
        else:
            self._refused = self._reload_error = None


class Unmapped(ReloadableHandle):
    """Reads the pages of each look-up from the file; see UnmappedFile."""

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as BloomFilter

    def __contains__(self, key: object) -> bool:
        """Return False if *key* was definitely never added, True if it may have been."""
        self._check_open()
        steady = self._steady()
        header = steady._header
        answer = bytearray(1)
        digest = hash_key(key, header.seed, header.key_form)
        steady._contains_hashes(HASH.pack(*digest), answer)
        return bool(answer[0])

    def _contains_batch(self, batch: Batch, maybe: WriteableBuffer) -> int:
        self._check_open()
        hashes = hash_batch(batch, self._header.seed, self._header.key_form)
        self._contains_hashes(hashes, maybe)
        return len(hashes) // HASH.size

    def _contains_hashes(self, hashes: ReadableBuffer, maybe: WriteableBuffer) -> None:
        storage = self._unmapped()
        given, answers = memoryview(hashes).cast("B"), memoryview(maybe).cast("B")
        step = max(1, _PROBES_AT_ONCE // self._pages_a_key())
        for first in range(0, len(given) // HASH.size, step):
            some = given[HASH.size * first : HASH.size * (first + step)]
            with storage.loaded(self._index_pages()), storage.loaded(self._pages_of(some)):
                super()._contains_hashes(some, answers[first : first + step])

    def close(self) -> None:
        """Flush, unlock and unmap; may be called again."""
        # The lock of the file comes before the mutex, as in a look-up of the Python engine.
        with self._storage_of_pages().locked():
            super().close()

    def _pages_a_key(self) -> int:
        # Of one line, one page, or anywhere.
        return 1 if self.layout in _ONE_PAGE_LAYOUTS else 2 * self.num_probes

    def _open_payload(self) -> memoryview:
        return self._whole()._open_payload()  # what is attached is a window, and empty

    def _whole(self) -> Self:
        steady = self._steady()
        loaded = steady._unmapped().load_all()
        kind: type[Any] = self._plain_class or type(self)
        whole: Self = kind._of_file(loaded)
        whole._is_steady = True
        return whole

    def _unmapped(self) -> UnmappedFile:
        self._check_open()
        return self._storage_of_pages()

    def _storage_of_pages(self) -> UnmappedFile:
        storage = self._storage
        assert isinstance(storage, UnmappedFile)  # noqa: S101 - reader_class chose this class for it
        return storage

    def _settle_in_child(self) -> None:
        self._unmapped().settle_in_child()
        super()._settle_in_child()


class UnmappedCounters(Unmapped):
    """The same of counters, which tell more than whether a key is in."""

    def count_estimate(self, key: object, /) -> int:
        """Return an upper bound of how often *key* was added and not removed."""
        self._check_open()
        steady = self._steady()
        digest = hash_key(key, steady._header.seed, steady._header.key_form)
        with steady._unmapped().loaded(steady._pages_of(HASH.pack(*digest))):
            return steady._count_loaded(key)

    def _count_loaded(self, key: object) -> int:
        found: int = super().count_estimate(key)  # type: ignore[misc]  # CountingCore is behind this
        return found
