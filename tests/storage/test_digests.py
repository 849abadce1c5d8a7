"""The digest of a whole file, and what a pinned file refuses."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from mmbloom.errors import ChecksumError, ParameterError, ParameterTypeError
from mmbloom.storage.digests import check_digest_form, file_digest
from mmbloom.storage.mapped import MappedFile

if TYPE_CHECKING:
    from pathlib import Path


def test_the_digest_is_that_of_sha256sum(tmp_path: Path) -> None:
    """Over more than one piece; anybody can make it with other tools."""
    path = tmp_path / "a.mmb"
    path.write_bytes(bytes(range(256)) * 5000)

    assert file_digest(path) == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def test_a_file_with_the_digest_that_was_expected_opens(sealed: Path) -> None:
    """And nothing else has to be known of it."""
    with MappedFile.open(sealed, expected_digest=file_digest(sealed)) as mapped:
        assert mapped.status.is_sealed


def test_another_file_is_refused_and_both_digests_are_named(sealed: Path) -> None:
    """Whatever its checksums say, which anybody can make fit."""
    expected, found = "sha256:" + "0" * 64, file_digest(sealed)

    with pytest.raises(ChecksumError) as caught:
        MappedFile.open(sealed, expected_digest=expected)

    assert (caught.value.expected, caught.value.found) == (expected, found)
    assert str(sealed) in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "0" * 64, "sha256:", "sha256:" + "0" * 63, "sha256:" + "g" * 64, "md5:" + "0" * 64]
)
def test_what_is_no_digest_is_refused_before_the_file_is_read(text: str) -> None:
    """A pin that could never fit is a mistake, not another file."""
    with pytest.raises(ParameterError, match="expected_digest"):
        check_digest_form(text)


def test_a_digest_has_one_form() -> None:
    """Upper case is the same digest; bytes are none."""
    assert check_digest_form("SHA256:" + "A" * 64) == "sha256:" + "a" * 64
    with pytest.raises(ParameterTypeError):
        check_digest_form(b"sha256:" + b"0" * 64)  # type: ignore[arg-type]
