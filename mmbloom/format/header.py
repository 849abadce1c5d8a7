"""The header page: 4096 bytes that say everything about a filter file.

The fixed part is written once, when the file is made; what changes is in the two status slots
(``status``). Every field is untrusted: ``rules`` bounds it, or compares it with what the fields
before it imply, before anything uses it. Writer and reader share those rules, so what is written
can be read. FORMAT.md is normative.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

from mmbloom.errors import ParameterError, ParameterTypeError, TruncatedError
from mmbloom.format.fields import (
    FORMAT_VERSION,
    HASH_XXH3_128,
    HEADER,
    HEADER_BYTES,
    KEY_FORM_NAMES,
    KEY_FORMS,
    LAYOUT_NAMES,
    LAYOUT_RULES,
    MAGIC,
    MAX_SEED,
    Rule,
    check_parameters,
)
from mmbloom.format.fuse import FIELDS as FUSE_FIELDS
from mmbloom.format.metadata import decode_metadata, encode_metadata
from mmbloom.format.rules import (
    field_rules,
    implied_fields,
    known_answer,
    page_checksum,
    page_rules,
)
from mmbloom.format.status import Status, choose_slot, pack_status

if TYPE_CHECKING:
    from mmbloom.format.fuse import FuseShape

_CHECKSUM_OFFSET = HEADER.offsets["header_checksum"]


class Header(NamedTuple):
    """The fixed part of a header page: one attribute a field, numbers as in FORMAT.md. Immutable.

    Made by new_header() or unpack(), which check every rule; ``metadata_json`` is the metadata
    without its padding.
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
        """``"classic"``, ``"line"`` and so on: LAYOUT_RULES has them all."""
        return LAYOUT_NAMES[self.layout]

    @property
    def key_form_name(self) -> str:
        """``"raw"`` or ``"hex"``."""
        return KEY_FORM_NAMES[self.key_form]

    @property
    def metadata(self) -> dict[str, Any]:
        """The user's metadata, decoded afresh: changing it changes nothing here."""
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
            page: what was read from the start of the file; less than 4096 bytes is all there is.
            path: for the message only; nothing is opened.
            file_bytes: the size of the file as the operating system gives it.

        Raises:
            TruncatedError: the file is not as long as it says.
            VersionError: the file is sound, but newer than this release.
            FormatError: any other field that breaks a rule, named with its offset.

        Cost: microseconds, whatever the size of the file; nothing is allocated from a field.
        """
        page = bytes(page[:HEADER_BYTES])
        HEADER.check(page_rules(page), path)
        values = HEADER.unpack(page)
        HEADER.check(field_rules(values), path)
        whole = values["file_bytes"] == file_bytes
        length = Rule("file_bytes", whole, values["file_bytes"], file_bytes, error=TruncatedError)
        HEADER.check([length], path)
        status, slot_index, recovered = choose_slot(page, path, values["num_bits"], values["kind"])
        values["metadata_json"] = values["metadata"][: values["metadata_bytes"]]
        header = cls(**{name: values[name] for name in cls._fields})
        return HeaderPage(header, status, slot_index, recovered)


class HeaderPage(NamedTuple):
    """What a header page holds.

    ``slot_index`` (0 or 1) is the slot that counts, so a writer writes the other one next;
    ``status_recovered`` says that the other one was torn.
    """

    header: Header
    status: Status
    slot_index: int
    status_recovered: bool


def check_seed(seed: int) -> int:
    """Return *seed* as an int, if it fits 64 unsigned bits."""
    if isinstance(seed, bool):
        raise ParameterTypeError(name="seed", rule="an int", found=seed)
    try:
        number = operator.index(seed)
    except TypeError as exc:
        raise ParameterTypeError(name="seed", rule="an int", found=seed) from exc
    if not 0 <= number <= MAX_SEED:
        raise ParameterError(name="seed", rule="0 to 2**64 - 1", found=seed)
    return number


def new_header(  # noqa: PLR0913 - one for each field that is not implied by the others
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
    shape: FuseShape | None = None,
) -> Header:
    """Return the header of a new filter file; every other field follows from these.

    *shape* is for kind 2, fuse, and only for that.

    Raises:
        ParameterError: a value that a reader would refuse; ``name`` is that of the field.
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
        **dict(zip(FUSE_FIELDS, shape[1:] if shape else [0] * len(FUSE_FIELDS), strict=True)),
        **implied_fields(layout, num_bits),
    }
    check_parameters(field_rules(values | {"metadata": metadata_json}))
    return Header(**values)
