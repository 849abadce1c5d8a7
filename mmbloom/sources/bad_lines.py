"""Bad lines of a list: what to do about them, and which there were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mmbloom.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Locate = Callable[[Exception], Exception]

OnError = Literal["raise", "skip", "count"]
_KEPT_MESSAGES = 5  # enough to see what is wrong with a list


class BadLines:
    """Lines of a list that are not valid keys.

    Policy: "raise" stops at the first, "skip" leaves bad lines out and keeps the first messages,
        "count" leaves them out and only counts.
    Sharing: one thread at a time.

    Attributes:
        policy: as above.
        num_bad: number of bad lines so far.
        first: messages of the first 5, "FILE, line N: reason"; empty under "count".
    """

    def __init__(self, policy: OnError = "raise") -> None:
        if policy not in {"raise", "skip", "count"}:
            raise ParameterError("on_error", "'raise', 'skip' or 'count'", policy)
        self.policy = policy
        self.num_bad = 0
        self.first: list[str] = []
        self._locators: list[Locate] = []

    def add(self, error: Exception) -> None:
        """Count a bad line. Under "raise", raise its error."""
        self.add_many([error], 1)

    def add_many(self, errors: Sequence[Exception], count: int) -> None:
        """Count bad lines; *errors* are those of the first. Under "raise", raise the first."""
        if not count:
            return
        if self.policy == "raise":
            raise self.located(errors[0])
        self.num_bad += count
        if self.policy == "skip":
            more = _KEPT_MESSAGES - len(self.first)
            self.first += [str(self.located(error)) for error in errors[:more]]

    def located(self, error: Exception) -> Exception:
        """Return an error that names the file, if the engine saw only the text of joined files."""
        for locate in self._locators:
            error = locate(error)
        return error

    def locate_with(self, locate: Locate) -> None:
        """Use *locate* to name files. It returns errors that it does not know unchanged."""
        self._locators.append(locate)

    def restore(self, num_bad: int, first: Sequence[str]) -> None:
        """Continue from the counts of a build that was interrupted."""
        self.num_bad, self.first = num_bad, list(first)
