"""The kinds of filters: one file for each, and the closed table of all of them.

``kind`` is the interface, ``spec`` what a filter is made with. A new kind is a file here, its row
in ``KINDS``, its functions in the engine and its rows in ``mmbloom.format``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.errors import ParameterError
from mmbloom.format.kinds import KIND_NAMES
from mmbloom.kinds.bloom import BloomKind
from mmbloom.kinds.counting import CountingKind
from mmbloom.kinds.fuse import FuseKind

if TYPE_CHECKING:
    from mmbloom.format.header import Header
    from mmbloom.kinds.kind import Kind

BLOOM, FUSE, COUNTING = BloomKind(), FuseKind(), CountingKind()
KINDS: dict[str, Kind] = {kind.name: kind for kind in (BLOOM, FUSE, COUNTING)}


def kind_of(header: Header) -> Kind:
    """Return the kind of the filter that *header* belongs to."""
    return KINDS[KIND_NAMES[header.kind]]


def kind_named(name: str) -> Kind:
    """Return the kind with this name.

    Raises:
        ParameterError: there is none.
    """
    if name not in KINDS:
        raise ParameterError("kind", f"one of {', '.join(KINDS)}", name)
    return KINDS[name]
