"""FORMAT.md and the code, held together: its tables, its test vectors and its example file."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from xxhash import xxh3_64_intdigest, xxh3_128_intdigest

import mmbloom.format.fields as fields_module
from mmbloom.engine import checksum64, hash_key, reference
from mmbloom.engine.reference.fuse import Fuse
from mmbloom.errors import FormatError
from mmbloom.format.checksums import check_payload, checksum_root, iter_checksums, pack_table
from mmbloom.format.fields import (
    HEADER,
    HEADER_BYTES,
    KEY_FORMS,
    KIND_BLOOM,
    KNOWN_ANSWER_KEY,
    MAGIC,
    SEALED,
    STATUS,
    Field,
)
from mmbloom.format.fuse import ARITIES
from mmbloom.format.header import Header, new_header
from mmbloom.format.kinds import KIND_NAMES, LAYOUT_RULES
from mmbloom.format.status import Status

if TYPE_CHECKING:
    from types import CodeType

SPEC = Path(fields_module.__file__).with_name("FORMAT.md").read_text(encoding="utf-8")
READER_PATH = Path(__file__).parents[1] / "helpers" / "independent_reader.py"
READER = runpy.run_path(str(READER_PATH))
LOW64 = (1 << 64) - 1
GOLDEN64 = 0x9E3779B97F4A7C15
MEMBERS = ["", "abc", "naïve"]
BLOOM_LAYOUTS = [name for name, rule in LAYOUT_RULES.items() if rule.kind == KIND_BLOOM]


def section(title: str) -> str:
    """Return the text of the section with that heading, up to the next heading of any level."""
    return re.split(r"^#+ .*$", SPEC.split(f" {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def tables(title: str) -> list[list[list[str]]]:
    """Return the tables of a section: for each, its rows of cells, without the head."""
    found = re.findall(r"(?:^\|.*\n)+", section(title), flags=re.MULTILINE)
    split = [[re.split(r" *\| *", line.strip("| \n")) for line in t.splitlines()] for t in found]
    return [rows[2:] for rows in split]


def struct_code(written: str) -> str:
    """Return the struct code of a type as FORMAT.md writes it: ``u16``, ``u64[2]``."""
    kind, _, count = written.rstrip("]").partition("[")
    if count:
        return f"{int(count) * int(kind[1:]) // 8}s"
    return {"u16": "H", "u32": "I", "u64": "Q", "i64": "q", "f64": "d"}[kind]


def whole_file() -> bytes:
    """Return the example file, from its hexdump."""
    dump = section("A whole file").split("```hexdump\n")[1].split("```")[0]
    rows = [(int(line[:6], 16), bytes.fromhex(line[8:])) for line in dump.splitlines()]
    data = bytearray(rows[-1][0] + len(rows[-1][1]))
    for offset, row in rows:
        data[offset : offset + len(row)] = row
    return bytes(data)


class IndependentReader(Protocol):
    """What the tests ask of the reader, which is loaded by its path."""

    metadata: dict[str, object]

    def maybe(self, key: str | bytes) -> bool:
        """Answer for one key."""


def reader_of(path: Path, data: bytes) -> IndependentReader:
    """Return an independent reader of *data*, written to *path*."""
    path.write_bytes(data)
    reader: IndependentReader = READER["Reader"](str(path))
    return reader


# ---- tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("title", "fields", "size"),
    [
        pytest.param("Header page", HEADER.fields, HEADER_BYTES, id="header"),
        pytest.param("Status slots", STATUS.fields, 512, id="status"),
    ],
)
def test_a_field_table_in_the_spec_is_the_one_in_the_code(
    title: str, fields: tuple[Field, ...], size: int
) -> None:
    """Row by row: offset, size, type and name; no byte of the page is left out."""
    rows = tables(title)[0]

    written = [Field(int(row[0]), int(row[1]), struct_code(row[2]), row[3]) for row in rows]

    assert written == list(fields)
    ends = [field.offset + field.size for field in written]
    assert [field.offset for field in written] == [0, *ends[:-1]]
    assert ends[-1] == size
    assert all(len(row) == 6 and row[4] and row[5] for row in rows)


def test_the_structs_have_the_sizes_of_their_tables() -> None:
    """Little-endian, and no padding that a compiler could add."""
    assert (HEADER.struct.size, STATUS.struct.size) == (HEADER_BYTES, 512)
    assert HEADER.struct.format.startswith("<")
    assert STATUS.struct.format.startswith("<")


def test_the_numbers_in_the_spec_are_those_in_the_code() -> None:
    """Kinds, layouts with what they fix, hashes and key forms."""
    kinds, layouts, hashes, key_forms = tables("Numbers")

    assert [(int(number), name) for number, name, _ in key_forms] == [
        (number, name) for name, number in KEY_FORMS.items()
    ]
    assert sorted((name, *map(int, [number, *rest])) for number, name, *rest in layouts) == sorted(
        (name, *rule, rule.num_bits_step) for name, rule in LAYOUT_RULES.items()
    )
    assert [(int(number), text.split(":")[0]) for number, text in kinds] == list(KIND_NAMES.items())
    assert [row[0] for row in hashes] == [str(fields_module.HASH_XXH3_128)]


def test_constants_that_the_spec_spells_out_are_those_in_the_code() -> None:
    """The magic, the known-answer key and the version."""
    assert MAGIC.hex(" ").upper() in section("Header page")
    assert f"{len(KNOWN_ANSWER_KEY)} ASCII bytes `{KNOWN_ANSWER_KEY.decode()}`" in section("Hash")
    assert f"format version {fields_module.FORMAT_VERSION}\n" in SPEC


def test_multipliers_and_addends_follow_from_the_golden_ratio() -> None:
    """M[j] = G^j and A[j] = (j + 1) * G mod 2^32, with G odd, so that no multiplier is even."""
    golden = 0x9E3779B9
    rows = tables("Multipliers and addends")[0]

    assert [[int(row[0]), int(row[1], 16), int(row[2], 16)] for row in rows] == [
        [j, pow(golden, j, 1 << 32), (j + 1) * golden % (1 << 32)] for j in range(16)
    ]


# ---- test vectors --------------------------------------------------------------------------------

HASH_ROWS, PROBE_ROWS, FUSE_ROWS = tables("Test vectors")


@pytest.mark.parametrize(("key", "seed", "hi", "lo"), HASH_ROWS)
def test_hash_vectors(key: str, seed: str, hi: str, lo: str) -> None:
    """The engine and xxhash give the hashes of the spec, for bytes and under key form hex."""
    canonical = bytes.fromhex(key.strip("`"))
    expected = int(hi.strip("`"), 16), int(lo.strip("`"), 16)

    assert divmod(xxh3_128_intdigest(canonical, int(seed)), 1 << 64) == expected
    assert hash_key(canonical, int(seed), KEY_FORMS["raw"]) == expected
    assert hash_key(canonical.hex().upper(), int(seed), KEY_FORMS["hex"]) == expected


@pytest.mark.parametrize(("layout", "num_bits", "bits"), PROBE_ROWS)
def test_probe_vectors(layout: str, num_bits: str, bits: str) -> None:
    """The rules as the reader has them give the bits of the spec, in order."""
    expected = [int(bit) for bit in bits.split(", ")]
    hi, lo = divmod(xxh3_128_intdigest(b"abc"), 1 << 64)
    number = LAYOUT_RULES[layout].number

    assert READER["positions"](number, int(num_bits), len(expected), hi, lo) == expected


def pseudo_code_bit(layout: str) -> CodeType:
    """Return the `bit = ...` of a blocked layout's pseudo-code, as an expression of Python.

    Only `mod 2^32` is translated; all else, precedence above all, is as it is written.
    """
    number = LAYOUT_RULES[layout].probe_scheme
    text = section(f"Probe scheme {number}, layout {layout}")
    (written,) = re.findall(r"^ +bit += (.+)$", text, flags=re.MULTILINE)
    return compile(written.replace("mod 2^32", "% 2**32"), f"FORMAT.md, {layout}", "eval")


@pytest.mark.parametrize(
    ("layout", "num_bits", "bits"), [row for row in PROBE_ROWS if row[0] != "classic"]
)
def test_the_pseudo_code_gives_the_probe_vectors_as_it_is_written(
    layout: str, num_bits: str, bits: str
) -> None:
    """Copied into C, Python or Java, where + binds tighter than >>, the line is still right."""
    expected = [int(bit) for bit in bits.split(", ")]
    hi, lo = divmod(xxh3_128_intdigest(b"abc"), 1 << 64)
    multipliers_addends = tables("Multipliers and addends")[0]
    names: dict[str, object] = {
        "M": [int(row[1], 16) for row in multipliers_addends],
        "A": [int(row[2], 16) for row in multipliers_addends],
    }
    block, fraction = divmod(hi * (int(num_bits) // LAYOUT_RULES[layout].num_bits_step), 1 << 64)
    lines = [64 * block + (fraction >> 59), 64 * block + 32 + ((fraction >> 54) & 31)]
    found = []
    for i in range(len(expected)):
        line, high = (lines[i % 2], i % 2 == 1) if layout == "page" else (block, i >= 8)
        h = lo >> 32 if high else lo & 0xFFFFFFFF
        found.append(
            eval(  # noqa: S307 - text of this repository
                pseudo_code_bit(layout), {}, names | {"i": i, "j": i >> 1, "h": h, "line": line}
            )
        )

    assert found == expected


def test_the_probe_vectors_reach_every_layout_and_the_most_probes() -> None:
    """Line, narrow and page with all their probes, classic beyond 2^32 bits."""
    shapes = {(layout, int(num_bits), bits.count(",") + 1) for layout, num_bits, bits in PROBE_ROWS}

    assert {layout for layout, _, _ in shapes} == set(BLOOM_LAYOUTS)
    assert {("line", 51200, 16), ("narrow", 12800, 16), ("page", 327680, 32)} < shapes
    assert max(num_bits for _, num_bits, _ in shapes) > 1 << 32


@pytest.mark.parametrize("row", FUSE_ROWS, ids=lambda row: f"{row[0]}-{row[4]}-shards")
def test_fuse_vectors(row: list[str]) -> None:
    """The rule as the specification's reference has it, and the pseudo-code as it is written."""
    layout, (width, size, segments, shards) = row[0], map(int, row[1:5])
    hi, lo = divmod(xxh3_128_intdigest(b"abc"), 1 << 64)
    fuse = Fuse(ARITIES[layout], width, size, segments, shards)
    shard, rest = fuse.shard_of(hi)

    expected = int(row[5]), [int(slot) for slot in row[6].split(", ")], int(row[7].strip("`"), 16)
    assert (shard, fuse.slots(rest, lo, GOLDEN64), fuse.fingerprint(hi, lo)) == expected
    names: dict[str, object] = {
        "hi": hi,
        "lo": lo,
        "C": GOLDEN64,
        "k": ARITIES[layout],
        "num_shards": shards,
        "num_segments": segments,
        "segment_slots": size,
        "table": [GOLDEN64] * shards,
        "mulhi": lambda a, b: a * b >> 64,
        "slot": {},
    }
    text = section("Probe schemes 5 and 6, layouts fuse3 and fuse4").split("```")[1]
    code = text.removeprefix("text").replace("xor", "^").replace("2^64", "2**64")
    code = code.replace(" mod ", " % ").replace("for i = 1 to k - 1:", "for i in range(1, k):")
    exec(code, names)  # noqa: S102 - text of this repository
    assert (names["shard"], list(names["slot"].values())) == expected[:2]  # type: ignore[attr-defined]


