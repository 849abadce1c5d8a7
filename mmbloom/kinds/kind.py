"""The interface of a kind: everything that differs between kinds of filters, in one object.

Outside this room no code asks which kind or layout a filter has. It asks the kind instead: ``Kind``
is the list of the questions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from mmbloom.engine import popcount
from mmbloom.errors import ParameterError
from mmbloom.format.fields import CHUNK_BYTES, HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mmbloom.engine import View
    from mmbloom.format.header import Header
    from mmbloom.kinds.bloom_direct import DirectPayload
    from mmbloom.kinds.partitions import Attempt, Counted, PartitionReader, Threads
    from mmbloom.kinds.spec import FilterSpec

# FORMAT.md, "The rate that the set bits give". Whole pages, and a size that writes well.
BLOCK_BYTES = 8 << 20


class Plan(NamedTuple):
    """What a filter would cost: one layout of one kind.

    Attributes:
        kind: name of the kind.
        layout: name of the layout.
        num_bits: size of the payload in bits.
        payload_bytes: the same in the file, padded to whole cache lines.
        num_probes: places that a look-up reads.
        cache_lines: cache lines that a look-up touches.
        page_faults: reads from the disk that a look-up waits for while the file is not in memory.
        build_memory_bytes: memory to build it in one step.
        fpr: false-positive rate when it holds as many keys as planned.
        later: what can be done with the filter later, for example "add, unite".
    """

    kind: str
    layout: str
    num_bits: int
    payload_bytes: int
    num_probes: int
    cache_lines: int
    page_faults: int
    build_memory_bytes: int
    fpr: float
    later: str

    @property
    def file_bytes(self) -> int:
        """Size of the file: header, payload and checksums."""
        return HEADER_BYTES + self.payload_bytes + 8 * -(-self.payload_bytes // CHUNK_BYTES)


class Counts(NamedTuple):
    """What was counted in a payload, or in a part of it that begins and ends with a block.

    Counts of parts add up. A kind fills what it needs.

    Attributes:
        places: places that are set; for layouts with halves, in the lower and in the upper halves.
        histogram: how many cache lines have x places set, x = 0, 1, ...; empty if not needed.
        fills: chances of the pages of each part to answer "maybe", summed for each part.
        num_saturated: counters that are full.
    """

    places: tuple[int, ...]
    histogram: Sequence[int] = ()
    fills: tuple[float, ...] = ()
    num_saturated: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the counts of both parts together, *other* being the one that follows."""
        return Counts(
            tuple(map(sum, zip(self.places, other.places, strict=True))),
            [*map(sum, zip(self.histogram, other.histogram, strict=True))],
            self.fills + other.fills,
            self.num_saturated + other.num_saturated,
        )

    @property
    def total(self) -> int:
        """All places that are set."""
        return sum(self.places)


