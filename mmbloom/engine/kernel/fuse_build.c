/* Fuse filters, built: one shard from its hashes.

   Building is peeling: a slot that only one key has fixes that key, which is taken out, which leaves other slots with one
   key. Taken back in reverse order, each key finds its slot free and sets it so that the xor is right.

   Any order of taking out will do; this one keeps to a window that fits into a cache. A key's first slot grows with hi, so
   keys in order fill the segments in order: once all keys that begin in a segment or before are in, its slots are complete.
   Then keys that are alone in it are taken out, and those that become alone behind the sweep, until none is left; only then
   do the keys of the next segment come in. The front at which everything before has gone moves with the sweep. */
#include <string.h>

#include "fuse_slots.h"

#define GROUP_KEYS 64U
#define KEYS_AHEAD 16U

/* A slot under construction: how many keys have it, and the xor of their numbers. */
#define KEY_MASK MMB_FUSE_MAX_KEYS
#define ONE_KEY (UINT32_C(1) << 24)
#define MAX_KEYS_OF_SLOT 255U

static inline uint32_t keys_in(uint32_t slot)
{
    return slot >> 24;
}

/* The keys of one construction, and its scratch memory. */
typedef struct {
    const mmb_fuse *fuse;
    const mmb_hash *hashes;
    size_t n;
    uint64_t seed;
    uint64_t num_slots;
    uint32_t *slots; /* by slot: number of its keys << 24 | xor of their numbers                           */
    uint32_t *alone; /* a queue of slots that came to have one key, and before it the keys' own, in order  */
    uint32_t *order; /* numbers of the keys, as they were taken out                                        */
    size_t num_put;
    size_t next;      /* of the queue, in `alone` */
    size_t num_alone; /* where the queue ends     */
    size_t num_done;
} peeling;

static uint64_t num_slots_of(const mmb_fuse *fuse)
{
    return fuse->start_slots + (uint64_t)(fuse->arity - 1) * fuse->segment_slots;
}

uint64_t mmb_fuse_scratch_bytes(const mmb_fuse *fuse)
{
    return sizeof(uint32_t) * (3 * num_slots_of(fuse) + 1);
}

static peeling new_peeling(const mmb_fuse *fuse, const mmb_hash *hashes, size_t n, uint64_t seed, uint32_t *scratch)
{
    const uint64_t num_slots = num_slots_of(fuse);

    return (peeling){
        .fuse = fuse,
        .hashes = hashes,
        .n = n,
        .seed = seed,
        .num_slots = num_slots,
        .slots = scratch,
        .alone = scratch + num_slots,
        .order = scratch + 2 * num_slots + 1,
    };
}

MMB_INLINE void places_of(const peeling *work, uint32_t arity, mmb_hash hash, uint64_t *slots)
{
    uint64_t rest;

    shard_of(work->fuse, hash, &rest);
    places(work->fuse, arity, rest, hash.lo, work->seed, slots);
}

/* Put in the keys whose first slot lies in [from, to). MMB_UNSOLVABLE: a slot has more keys than can be counted. */
MMB_INLINE mmb_status put_in(peeling *work, uint32_t arity, uint64_t from, uint64_t to)
{
    uint32_t most = 0;

    for (; work->num_put < work->n; work->num_put++) {
        uint64_t slots[MMB_FUSE_MAX_ARITY];
        places_of(work, arity, work->hashes[work->num_put], slots);
        if (slots[0] >= to) {
            break;
        }
        if (slots[0] < from) {
            return MMB_UNORDERED;
        }
        for (uint32_t j = 0; j < arity; j++) {
            const uint32_t slot = (work->slots[slots[j]] + ONE_KEY) ^ (uint32_t)work->num_put;
            work->slots[slots[j]] = slot;
            most = slot > most ? slot : most;
        }
        if (keys_in(most) == MAX_KEYS_OF_SLOT) {
            return MMB_UNSOLVABLE;
        }
    }
    return MMB_OK;
}

/* Take out the keys of the next `count` <= GROUP_KEYS slots of the queue; slots below `to` are complete. In three passes, so
   that the cache misses of a group overlap: hashes are asked for, then slots, then keys are taken out, in order. */