def test_the_seeds_of_shards_begin_with_the_constant_of_scheme_1() -> None:
    """So a filter that needs no second seed can be built by hand."""
    seed, _ = reference.fuse_shard(bytes(16), 3, 8, 4, 3, 1, 1, bytearray(200)) or (0, b"")

    assert seed == GOLDEN64


# ---- the whole file ------------------------------------------------------------------------------


def test_the_example_file_reads_as_the_spec_says() -> None:
    """The library's unpack takes it, and finds the parameters that the text gives."""
    data = whole_file()

    header, status, slot_index, recovered = Header.unpack(data[:HEADER_BYTES], "-", len(data))

    assert (header.layout_name, header.num_bits, header.num_probes) == ("line", 512, 5)
    assert (header.capacity, header.fpr, header.seed) == (16, 0.001, 0)
    assert (header.key_form_name, header.metadata) == ("raw", {"source": "FORMAT.md"})
    assert (header.uuid, header.created_unix_ns) == (bytes(range(16)), 1_700_000_000_000_000_000)
    assert (status.state, status.sequence, status.keys_added) == (SEALED, 2, len(MEMBERS))
    assert (slot_index, recovered) == (0, False)
    hashes = [xxh3_128_intdigest(key.encode()) for key in MEMBERS]
    assert status.key_set == sum(hashes) % (1 << 128)
    assert status.canaries == tuple(sorted(divmod(value, 1 << 64) for value in hashes))
    payload = data[header.payload_offset : header.checksums_offset]
    assert status.bits_set == sum(byte.bit_count() for byte in payload)
    assert status.achieved_fpr == (status.bits_set / 512) ** 5
    check_payload(payload, data[header.checksums_offset :], header, status, "-")