class Kind(ABC):
    """One kind of filter. There is one object for each kind, in ``KINDS``."""

    name: ClassVar[str]
    layouts: ClassVar[tuple[str, ...]]  # those that a user may ask for; "auto" is always allowed
    place_bits: ClassVar[int] = 1  # bits of the payload for each place that can be set
    can_add: ClassVar[bool]  # one key at a time, to a file that is not sealed
    can_remove: ClassVar[bool] = False
    needs_distinct: ClassVar[bool] = True  # adding a key twice differs from adding it once
    is_sealed_when_built: ClassVar[bool] = True
    can_unite: ClassVar[bool] = True
    has_even_fill: ClassVar[bool] = True  # so that a hole in the payload means lost data
    why_fixed: ClassVar[str] = ""  # of a kind that no key can be added to: what to do instead

    # -- making ------------------------------------------------------------------------------------

    def check_layout(self, layout: object) -> None:
        """Raise ParameterError unless *layout* is one of this kind, or "auto"."""
        if layout not in ("auto", *self.layouts):
            rule = f"'auto' or {', '.join(self.layouts)} for kind {self.name}"
            raise ParameterError("layout", rule, layout)

    @abstractmethod
    def header(self, spec: FilterSpec, num_keys: int | None = None) -> Header:
        """Return the header of a filter that *spec* asks for.

        Args:
            spec: what is asked for, checked. If it names no capacity, *num_keys* is the capacity.
            num_keys: distinct keys that it will hold; None if it is to be filled later.

        Raises:
            ParameterError: the kind cannot be made like this.
        """

    @abstractmethod
    def plans(self, capacity: int, fpr: float) -> list[Plan]:
        """Return what each layout would cost, best known first; empty if none has such a rate.

        Raises:
            ParameterError: *capacity* or *fpr* is out of range.
        """

    # -- building: partitions of hashes become a payload -------------------------------------------

    def lane_bytes(self, spec: FilterSpec, counts: Sequence[int] | None = None) -> int:  # noqa: ARG002 - most kinds need none
        """Return the memory that attempts() needs for one thread beside the partitions.

        Args:
            spec: what is asked for.
            counts: distinct keys of each partition; None for what is enough for any number.
        """
        return 0

    @abstractmethod
    def attempts(
        self,
        spec: FilterSpec,
        counted: Counted,
        reader: PartitionReader,
        threads: Threads,
        memory_bytes: int,
    ) -> Iterator[Attempt]:
        """Yield a header and the pieces of the payload; after a ConstructionError the next try.

        Args:
            spec: what is asked for.
            counted: the distinct keys.
            reader: of their partitions.
            threads: to make the pieces in.
            memory_bytes: what the build may use, the reader's memory included.
        """

    def direct(self, header: Header, threads: Threads) -> DirectPayload:
        """Return a payload that is filled as keys are read, unless the kind needs_distinct."""
        raise NotImplementedError

    # -- looking up --------------------------------------------------------------------------------

    @abstractmethod
    def view(self, header: Header, payload: memoryview, *, writable: bool) -> View:
        """Return the engine's view of a payload, with which keys are looked up and added."""

    def index_pages(self, header: Header) -> range:  # noqa: ARG002 - most kinds have none
        """Return the 4 KiB pages of the payload that every look-up reads, whatever the key."""
        return range(0)

    # -- counting ----------------------------------------------------------------------------------

    @abstractmethod
    def count(self, header: Header, block: memoryview) -> Counts:
        """Count one block of BLOCK_BYTES, or the last of a payload. Releases the GIL."""

    def num_places(self, part: memoryview) -> int:
        """Return how many places are set in a part of a payload, in whole cache lines."""
        return popcount(part)

    @abstractmethod
    def fpr(self, header: Header, counts: Counts) -> float:
        """Return the chance that a key that was never added is answered "maybe"."""

    # The next four are for kinds that keys can be added to.

    def places(self, header: Header, part: memoryview) -> tuple[int, ...]:
        """Count only what estimate_keys() takes, in a part of a payload."""
        raise NotImplementedError

    def estimate_keys(self, header: Header, places: tuple[int, ...]) -> float:
        """Estimate how many distinct keys set *places*, which ``Counts`` describes."""
        raise NotImplementedError

    def fewest_keys(self, header: Header, estimate: float) -> int:
        """Return a number of keys that is not too high where *estimate* were counted."""
        raise NotImplementedError

    def forecast(self, header: Header, payload: memoryview, num_new_keys: int) -> float:
        """Return what fpr() will give once that many more distinct keys are in, 1 or more."""
        raise NotImplementedError

    def num_saturated(self, payload: memoryview) -> int:  # noqa: ARG002 - only counters are full
        """Return how many counters are full; 0 for kinds without counters."""
        return 0

    # -- uniting -----------------------------------------------------------------------------------

    def unite(self, target: memoryview, other: memoryview) -> None:
        """Change *target*, a part of a payload, to the union with the same part of another."""
        raise NotImplementedError

    # -- telling -----------------------------------------------------------------------------------

    @abstractmethod
    def facts(self, header: Header) -> dict[str, Any]:
        """Return what only filters of this kind say of themselves, for ``info``."""

    def fact_rows(self, facts: dict[str, Any]) -> list[tuple[str, str]]:  # noqa: ARG002 - as above
        """Return rows (label, text) for people, made from what ``info`` returned."""
        return []


def blocks_of(payload: memoryview) -> list[memoryview]:
    """Return the blocks of a payload, in order."""
    return [payload[at : at + BLOCK_BYTES] for at in range(0, len(payload), BLOCK_BYTES)]
