/* The slots and the fingerprint of a key, for fuse.c, which reads, and fuse_build.c, which builds.
   A change of places() or fingerprint() makes existing files answer "definitely not" for keys they hold: a better rule gets
   new numbers of probe schemes (these are 5 and 6 of FORMAT.md) and new rows. */
#ifndef MMB_FUSE_SLOTS_H
#define MMB_FUSE_SLOTS_H

#include "fuse.h"
#include "multiply.h"

#define PLACE_BITS 18U

static inline uint32_t load32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static inline uint64_t load64(const uint8_t *bytes)
{
    return load32(bytes) | (uint64_t)load32(bytes + 4) << 32;
}

/* The shard of a key. *rest is what remains of hi, uniform again. */
static inline uint64_t shard_of(const mmb_fuse *fuse, mmb_hash hash, uint64_t *rest)
{
    return multiply_high(hash.hi, fuse->num_shards, rest);
}

/* The slots of a key, one in each of `arity` neighbouring segments; `rest` comes from shard_of(). */
MMB_INLINE void places(const mmb_fuse *fuse, uint32_t arity, uint64_t rest, uint64_t lo, uint64_t seed, uint64_t *slots)
{
    const uint64_t mask = fuse->segment_slots - 1;
    const uint64_t once = (lo ^ seed) * MMB_GOLDEN64;
    const uint64_t mixed = (once ^ (once >> 32)) * MMB_GOLDEN64;
    uint64_t unused;
    uint64_t slot = multiply_high(rest, fuse->start_slots, &unused);

    slots[0] = slot;
    for (uint32_t i = 1; i < arity; i++) {
        slot += fuse->segment_slots;
        slots[i] = slot ^ ((mixed >> (64 - PLACE_BITS * i)) & mask);
    }
}

MMB_INLINE uint32_t fingerprint(mmb_hash hash, uint32_t width)
{
    return (uint32_t)(hash.hi ^ hash.lo) & (UINT32_MAX >> (32 - width));
}

/* The first byte that holds bits of a slot. */
MMB_INLINE const uint8_t *slot_bytes(const uint8_t *shard, uint64_t slot, uint32_t width)
{
    return shard + ((slot * width) >> 3);
}

MMB_INLINE uint32_t read_slot(const uint8_t *shard, uint64_t slot, uint32_t width)
{
    const uint8_t *bytes = slot_bytes(shard, slot, width);
    const unsigned shift = (unsigned)(slot * width) & 7;
    const uint32_t mask = UINT32_MAX >> (32 - width);

    if (width == 8) {
        return bytes[0];
    }
    if (width == 16) {
        return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
    }
    if (width <= 25) { /* its bits and up to 7 before them fit in 32 */
        return (load32(bytes) >> shift) & mask;
    }
    return (uint32_t)((load32(bytes) | (uint64_t)bytes[4] << 32) >> shift) & mask;
}

/* The xor of the numbers in a key's slots. */
MMB_INLINE uint32_t combined(const uint8_t *shard, const uint64_t *slots, uint32_t arity, uint32_t width)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < arity; i++) {
        found ^= read_slot(shard, slots[i], width);
    }
    return found;
}

#endif
