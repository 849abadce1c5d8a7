"""What to do about a bad line of a list, and which ones there were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mmbloom.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Locate = Callable[[Exception], Exception]

OnError = Literal["raise", "skip", "count"]
_KEPT_MESSAGES = 5  # enough to see what is wrong with a list


class BadLines:
    """The lines of a list that should be keys and are none.

    Policy: "raise" stops at the first, "skip" leaves bad lines out and keeps the first messages,
        "count" leaves them out and counts them.
    Sharing: one thread at a time.

    Attributes:
        policy: as above.
        num_bad: how many there were.
        first: the messages of the first 5, "FILE, line N: reason"; none under "count".
    """

    def __init__(self, policy: OnError = "raise") -> None:
        if policy not in {"raise", "skip", "count"}:
            raise ParameterError("on_error", "'raise', 'skip' or 'count'", policy)
        self.policy = policy
        self.num_bad = 0
        self.first: list[str] = []
        self._locators: list[Locate] = []

    def add(self, error: Exception) -> None:
        """Count a bad line. Under the policy "raise" its error is raised."""
        self.add_many([error], 1)

    def add_many(self, errors: Sequence[Exception], count: int) -> None:
        """Count *count* bad lines, of which *errors* are the first. Under "raise" one is raised."""
        if not count:
            return
        if self.policy == "raise":
            raise self.located(errors[0])
        self.num_bad += count
        if self.policy == "skip":
            room = _KEPT_MESSAGES - len(self.first)
            self.first += [str(self.located(error)) for error in errors[:room]]

    def located(self, error: Exception) -> Exception:
        """Return an error that names the very file, where the engine knew of a joint text only."""
        for locate in self._locators:
            error = locate(error)
        return error

    def locate_with(self, locate: Locate) -> None:
        """Use *locate* to name files; it returns the errors that it does not know as they are."""
        self._locators.append(locate)

    def restore(self, num_bad: int, first: Sequence[str]) -> None:
        """Go on from the tally of a build that was interrupted."""
        self.num_bad, self.first = num_bad, list(first)
