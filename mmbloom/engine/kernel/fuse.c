/* Fuse filters, read: probe schemes 5 and 6 of FORMAT.md. */
#include <string.h>

#include "fuse_slots.h"
#include "layout_rows.h"
#include "loops.h"

static uint64_t lines_of(uint64_t num_bits)
{
    return (num_bits + MMB_LINE_BITS - 1) / MMB_LINE_BITS * MMB_LINE_BYTES;
}

mmb_fuse mmb_fuse_of(uint32_t arity, uint32_t fingerprint_bits, uint32_t segment_slots, uint32_t num_segments,
                     uint32_t num_shards)
{
    const uint64_t num_slots = (uint64_t)segment_slots * num_segments;

    return (mmb_fuse){
        .arity = arity,
        .fingerprint_bits = fingerprint_bits,
        .segment_slots = segment_slots,
        .num_shards = num_shards,
        .start_slots = num_shards == 0 ? 0 : num_slots - (uint64_t)(arity - 1) * segment_slots,
        .shard_bytes = lines_of(num_slots * fingerprint_bits + 32),
    };
}

static inline uint64_t table_offset(const mmb_fuse *fuse)
{
    return fuse->num_shards * fuse->shard_bytes;
}

uint64_t mmb_fuse_bytes(const mmb_fuse *fuse)
{
    return fuse->num_shards == 0 ? MMB_LINE_BYTES : table_offset(fuse) + lines_of(UINT64_C(64) * fuse->num_shards);
}

/* Request the line of a slot, or both lines if what read_slot() reads may lie in two. */
MMB_INLINE void prefetch_slot(const uint8_t *shard, uint64_t slot, uint32_t width)
{
    const uint8_t *bytes = slot_bytes(shard, slot, width);

    MMB_PREFETCH(bytes);
    if (width != 8 && width != 16) {
        MMB_PREFETCH(bytes + (width <= 25 ? 3 : 4));
    }
}

/* One key. `arity` is a constant where this is called. */
MMB_INLINE uint8_t contains(uint32_t arity, const mmb_fuse *fuse, const uint8_t *payload, mmb_hash hash)
{
    uint64_t slots[MMB_FUSE_MAX_ARITY];
    uint64_t rest;

    if (fuse->num_shards == 0) {
        return 0;
    }
    const uint64_t shard = shard_of(fuse, hash, &rest);
    const uint64_t seed = load64(payload + table_offset(fuse) + 8 * shard);
    places(fuse, arity, rest, hash.lo, seed, slots);
    return combined(payload + shard * fuse->shard_bytes, slots, arity, fuse->fingerprint_bits) ==
           fingerprint(hash, fuse->fingerprint_bits);
}

/* The loop over keys, once: `arity` and `width` are constants where it is called. The slots of a group are requested before any
   of them is read, so that its cache misses overlap. */
MMB_INLINE void look_up(const mmb_fuse *fuse, uint32_t arity, uint32_t width, const uint8_t *payload,
                        const mmb_hash *hashes, size_t n, uint8_t *maybe)
{
    const uint8_t *seeds = payload + table_offset(fuse);
    uint64_t slots[GROUP_KEYS][MMB_FUSE_MAX_ARITY];
    const uint8_t *shards[GROUP_KEYS];

    for (size_t first = 0; first < n; first += GROUP_KEYS) {
        const size_t keys = n - first < GROUP_KEYS ? n - first : GROUP_KEYS;
        for (size_t i = 0; i < keys; i++) {
            uint64_t rest;
            const uint64_t shard = shard_of(fuse, hashes[first + i], &rest);
            shards[i] = payload + shard * fuse->shard_bytes;
            places(fuse, arity, rest, hashes[first + i].lo, load64(seeds + 8 * shard), slots[i]);
            for (uint32_t j = 0; j < arity; j++) {
                prefetch_slot(shards[i], slots[i][j], width);
            }
        }
        for (size_t i = 0; i < keys; i++) {
            maybe[first + i] =
                combined(shards[i], slots[i], arity, width) == fingerprint(hashes[first + i], width);
        }
    }
}

MMB_INLINE void contains_many(uint32_t arity, const mmb_fuse *fuse, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                              uint8_t *maybe)
{
    if (fuse->num_shards == 0) {
        memset(maybe, 0, n);
        return;
    }
    switch (fuse->fingerprint_bits) {
    case 8:
        look_up(fuse, arity, 8, payload, hashes, n, maybe);
        break;
    case 16:
        look_up(fuse, arity, 16, payload, hashes, n, maybe);
        break;
    default:
        look_up(fuse, arity, fuse->fingerprint_bits, payload, hashes, n, maybe);
    }
}

static size_t pages_of(const mmb_shape *shape, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t *pages)
{
    const mmb_fuse *fuse = &shape->fuse;
    const uint32_t width = fuse->fingerprint_bits;
    size_t written = 0;

    for (size_t i = 0; i < n && fuse->num_shards > 0; i++) {
        uint64_t slots[MMB_FUSE_MAX_ARITY];
        uint64_t rest;
        const uint64_t shard = shard_of(fuse, hashes[i], &rest);
        const uint64_t seed_offset = table_offset(fuse) + 8 * shard;
        places(fuse, fuse->arity, rest, hashes[i].lo, load64(payload + seed_offset), slots);
        pages[written++] = seed_offset / MMB_PAGE_BYTES;
        for (uint32_t j = 0; j < fuse->arity; j++) {
            const uint64_t first_bit = 8 * shard * fuse->shard_bytes + slots[j] * width;
            const uint64_t first = first_bit / (8 * MMB_PAGE_BYTES);
            const uint64_t last = (first_bit + width - 1) / (8 * MMB_PAGE_BYTES);
            pages[written++] = first;
            if (last != first) {
                pages[written++] = last;
            }
        }
    }
    return written;
}

static uint64_t payload_bytes(const mmb_shape *shape)
{
    return mmb_fuse_bytes(&shape->fuse);
}

/* A row: the functions for one arity. */
#define LAYOUT(name, arity)                                                                                                    \
    static uint8_t name##_contains(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash)                              \
    {                                                                                                                          \
        return contains(arity, &shape->fuse, payload, hash);                                                                   \
    }                                                                                                                          \
    static void name##_contains_many(const mmb_shape *shape, const uint8_t *payload, const mmb_hash *hashes, size_t n,         \
                                     uint8_t *maybe)                                                                           \
    {                                                                                                                          \
        contains_many(arity, &shape->fuse, payload, hashes, n, maybe);                                                         \
    }                                                                                                                          \
    const mmb_layout mmb_##name = {                                                                                            \
        .payload_bytes = payload_bytes,                                                                                        \
        .contains = name##_contains,                                                                                           \
        .contains_many = name##_contains_many,                                                                                 \
        .pages_of = pages_of,                                                                                                  \
        .max_probes = arity,                                                                                                   \
        .max_pages_per_key = 2 * (arity) + 1,                                                                                  \
    };

LAYOUT(fuse3, 3)
LAYOUT(fuse4, 4)
