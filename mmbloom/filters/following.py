"""Readers that follow their path: when to look, and what to do about a file that is refused."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Self

from mmbloom.errors import ClosedError, MmbloomError, ParameterError, ParameterTypeError
from mmbloom.storage.mapped import stamp_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmbloom.storage.open_options import OpenOptions
    from mmbloom.storage.storage import Stamp


class Follower:
    """How a reader follows its path.

    Attributes:
        seconds: between two looks, at least.
        error: why the file that has the path now was refused; None if it was not.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.error: Exception | None = None
        self._refused: Stamp | None = None

    @classmethod
    def checked(cls, follow: float | None, options: OpenOptions) -> Self | None:
        """Return a follower for the parameter *follow*, None for None.

        Raises:
            ParameterError, ParameterTypeError: a reader cannot follow like this.
        """
        if follow is None:
            return None
        rule = "seconds, 0 or more"
        if isinstance(follow, bool) or not isinstance(follow, int | float):
            raise ParameterTypeError("follow", rule, follow)
        if not 0 <= follow < math.inf:
            raise ParameterError("follow", rule, follow)
        if options.expected_digest is not None:
            hint = "a pinned file has no next generation"
            raise ParameterError("follow", "None beside expected_digest", follow, hint)
        return cls(follow)

    def follow(self, path: str, reload: Callable[[], bool]) -> None:
        """Call *reload*, unless the file at *path* was refused before; warn when it is refused."""
        stamp = None
        try:
            stamp = stamp_at(path)
            if stamp == self._refused:  # looking at it again would not change it
                return
            reload()
        except ClosedError:
            raise
        except (MmbloomError, OSError, MemoryError) as exc:
            self._refused = stamp
            is_news = str(exc) != str(self.error)
            self.error = exc.with_traceback(None)  # which would keep the bad file open
            if is_news:
                message = f"the filter that was opened before goes on answering: {exc}"
                warnings.warn(message, RuntimeWarning, stacklevel=5)
        else:
            self._refused = self.error = None
