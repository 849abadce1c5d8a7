"""What a ``with`` block closes: everything here that has a close() of its own."""

from __future__ import annotations

from typing import Self


class Closing:
    """Something with a close(), which leaving a ``with`` block calls."""

    __slots__ = ()

    def close(self) -> None:
        """Let go of what is held."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Return it; leaving the block closes it."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Close it."""
        self.close()
