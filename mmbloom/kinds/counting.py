"""Kind counting: a counter of four bits for each place, so that keys can be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.engine import View, counter_histogram, flatten_counters, unite_counters
from mmbloom.format.fields import COUNTER_BITS, HASH
from mmbloom.format.header import new_header
from mmbloom.kinds.bloom import BloomKind
from mmbloom.kinds.bloom_assembly import counter_pieces
from mmbloom.kinds.kind import Plan
from mmbloom.kinds.spec import fresh
from mmbloom.sizing.bloom import BloomGeometry, model_fpr, plan_counters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmbloom.format.header import Header
    from mmbloom.kinds.partitions import PartitionReader, Threads


class CountingKind(BloomKind):
    """Counting Bloom filters: layout narrow, with a counter where that has a bit."""

    name = "counting"
    layouts = ("counters",)
    place_bits = COUNTER_BITS
    can_remove = True
    needs_distinct = True
    is_sealed_when_built = False

    def geometry_for(self, capacity: int, fpr: float, layout: str) -> BloomGeometry:  # noqa: ARG002
        """Return the geometry of fewest counters."""
        return plan_counters(capacity, fpr)

    def plans(self, capacity: int, fpr: float) -> list[Plan]:
        """Return the row of the only layout."""
        geometry = plan_counters(capacity, fpr)
        return [
            Plan(
                self.name,
                geometry.layout,
                geometry.num_bits,
                geometry.payload_bytes,
                geometry.num_probes,
                1,
                1,
                HASH.size * capacity,
                model_fpr(*geometry, capacity),
                "add, remove, unite",
            )
        ]

    def pieces(
        self, header: Header, reader: PartitionReader, threads: Threads, memory_bytes: int
    ) -> Iterator[memoryview]:
        """Yield the counters."""
        del memory_bytes  # a piece at a time
        return counter_pieces(header, reader, threads)

    def view(self, header: Header, payload: memoryview, *, writable: bool) -> View:
        """Return a view of the counters."""
        shape = header.num_bits // COUNTER_BITS, header.num_probes
        numbers = header.layout, header.probe_scheme, shape
        return View(payload, *numbers, header.seed, header.key_form, writable)

    def num_places(self, part: memoryview) -> int:
        """Return how many counters are not zero."""
        return sum(x * lines for x, lines in enumerate(counter_histogram(part)[0]))

    def num_saturated(self, payload: memoryview) -> int:
        """Return how many counters are full."""
        return counter_histogram(payload)[1]

    def unite(self, target: memoryview, other: memoryview) -> None:
        """Add the counters of *other* to those of *target*, up to 15."""
        unite_counters(target, other)

    def flat_header(self, header: Header) -> Header:
        """Return the header of the Bloom filter that has a bit for each counter."""
        flat = new_header(
            layout="narrow",
            num_bits=header.num_bits // COUNTER_BITS,
            num_probes=header.num_probes,
            capacity=header.capacity,
            fpr=header.fpr,
            uuid=header.uuid,
            created_unix_ns=header.created_unix_ns,
            seed=header.seed,
            key_form=header.key_form_name,
            metadata=header.metadata,
            overfill=bool(header.overfill),
        )
        return fresh(flat)

    def flat_payload(self, header: Header, payload: memoryview) -> bytearray:
        """Return the payload that belongs to flat_header()."""
        bits = bytearray(self.flat_header(header).payload_bytes)
        flatten_counters(payload, bits)
        return bits

    def facts(self, header: Header) -> dict[str, Any]:
        """Tell the number of counters too."""
        return super().facts(header) | {"num_counters": header.num_bits // COUNTER_BITS}

    def fact_rows(self, facts: dict[str, Any]) -> list[tuple[str, str]]:
        """Describe the counters."""
        full = f"{facts['num_saturated']:,} at their maximum of 15"
        return [("counters", f"{facts['num_counters']:,} of {COUNTER_BITS} bits, {full}")]
