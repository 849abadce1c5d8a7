"""Every error: what it is caught as, what it says, and that it survives a pickle."""

from __future__ import annotations

import inspect
import pickle

import pytest

import mmbloom
from mmbloom import errors
from mmbloom.errors import (
    AbsentKeyError,
    CapacityError,
    ChecksumError,
    ClosedError,
    ConstructionError,
    FormatError,
    IncompatibleError,
    KeyTypeError,
    KeyValueError,
    LockHeldError,
    MemoryBudgetError,
    MmbloomError,
    NoSpaceError,
    NotInStoreError,
    ParameterError,
    ParameterTypeError,
    ReadOnlyError,
    SourceError,
    SpillError,
    TruncatedError,
    VersionError,
    WrongKindError,
)

# One of each, its standard parents, and words that its message must have.
SAMPLES = [
    (ParameterError("fpr", "0 < fpr < 1", 5, "did you mean 0.05?"), ValueError, "fpr 5 0.05"),
    (ParameterTypeError("capacity", "an int", "9"), TypeError, "capacity int '9'"),
    (KeyTypeError("key 3 of the batch: a key is str or bytes-like"), TypeError, "3"),
    (KeyValueError("key: a lone surrogate has no UTF-8"), ValueError, "surrogate"),
    (FormatError("a.mmb", "magic", 0, "89 4d", "00 00"), ValueError, "a.mmb magic 89 Restore"),
    (TruncatedError("a.mmb", "file_bytes", 128, 4168, 9), ValueError, "a.mmb 4168 9 Copy"),
    (ChecksumError("a.mmb", "payload", 4096, "1", "2", "MiB 0"), ValueError, "a.mmb MiB"),
    (VersionError("a.mmb", "format_version", 8, 1, 2), ValueError, "a.mmb 1 2 Upgrade"),
    (WrongKindError("a.mmb", "bloom", "fuse"), ValueError, "a.mmb bloom fuse open()"),
    (LockHeldError("a.mmb", "a.mmb.lock"), RuntimeError, "a.mmb a.mmb.lock Wait"),
    (ReadOnlyError("a.mmb is open read-only"), ValueError, "read-only"),
    (ClosedError("a.mmb is closed"), ValueError, "closed"),
    (CapacityError("a.mmb", 10, 4), ValueError, "a.mmb 10 4 overfill"),
    (AbsentKeyError("a.mmb", 4), KeyError, "a.mmb 4 cannot remove"),
    (IncompatibleError("seed", 1, 2), ValueError, "seed 1 2 Neither"),
    (NotInStoreError("/srv", "breach", "filter"), KeyError, "/srv 'breach' list(store)"),
    (ConstructionError(400, 64), RuntimeError, "400 64 crafted seed"),
    (SourceError("list.txt: binary"), ValueError, "list.txt"),
    (SpillError("/spill", "it was cut short"), RuntimeError, "/spill short again"),
    (MemoryBudgetError(32, 64, "9 jobs"), MemoryError, "32 64 jobs memory"),
    (NoSpaceError("a.mmb", 12_000_000, 2_000_000), OSError, "a.mmb 12000000 2000000"),
]
NAMES = [type(error).__name__ for error, _, _ in SAMPLES]


def defined_errors() -> set[type[MmbloomError]]:
    """Return every class of the module."""
    classes = {each for _, each in inspect.getmembers(errors, inspect.isclass)}
    return {each for each in classes if issubclass(each, MmbloomError)}


def test_every_error_is_in_the_table_above() -> None:
    """A new one gets a row."""
    assert {type(sample[0]) for sample in SAMPLES} == defined_errors() - {MmbloomError}


def test_every_error_is_public() -> None:
    """Under its own name in the package."""
    for each in defined_errors():
        assert getattr(mmbloom, each.__name__) is each


@pytest.mark.parametrize(("error", "parent"), [sample[:2] for sample in SAMPLES], ids=NAMES)
def test_an_error_is_caught_by_its_parents(error: MmbloomError, parent: type[Exception]) -> None:
    """By the base class, by the standard one, and by `except Exception`."""
    assert isinstance(error, MmbloomError)
    assert isinstance(error, parent)
    assert isinstance(error, Exception)


@pytest.mark.parametrize(("error", "words"), [sample[::2] for sample in SAMPLES], ids=NAMES)
def test_an_error_says_where_what_was_expected_and_what_to_do(
    error: MmbloomError, words: str
) -> None:
    """All that it knows is in its text."""
    for word in words.split():
        assert word in str(error)


@pytest.mark.parametrize("error", [sample[0] for sample in SAMPLES], ids=NAMES)
def test_an_error_survives_a_pickle(error: MmbloomError) -> None:
    """With its text and its fields, so it can cross processes."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - made by this test

    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert again.args == error.args


def test_a_damaged_file_is_told_by_field_and_offset() -> None:
    """For programs that want more than the text."""
    error = FormatError("a.mmb", "seed", 48, "1", "2", "Try again")

    assert (error.path, error.field, error.offset) == ("a.mmb", "seed", 48)
    assert (error.expected, error.found, error.hint) == ("1", "2", "Try again")
    assert str(error) == "a.mmb: seed at offset 48: expected 1, found 2. Try again."


def test_kinds_of_damage_are_format_errors() -> None:
    """So one except clause is enough for whoever only wants to fall back."""
    assert all(issubclass(each, FormatError) for each in (TruncatedError, ChecksumError))
    assert issubclass(VersionError, FormatError)
    assert issubclass(ParameterTypeError, ParameterError)
