"""The two status slots of the header page: everything that changes during a file's life.

A slot is one disk sector with its own checksum. Writers alternate between the two, so a torn write
is harmless. ``choose_slot`` implements the reader's rules in FORMAT.md, section "Status slots".
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from mmbloom.engine import checksum64
from mmbloom.errors import ParameterError
from mmbloom.format.fields import (
    HASH,
    KEY_SET_KNOWN,
    KEYS_EXACT,
    MAX_CANARIES,
    MAX_NUM_BITS,
    SEALED,
    SLOT_BYTES,
    SLOT_OFFSETS,
    STATUS,
    WRITABLE,
    WRITER_OPEN,
    refuse_parameter,
)
from mmbloom.format.kinds import BLOOM

if TYPE_CHECKING:
    from mmbloom.format.fields import Refuse
    from mmbloom.format.kinds import KindRow

_CHECKED_BYTES = SLOT_BYTES - 8
_ALL_FLAGS = WRITER_OPEN | KEYS_EXACT | KEY_SET_KNOWN
_LOW64 = (1 << 64) - 1
_CANARIES_START = STATUS.offsets["canaries"]
_CANARIES_END = _CANARIES_START + MAX_CANARIES * HASH.size
_ZEROS = bytes(SLOT_BYTES)


class Status(NamedTuple):
    """One status slot, without its checksum. ``Status()`` is that of a new, empty, writable file.

    ``key_set`` is the sum of the distinct hashes mod 2^128, and 0 unless KEY_SET_KNOWN is set;
    ``canaries`` are up to 8 hashes (hi, lo) of keys that the filter contains; ``num_saturated`` is
    0 for a kind without counters.
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
        """Whether the file is finished: a sealed file never changes."""
        return self.state == SEALED

    @property
    def writer_open(self) -> bool:
        """Whether a writer has the file open, or died. If so, keys_added is a lower bound."""
        return bool(self.flags & WRITER_OPEN)

    @property
    def keys_exact(self) -> bool:
        """Whether keys_added is the exact number of distinct keys."""
        return bool(self.flags & KEYS_EXACT)

    @property
    def key_set_known(self) -> bool:
        """Whether key_set covers every key of the filter."""
        return bool(self.flags & KEY_SET_KNOWN)


_SLOT = STATUS.select([*Status._fields, "num_canaries"])


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
    if num_canaries > MAX_CANARIES:
        refuse_parameter("canaries", f"at most {MAX_CANARIES} hashes", num_canaries)
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
    _check_status(status, MAX_NUM_BITS, refuse_parameter)
    checked = slot[:_CHECKED_BYTES]
    return checked + checksum64(checked).to_bytes(8, "little")


def _checksums(slot: bytes) -> tuple[int, int]:
    """Return the checksum of the slot's bytes, and the one that it stores."""
    return checksum64(slot[:_CHECKED_BYTES]), int.from_bytes(slot[_CHECKED_BYTES:], "little")


def _refuse_checksum(slot: bytes, path: str, base: int) -> NoReturn:
    computed, stored = _checksums(slot)
    STATUS.refuse(path, base, "slot_checksum", f"{computed:#018x}", f"{stored:#018x}")


def choose_slot(page: bytes, path: str, num_bits: int, kind: KindRow = BLOOM) -> Choice:
    """Return the status that counts of the two in *page*, a whole header page.

    While WRITABLE, a damaged slot is a torn write: the other slot counts, and ``recovered`` is
    True. Both slots of a SEALED file must be undamaged. A reader beside a live writer may see a
    half-written slot, so it reads the page again before it reports an error in ``slot_checksum``.

    Raises:
        FormatError: naming the first field that breaks a rule, with its offset in the file.
    """
    slot_a, slot_b = (page[offset : offset + SLOT_BYTES] for offset in SLOT_OFFSETS)
    status_a = _read_slot(slot_a, path, SLOT_OFFSETS[0], num_bits, kind)
    if slot_a == slot_b:
        status_b = status_a
    else:
        status_b = _read_slot(slot_b, path, SLOT_OFFSETS[1], num_bits, kind)
    if status_a is not None and status_b is not None:
        return Choice(*_newer(status_a, status_b, path), recovered=False)
    for index, survivor in enumerate((status_a, status_b)):
        if survivor is not None and not survivor.is_sealed:
            return Choice(survivor, index, recovered=True)
    damaged = 0 if status_a is None else 1
    _refuse_checksum((slot_a, slot_b)[damaged], path, SLOT_OFFSETS[damaged])