def test_the_example_file_is_written_again_byte_for_byte() -> None:
    """From the parameters alone the library makes the same page."""
    data = whole_file()
    header, status, _, _ = Header.unpack(data[:HEADER_BYTES], "-", len(data))

    made = new_header(
        layout="line",
        num_bits=512,
        num_probes=5,
        capacity=16,
        fpr=0.001,
        uuid=bytes(range(16)),
        created_unix_ns=1_700_000_000_000_000_000,
        metadata={"source": "FORMAT.md"},
    )

    assert made == header
    assert made.pack(status) == data[:HEADER_BYTES]


def test_the_independent_reader_answers_as_the_spec_says(tmp_path: Path) -> None:
    """Members are maybe, `abd` is definitely not."""
    reader = reader_of(tmp_path / "whole.mmb", whole_file())

    assert all(reader.maybe(key) for key in MEMBERS)
    assert all(reader.maybe(key.encode()) for key in MEMBERS)
    assert not reader.maybe("abd")
    assert reader.metadata == {"source": "FORMAT.md"}


def test_the_independent_reader_refuses_the_example_after_any_one_byte_is_changed(
    tmp_path: Path,
) -> None:
    """A sealed file has no byte that no rule covers."""
    data = whole_file()
    path = tmp_path / "damaged.mmb"
    path.write_bytes(data)

    with path.open("r+b", buffering=0) as file:
        for offset, byte in enumerate(data):
            os.pwrite(file.fileno(), bytes([byte ^ 0x40]), offset)
            with pytest.raises(ValueError, match=r"\w"):
                READER["Reader"](str(path))
            os.pwrite(file.fileno(), bytes([byte]), offset)


