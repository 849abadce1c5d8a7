"""The table of kinds: its rows agree with each other and with the header."""

from __future__ import annotations

import pytest

from mmbloom.errors import FormatError
from mmbloom.format.fields import HEADER, SEALED, SLOT_OFFSETS, STATUS
from mmbloom.format.header import Header, new_header
from mmbloom.format.kinds import BLOOM, KIND_ROWS, LAYOUT_RULES, OWN_FIELDS, KindRow
from mmbloom.format.status import Status, choose_slot

LINE = new_header(
    layout="line",
    num_bits=5120,
    num_probes=7,
    capacity=500,
    fpr=0.01,
    uuid=bytes(16),
    created_unix_ns=0,
)
# A kind that does not exist: the checks know it by its row alone.
TRIAL = BLOOM._replace(
    number=99,
    name="trial",
    canaries_while_writable=False,
    counter_bits=2,
)


def refusal(status: Status, kind: KindRow) -> FormatError:
    """Return the error for a page whose slots hold *status*, in a file of *kind*."""
    with pytest.raises(FormatError) as caught:
        choose_slot(LINE.pack(status), "a.mmb", LINE.num_bits, kind)
    return caught.value


@pytest.mark.parametrize("row", KIND_ROWS.values(), ids=lambda row: row.name)
def test_each_layout_belongs_to_the_kind_that_lists_it(row: KindRow) -> None:
    """The number of the kind in a layout is that of its row, and no two kinds share a layout."""
    assert row.layouts
    assert all(rule.kind == row.number for rule in row.layouts.values())
    assert all(LAYOUT_RULES[name] is rule for name, rule in row.layouts.items())


def test_numbers_and_names_are_unique() -> None:
    """A number in the header has one meaning."""
    numbers = [rule.number for row in KIND_ROWS.values() for rule in row.layouts.values()]

    assert len(set(numbers)) == len(numbers)
    assert len({row.name for row in KIND_ROWS.values()}) == len(KIND_ROWS)
    assert set(KIND_ROWS) == set(range(1, len(KIND_ROWS) + 1))


def test_own_fields_are_header_fields_of_one_kind_each() -> None:
    """For every other kind they are zero."""
    assert len(set(OWN_FIELDS)) == len(OWN_FIELDS)
    assert set(OWN_FIELDS) <= set(HEADER.offsets)
    assert all(getattr(LINE, name) == 0 for name in OWN_FIELDS)


def test_header_attributes_are_in_the_order_of_the_table() -> None:
    """Header.unpack() reads them with one struct, so the order must be the same."""
    in_table = [name for name in HEADER.offsets if name in Header._fields]

    assert in_table == list(Header._fields[:-1])
    assert Header._fields[-1] == "metadata_json"


def test_status_attributes_are_in_the_order_of_the_table() -> None:
    """The same for the status slots; num_canaries stands before the canaries."""
    in_table = [name for name in STATUS.offsets if name in Status._fields]

    assert in_table == list(Status._fields)
    assert list(STATUS.offsets).index("num_canaries") + 2 == list(STATUS.offsets).index("canaries")


def test_a_new_kind_is_checked_by_its_row_alone() -> None:
    """No check of the status asks which kind it has."""
    most = LINE.num_bits // 2
    full = Status(num_saturated=most + 1)
    canary = Status(canaries=((1, 2),))

    assert str(refusal(full, TRIAL).expected) == f"at most {most}"
    assert refusal(canary, TRIAL).expected == "0 while WRITABLE for kind trial"
    assert refusal(Status(), TRIAL._replace(can_be_writable=False)).field == "state"
    sealed = Status(state=SEALED, canaries=((1, 2),), num_saturated=most)
    assert choose_slot(LINE.pack(sealed), "a.mmb", LINE.num_bits, TRIAL).status == sealed


def test_a_rule_of_a_kind_names_the_kind_and_the_offset() -> None:
    """As every refusal does."""
    error = refusal(Status(num_saturated=1), BLOOM)

    assert (error.field, error.found) == ("num_saturated", 1)
    assert error.offset == SLOT_OFFSETS[0] + STATUS.offsets["num_saturated"]
    assert error.expected == "0 for kind bloom"
