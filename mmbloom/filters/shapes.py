"""The shape of a payload, by the kind of its filter: what measuring it needs to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from mmbloom.format.fields import KIND_FUSE
from mmbloom.format.fuse import FuseShape, fuse_shape
from mmbloom.sizing.bloom import Geometry

if TYPE_CHECKING:
    from mmbloom.format.header import Header

Shape: TypeAlias = Geometry | FuseShape


def shape_of(header: Header) -> Shape:
    """Return the shape of the payload that belongs to *header*."""
    if header.kind == KIND_FUSE:
        return fuse_shape_of(header)
    return Geometry(header.layout_name, header.num_bits, header.num_probes)


def fuse_shape_of(header: Header) -> FuseShape:
    """Return the shape of a payload of kind fuse."""
    return fuse_shape(header._asdict())


def fuse_fpr(shape: FuseShape) -> float:
    """Return the false-positive rate of a fuse filter: w uniform bits agree with chance 2^-w."""
    return float(2.0**-shape.fingerprint_bits) if shape.num_shards else 0.0
