"""Every exception of mmbloom, on one screen.

One base class, leaves by what the caller can do, standard parents. Each keeps its fields as
attributes and passes them to ``args``, so that it survives pickling. The operating system's own
errors (a missing file, no permission, a directory as path, an existing target) stay what they are:
``FileNotFoundError``, ``PermissionError`` and so on.
"""

from __future__ import annotations

import errno
import os


class MmbloomError(Exception):
    """Base of every error that mmbloom defines."""


class ParameterError(MmbloomError, ValueError):
    """A parameter has a value outside its range: change the call."""

    def __init__(self, name: str, rule: str, found: object, hint: str = "") -> None:
        super().__init__(name, rule, found, hint)
        self.name, self.rule, self.found, self.hint = name, rule, found, hint

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.name}: expected {self.rule}, found {self.found!r}{hint}"


class ParameterTypeError(ParameterError, TypeError):
    """A parameter has the wrong type: convert it first."""


class KeyTypeError(MmbloomError, TypeError):
    """This type has no canonical bytes: encode the key first."""


class KeyValueError(MmbloomError, ValueError):
    """The type is right, the key is not: a lone surrogate, or text that is not hexadecimal."""


class FormatError(MmbloomError, ValueError):
    """The bytes at *path* are not a filter that can be trusted: restore or rebuild the file."""

    default_hint = (
        "The file is damaged or is not an mmbloom filter. Restore it from a copy, or build it again"
    )

    def __init__(  # noqa: PLR0913, PLR0917 - a damaged field has exactly these facts
        self, path: str, field: str, offset: int, expected: object, found: object, hint: str = ""
    ) -> None:
        super().__init__(path, field, offset, expected, found, hint)
        self.path, self.field, self.offset = path, field, offset
        self.expected, self.found, self.hint = expected, found, hint or self.default_hint

    def __str__(self) -> str:
        where = f"{self.path}: {self.field} at offset {self.offset}"
        return f"{where}: expected {self.expected}, found {self.found}. {self.hint}."


class TruncatedError(FormatError):
    """The file is shorter or longer than its header says."""

    default_hint = "The file was cut short or grew. Copy it again, or build it again"


class ChecksumError(FormatError):
    """The payload does not match its checksums: bits have changed since the file was sealed."""


class VersionError(FormatError):
    """The file is sound but needs something that this release does not know: upgrade mmbloom."""

    default_hint = "Upgrade mmbloom to a release that knows it, or build the file again"


class WrongKindError(MmbloomError, ValueError):
    """The file is sound, but a filter of another kind: mmbloom.open() opens it."""

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(path, expected, found)
        self.path, self.expected, self.found = path, expected, found

    def __str__(self) -> str:
        return (
            f"{self.path}: expected a filter of kind {self.expected}, found {self.found}. "
            "mmbloom.open() opens filters of any kind."
        )


class LockHeldError(MmbloomError, RuntimeError):
    """Another handle is writing this file: wait until it is closed, or open read-only."""

    def __init__(self, path: str, lock_path: str) -> None:
        super().__init__(path, lock_path)
        self.path, self.lock_path = path, lock_path

    def __str__(self) -> str:
        return (
            f"{self.path}: another writer holds {self.lock_path}. "
            "Wait until it has closed the filter, or open it read-only with mmbloom.open()."
        )


class ReadOnlyError(MmbloomError, ValueError):
    """The handle or the file cannot be changed: use open_writable, or make a copy."""


class ClosedError(MmbloomError, ValueError):
    """The filter was closed before this call."""


class CapacityError(MmbloomError, ValueError):
    """One more key would exceed the capacity: nothing of that key was set.

    *num_added*: how many new keys of the same call were added before; None where none could be.
    """

    def __init__(self, where: str, capacity: int, num_added: int | None = None) -> None:
        super().__init__(where, capacity, num_added)
        self.where, self.capacity, self.num_added = where, capacity, num_added

    def __str__(self) -> str:
        before = ""
        if self.num_added is not None:
            before = f" Of this call, {self.num_added} new keys were added before."
        return (
            f"{self.where}: more than its capacity of {self.capacity} distinct keys.{before} "
            "Make a larger filter, or create it with overfill=True and watch expected_fpr()."
        )


