"""Looking keys up in a payload and changing it: FORMAT.md has a section for each kind.

A shape is all that the places of a key depend on besides its hash. There is one class for each way
in which a payload stores keys; ``View`` chooses it by the layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.engine.reference.counting import Counters
from mmbloom.engine.reference.fuse import Fuse
from mmbloom.engine.reference.hashes import HASH, batch_hashes
from mmbloom.engine.reference.probes import MAX_PROBES, probes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from _typeshed import ReadableBuffer as Buffer
    from _typeshed import WriteableBuffer

    from mmbloom.engine.reference.keys import Batch

    class Shape(Protocol):
        """How a payload stores keys."""

        @property
        def num_bytes(self) -> int:
            """Return the bytes of the payload."""

        def contains(self, payload: memoryview, hi: int, lo: int) -> bool:
            """Return whether a key is "maybe"."""

        def bytes_read(self, payload: memoryview, hi: int, lo: int) -> Iterable[int]:
            """Return the bytes of the payload that a look-up reads."""


PAGE_BYTES = 4096
DIRTY_GROUP = 512  # pages that share a mark
SCHEMES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 4}  # the probe scheme of each layout
FUSE_LAYOUTS, COUNTERS_LAYOUT = (5, 6), 7
MOST_PROBES = {**MAX_PROBES, 5: 3, 6: 4, 7: 16}
BLOCK_BYTES = {1: 1, 2: 64, 3: 4096, 4: 16, 7: 64}  # all probes of a key lie in one block


class Bits:
    """The bits of a Bloom filter, which are set and never cleared."""

    skips_known = True  # adding a key that is "maybe" changes nothing

    def __init__(self, layout: int, num_bits: int, num_probes: int) -> None:
        self.geometry = layout, num_bits, num_probes
        self.num_bytes = -(-num_bits // 8)

    def contains(self, payload: memoryview, hi: int, lo: int) -> bool:
        """Return whether all bits are set."""
        return all(payload[i >> 3] >> (i & 7) & 1 for i in probes(*self.geometry, hi, lo))

    def bytes_read(self, payload: memoryview, hi: int, lo: int) -> list[int]:  # noqa: ARG002
        """Return where the bits lie."""
        return [bit >> 3 for bit in probes(*self.geometry, hi, lo)]

    def add(self, payload: memoryview, hi: int, lo: int) -> int:
        """Set the bits; return 0, because there are no counters that could become full."""
        for i in probes(*self.geometry, hi, lo):
            payload[i >> 3] |= 1 << (i & 7)
        return 0


class View:
    """One payload, and how it is looked up and changed; ``_kernel.pyi`` documents it."""

    def __init__(  # noqa: PLR0913, PLR0917 - the kernel's signature
        self,
        payload: Buffer,
        layout: int,
        probe_scheme: int,
        shape: tuple[int, ...],
        seed: int,
        key_form: int,
        writable: bool = False,  # noqa: FBT001, FBT002 - the kernel's signature
    ) -> None:
        if SCHEMES.get(layout) != probe_scheme:
            raise ValueError(f"layout {layout} with probe scheme {probe_scheme} is unknown")
        self._bits = memoryview(payload).cast("B")
        self._shape: Any = _shape_of(layout, shape)
        if writable and self._bits.readonly:
            raise BufferError("Object is not writable.")
        needed, size = self._shape.num_bytes, len(self._bits)
        if not 0 < needed <= size:
            raise ValueError(f"the payload needs {needed} bytes; the buffer has {size}")
        self.seed, self.key_form, self._writable = seed, key_form, writable
        self.pages_per_key = max(MAX_PROBES.values())
        self.load_pages: Callable[[list[int]], Any] | None = None
        self._marks: tuple[memoryview, memoryview] | None = None

    def watch(self, guard: object, report_cut: object) -> None:
        """Do nothing: there is no guard in this engine."""

    def contains(self, hi: int, lo: int) -> bool:
        """Answer for one hash."""
        found: bool = self._shape.contains(self._bits, hi, lo)
        return found

    def contains_hashes(self, hashes: Buffer, maybe: WriteableBuffer) -> None:
        """Answer for hashes."""
        answers = memoryview(maybe).cast("B")
        num_keys = memoryview(hashes).nbytes // HASH.size
        if num_keys > len(answers):
            raise ValueError(f"maybe holds {len(answers)} answers for {num_keys} hashes")
        for index, key in enumerate(HASH.iter_unpack(bytes(hashes))):
            answers[index] = self.contains(*key)

    def contains_batch(self, batch: Batch, maybe: WriteableBuffer) -> int:
        """Answer for a batch."""
        answers = memoryview(maybe).cast("B")
        if len(batch) > len(answers):
            raise ValueError(
                f"out holds {len(answers)} answers; the batch may have {len(batch)} keys"
            )
        count = 0
        for count, key in enumerate(batch_hashes(batch, self.seed, self.key_form), 1):
            answers[count - 1] = self.contains(*key)
        return count

    def pages_of(self, hashes: Buffer) -> list[int]:
        """Return the pages that look-ups read."""
        read = (self._shape.bytes_read(self._bits, *key) for key in HASH.iter_unpack(bytes(hashes)))
        return sorted({byte // PAGE_BYTES for some in read for byte in some})

    def count_of(self, digest: Buffer) -> int:
        """Return the least counter of one hash."""
        if not isinstance(self._shape, Counters):
            raise ValueError("this layout has no counters")  # noqa: TRY004 - the value of layout
        if len(bytes(digest)) != HASH.size:
            raise ValueError(f"a hash has {HASH.size} bytes, not {len(bytes(digest))}")
        return self._shape.least(self._bits, *HASH.unpack(bytes(digest)))

    def mark(self, pages: WriteableBuffer, groups: WriteableBuffer) -> None:
        """Mark changed pages there from now on."""
        num_pages = -(-len(self._bits) // PAGE_BYTES)
        marks = memoryview(pages).cast("B"), memoryview(groups).cast("B")
        if len(marks[0]) < num_pages or len(marks[1]) * DIRTY_GROUP < num_pages:
            given = f"{len(marks[0])} pages and {len(marks[1])} groups"
            raise ValueError(f"{given}; the payload has {num_pages} pages")
        self._marks = marks

    def add_many(self, hashes: Buffer, room: int) -> tuple[int, int, int]:
        """Add hashes in order while new keys fit into *room*."""
        if not self._writable or not hasattr(self._shape, "add"):
            raise ValueError("no key can be added to this payload")
        num_new = num_full = 0
        for done, key in enumerate(HASH.iter_unpack(bytes(hashes))):
            is_new = not self.contains(*key)
            if is_new and num_new >= room:
                return done, num_new, num_full
            if is_new or not self._shape.skips_known:
                num_full += self._change(self._shape.add, key)
            num_new += is_new
        return memoryview(hashes).nbytes // HASH.size, num_new, num_full

    def remove_many(self, hashes: Buffer) -> tuple[int, int]:
        """Remove hashes in order, up to the first that is absent."""
        if not self._writable or not isinstance(self._shape, Counters):
            raise ValueError("no key can be removed from this payload")
        num_gone = 0
        for done, key in enumerate(HASH.iter_unpack(bytes(hashes))):
            if not self.contains(*key):
                return done, num_gone
            self._change(self._shape.remove, key)
            num_gone += not self.contains(*key)
        return memoryview(hashes).nbytes // HASH.size, num_gone

    def _change(self, change: Callable[..., int], key: tuple[int, ...]) -> int:
        """Call *change* for one key, and mark the pages that it has changed."""
        if self._marks is None:
            return change(self._bits, *key)
        places = self._shape.bytes_read(self._bits, *key)
        before = [self._bits[i] for i in places]
        result = change(self._bits, *key)
        pages, groups = self._marks
        for i, byte in zip(places, before, strict=True):
            # The page of counters is marked even if all of them are full and stay as they are.
            if self._bits[i] != byte or isinstance(self._shape, Counters):
                pages[i // PAGE_BYTES] = groups[i // PAGE_BYTES // DIRTY_GROUP] = 1
        return result


def _shape_of(layout: int, numbers: tuple[int, ...]) -> Shape:
    num_probes = numbers[layout not in FUSE_LAYOUTS]
    if not 1 <= num_probes <= MOST_PROBES[layout]:
        raise ValueError(f"num_probes is {num_probes}, not 1 to {MOST_PROBES[layout]}")
    if layout in FUSE_LAYOUTS:
        return Fuse(*numbers)
    shape = Counters(*numbers) if layout == COUNTERS_LAYOUT else Bits(layout, *numbers)
    if shape.num_bytes % BLOCK_BYTES[layout]:
        blocks = f"not whole blocks of {BLOCK_BYTES[layout]}"
        raise ValueError(f"the payload needs {shape.num_bytes} bytes: {blocks}")
    return shape
