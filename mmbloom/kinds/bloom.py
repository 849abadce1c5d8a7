"""Kind bloom: a bit for each place, set for good."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from mmbloom.engine import View
from mmbloom.format.fields import HASH
from mmbloom.format.header import new_header
from mmbloom.kinds import forecasts
from mmbloom.kinds.bloom_assembly import bit_pieces
from mmbloom.kinds.bloom_direct import DirectPayload
from mmbloom.kinds.bloom_layouts import LAYOUTS
from mmbloom.kinds.kind import Kind, Plan
from mmbloom.sizing.bloom import BloomGeometry, model_fpr, plan
from mmbloom.sizing.estimates import estimate_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmbloom.format.header import Header
    from mmbloom.kinds.bloom_layouts import Layout
    from mmbloom.kinds.kind import Counts
    from mmbloom.kinds.partitions import Attempt, Counted, PartitionReader, Threads
    from mmbloom.kinds.spec import FilterSpec

_SIGMAS = 4  # one count in 30 000 is too high, and then by a fraction of its scatter


class BloomKind(Kind):
    """Bloom filters, in three layouts; a fourth, narrow, is what counting filters leave."""

    name = "bloom"
    layouts: ClassVar[tuple[str, ...]] = ("classic", "line", "page")
    can_add = True
    needs_distinct = False

    def header(self, spec: FilterSpec, num_keys: int | None = None) -> Header:
        """Return the header with the fewest bits."""
        self.check_layout(spec.layout)
        capacity = spec.capacity_for(num_keys)
        geometry = self.geometry_for(capacity, spec.fpr, spec.layout)
        return new_header(
            layout=geometry.layout,
            num_bits=geometry.num_bits,
            num_probes=geometry.num_probes,
            capacity=capacity,
            **spec.header_fields(),
        )

    def geometry_for(self, capacity: int, fpr: float, layout: str) -> BloomGeometry:
        """Return the geometry of fewest bits."""
        return plan(capacity, fpr, layout)

    def plans(self, capacity: int, fpr: float) -> list[Plan]:
        """Return a row for each layout, that of "auto" first."""
        auto = plan(capacity, fpr).layout
        rows = [self._plan(layout, capacity, fpr) for layout in self.layouts]
        return sorted(rows, key=lambda row: row.layout != auto)

    def _plan(self, layout: str, capacity: int, fpr: float) -> Plan:
        geometry = plan(capacity, fpr, layout)
        k = geometry.num_probes
        # Cache lines, page faults, and the memory beyond the hashes to build it in one pass.
        lines, faults, whole = {
            "classic": (k, k, geometry.payload_bytes),
            "line": (1, 1, 0),
            "page": (min(2, k), 1, 0),
        }[layout]
        return Plan(
            self.name,
            layout,
            geometry.num_bits,
            geometry.payload_bytes,
            k,
            lines,
            faults,
            HASH.size * capacity + whole,
            model_fpr(*geometry, capacity),
            "add, unite",
        )

    def attempts(
        self,
        spec: FilterSpec,
        counted: Counted,
        reader: PartitionReader,
        threads: Threads,
        memory_bytes: int,
    ) -> Iterator[Attempt]:
        """Yield the payload: any set of keys has one."""
        header = self.header(spec, counted.num_keys)
        yield header, self.pieces(header, reader, threads, memory_bytes)

    def pieces(
        self, header: Header, reader: PartitionReader, threads: Threads, memory_bytes: int
    ) -> Iterator[memoryview]:
        """Yield the bits."""
        return bit_pieces(header, reader, threads, memory_bytes)

    def direct(self, header: Header, threads: Threads) -> DirectPayload:
        """Return an empty payload of bits."""
        return DirectPayload(header, threads)

    def view(self, header: Header, payload: memoryview, *, writable: bool) -> View:
        """Return a view of the bits."""
        shape = header.num_bits, header.num_probes
        numbers = header.layout, header.probe_scheme, shape
        return View(payload, *numbers, header.seed, header.key_form, writable)

    def geometry(self, header: Header) -> BloomGeometry:
        """Return layout, num_bits and num_probes, with the sizes that follow from them."""
        return BloomGeometry(header.layout_name, header.num_bits, header.num_probes)

    def _layout(self, header: Header) -> Layout:
        return LAYOUTS[header.layout_name]

    def count(self, header: Header, block: memoryview) -> Counts:
        """Count set bits, and what the rate of the layout depends on."""
        return self._layout(header).count(self.geometry(header), block)

    def places(self, header: Header, part: memoryview) -> tuple[int, ...]:
        """Count set bits only."""
        return self._layout(header).places(part)

    def fpr(self, header: Header, counts: Counts) -> float:
        """Return the rate of the layout."""
        return self._layout(header).fpr(self.geometry(header), counts)

    def forecast(self, header: Header, payload: memoryview, num_new_keys: int) -> float:
        """Return the rate of the layout, exact for ideal probes."""
        geometry, layout = self.geometry(header), self._layout(header)
        return forecasts.rounded(layout.forecast(geometry, payload, num_new_keys))

    def estimate_keys(self, header: Header, places: tuple[int, ...]) -> float:
        """Return what ``sizing.estimates`` makes of the set bits."""
        return estimate_keys(self.geometry(header), places)

    def fewest_keys(self, header: Header, estimate: float) -> int:
        """Return *estimate* less four sigma.

        For counts that are compared with the capacity, up to which a filter promises to take keys:
        a count that is too high would refuse keys for which there is room. With m bits, k probes, n
        keys and r = k n / m the number of zero bits has the variance m e^-2r (e^r - 1 - r), as in
        any occupancy problem, and one zero bit less is e^r / k keys more. Blocked layouts scatter a
        few percent more.
        """
        geometry = self.geometry(header).flat
        load = geometry.num_probes * estimate / geometry.num_bits
        sigma = math.sqrt(geometry.num_bits * (math.expm1(load) - load)) / geometry.num_probes
        return max(0, round(estimate - _SIGMAS * sigma))

    def unite(self, target: memoryview, other: memoryview) -> None:
        """Set the bits of *other* in *target*."""
        import numpy as np

        bits = np.frombuffer(target, np.uint8)
        np.bitwise_or(bits, np.frombuffer(other, np.uint8), out=bits)

    def facts(self, header: Header) -> dict[str, Any]:
        """Tell whether keys beyond the capacity are taken."""
        return {"overfill": bool(header.overfill)}
