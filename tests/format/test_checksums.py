"""The checksum table: made once, compared MiB by MiB, the first damage named."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from xxhash import xxh3_64_intdigest

from mmbloom.errors import ChecksumError
from mmbloom.format.checksums import (
    check_chunks,
    check_payload,
    check_table,
    checksum_root,
    iter_checksums,
    pack_table,
)
from mmbloom.format.fields import SEALED
from mmbloom.format.header import new_header
from mmbloom.format.status import Status

if TYPE_CHECKING:
    from mmbloom.format.header import Header

MIB = 1 << 20
PATH = "seen.mmb"
# Two whole MiB and a part of a third.
NUM_BITS = 8 * (2 * MIB + 192)


@pytest.fixture(scope="module")
def header() -> Header:
    """Give a header whose payload has three checksums."""
    return new_header(
        layout="line",
        num_bits=NUM_BITS,
        num_probes=7,
        capacity=1000,
        fpr=0.01,
        uuid=bytes(16),
        created_unix_ns=0,
    )


@pytest.fixture
def payload() -> bytearray:
    """Give bytes that differ from MiB to MiB, and can be damaged."""
    return bytearray(i * 37 >> 3 & 0xFF for i in range(64)) * (NUM_BITS // 512)


def sealed_status(table: bytes) -> Status:
    """Return the status of a file that was sealed with this table."""
    return Status(state=SEALED, checksum_root=checksum_root(table))


@pytest.mark.parametrize("num_threads", [1, 3])
def test_the_table_is_one_xxh3_64_a_mib(payload: bytearray, num_threads: int) -> None:
    """Little-endian u64, in order, the last one of a shorter chunk; threads do not change it."""
    chunks = [payload[:MIB], payload[MIB : 2 * MIB], payload[2 * MIB :]]

    table = pack_table(list(iter_checksums(payload, num_threads=num_threads)))

    assert table == struct.pack("<3Q", *(xxh3_64_intdigest(bytes(chunk)) for chunk in chunks))
    assert checksum_root(table) == xxh3_64_intdigest(table)


def test_many_chunks_stay_in_order_over_threads() -> None:
    """More chunks than are in flight at once."""
    payload = b"".join(bytes([i]) * MIB for i in range(20))

    assert list(iter_checksums(payload, num_threads=2)) == list(iter_checksums(payload))


def test_progress_is_told_after_each_chunk(payload: bytearray) -> None:
    """Done and total, in bytes; the last call says that all is done."""
    told: list[tuple[int, int]] = []

    list(iter_checksums(payload, progress=lambda done, total: told.append((done, total))))

    total = len(payload)
    assert told == [(MIB, total), (2 * MIB, total), (total, total)]


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_sound_payload_passes(header: Header, payload: bytearray, num_threads: int) -> None:
    """Nothing raised: table, root and every MiB agree."""
    table = pack_table(list(iter_checksums(payload)))

    check_payload(payload, table, header, sealed_status(table), PATH, num_threads=num_threads)


@pytest.mark.parametrize(
    ("damaged_bytes", "index", "extent"),
    [
        pytest.param([0], 0, (4096, 4095 + MIB), id="first-byte"),
        pytest.param([MIB], 1, (4096 + MIB, 4095 + 2 * MIB), id="first-of-the-second-mib"),
        pytest.param([2 * MIB + 191], 2, (4096 + 2 * MIB, 4287 + 2 * MIB), id="last-byte"),
        pytest.param([2 * MIB, MIB + 5], 1, (4096 + MIB, 4095 + 2 * MIB), id="two-mib-damaged"),
    ],
)
def test_a_changed_bit_is_found_and_its_mib_named(
    header: Header,
    payload: bytearray,
    damaged_bytes: list[int],
    index: int,
    extent: tuple[int, int],
) -> None:
    """The first MiB that differs, with its bytes in the file."""
    table = pack_table(list(iter_checksums(payload)))
    for offset in damaged_bytes:
        payload[offset] ^= 1

    with pytest.raises(ChecksumError) as caught:
        check_payload(payload, table, header, sealed_status(table), PATH)

    error, (first, last) = caught.value, extent
    assert (error.path, error.field, error.offset) == (PATH, "payload", first)
    assert f"MiB {index} of the payload, bytes {first} to {last} of the file" in str(error)


def test_a_part_of_a_payload_is_compared_with_its_part_of_the_table(
    header: Header, payload: bytearray
) -> None:
    """Damage elsewhere is not its business; that within is named as in the whole."""
    table = pack_table(list(iter_checksums(payload)))
    payload[MIB + 3] ^= 1

    check_chunks(payload[:MIB], table, header, PATH)
    check_chunks(payload[2 * MIB :], table, header, PATH, first=2)
    with pytest.raises(ChecksumError, match="MiB 1 of the payload"):
        check_chunks(payload[MIB:], table, header, PATH, first=1)
    with pytest.raises(ValueError, match="zip"):  # more payload than the table speaks of
        check_chunks(payload[2 * MIB :], table[:16], header, PATH, first=2)


def test_a_changed_table_is_told_apart_from_a_changed_payload(
    header: Header, payload: bytearray
) -> None:
    """The root in the status slots vouches for the table."""
    table = pack_table(list(iter_checksums(payload)))
    status = sealed_status(table)
    damaged = bytes([table[0] ^ 1]) + table[1:]

    with pytest.raises(ChecksumError) as caught:
        check_table(damaged, header, status, PATH)

    assert (caught.value.field, caught.value.offset) == ("checksums", header.checksums_offset)


def test_no_view_of_the_payload_outlives_an_error(header: Header, payload: bytearray) -> None:
    """A caught error must not keep the map open: a bytearray with a view cannot be resized."""
    table = pack_table(list(iter_checksums(payload)))
    payload[-1] ^= 1

    with pytest.raises(ChecksumError):
        check_payload(payload, table, header, sealed_status(table), PATH)

    payload.append(0)