class AbsentKeyError(MmbloomError, KeyError):
    """The key to remove is definitely not in: it was never added, or is removed already.

    *num_removed*: how many keys of the same call were removed before it; of it nothing was changed.
    """

    def __init__(self, where: str, num_removed: int) -> None:
        super().__init__(where, num_removed)
        self.where, self.num_removed = where, num_removed

    def __str__(self) -> str:
        before = ""
        if self.num_removed:
            before = f" The {self.num_removed} keys of this call that came before it are removed."
        return (
            f"{self.where}: the key to remove is definitely not in: it was never added, or is "
            f"removed already.{before} Look keys up before, or catch AbsentKeyError."
        )


class IncompatibleError(MmbloomError, ValueError):
    """Two filters differ in a field that must be equal: build them with the same parameters."""

    def __init__(self, field: str, left: object, right: object) -> None:
        super().__init__(field, left, right)
        self.field, self.left, self.right = field, left, right

    def __str__(self) -> str:
        values = f"{self.left} and {self.right}"
        return f"the filters differ in {self.field}: {values}. Neither was changed."


class NotInStoreError(MmbloomError, KeyError):
    """A store has no filter of this name, or no older generation of it."""

    def __init__(self, folder: str, name: str, what: str) -> None:
        super().__init__(folder, name, what)
        self.folder, self.name, self.what = folder, name, what

    def __str__(self) -> str:
        return f"{self.folder}: no {self.what} named {self.name!r}: list(store) has all names"


class ConstructionError(MmbloomError, RuntimeError):
    """No fuse filter of these keys was found: build it with another seed."""

    def __init__(self, num_keys: int, num_seeds: int) -> None:
        super().__init__(num_keys, num_seeds)
        self.num_keys, self.num_seeds = num_keys, num_seeds

    def __str__(self) -> str:
        return (
            f"none of {self.num_seeds} attempts gave a fuse filter of these {self.num_keys} keys, "
            "which chance does not do: their hashes were chosen. Build it with another seed=."
        )


class SourceError(MmbloomError, ValueError):
    """A list of keys cannot be read as one: binary, empty, or compressed in an unknown way."""


class SpillError(MmbloomError, RuntimeError):
    """The spill file of a build, at *where*, does not hold what was written to it: build again."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where, self.reason = where, reason

    def __str__(self) -> str:
        return (
            f"spill file in {self.where}: {self.reason}. The disk or another program changed it: "
            "build again, with another --spill-folder if it happens again."
        )


class MemoryBudgetError(MmbloomError, MemoryError):
    """A build cannot go on within the memory that it was given: give it more."""

    def __init__(self, budget_bytes: int, needed_bytes: int, reason: str) -> None:
        super().__init__(budget_bytes, needed_bytes, reason)
        self.budget_bytes, self.needed_bytes, self.reason = budget_bytes, needed_bytes, reason

    def __str__(self) -> str:
        return (
            f"memory: {self.budget_bytes} bytes are not enough, {self.needed_bytes} would be: "
            f"{self.reason}. Give the build more memory, or fewer jobs."
        )


class NoSpaceError(MmbloomError, OSError):
    """The file does not fit on the disk. A new one is not there; an old one is unchanged."""

    def __init__(self, path: str, needed_bytes: int, free_bytes: int) -> None:
        super().__init__(path, needed_bytes, free_bytes)
        self.path, self.needed_bytes, self.free_bytes = path, needed_bytes, free_bytes
        # OSError takes three arguments for errno, strerror and filename: put that right.
        self.errno, self.strerror, self.filename = errno.ENOSPC, os.strerror(errno.ENOSPC), path

    def __str__(self) -> str:
        return (
            f"{self.path}: needs {self.needed_bytes} bytes, {self.free_bytes} are free. "
            "Free some space, or choose another folder."
        )
