"""Fixtures of the room."""

from file_fixtures import file_kind, header, make_file, no_tmpfile, sealed, writable

__all__ = ["file_kind", "header", "make_file", "no_tmpfile", "sealed", "writable"]
