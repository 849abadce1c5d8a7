"""A reader of mmbloom files, written from FORMAT.md alone: it imports nothing of mmbloom."""

import json
import mmap
import struct

from xxhash import xxh3_64_intdigest, xxh3_128_intdigest

FIXED = struct.Struct("<8sH2sIQQI4HIQQIIQdQQQQQQ16sqQQ5I316s")
SCHEMES = {
    (1, 1): 1,
    (1, 2): 2,
    (1, 3): 3,
    (1, 4): 4,
    (2, 5): 5,
    (2, 6): 6,
    (3, 7): 4,
}  # by kind and layout
GOLDEN64, GOLDEN32, LOW64, MIB = 0x9E3779B97F4A7C15, 0x9E3779B9, (1 << 64) - 1, 1 << 20


def require(holds: bool, field: str) -> None:  # noqa: FBT001 - an assertion that -O keeps
    """Refuse the file over *field* unless the rule holds."""
    if not holds:
        raise ValueError(field)


def checksum(data: bytes) -> bytes:
    """Return the XXH3-64 of *data* as it is stored."""
    return xxh3_64_intdigest(data).to_bytes(8, "little")


def positions(layout: int, num_bits: int, num_probes: int, hi: int, lo: int) -> list[int]:
    """Return the place in the payload that each probe of a key with the hash (hi, lo) reads."""
    bits, x, y, z = [], hi, lo, GOLDEN64
    step = {2: 512, 3: 32768, 4: 128}.get(layout, 1)
    block, fraction = divmod(hi * (num_bits // step), 1 << 64)
    lines = 64 * block + (fraction >> 59), 64 * block + 32 + (fraction >> 54 & 31)
    for i in range(num_probes):
        if layout == 1:
            bits.append(((x ^ x >> 32) * GOLDEN64 & LOW64) * num_bits >> 64)
            x, y, z = x + y + z & LOW64, y + z & LOW64, z + GOLDEN64 & LOW64
        else:
            line, half, j = (lines[i % 2], i % 2, i // 2) if layout == 3 else (block, i // 8, i)
            mixed = (lo >> 32 * half & 0xFFFFFFFF) * GOLDEN32**j + (j + 1) * GOLDEN32 & 0xFFFFFFFF
            bits.append(128 * line + (mixed >> 25) if layout == 4 else 512 * line + (mixed >> 23))
    return bits


class Reader:
    """One open file; ValueError names the field over which it is refused."""

    def __init__(self, path: str) -> None:
        """Map the file at *path* and check its header page, and a sealed payload too."""
        with open(path, "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        page = self.map[:4096]
        require(page[:8] == b"\x89MMB\r\n\x1a\n" and len(page) == 4096, "magic")
        require(checksum(page[:512] + page[1536:4088]) == page[4088:], "header_checksum")
        fields = FIXED.unpack(page[:512])
        version, _, _, features, _, kind, layout, scheme, hash_id, self.key_form = fields[1:11]
        num_probes, self.seed, num_bits = fields[11:14]
        payload_bytes, end, _, num_checksums, file_bytes = fields[19:24]
        require((version, features, hash_id) == (1, 0, 1), "version, features, hash_id")
        require(SCHEMES.get((kind, layout)) == scheme and self.key_form in (0, 1), "layout, form")
        require(payload_bytes == 64 * -(-num_bits // 512) == end - 4096, "payload_bytes")
        require(len(self.map) == file_bytes == end + 8 * num_checksums, "file_bytes")
        answer = divmod(xxh3_128_intdigest(b"mmbloom known answer 1", self.seed), 1 << 64)
        require(answer == fields[26:28], "known_answer")
        self.shape, self.fuse = (layout, num_bits, num_probes), fields[29:33]
        require(kind == 2 or not any(self.fuse), "fuse fields")
        self.metadata = json.loads(page[1536 : 1536 + fields[28]])
        slots = [s for s in (page[512:1024], page[1024:1536]) if checksum(s[:504]) == s[504:]]
        slot = max(slots, key=lambda s: int.from_bytes(s[:8], "little"), default=bytes(512))
        require(slot[8] == 1 or (slot[8] == 2 and len(slots) == 2), "slot_checksum")
        table = b"".join(checksum(self.map[i : min(i + MIB, end)]) for i in range(4096, end, MIB))
        require(slot[8] == 1 or self.map[end:] + slot[40:48] == table + checksum(table), "payload")
        halves = struct.unpack("<16Q", slot[80:208])[: 2 * slot[72]]
        require(all(map(self.holds, halves[::2], halves[1::2])), "canaries")

    def holds(self, hi: int, lo: int) -> bool:
        """Return whether every bit of a hash is set, no counter zero, or the fingerprint right."""
        layout, num_bits, num_probes = self.shape
        if layout in {5, 6}:
            return self.fits(num_probes, hi, lo)
        if layout == 7:  # counters
            places = positions(4, num_bits // 4, num_probes, hi, lo)
            return all(self.map[4096 + (c >> 1)] >> 4 * (c & 1) & 15 for c in places)
        return all(self.map[4096 + (b >> 3)] >> (b & 7) & 1 for b in positions(*self.shape, hi, lo))

    def fits(self, k: int, hi: int, lo: int) -> bool:
        """Return whether the slots of a hash in a fuse filter have its fingerprint together."""
        width, size, segments, shards = self.fuse
        shard_bytes = 64 * -(-(segments * size * width + 32) // 512)
        shard, rest = divmod(hi * shards, 1 << 64)
        at = 4096 + shards * shard_bytes + 8 * shard
        once = (lo ^ int.from_bytes(self.map[at : at + 8], "little")) * GOLDEN64 & LOW64
        mixed, found = (once ^ once >> 32) * GOLDEN64 & LOW64, hi ^ lo
        for i in range(k if shards else 0):
            slot = (rest * (segments - k + 1) * size >> 64) + i * size ^ (
                mixed >> 64 - 18 * i
            ) % size
            bit = 8 * (4096 + shard * shard_bytes) + slot * width
            found ^= int.from_bytes(self.map[bit >> 3 : (bit >> 3) + 5], "little") >> (bit & 7)
        return shards > 0 and found % (1 << width) == 0

    def maybe(self, key: str | bytes) -> bool:
        """Return False if *key* was definitely never added, True if it may have been."""
        canonical = key.encode() if isinstance(key, str) else key
        if self.key_form == 1:
            digits, canonical = canonical, bytes.fromhex(canonical.decode("ascii"))
            require(len(digits) == 2 * len(canonical), "key")
        return self.holds(*divmod(xxh3_128_intdigest(canonical, self.seed), 1 << 64))
