"""The SHA-256 of a whole file: what a reader pins, so that nobody can pass it another file.

The checksums in the file are XXH3, which finds damage and not malice: who wants to can make another
payload with the same ones.
"""

from __future__ import annotations

import os
import re

from mmbloom.errors import ChecksumError, ParameterError, ParameterTypeError
from mmbloom.storage.paths import FilePath, open_regular, path_text

_PREFIX = "sha256:"
_FORM = re.compile(_PREFIX + "[0-9a-f]{64}")
_PIECE_BYTES = 1 << 20
_HINT = "This is another file than the one that was pinned. Get that one, or pin this one"


def file_digest(path: FilePath) -> str:
    """Return the digest of the file at *path* for ``open(expected_digest=...)``.

    Returns:
        "sha256:" and 64 hexadecimal digits, those of sha256sum.

    Raises:
        OSError: what the operating system says. FormatError: a FIFO, a socket or a device.

    Cost: one read of the file; half a second a GB where the processor has instructions for SHA-256,
    two or three where not. The GIL is released.
    """
    text = path_text(path)
    fd, _ = open_regular(text, os.O_RDONLY)
    with fd:
        return digest_of(fd, text)


def digest_of(fd: int, path: str) -> str:
    """Return the digest of the file behind *fd*, read from its start to its end."""
    from hashlib import sha256  # OpenSSL takes long to load

    state = sha256()
    offset = 0
    try:
        while piece := os.pread(fd, _PIECE_BYTES, offset):
            state.update(piece)
            offset += len(piece)
    except OSError as exc:
        exc.filename = path
        raise
    return _PREFIX + state.hexdigest()


def digest_of_bytes(data: memoryview) -> str:
    """Return the digest of a file that consists of *data*."""
    from hashlib import sha256

    return _PREFIX + sha256(data).hexdigest()


def check_digest_form(text: str) -> str:
    """Return *text* in lower case if it has the form of a digest."""
    rule = f"{_PREFIX!r} and 64 hexadecimal digits, as of mmbloom.file_digest()"
    if not isinstance(text, str):
        raise ParameterTypeError("expected_digest", rule, text)
    if not _FORM.fullmatch(text.lower()):
        raise ParameterError("expected_digest", rule, text)
    return text.lower()


def check_digest(found: str, expected: str, path: str) -> None:
    """Raise ChecksumError unless the file has the digest that was expected."""
    if found != expected:
        raise ChecksumError(path, "digest of the file", 0, expected, found, _HINT)
