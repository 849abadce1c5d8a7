"""Every exception of mmbloom.

All derive from one base class and from a standard exception. There is one class for each thing
that a caller can do about an error. Each keeps its facts as attributes and passes them to ``args``,
so it can be pickled. Errors of the operating system (a missing file, no permission, a directory as
path, an existing target) keep their classes: ``FileNotFoundError``, ``PermissionError`` and so on.
"""

from __future__ import annotations

import errno
import os


class MmbloomError(Exception):
    """Base class of every error that mmbloom defines."""


class ParameterError(MmbloomError, ValueError):
    """A parameter has a value that is not allowed: change the call."""

    def __init__(self, name: str, rule: str, found: object, hint: str = "") -> None:
        super().__init__(name, rule, found, hint)
        self.name, self.rule, self.found, self.hint = name, rule, found, hint

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.name}: expected {self.rule}, found {self.found!r}{hint}"


class ParameterTypeError(ParameterError, TypeError):
    """A parameter has the wrong type: convert it first."""


class KeyTypeError(MmbloomError, TypeError):
    """An object of this type cannot be a key: encode it first."""


class KeyValueError(MmbloomError, ValueError):
    """The key has the right type but is not valid: a lone surrogate, or text that is not hex."""


class FormatError(MmbloomError, ValueError):
    """The file at *path* is damaged or is not a filter: restore it, or build it again."""

    default_hint = (
        "The file is damaged or is not an mmbloom filter. Restore it from a copy, or build it again"
    )

    def __init__(  # noqa: PLR0913, PLR0917 - the facts about a damaged field
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
    """The file does not match its checksums: bytes have changed since it was sealed."""


class VersionError(FormatError):
    """The file is not damaged, but this release cannot read it: upgrade mmbloom."""

    default_hint = "Upgrade mmbloom to a release that supports it, or build the file again"


class WrongKindError(MmbloomError, ValueError):
    """The file is a filter of another kind: open it with mmbloom.open()."""

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(path, expected, found)
        self.path, self.expected, self.found = path, expected, found

    def __str__(self) -> str:
        return (
            f"{self.path}: expected a filter of kind {self.expected}, found {self.found}. "
            "mmbloom.open() opens filters of any kind."
        )


class LockHeldError(MmbloomError, RuntimeError):
    """Another writer has this file open: wait until it is closed, or open the file read-only."""

    def __init__(self, path: str, lock_path: str) -> None:
        super().__init__(path, lock_path)
        self.path, self.lock_path = path, lock_path

    def __str__(self) -> str:
        return (
            f"{self.path}: another writer holds {self.lock_path}. "
            "Wait until it closes the filter, or open the file read-only with mmbloom.open()."
        )


class ReadOnlyError(MmbloomError, ValueError):
    """The handle or the file cannot be changed: use open_writable(), or make a copy."""


class ClosedError(MmbloomError, ValueError):
    """The filter was closed before this call."""


class CapacityError(MmbloomError, ValueError):
    """One more key would exceed the capacity: that key was not added.

    *num_added* is how many new keys of the same call were added first, or None if the call adds all
    of its keys or none.
    """

    def __init__(self, where: str, capacity: int, num_added: int | None = None) -> None:
        super().__init__(where, capacity, num_added)
        self.where, self.capacity, self.num_added = where, capacity, num_added

    def __str__(self) -> str:
        added = ""
        if self.num_added is not None:
            added = f"; {self.num_added} new keys of this call were added first"
        return (
            f"{self.where}: capacity of {self.capacity} distinct keys exceeded{added}. "
            "Create a larger filter, or create it with overfill=True and watch expected_fpr()."
        )


class AbsentKeyError(MmbloomError, KeyError):
    """The key to remove is not in the filter: it was never added, or was already removed.

    *num_removed* is how many keys of the same call were removed first. This key changed nothing.
    """

    def __init__(self, where: str, num_removed: int) -> None:
        super().__init__(where, num_removed)
        self.where, self.num_removed = where, num_removed

    def __str__(self) -> str:
        removed = ""
        if self.num_removed:
            removed = f"; {self.num_removed} keys of this call were removed first"
        return (
            f"{self.where}: cannot remove a key that is not in the filter (never added, or already "
            f"removed){removed}. Check first, or catch AbsentKeyError."
        )


class IncompatibleError(MmbloomError, ValueError):
    """Two filters differ in a field that must be equal: build both with the same parameters."""

    def __init__(self, field: str, left: object, right: object) -> None:
        super().__init__(field, left, right)
        self.field, self.left, self.right = field, left, right

    def __str__(self) -> str:
        values = f"{self.left} and {self.right}"
        return f"the filters differ in {self.field}: {values}. Neither was changed."


class NotInStoreError(MmbloomError, KeyError):
    """A store has no filter with this name, or no older generation of it."""

    def __init__(self, folder: str, name: str, what: str) -> None:
        super().__init__(folder, name, what)
        self.folder, self.name, self.what = folder, name, what

    def __str__(self) -> str:
        return f"{self.folder}: no {self.what} named {self.name!r}. list(store) returns all names."


class ConstructionError(MmbloomError, RuntimeError):
    """No fuse filter of these keys could be built: pass another seed."""

    def __init__(self, num_keys: int, num_seeds: int) -> None:
        super().__init__(num_keys, num_seeds)
        self.num_keys, self.num_seeds = num_keys, num_seeds

    def __str__(self) -> str:
        return (
            f"could not build a fuse filter from these {self.num_keys} keys in {self.num_seeds} "
            "attempts. This does not happen by chance: the keys were crafted to collide. "
            "Pass another seed."
        )


class SourceError(MmbloomError, ValueError):
    """A file is not a list of keys: it is binary, empty, or compressed in an unknown way."""


class SpillError(MmbloomError, RuntimeError):
    """The spill file of a build, at *where*, has changed since it was written: build again."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where, self.reason = where, reason

    def __str__(self) -> str:
        return (
            f"spill file in {self.where}: {self.reason}. The disk or another program changed it: "
            "build again, and use another spill folder if it happens again."
        )


class MemoryBudgetError(MmbloomError, MemoryError):
    """A build cannot continue within its memory limit: raise the limit."""

    def __init__(self, budget_bytes: int, needed_bytes: int, reason: str) -> None:
        super().__init__(budget_bytes, needed_bytes, reason)
        self.budget_bytes, self.needed_bytes, self.reason = budget_bytes, needed_bytes, reason

    def __str__(self) -> str:
        return (
            f"memory={self.budget_bytes} is too small: {self.reason}, which needs at least "
            f"{self.needed_bytes} bytes. Give the build more memory, or fewer jobs."
        )


class NoSpaceError(MmbloomError, OSError):
    """The file does not fit on the disk. No new file was created; an old one is unchanged."""

    def __init__(self, path: str, needed_bytes: int, free_bytes: int) -> None:
        super().__init__(path, needed_bytes, free_bytes)
        self.path, self.needed_bytes, self.free_bytes = path, needed_bytes, free_bytes
        # OSError reads its three arguments as errno, strerror and filename, so these are set again.
        self.errno, self.strerror, self.filename = errno.ENOSPC, os.strerror(errno.ENOSPC), path

    def __str__(self) -> str:
        return (
            f"{self.path}: needs {self.needed_bytes} bytes, but only {self.free_bytes} are free. "
            "Free some space, or choose another folder."
        )
