"""The header page: 4096 bytes that describe a filter file completely.

The fixed part is written once, when the file is created. What changes later is in the two status
slots (``status``). Every field is untrusted: ``rules`` bounds it, or compares it with what earlier
fields imply, before anything uses it. Writer and reader share those rules, so whatever is written
can be read. FORMAT.md is normative.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mmbloom.errors import ParameterError, ParameterTypeError, TruncatedError
from mmbloom.format.fields import (
    FORMAT_VERSION,
    HASH_XXH3_128,
    HEADER,
    HEADER_BYTES,
    KEY_FORM_NAMES,
    KEY_FORMS,
    MAGIC,
    MAX_SEED,
    refuse_parameter,
)
from mmbloom.format.kinds import KIND_ROWS, LAYOUT_NAMES, LAYOUT_RULES, OWN_FIELDS
from mmbloom.format.metadata import decode_metadata, encode_metadata
from mmbloom.format.rules import (
    check_fields,
    check_page,
    check_zeros,
    implied_fields,
    known_answer,
    page_checksum,
)
from mmbloom.format.status import Status, choose_slot, pack_status

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHECKSUM_OFFSET = HEADER.offsets["header_checksum"]
_METADATA_OFFSET = HEADER.offsets["metadata"]


class Header(NamedTuple):
    """The fixed part of a header page: one attribute per field, numbers as in FORMAT.md. Immutable.

    Use new_header() or unpack() to make one: both check every rule. ``metadata_json`` is the
    metadata without its padding.
    """

    format_version: int
    header_bytes: int
    incompatible_features: int
    compatible_features: int
    kind: int
    layout: int
    probe_scheme: int
    hash_id: int
    key_form: int
    num_probes: int
    seed: int
    num_bits: int
    block_bytes: int
    overfill: int
    capacity: int
    fpr: float
    payload_offset: int
    payload_bytes: int
    checksums_offset: int
    checksum_chunk_bytes: int
    num_checksums: int
    file_bytes: int
    uuid: bytes
    created_unix_ns: int
    known_answer: bytes
    metadata_bytes: int
    fingerprint_bits: int
    segment_slots: int
    num_segments: int
    num_shards: int
    metadata_json: bytes

    @property
    def layout_name(self) -> str:
        """The name of the layout, such as ``"classic"`` or ``"line"``."""
        return LAYOUT_NAMES[self.layout]

    @property
    def key_form_name(self) -> str:
        """``"raw"`` or ``"hex"``."""
        return KEY_FORM_NAMES[self.key_form]

    @property
    def metadata(self) -> dict[str, Any]:
        """The user's metadata, decoded at each access: changing the dict does not change this."""
        return decode_metadata(self.metadata_json)

    def pack(self, status: Status) -> bytes:
        """Return the 4096 bytes of the page, with *status* in both slots."""
        slot = pack_status(status)
        values = self._asdict() | {
            "magic": MAGIC,
            "slot_a": slot,
            "slot_b": slot,
            "metadata": self.metadata_json,
            "header_checksum": 0,
        }
        page = HEADER.pack(values)
        return page[:_CHECKSUM_OFFSET] + page_checksum(page).to_bytes(8, "little")

    @classmethod
    def unpack(cls, page: bytes, path: str, file_bytes: int) -> HeaderPage:
        """Read the first 4096 bytes of a file, or refuse it.

        Args:
            page: the first 4096 bytes of the file, or fewer if the file is shorter.
            path: for the message only; nothing is opened.
            file_bytes: the size of the file, as the operating system reports it.

        Raises:
            TruncatedError: the file is not as long as its header says.
            VersionError: the file is undamaged, but needs a newer release.
            FormatError: any other field that breaks a rule, named with its offset.

        Cost: microseconds for a file of any size. No field decides how much memory is allocated.
        """
        page = bytes(page[:HEADER_BYTES])
        refuse = partial(HEADER.refuse, path, 0)
        check_page(page, refuse)
        fields = _FIXED.unpack(page)
        metadata_end = _METADATA_OFFSET + fields[_METADATA_BYTES]
        header = cls._make((*fields, page[_METADATA_OFFSET:metadata_end]))
        check_fields(header, refuse)
        check_zeros(page, header, refuse)
        if header.file_bytes != file_bytes:
            refuse("file_bytes", header.file_bytes, file_bytes, error=TruncatedError)
        choice = choose_slot(page, path, header.num_bits, KIND_ROWS[header.kind])
        return HeaderPage(header, *choice)


# All attributes of Header but the last are fields, in the order of the table.
_FIXED = HEADER.select(Header._fields)
_METADATA_BYTES = Header._fields.index("metadata_bytes")


class HeaderPage(NamedTuple):
    """The contents of a header page.

    ``slot_index`` (0 or 1) is the slot that counts, so a writer writes the other one next.
    ``status_recovered`` is True if the other one was torn.
    """

    header: Header
    status: Status
    slot_index: int
    status_recovered: bool


def check_seed(seed: int) -> int:
    """Return *seed* as an int; raise ParameterError unless it fits into 64 unsigned bits."""
    if isinstance(seed, bool):
        raise ParameterTypeError(name="seed", rule="an int", found=seed)
    try:
        number = operator.index(seed)
    except TypeError as exc:
        raise ParameterTypeError(name="seed", rule="an int", found=seed) from exc
    if not 0 <= number <= MAX_SEED:
        raise ParameterError(name="seed", rule="0 to 2**64 - 1", found=seed)
    return number


def new_header(  # noqa: PLR0913 - one for each field that the others do not imply
    *,
    layout: str,
    num_bits: int,
    num_probes: int,
    capacity: int,
    fpr: float,
    uuid: bytes,
    created_unix_ns: int,
    seed: int = 0,
    key_form: str = "raw",
    metadata: dict[str, Any] | None = None,
    overfill: bool = False,
    own: Mapping[str, int] | None = None,
) -> Header:
    """Return the header of a new filter file; every other field follows from these.

    *own* has the fields that only the kind of *layout* has, such as FuseShape.own_fields.

    Raises:
        ParameterError: a reader would refuse the value; ``name`` is the name of the field.
    """
    for name, value, names in (("layout", layout, LAYOUT_RULES), ("key_form", key_form, KEY_FORMS)):
        if value not in names:
            raise ParameterError(name, f"one of {', '.join(names)}", value)
    seed = check_seed(seed)
    metadata_json = encode_metadata(metadata)
    values: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "incompatible_features": 0,
        "compatible_features": 0,
        "kind": LAYOUT_RULES[layout].kind,
        "layout": LAYOUT_RULES[layout].number,
        "hash_id": HASH_XXH3_128,
        "key_form": KEY_FORMS[key_form],
        "num_probes": num_probes,
        "seed": seed,
        "num_bits": num_bits,
        "overfill": int(overfill),
        "capacity": capacity,
        "fpr": fpr,
        "uuid": uuid,
        "created_unix_ns": created_unix_ns,
        "known_answer": known_answer(seed),
        "metadata_bytes": len(metadata_json),
        "metadata_json": metadata_json,
        **dict.fromkeys(OWN_FIELDS, 0),
        **(own or {}),
        **implied_fields(layout, num_bits),
    }
    header = Header(**values)
    check_fields(header, refuse_parameter)
    return header