def test_the_independent_reader_refuses_other_lengths(tmp_path: Path) -> None:
    """Cut short or one byte longer."""
    data = whole_file()

    for length in (1, 100, 4095, 4096, len(data) - 1):
        with pytest.raises(ValueError, match=r"magic|file_bytes"):
            reader_of(tmp_path / "cut.mmb", data[:length])
    with pytest.raises(ValueError, match="file_bytes"):
        reader_of(tmp_path / "long.mmb", data + b"\0")


# ---- the reader beside the library ---------------------------------------------------------------


def keys_of(key_form: str) -> list[str]:
    """Return 200 keys that the key form takes."""
    return [f"{i:08X}" if key_form == "hex" else f"key {i}" for i in range(200)]


def built_file(layout: str, key_form: str, state: int) -> bytes:
    """Return a file with 200 keys: bits by the reader's rules, header page by the library."""
    header = new_header(
        layout=layout,
        num_bits=65536,
        num_probes=11,
        capacity=200,
        fpr=0.001,
        uuid=bytes(16),
        created_unix_ns=0,
        seed=LOW64,
        key_form=key_form,
    )
    payload = bytearray(header.payload_bytes)
    hashes = [hash_key(key, header.seed, header.key_form) for key in keys_of(key_form)]
    for hi, lo in hashes:
        if layout == "counters":
            for i in set(READER["positions"](4, 16384, 11, hi, lo)):
                payload[i >> 1] += 1 << 4 * (i & 1)
        else:
            for bit in READER["positions"](header.layout, 65536, 11, hi, lo):
                payload[bit >> 3] |= 1 << (bit & 7)
    status, table = Status(canaries=tuple(hashes[:8])), bytes(8 * header.num_checksums)
    if state == SEALED:
        table = pack_table(list(iter_checksums(payload)))
        status = status._replace(state=SEALED, checksum_root=checksum_root(table))
    elif layout == "counters":
        status = status._replace(canaries=())
    return header.pack(status) + payload + table


