"""The shape of a payload, by the kind of its filter: what measuring it needs to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from mmbloom.filters.sizing import Geometry

if TYPE_CHECKING:
    from mmbloom.format.header import Header

Shape: TypeAlias = Geometry


def shape_of(header: Header) -> Shape:
    """Return the shape of the payload that belongs to *header*."""
    return Geometry(header.layout_name, header.num_bits, header.num_probes)
