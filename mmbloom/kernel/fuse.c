/* Probe schemes 5 and 6 of FORMAT.md, read and built. A change of places() or fingerprint() makes existing files answer
   "definitely not" for keys they hold: a better rule gets new numbers.

   Building is peeling: a slot that only one key has fixes that key, which is taken out, which leaves other slots with one
   key. Taken back in reverse order, each key finds its slot free and sets it so that the xor is right. The first slot grows
   with hi, so keys sorted by hi are sorted by slot, and all work moves through a window of a few segments. */
#include "fuse.h"

#include <string.h>

#include "layouts.h"

#if defined(__GNUC__)
#define MMB_INLINE static inline __attribute__((always_inline))
#else
#define MMB_INLINE static inline
#endif

#define LINE_BYTES 64U
#define PLACE_BITS 18U
#define GROUP_KEYS 64U
#define KEYS_AHEAD 16U

/* A slot under construction: how many keys have it, and the xor of their numbers. */
#define KEY_MASK MMB_FUSE_MAX_KEYS
#define ONE_KEY (UINT32_C(1) << 24)
#define MAX_KEYS_OF_SLOT 255U
#define NO_KEY UINT32_MAX

static uint64_t lines_of(uint64_t num_bits)
{
    return (num_bits + 8 * LINE_BYTES - 1) / (8 * LINE_BYTES) * LINE_BYTES;
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
    return fuse->num_shards == 0 ? LINE_BYTES : table_offset(fuse) + lines_of(UINT64_C(64) * fuse->num_shards);
}

static inline uint32_t load32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static inline uint64_t load64(const uint8_t *bytes)
{
    return load32(bytes) | (uint64_t)load32(bytes + 4) << 32;
}

/* ---- where a key lies ---- */

static inline uint64_t shard_of(const mmb_fuse *fuse, mmb_hash hash, uint64_t *rest)
{
    return multiply_high(hash.hi, fuse->num_shards, rest);
}

/* The slots of a key, one in each of `arity` neighbouring segments; `rest` is what shard_of() has left of hi. */
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
    if (width <= 25) { /* 7 bits before it and its own fit into 32 */
        return (load32(bytes) >> shift) & mask;
    }
    return (uint32_t)((load32(bytes) | (uint64_t)bytes[4] << 32) >> shift) & mask;
}

/* Ask for the line of a slot, or both lines if what read_slot() reads may lie in two. */
MMB_INLINE void prefetch_slot(const uint8_t *shard, uint64_t slot, uint32_t width)
{
    const uint8_t *bytes = slot_bytes(shard, slot, width);

    MMB_PREFETCH(bytes);
    if (width != 8 && width != 16) {
        MMB_PREFETCH(bytes + (width <= 25 ? 3 : 4));
    }
}

/* Requires: the slot is zero. */
static inline void write_slot(uint8_t *shard, uint64_t slot, uint32_t width, uint32_t value)
{
    uint8_t *bytes = shard + ((slot * width) >> 3);
    uint64_t bits = (uint64_t)value << ((slot * width) & 7);

    for (; bits != 0; bits >>= 8) {
        *bytes++ |= (uint8_t)bits;
    }
}

/* ---- looking up ---- */

MMB_INLINE uint32_t combined(const uint8_t *shard, const uint64_t *slots, uint32_t arity, uint32_t width)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < arity; i++) {
        found ^= read_slot(shard, slots[i], width);
    }
    return found;
}

uint8_t mmb_fuse_contains(const mmb_fuse *fuse, const uint8_t *payload, mmb_hash hash)
{
    uint64_t slots[MMB_FUSE_MAX_ARITY];
    uint64_t rest;

    if (fuse->num_shards == 0) {
        return 0;
    }
    const uint64_t shard = shard_of(fuse, hash, &rest);
    const uint64_t seed = load64(payload + table_offset(fuse) + 8 * shard);
    places(fuse, fuse->arity, rest, hash.lo, seed, slots);
    return combined(payload + shard * fuse->shard_bytes, slots, fuse->arity, fuse->fingerprint_bits) ==
           fingerprint(hash, fuse->fingerprint_bits);
}

/* The loop over keys, once: `arity` and `width` are constants where it is called. A group's slots are asked for before any of
   them is read, so that its cache misses overlap. */
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