def _read_slot(slot: bytes, path: str, base: int, num_bits: int, kind: KindRow) -> Status | None:
    """Return the status in a slot, or None if its checksum does not match.

    A slot whose checksum matches is not torn: a field that breaks a rule was written like that.
    """
    computed, stored = _checksums(slot)
    if computed != stored:
        return None
    refuse = partial(STATUS.refuse, path, base)
    *numbers, key_set, num_canaries, _, num_saturated = _SLOT.unpack(slot)
    high, low = HASH.unpack(key_set)
    used_end = min(_CANARIES_START + HASH.size * num_canaries, _CANARIES_END)
    canaries = tuple(HASH.iter_unpack(slot[_CANARIES_START:used_end]))
    status = Status._make((*numbers, high << 64 | low, canaries, num_saturated))
    _check_status(status, num_bits, refuse)
    if num_canaries > MAX_CANARIES:
        refuse("num_canaries", f"at most {MAX_CANARIES}", num_canaries)
    if slot[used_end:_CANARIES_END] != _ZEROS[used_end:_CANARIES_END]:
        refuse("canaries", f"zeros after the first {num_canaries}", "other bytes")
    for name, start, end in STATUS.reserved:
        if slot[start:end] != _ZEROS[start:end]:
            refuse(name, "zeros", "other bytes")
    _check_kind(status, num_bits, kind, refuse)
    return status


def _check_status(status: Status, num_bits: int, refuse: Refuse) -> None:
    """Check the fields of the status, in the order of the table."""
    state, flags, sealed = status.state, status.flags, status.is_sealed
    if state not in (WRITABLE, SEALED):
        refuse("state", "1 (WRITABLE) or 2 (SEALED)", state)
    if flags & ~_ALL_FLAGS:
        refuse("flags", f"no bits but {_ALL_FLAGS:#x}", f"{flags:#x}")
    if sealed and flags & WRITER_OPEN:
        refuse("flags", "no WRITER_OPEN bit while SEALED", f"{flags:#x}")
    most_bits, highest_fpr = (num_bits, 1) if sealed else (0, 0)
    if status.bits_set > most_bits:
        refuse("bits_set", f"at most {most_bits}", status.bits_set)
    if not 0 <= status.achieved_fpr <= highest_fpr:
        refuse("achieved_fpr", f"0 to {highest_fpr}", status.achieved_fpr)
    if status.checksum_root and not sealed:
        refuse("checksum_root", "0 while WRITABLE", f"{status.checksum_root:#018x}")
    if status.key_set and not flags & KEY_SET_KNOWN:
        refuse("key_set", "zeros without KEY_SET_KNOWN", "other bytes")


def _check_kind(status: Status, num_bits: int, kind: KindRow, refuse: Refuse) -> None:
    """Check what the kind of the filter adds to the rules of the table."""
    if not (status.is_sealed or kind.can_be_writable):
        refuse("state", f"2 (SEALED) for kind {kind.name}", status.state)
    most = kind.max_saturated(num_bits)
    if status.num_saturated > most:
        expected = f"at most {most}" if most else f"0 for kind {kind.name}"
        refuse("num_saturated", expected, status.num_saturated)
    if status.canaries and not (status.is_sealed or kind.canaries_while_writable):
        expected = f"0 while WRITABLE for kind {kind.name}"
        refuse("num_canaries", expected, len(status.canaries))


def _newer(slot_a: Status, slot_b: Status, path: str) -> tuple[Status, int]:
    """Return the newer of two undamaged slots, and its index."""
    if slot_a == slot_b:
        return slot_a, 0
    index = int(slot_b.sequence > slot_a.sequence)
    newer, older = ((slot_a, slot_b), (slot_b, slot_a))[index]
    if newer.sequence == older.sequence or older.is_sealed:
        # Slots with one sequence are copies, and only its own copy follows a SEALED slot.
        for name, in_a, in_b in zip(Status._fields, slot_a, slot_b, strict=True):
            if in_a != in_b:
                STATUS.refuse(path, SLOT_OFFSETS[1], name, f"{in_a}, as in slot A", in_b)
    before = newer.sequence - 1
    if newer.is_sealed and older.sequence != before:
        expected = f"{before}, one before the sealed slot"
        STATUS.refuse(path, SLOT_OFFSETS[1 - index], "sequence", expected, older.sequence)
    return newer, index
