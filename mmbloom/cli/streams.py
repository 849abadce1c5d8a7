"""Standard input, output and error: what happens when one is closed, full, or read no further.

Everything that commands print goes through write(), as bytes, so that text and lines of lists keep
their order, and a name that is no UTF-8 cannot fail.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

_STDOUT_NAME = "standard output"


def fill_closed() -> None:
    """Occupy the descriptors 0 to 2 that are closed.

    The next file to be opened would get their number: keys would be read from the filter, or a
    message be written into it. Standard input and output get the wrong direction, so that using
    them fails as it would have.
    """
    for fd, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)  # noqa: FBT003 - takes only that
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def write(data: str | bytes | bytearray) -> None:
    """Write to standard output; what its encoding lacks appears as an escape.

    Raises:
        OSError: it is full or closed, named as a file would be. BrokenPipeError: nobody reads it.
    """
    if isinstance(data, str):
        data = data.encode(sys.stdout.encoding or "utf-8", "backslashreplace")
    try:
        sys.stdout.buffer.write(data)
    except OSError as exc:
        exc.filename = _STDOUT_NAME
        raise


def flush() -> None:
    """Send on what was written. Raises: as write()."""
    try:
        sys.stdout.flush()
    except OSError as exc:
        exc.filename = _STDOUT_NAME
        raise


def complain(text: str) -> None:
    """Write a line to standard error. If that cannot be done, the exit code has to tell."""
    with suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def finish() -> None:
    """Flush, or drop what cannot be written: Python would try again at exit, and complain."""
    try:
        flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def can_show(text: str) -> bool:
    """Tell whether the encoding of standard output has all characters of *text*."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
