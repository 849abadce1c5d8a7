"""A command in a process of its own, and how long a test waits for it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

SECONDS = 60  # a command that takes longer hangs


class Command(subprocess.Popen[bytes]):
    """A command that does not outlive a test that fails."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for its end, or see to that."""
        if exc_type is not None:
            self.kill()
        super().__exit__(exc_type, value, traceback)
