"""The two status slots of the header page: all that changes during a file's life.

A slot is one disk sector with its own checksum. Writers alternate between the two, so that a torn
write is harmless; ``choose_slot`` has the reader's rules, of FORMAT.md section "Status slots".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from mmbloom.engine import checksum64
from mmbloom.errors import ParameterError
from mmbloom.format.fields import (
    COUNTER_BITS,
    FINGERPRINT_KNOWN,
    HASH,
    KEYS_EXACT,
    KIND_BLOOM,
    KIND_COUNTING,
    KIND_FUSE,
    MAX_CANARIES,
    MAX_NUM_BITS,
    SEALED,
    SLOT_BYTES,
    SLOT_OFFSETS,
    STATUS,
    WRITABLE,
    WRITER_OPEN,
    Rule,
    check_parameters,
    is_zero,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHECKED_BYTES = SLOT_BYTES - 8
_ALL_FLAGS = WRITER_OPEN | KEYS_EXACT | FINGERPRINT_KNOWN
_LOW64 = (1 << 64) - 1


class Status(NamedTuple):
    """One status slot, without its checksum. ``Status()`` is that of a new, empty, writable file.

    ``key_set`` is the sum of the distinct hashes mod 2^128, 0 unless FINGERPRINT_KNOWN;
    ``canaries`` are up to 8 hashes (hi, lo) of keys that are in the filter; ``num_saturated`` is
    for kind 3, counting, alone.
    """

    sequence: int = 1
    state: int = WRITABLE
    flags: int = 0
    keys_added: int = 0
    bits_set: int = 0
    achieved_fpr: float = 0.0
    checksum_root: int = 0
    generation: int = 1
    key_set: int = 0
    canaries: tuple[tuple[int, int], ...] = ()
    num_saturated: int = 0

    @property
    def is_sealed(self) -> bool:
        """Whether writing has ended for good."""
        return self.state == SEALED

    @property
    def writer_open(self) -> bool:
        """Whether a writer has the file open, or died: then keys_added is a lower bound."""
        return bool(self.flags & WRITER_OPEN)

    @property
    def keys_exact(self) -> bool:
        """Whether keys_added is the exact number of distinct keys."""
        return bool(self.flags & KEYS_EXACT)

    @property
    def fingerprint_known(self) -> bool:
        """Whether key_set covers every key of the filter."""
        return bool(self.flags & FINGERPRINT_KNOWN)


class Choice(NamedTuple):
    """The status that counts, the slot it is in, and whether the other slot was damaged."""

    status: Status
    slot_index: int
    recovered: bool


def pack_status(status: Status) -> bytes:
    """Return the 512 bytes of one slot.

    Raises:
        ParameterError: a reader would refuse the slot, so it must not be written.
    """
    num_canaries = len(status.canaries)
    few = num_canaries <= MAX_CANARIES
    check_parameters([Rule("canaries", few, f"at most {MAX_CANARIES} hashes", num_canaries)])
    try:
        values = status._asdict() | {
            "key_set": HASH.pack(status.key_set >> 64, status.key_set & _LOW64),
            "num_canaries": num_canaries,
            "canaries": b"".join(HASH.pack(*canary) for canary in status.canaries),
            "slot_checksum": 0,
        }
        slot = STATUS.pack(values)
    except struct.error as exc:
        rule = "numbers that fit their fields"
        raise ParameterError(name="status", rule=rule, found=status, hint=str(exc)) from exc
    check_parameters(_rules(STATUS.unpack(slot), MAX_NUM_BITS))
    checked = slot[:_CHECKED_BYTES]
    return checked + checksum64(checked).to_bytes(8, "little")


def choose_slot(page: bytes, path: str, num_bits: int, kind: int = KIND_BLOOM) -> Choice:
    """Return the status that counts of the two in *page*, a whole header page.

    While WRITABLE a damaged slot is a torn write: the other one counts, and ``recovered`` says so.
    A SEALED file has no such excuse: both slots must be sound. A reader beside a live writer may
    meet a slot half written, so it reads the page again before it believes an error in
    ``slot_checksum``.

    Raises:
        FormatError: naming the first field that breaks a rule, with its offset in the file.
    """
    slots = [page[offset : offset + SLOT_BYTES] for offset in SLOT_OFFSETS]
    checksums = [_checksum_rule(slot) for slot in slots]
    statuses = [
        _read_slot(slot, path, base, num_bits, kind) if checksum.holds else None
        for slot, base, checksum in zip(slots, SLOT_OFFSETS, checksums, strict=True)
    ]
    slot_a, slot_b = statuses
    if slot_a is not None and slot_b is not None:
        return Choice(*_newer(slot_a, slot_b, path), recovered=False)
    for index, survivor in enumerate(statuses):
        if survivor is not None and not survivor.is_sealed:
            return Choice(survivor, index, recovered=True)
    damaged = 0 if slot_a is None else 1
    raise STATUS.error(checksums[damaged], path, SLOT_OFFSETS[damaged])


def _checksum_rule(slot: bytes) -> Rule:
    computed = checksum64(slot[:_CHECKED_BYTES])
    stored = int.from_bytes(slot[_CHECKED_BYTES:], "little")
    return Rule("slot_checksum", computed == stored, f"{computed:#018x}", f"{stored:#018x}")


def _read_slot(slot: bytes, path: str, base: int, num_bits: int, kind: int) -> Status:
    """Return the status in a slot whose checksum holds: a fault here was written so, not torn."""
    values = STATUS.unpack(slot)
    STATUS.check(_rules(values, num_bits), path, base)
    STATUS.check(_kind_rules(values, num_bits, kind), path, base)
    high, low = HASH.unpack(values["key_set"])
    values["key_set"] = high << 64 | low
    values["canaries"] = tuple(HASH.iter_unpack(values["canaries"]))[: values["num_canaries"]]
    return Status(**{name: values[name] for name in Status._fields})


def _kind_rules(values: dict[str, Any], num_bits: int, kind: int) -> Iterator[Rule]:
    """Yield what the kind of the filter adds to the rules of the table."""
    state, full = values["state"], values["num_saturated"]
    if kind == KIND_FUSE:
        yield Rule("state", state == SEALED, "2 (SEALED) for kind fuse", state)
    most = num_bits // COUNTER_BITS if kind == KIND_COUNTING else 0
    expected = f"at most {most}" if most else "0 but for kind counting"
    yield Rule("num_saturated", full <= most, expected, full)
    if kind == KIND_COUNTING and state == WRITABLE:  # its keys may be removed
        found = values["num_canaries"]
        yield Rule("num_canaries", not found, "0 while WRITABLE for kind counting", found)


def _newer(slot_a: Status, slot_b: Status, path: str) -> tuple[Status, int]:
    """Return the one of two sound slots that counts, and its index."""
    if slot_a == slot_b:
        return slot_a, 0
    index = int(slot_b.sequence > slot_a.sequence)
    newer, older = ((slot_a, slot_b), (slot_b, slot_a))[index]
    if newer.sequence == older.sequence or older.is_sealed:
        # Slots of one sequence are copies, and nothing follows SEALED but its copy.
        STATUS.check(_equal_rules(slot_a, slot_b), path, SLOT_OFFSETS[1])
    before = newer.sequence - 1
    follows = not newer.is_sealed or older.sequence == before
    rule = Rule("sequence", follows, f"{before}, one before the sealed slot", older.sequence)
    STATUS.check([rule], path, SLOT_OFFSETS[1 - index])
    return newer, index


def _equal_rules(slot_a: Status, slot_b: Status) -> Iterator[Rule]:
    for name, in_a, in_b in zip(Status._fields, slot_a, slot_b, strict=True):
        yield Rule(name, in_a == in_b, f"{in_a}, as in slot A", in_b)


def _rules(values: dict[str, Any], num_bits: int) -> Iterator[Rule]:
    """Yield every rule of the status table, in its order."""
    state, flags = values["state"], values["flags"]
    bits_set, achieved_fpr = values["bits_set"], values["achieved_fpr"]
    root, num_canaries = values["checksum_root"], values["num_canaries"]
    sealed = state == SEALED
    most_bits, highest_fpr = (num_bits, 1) if sealed else (0, 0)
    yield Rule("state", state in {WRITABLE, SEALED}, "1 (WRITABLE) or 2 (SEALED)", state)
    yield Rule("flags", not flags & ~_ALL_FLAGS, f"no bits but {_ALL_FLAGS:#x}", f"{flags:#x}")
    closed = not (sealed and flags & WRITER_OPEN)
    yield Rule("flags", closed, "no WRITER_OPEN bit while SEALED", f"{flags:#x}")
    yield Rule("bits_set", bits_set <= most_bits, f"at most {most_bits}", bits_set)
    fpr_holds = 0 <= achieved_fpr <= highest_fpr
    yield Rule("achieved_fpr", fpr_holds, f"0 to {highest_fpr}", achieved_fpr)
    yield Rule("checksum_root", sealed or not root, "0 while WRITABLE", f"{root:#018x}")
    key_set_holds = bool(flags & FINGERPRINT_KNOWN) or is_zero(values["key_set"])
    yield Rule("key_set", key_set_holds, "zeros without FINGERPRINT_KNOWN", "other bytes")
    few = num_canaries <= MAX_CANARIES
    yield Rule("num_canaries", few, f"at most {MAX_CANARIES}", num_canaries)
    rest_is_zero = is_zero(values["canaries"][16 * num_canaries :])
    yield Rule("canaries", rest_is_zero, f"zeros after the first {num_canaries}", "other bytes")
    yield from STATUS.zero_rules(values)
