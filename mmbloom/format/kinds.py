"""The kinds of filters as the format sees them: a closed table with one row for each kind.

The checks of the header and of the status slots read the row. They never ask which kind a file has.
A new kind is one new row here, a file for the rules of the fields that only it has (as ``fuse``),
and the rows of those fields in the header table. The numbers are part of the format: FORMAT.md,
"Numbers", has them too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmbloom.format.fields import COUNTER_BITS, KIND_BLOOM, KIND_COUNTING, KIND_FUSE
from mmbloom.format.fuse import FIELDS as FUSE_FIELDS
from mmbloom.format.fuse import check_fuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mmbloom.format.fields import Refuse
    from mmbloom.format.header import Header


class LayoutRule(NamedTuple):
    """What a layout fixes: its numbers, the kind that has it, and the bounds of other fields."""

    number: int
    kind: int
    probe_scheme: int
    block_bytes: int
    max_probes: int

    @property
    def num_bits_step(self) -> int:
        """num_bits is a multiple of this: whole blocks, or any number of bits without blocks."""
        return 8 * self.block_bytes or 1


def _has_no_own_fields(header: Header, layout: LayoutRule, refuse: Refuse) -> None:
    """Check nothing: the kind has no fields of its own."""


class KindRow(NamedTuple):
    """What the format fixes for one kind.

    Attributes:
        number, name: the kind in the header, and in messages.
        layouts: the layouts that the kind may have.
        own_fields: the header fields that are 0 for every other kind.
        check_own: checks those fields, and what follows from them.
        can_be_writable: whether a file may have the state WRITABLE.
        canaries_while_writable: whether a WRITABLE file may hold canaries; not if keys can be
            removed from it.
        counter_bits: bits of each counter, 0 without counters; a counter can be saturated.
    """

    number: int
    name: str
    layouts: Mapping[str, LayoutRule]
    own_fields: tuple[str, ...] = ()
    check_own: Callable[[Header, LayoutRule, Refuse], None] = _has_no_own_fields
    can_be_writable: bool = True
    canaries_while_writable: bool = True
    counter_bits: int = 0

    def max_saturated(self, num_bits: int) -> int:
        """Return the most saturated counters that a payload of *num_bits* can have."""
        return num_bits // self.counter_bits if self.counter_bits else 0


BLOOM = KindRow(
    number=KIND_BLOOM,
    name="bloom",
    layouts={
        "classic": LayoutRule(1, KIND_BLOOM, 1, 0, 64),
        "line": LayoutRule(2, KIND_BLOOM, 2, 64, 16),
        "page": LayoutRule(3, KIND_BLOOM, 3, 4096, 32),
        "narrow": LayoutRule(4, KIND_BLOOM, 4, 16, 16),
    },
)
FUSE = KindRow(
    number=KIND_FUSE,
    name="fuse",
    layouts={
        "fuse3": LayoutRule(5, KIND_FUSE, 5, 0, 3),
        "fuse4": LayoutRule(6, KIND_FUSE, 6, 0, 4),
    },
    own_fields=FUSE_FIELDS,
    check_own=check_fuse,
    can_be_writable=False,
)
COUNTING = KindRow(
    number=KIND_COUNTING,
    name="counting",
    # A counter for each bit of `narrow`, so the probe scheme is the same.
    layouts={"counters": LayoutRule(7, KIND_COUNTING, 4, 64, 16)},
    canaries_while_writable=False,
    counter_bits=COUNTER_BITS,
)

KIND_ROWS = {row.number: row for row in (BLOOM, FUSE, COUNTING)}
KIND_NAMES = {row.number: row.name for row in KIND_ROWS.values()}
OWN_FIELDS = tuple(name for row in KIND_ROWS.values() for name in row.own_fields)
LAYOUT_RULES = {name: rule for row in KIND_ROWS.values() for name, rule in row.layouts.items()}
LAYOUT_NAMES = {rule.number: name for name, rule in LAYOUT_RULES.items()}
# A scheme has the name of the first layout that uses it.
SCHEME_NAMES = {rule.probe_scheme: f"{name}-1" for name, rule in reversed(LAYOUT_RULES.items())}