MMB_INLINE void take_out_group(peeling *work, uint32_t arity, size_t count, uint64_t to)
{
    uint64_t slots[GROUP_KEYS][MMB_FUSE_MAX_ARITY];
    uint32_t keys[GROUP_KEYS];
    uint32_t owns[GROUP_KEYS];
    size_t num_keys = 0;

    for (size_t i = 0; i < count; i++) {
        const uint32_t own = work->alone[work->next + i];
        const uint32_t slot = work->slots[own];
        owns[num_keys] = own;
        keys[num_keys] = slot & KEY_MASK;
        num_keys += keys_in(slot) == 1; /* else its key went with another slot of its own */
        MMB_PREFETCH(&work->hashes[slot & KEY_MASK]);
    }
    work->next += count;
    for (size_t i = 0; i < num_keys; i++) {
        places_of(work, arity, work->hashes[keys[i]], slots[i]);
        for (uint32_t j = 0; j < arity; j++) {
            MMB_PREFETCH(&work->slots[slots[i][j]]);
        }
    }
    for (size_t i = 0; i < num_keys; i++) {
        if (keys_in(work->slots[owns[i]]) != 1) {
            continue; /* it went with another one of this group */
        }
        for (uint32_t j = 0; j < arity; j++) {
            const uint32_t left = (work->slots[slots[i][j]] ^ keys[i]) - ONE_KEY;
            work->slots[slots[i][j]] = left;
            work->alone[work->num_alone] = (uint32_t)slots[i][j];
            work->num_alone += (keys_in(left) == 1) & (slots[i][j] < to);
        }
        work->order[work->num_done] = keys[i];
        work->alone[work->num_done++] = owns[i]; /* the queue has moved on from there */
    }
}

/* Put in all keys and take out all that can be, segment after segment. MMB_UNSOLVABLE: some are left.

   A slot that is complete comes to have one key once, so `alone` is long enough. First come, first served: what will be
   touched is known ahead, which a stack (depth first) does not allow. */
MMB_INLINE mmb_status sweep(peeling *work, uint32_t arity)
{
    const uint64_t step = work->fuse->segment_slots;

    memset(work->slots, 0, (size_t)work->num_slots * sizeof *work->slots);
    for (uint64_t from = 0; from < work->num_slots; from += step) {
        const mmb_status status = put_in(work, arity, from, from + step);
        if (status != MMB_OK) {
            return status;
        }
        for (uint64_t slot = from; slot < from + step; slot++) {
            work->alone[work->num_alone] = (uint32_t)slot;
            work->num_alone += keys_in(work->slots[slot]) == 1;
        }
        while (work->next < work->num_alone) {
            const size_t left = work->num_alone - work->next;
            take_out_group(work, arity, left < GROUP_KEYS ? left : GROUP_KEYS, from + step);
        }
    }
    return work->num_done == work->n ? MMB_OK : MMB_UNSOLVABLE;
}

/* Requires: the slot is zero. */
MMB_INLINE void write_slot(uint8_t *shard, uint64_t slot, uint32_t width, uint32_t value)
{
    uint8_t *bytes = shard + ((slot * width) >> 3);

    if (width == 8) {
        *bytes = (uint8_t)value;
        return;
    }
    for (uint64_t bits = (uint64_t)value << ((slot * width) & 7); bits != 0; bits >>= 8) {
        *bytes++ |= (uint8_t)bits;
    }
}

/* Give every key's own slot, the last taken out first, the value that makes the xor of all its slots its fingerprint. */
MMB_INLINE void put_back(const peeling *work, uint32_t arity, uint32_t width, uint8_t *shard)
{
    for (size_t i = work->n; i-- > 0;) {
        if (i >= KEYS_AHEAD) {
            MMB_PREFETCH(&work->hashes[work->order[i - KEYS_AHEAD]]);
        }
        const mmb_hash hash = work->hashes[work->order[i]];
        uint64_t slots[MMB_FUSE_MAX_ARITY];
        places_of(work, arity, hash, slots);
        write_slot(shard, work->alone[i], width, combined(shard, slots, arity, width) ^ fingerprint(hash, width));
    }
}

/* `arity` is a constant where it is called. */
MMB_INLINE mmb_status construct(peeling *work, uint32_t arity, uint8_t *shard)
{
    const uint32_t width = work->fuse->fingerprint_bits;
    const mmb_status status = sweep(work, arity);

    if (status != MMB_OK) {
        return status;
    }
    if (width == 8) {
        put_back(work, arity, 8, shard);
    } else {
        put_back(work, arity, width, shard);
    }
    return MMB_OK;
}

mmb_status mmb_fuse_construct(const mmb_fuse *fuse, const mmb_hash *hashes, size_t n, uint32_t max_seeds,
                              uint32_t *scratch, uint8_t *shard, uint64_t *seed)
{
    mmb_status status = MMB_UNSOLVABLE;

    for (uint32_t i = 0; i < max_seeds && status == MMB_UNSOLVABLE; i++) {
        *seed = (i + 1) * MMB_GOLDEN64;
        peeling work = new_peeling(fuse, hashes, n, *seed, scratch);
        if (n > work.num_slots) {
            return MMB_UNSOLVABLE;
        }
        status = fuse->arity == 3 ? construct(&work, 3, shard) : construct(&work, 4, shard);
    }
    return status;
}