@pytest.mark.parametrize("state", [fields_module.WRITABLE, SEALED])
@pytest.mark.parametrize("key_form", KEY_FORMS)
@pytest.mark.parametrize("layout", [*BLOOM_LAYOUTS, "counters"])
def test_the_independent_reader_finds_every_key(
    tmp_path: Path, layout: str, key_form: str, state: int
) -> None:
    """All layouts, key forms and states; fpr is below 1e-3, so 1000 absent keys give few maybes."""
    reader = reader_of(tmp_path / "built.mmb", built_file(layout, key_form, state))
    absent = [f"{i:08x}" for i in range(10_000, 11_000)]

    assert all(reader.maybe(key) for key in keys_of(key_form))
    assert all(reader.maybe(key.lower().encode()) for key in keys_of(key_form))
    assert sum(reader.maybe(key) for key in absent) <= 10


@pytest.mark.parametrize("key", ["abc", "zz", "0 ", " 00", "00 00", "0x00", "\u0660\u0660"])
def test_the_independent_reader_takes_only_hexadecimal_under_hex(tmp_path: Path, key: str) -> None:
    """An odd number of digits, white space, a prefix, digits of other scripts: not a key."""
    reader = reader_of(tmp_path / "hex.mmb", built_file("line", "hex", SEALED))

    with pytest.raises(ValueError, match=r"\w"):
        reader.maybe(key)


def test_the_independent_reader_refuses_a_missing_canary(tmp_path: Path) -> None:
    """An emptied payload while WRITABLE, where no checksum speaks, is refused all the same."""
    data = built_file("page", "raw", fields_module.WRITABLE)

    with pytest.raises(ValueError, match="canaries"):
        reader_of(tmp_path / "emptied.mmb", data[:4096] + bytes(len(data) - 4096))


def test_the_independent_reader_is_115_lines_and_imports_nothing_of_mmbloom() -> None:
    """It is the proof that FORMAT.md suffices: standard library and xxhash."""
    source = READER_PATH.read_text(encoding="utf-8")

    imported = set(re.findall(r"^(?:import|from) (\w+)", source, flags=re.MULTILINE))

    assert len(source.splitlines()) <= 115
    assert imported == {"json", "mmap", "struct", "xxhash"}


def test_checksums_are_xxh3_64_with_seed_0() -> None:
    """The engine and xxhash agree on what a checksum is."""
    data = bytes(range(256)) * 5

    assert checksum64(data) == xxh3_64_intdigest(data)


@pytest.mark.parametrize("offset", [0, 8, 40, 200, 520, 1030, 1540, 3600, 4090])
def test_library_and_reader_refuse_the_same(tmp_path: Path, offset: int) -> None:
    """What one refuses, the other does not answer."""
    data = bytearray(whole_file())
    data[offset] ^= 1

    with pytest.raises(FormatError):
        Header.unpack(bytes(data[:HEADER_BYTES]), "-", len(data))
    with pytest.raises(ValueError, match=r"\w"):
        reader_of(tmp_path / "damaged.mmb", bytes(data))
