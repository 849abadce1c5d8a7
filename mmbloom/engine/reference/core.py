"""What holds the current view of a filter: the kernel's Core, without its shortcuts."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from mmbloom.engine.reference.hashes import HASH, hash_key
from mmbloom.errors import ClosedError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

    from mmbloom.engine.reference.view import View

NUM_LATEST = 8


class Core:
    """One filter; ``_kernel.pyi`` documents it."""

    def __init__(self) -> None:
        self._view: View | None = None
        self._next_look = 0.0
        self._is_quick = self._has_removed = False
        self._num_keys = self._limit = self._num_saturated = 0
        self._ring: deque[tuple[int, int]] = deque(maxlen=NUM_LATEST)

    def _use(self, view: View | None) -> None:
        self._view = view

    @property
    def closed(self) -> bool:
        """Whether nothing can be looked up."""
        return self._view is None

    def _is_due(self) -> bool:
        return 0 < self._next_look <= time.monotonic()

    def _rest(self, seconds: float) -> None:
        self._next_look = time.monotonic() + seconds

    # Hooks, which a filter overrides.

    def _check_open(self) -> None:
        """Raise ClosedError if closed."""
        if self._view is None:
            raise ClosedError("the filter is closed")

    def _look_at_path(self) -> None:
        """Look whether another file has the path."""

    def _add_one(self, digest: bytes) -> bool:
        """Add one hash; return whether it was new."""
        raise NotImplementedError

    def _remove_one(self, digest: bytes) -> bool:
        """Remove one hash; return whether it is definitely absent now."""
        raise NotImplementedError

    def _write_marks(self) -> None:
        """Write the marked pages."""

    def _hash(self, key: object) -> tuple[View, bytes]:
        while True:
            view = self._view
            if view is None:
                self._check_open()
            else:
                digest = HASH.pack(*hash_key(key, view.seed, view.key_form))
                if self._view is view:
                    return view, digest

    def __contains__(self, key: object) -> bool:
        if self._is_due():
            self._look_at_path()
        view, digest = self._hash(key)
        if view.load_pages is None:
            return view.contains(*HASH.unpack(digest))
        with view.load_pages(view.pages_of(digest)):
            return view.contains(*HASH.unpack(digest))

    def might_contain(self, key: object, /) -> bool:
        """Return False if *key* was definitely never added, True if it may have been."""
        return key in self

    def add(self, key: object, /) -> bool:
        """Add one key; return whether it was new."""
        return self._add_one(self._hash(key)[1])

    def _remove(self, key: object, /) -> bool:
        return self._remove_one(self._hash(key)[1])

    def _note(self, hashes: Buffer) -> None:
        self._ring.extend(HASH.iter_unpack(bytes(hashes)[-NUM_LATEST * HASH.size :]))

    @property
    def _latest(self) -> list[tuple[int, int]]:
        return list(self._ring)
