"""Kind fuse: a fingerprint for each key, in shards that are built at once and never change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.engine import View, popcount
from mmbloom.errors import ParameterError
from mmbloom.format.fuse import FIELDS, FuseShape, fuse_shape
from mmbloom.format.header import new_header
from mmbloom.kinds.fuse_assembly import FuseShards, in_memory_bytes, most_lane_bytes
from mmbloom.kinds.fuse_shards import shapes_to_try
from mmbloom.kinds.kind import Counts, Kind, Plan
from mmbloom.sizing.fuse import LAYOUTS, LEAST_FPR, check_fuse_layout, plan_fuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mmbloom.format.header import Header
    from mmbloom.kinds.partitions import Attempt, Counted, PartitionReader, Threads
    from mmbloom.kinds.spec import FilterSpec

_PAGE_BYTES = 4096


class FuseKind(Kind):
    """Binary fuse filters with three or four slots a key."""

    name = "fuse"
    layouts = LAYOUTS
    can_add = False
    can_unite = False
    has_even_fill = False  # at both ends of a shard fewer keys have a slot
    why_fixed = (
        "a fuse filter never changes. Build it again from the whole list, or build a filter of the "
        "new keys and ask both with mmbloom.FilterStack"
    )

    def header(self, spec: FilterSpec, num_keys: int | None = None) -> Header:
        """Return the header of a filter of *num_keys* keys, in the shape to expect for them."""
        if spec.capacity is not None:
            hint = "no key is ever added to it, so it is as large as its keys need"
            raise ParameterError("capacity", "None for kind fuse", spec.capacity, hint)
        if spec.overfill:
            raise ParameterError("overfill", "False for kind fuse", spec.overfill)
        keys = max(1, num_keys or 0)
        return self.header_of_shape(spec, keys, plan_fuse(keys, spec.fpr, spec.layout))

    def header_of_shape(self, spec: FilterSpec, num_keys: int, shape: FuseShape) -> Header:
        """Return the header of a filter of *num_keys* keys in *shape*."""
        return new_header(
            layout=check_fuse_layout(spec.layout),
            num_bits=shape.num_bits,
            num_probes=shape.arity,
            own=shape.own_fields,
            capacity=max(1, num_keys),
            **spec.header_fields(),
        )

    def lane_bytes(self, spec: FilterSpec, counts: Sequence[int] | None = None) -> int:
        """Return the memory in which one thread loads and constructs shards."""
        if counts is None:
            return most_lane_bytes(spec.fpr, spec.layout)
        return FuseShards(counts, spec.fpr, spec.layout).lane_bytes

    def attempts(
        self,
        spec: FilterSpec,
        counted: Counted,
        reader: PartitionReader,
        threads: Threads,
        memory_bytes: int,
    ) -> Iterator[Attempt]:
        """Yield the payload for the largest shard, then payloads with more segments."""
        shards = FuseShards(counted.counts, spec.fpr, spec.layout)
        for shape in shapes_to_try(shards.shape):
            header = self.header_of_shape(spec, counted.num_keys, shape)
            yield header, shards.pieces(shape, reader, threads, memory_bytes)

    def plans(self, capacity: int, fpr: float) -> list[Plan]:
        """Return a row for each layout; none if the rate is below 2**-32."""
        if fpr < LEAST_FPR:
            return []
        return [
            self._plan(layout, capacity, plan_fuse(capacity, fpr, layout)) for layout in LAYOUTS
        ]

    def _plan(self, layout: str, capacity: int, shape: FuseShape) -> Plan:
        return Plan(
            self.name,
            layout,
            shape.num_bits,
            shape.num_bits // 8,
            shape.arity,
            shape.arity,
            shape.arity,
            in_memory_bytes(shape, capacity),
            2.0**-shape.fingerprint_bits,
            "nothing",
        )

    def shape(self, header: Header) -> FuseShape:
        """Return the width of fingerprints, slots and segments of a shard, and shards."""
        return fuse_shape(header)

    def view(self, header: Header, payload: memoryview, *, writable: bool) -> View:
        """Return a view of the fingerprints."""
        numbers = header.layout, header.probe_scheme, tuple(self.shape(header))
        return View(payload, *numbers, header.seed, header.key_form, writable)

    def index_pages(self, header: Header) -> range:
        """Return the pages of the table of seeds, on which the slots of every key depend."""
        shape = self.shape(header)
        first = shape.num_shards * shape.shard_bytes
        return range(first // _PAGE_BYTES, -(-(first + shape.table_bytes) // _PAGE_BYTES))

    def count(self, header: Header, block: memoryview) -> Counts:  # noqa: ARG002 - bits are bits
        """Count set bits: they say nothing, and are stored to find damage."""
        return Counts((popcount(block),))

    def fpr(self, header: Header, counts: Counts) -> float:  # noqa: ARG002 - whatever the keys are
        """Return 2^-w: the chance that w uniform bits agree."""
        shape = self.shape(header)
        return float(2.0**-shape.fingerprint_bits) if shape.num_shards else 0.0

    def facts(self, header: Header) -> dict[str, Any]:
        """Tell the shape."""
        shape = self.shape(header)
        return {name: getattr(shape, name) for name in FIELDS}

    def fact_rows(self, facts: dict[str, Any]) -> list[tuple[str, str]]:
        """Describe the fingerprints."""
        width, shards = facts["fingerprint_bits"], facts["num_shards"]
        return [("shards", f"{shards:,}, with fingerprints of {width} bits")]
