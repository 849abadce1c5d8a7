"""Fixtures of the room."""

from filter_fixtures import folder, layout, make

__all__ = ["folder", "layout", "make"]