void mmb_fuse_look_up(const void *fuse, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint8_t *maybe)
{
    const mmb_fuse *shape = fuse;

    if (shape->num_shards == 0) {
        memset(maybe, 0, n);
    } else if (shape->arity == 3) {
        switch (shape->fingerprint_bits) {
        case 8:
            look_up(shape, 3, 8, payload, hashes, n, maybe);
            break;
        case 16:
            look_up(shape, 3, 16, payload, hashes, n, maybe);
            break;
        default:
            look_up(shape, 3, shape->fingerprint_bits, payload, hashes, n, maybe);
        }
    } else {
        switch (shape->fingerprint_bits) {
        case 8:
            look_up(shape, 4, 8, payload, hashes, n, maybe);
            break;
        case 16:
            look_up(shape, 4, 16, payload, hashes, n, maybe);
            break;
        default:
            look_up(shape, 4, shape->fingerprint_bits, payload, hashes, n, maybe);
        }
    }
}

size_t mmb_fuse_pages_of(const void *fuse, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t *pages)
{
    const mmb_fuse *shape = fuse;
    const uint32_t width = shape->fingerprint_bits;
    size_t written = 0;

    for (size_t i = 0; i < n && shape->num_shards > 0; i++) {
        uint64_t slots[MMB_FUSE_MAX_ARITY];
        uint64_t rest;
        const uint64_t shard = shard_of(shape, hashes[i], &rest);
        const uint64_t seed_offset = table_offset(shape) + 8 * shard;
        places(shape, shape->arity, rest, hashes[i].lo, load64(payload + seed_offset), slots);
        pages[written++] = seed_offset / MMB_PAGE_BYTES;
        for (uint32_t j = 0; j < shape->arity; j++) {
            const uint64_t first_bit = 8 * shard * shape->shard_bytes + slots[j] * width;
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

/* ---- building ---- */

/* Scratch memory of one construction. */
typedef struct {
    uint32_t *slots; /* by slot: number of its keys << 24 | xor of their numbers */
    uint32_t *alone; /* slots that have or had one key, in the order of that      */
    uint32_t *order; /* numbers of the keys, as they were taken out               */
    uint8_t *which;  /* for each, which of its slots was its own                  */
    uint64_t num_slots;
    size_t num_alone;
    size_t num_done;
} peeling;

static uint64_t num_slots_of(const mmb_fuse *fuse)
{
    return fuse->start_slots + (uint64_t)(fuse->arity - 1) * fuse->segment_slots;
}

uint64_t mmb_fuse_scratch_bytes(const mmb_fuse *fuse)
{
    const uint64_t num_slots = num_slots_of(fuse);

    return sizeof(uint32_t) * (3 * num_slots + 1) + num_slots;
}

static peeling parts_of(const mmb_fuse *fuse, uint32_t *scratch)
{
    const uint64_t num_slots = num_slots_of(fuse);

    return (peeling){
        .slots = scratch,
        .alone = scratch + num_slots,
        .order = scratch + 2 * num_slots + 1,
        .which = (uint8_t *)(scratch + 3 * num_slots + 1),
        .num_slots = num_slots,
    };
}

/* The slots of a key of the shard that is being built. */
MMB_INLINE void places_of(const mmb_fuse *fuse, uint32_t arity, mmb_hash hash, uint64_t seed, uint64_t *slots)
{
    uint64_t rest;

    shard_of(fuse, hash, &rest);
    places(fuse, arity, rest, hash.lo, seed, slots);
}

/* Put all keys into their slots. Returns 0 if a slot has more keys than can be counted, so that none can be built. */
MMB_INLINE int put_in(const mmb_fuse *fuse, uint32_t arity, const mmb_hash *hashes, size_t n, uint64_t seed,
                      peeling *work)
{
    uint32_t most = 0;

    memset(work->slots, 0, (size_t)work->num_slots * sizeof *work->slots);
    for (size_t i = 0; i < n; i++) {
        uint64_t slots[MMB_FUSE_MAX_ARITY];
        places_of(fuse, arity, hashes[i], seed, slots);
        for (uint32_t j = 0; j < arity; j++) {
            const uint32_t slot = (work->slots[slots[j]] + ONE_KEY) ^ (uint32_t)i;
            work->slots[slots[j]] = slot;
            most = slot > most ? slot : most;
        }
        if ((most >> 24) == MAX_KEYS_OF_SLOT) {
            return 0;
        }
    }
    return 1;
}

/* Take out the keys that are alone in `alone`[next ... next + count), of which count <= GROUP_KEYS. In three passes, so that
   the cache misses of a group overlap: hashes are asked for, then slots, then keys are taken out, in order. */
MMB_INLINE void take_out_group(const mmb_fuse *fuse, uint32_t arity, const mmb_hash *hashes, uint64_t seed, peeling *work,
                               size_t next, size_t count)
{
    uint64_t slots[GROUP_KEYS][MMB_FUSE_MAX_ARITY];
    uint32_t keys[GROUP_KEYS];
    const uint32_t *owns = work->alone + next;

    for (size_t i = 0; i < count; i++) {
        const uint32_t slot = work->slots[owns[i]];
        keys[i] = (slot >> 24) == 1 ? slot & KEY_MASK : NO_KEY;
        MMB_PREFETCH(&hashes[slot & KEY_MASK]);
    }
    for (size_t i = 0; i < count; i++) {
        if (keys[i] != NO_KEY) {
            places_of(fuse, arity, hashes[keys[i]], seed, slots[i]);
            for (uint32_t j = 0; j < arity; j++) {
                MMB_PREFETCH(&work->slots[slots[i][j]]);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t which = 0;
        if ((work->slots[owns[i]] >> 24) != 1) {
            continue; /* its key went with another slot of its own */
        }
        for (uint32_t j = 0; j < arity; j++) {
            const uint32_t left = (work->slots[slots[i][j]] ^ keys[i]) - ONE_KEY;
            work->slots[slots[i][j]] = left;
            which = slots[i][j] == owns[i] ? j : which;
            work->alone[work->num_alone] = (uint32_t)slots[i][j];
            work->num_alone += (left >> 24) == 1;
        }
        work->order[work->num_done] = keys[i];
        work->which[work->num_done++] = (uint8_t)which;
    }
}

/* Take out keys that are alone in a slot until none is left, first come, first served. Returns how many came out.

   A slot comes to have one key once, so `alone` is long enough. The queue moves through the slots in sweeps: what it will
   touch is known ahead, which a stack (depth first) does not allow: that takes 3 times as long. */
MMB_INLINE size_t take_out(const mmb_fuse *fuse, uint32_t arity, const mmb_hash *hashes, uint64_t seed, peeling *work)
{
    work->num_alone = work->num_done = 0;
    for (uint64_t slot = 0; slot < work->num_slots; slot++) {
        work->alone[work->num_alone] = (uint32_t)slot;
        work->num_alone += (work->slots[slot] >> 24) == 1;
    }
    for (size_t next = 0; next < work->num_alone;) {
        const size_t left = work->num_alone - next;
        const size_t count = left < GROUP_KEYS ? left : GROUP_KEYS;
        take_out_group(fuse, arity, hashes, seed, work, next, count);
        next += count;
    }
    return work->num_done;
}

/* Give every key's own slot, the last taken out first, the value that makes the xor of all its slots its fingerprint. */
MMB_INLINE void put_back(const mmb_fuse *fuse, uint32_t arity, const mmb_hash *hashes, size_t n, uint64_t seed,
                         const peeling *work, uint8_t *shard)
{
    const uint32_t width = fuse->fingerprint_bits;

    for (size_t i = n; i-- > 0;) {
        if (i >= KEYS_AHEAD) {
            MMB_PREFETCH(&hashes[work->order[i - KEYS_AHEAD]]);
        }
        const mmb_hash hash = hashes[work->order[i]];
        uint64_t slots[MMB_FUSE_MAX_ARITY];
        places_of(fuse, arity, hash, seed, slots);
        const uint32_t value = combined(shard, slots, arity, width) ^ fingerprint(hash, width);
        write_slot(shard, slots[work->which[i]], width, value);
    }
}

/* `arity` is a constant where it is called. */
MMB_INLINE int construct(const mmb_fuse *fuse, uint32_t arity, const mmb_hash *hashes, size_t n, uint64_t seed,
                         peeling *work, uint8_t *shard)
{
    if (!put_in(fuse, arity, hashes, n, seed, work) || take_out(fuse, arity, hashes, seed, work) < n) {
        return 0;
    }
    put_back(fuse, arity, hashes, n, seed, work, shard);
    return 1;
}

mmb_status mmb_fuse_construct(const mmb_fuse *fuse, const mmb_hash *hashes, size_t n, uint32_t max_seeds,
                              uint32_t *scratch, uint8_t *shard, uint64_t *seed)
{
    peeling work = parts_of(fuse, scratch);

    for (uint32_t i = 0; i < max_seeds && n <= work.num_slots; i++) {
        *seed = (i + 1) * MMB_GOLDEN64;
        if (fuse->arity == 3 ? construct(fuse, 3, hashes, n, *seed, &work, shard)
                             : construct(fuse, 4, hashes, n, *seed, &work, shard)) {
            return MMB_OK;
        }
    }
    return MMB_UNSOLVABLE;
}
