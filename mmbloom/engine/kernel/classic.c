/* Layout `classic`: a key's probes lie anywhere in the payload, one cache line each.

   Probe scheme 1 of FORMAT.md. A change here makes existing files answer "definitely not" for keys they hold: a better rule
   gets a new number and a new row. */
#include "layout_rows.h"
#include "multiply.h"

/* Bit numbers of a group of keys: 512 * 8 bytes, a small part of the L1 cache. */
#define GROUP_BITS 512U

/* The state of a key's walk over the payload. Cubic enhanced double hashing (Dillinger & Manolios 2004): textbook double
   hashing has 56 times too many false positives at n = 1000, p = 1e-6. */
typedef struct {
    uint64_t x, y, z;
} walk;

static inline walk walk_start(mmb_hash hash)
{
    return (walk){hash.hi, hash.lo, MMB_GOLDEN64};
}

/* The bit number at x, mixed: without that, a key close to another in both x and y would have nearly the same bits, and a
   filter of one key at p = 1e-6 would have 13 times too many false positives. */
static inline uint64_t walk_next(walk *at, uint64_t num_bits)
{
    uint64_t fraction;
    const uint64_t bit = multiply_high((at->x ^ (at->x >> 32)) * MMB_GOLDEN64, num_bits, &fraction);

    at->y += at->z;
    at->x += at->y;
    at->z += MMB_GOLDEN64;
    return bit;
}

static inline void bits_of(const mmb_bloom *bloom, mmb_hash hash, uint64_t *bits)
{
    walk at = walk_start(hash);

    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        bits[i] = walk_next(&at, bloom->num_bits);
    }
}

static inline uint8_t all_set(const uint8_t *payload, const uint64_t *bits, uint32_t num_probes)
{
    unsigned all = 1;

    for (uint32_t i = 0; i < num_probes; i++) {
        all &= (unsigned)payload[bits[i] >> 3] >> (bits[i] & 7);
    }
    return (uint8_t)(all & 1);
}

/* One key, nothing prefetched: leaving early saves a cache miss per probe. */
static uint8_t contains(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash)
{
    const mmb_bloom *bloom = &shape->bloom;
    walk at = walk_start(hash);

    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        const uint64_t bit = walk_next(&at, bloom->num_bits);
        if (!((payload[bit >> 3] >> (bit & 7)) & 1)) {
            return 0;
        }
    }
    return 1;
}

static unsigned add(const mmb_shape *shape, uint8_t *payload, mmb_hash hash, mmb_counted *counted)
{
    const mmb_bloom *bloom = &shape->bloom;
    walk at = walk_start(hash);
    unsigned all = 1;

    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        const uint64_t bit = walk_next(&at, bloom->num_bits);
        const unsigned byte = payload[bit >> 3];
        all &= byte >> (bit & 7);
        payload[bit >> 3] = (uint8_t)(byte | (1U << (bit & 7)));
    }
    *counted = (mmb_counted){(all & 1) ^ 1, 0};
    return (all & 1) ^ 1;
}

/* The bit numbers of up to GROUP_BITS / num_probes keys, with their lines requested. Returns how many keys. */
static size_t prefetch_group(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                             uint64_t *bits)
{
    const uint32_t k = bloom->num_probes;
    const size_t keys = n < GROUP_BITS / k ? n : GROUP_BITS / k;

    for (size_t i = 0; i < keys; i++) {
        bits_of(bloom, hashes[i], bits + i * k);
        for (uint32_t j = 0; j < k; j++) {
            MMB_PREFETCH(payload + (bits[i * k + j] >> 3));
        }
    }
    return keys;
}

static void contains_many(const mmb_shape *shape, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint8_t *maybe)
{
    const mmb_bloom *bloom = &shape->bloom;
    uint64_t bits[GROUP_BITS];

    for (size_t first = 0; first < n;) {
        const size_t keys = prefetch_group(bloom, payload, hashes + first, n - first, bits);
        for (size_t i = 0; i < keys; i++) {
            maybe[first + i] = all_set(payload, bits + i * bloom->num_probes, bloom->num_probes);
        }
        first += keys;
    }
}

static size_t add_many(const mmb_shape *shape, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                       mmb_counted *counted, const mmb_dirty *dirty)
{
    const mmb_bloom *bloom = &shape->bloom;
    const uint32_t k = bloom->num_probes;
    uint64_t bits[GROUP_BITS];
    uint64_t added = 0;
    size_t first = 0;

    while (first < n) {
        const size_t keys = prefetch_group(bloom, payload, hashes + first, n - first, bits);
        size_t i = 0;
        for (; i < keys; i++) {
            const uint64_t *key_bits = bits + i * k;
            if (all_set(payload, key_bits, k)) {
                continue;
            }
            if (added == room) {
                break;
            }
            added++;
            for (uint32_t j = 0; j < k; j++) {
                uint8_t *byte = payload + (key_bits[j] >> 3);
                const uint8_t changed = (uint8_t)(*byte | (1U << (key_bits[j] & 7)));
                if (changed != *byte) {
                    *byte = changed;
                    mmb_dirty_mark(dirty, key_bits[j] >> 3);
                }
            }
        }
        first += i;
        if (i < keys) {
            break;
        }
    }
    *counted = (mmb_counted){added, 0};
    return first;
}

/* Set bits whose numbers are known, all requested before the first is needed. */
static void set_bits(uint8_t *target, const uint64_t *bits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        MMB_PREFETCH(target + (bits[i] >> 3));
    }
    for (size_t i = 0; i < n; i++) {
        target[bits[i] >> 3] = (uint8_t)(target[bits[i] >> 3] | (1U << (bits[i] & 7)));
    }
}

static void add_part(const mmb_shape *shape, uint8_t *target, uint64_t first, uint64_t num_bytes, const mmb_hash *hashes,
                     size_t n)
{
    const mmb_bloom *bloom = &shape->bloom;
    uint64_t bits[GROUP_BITS];
    size_t waiting = 0;

    for (size_t i = 0; i < n; i++) {
        walk at = walk_start(hashes[i]);
        if (waiting + bloom->num_probes > GROUP_BITS) {
            set_bits(target, bits, waiting);
            waiting = 0;
        }
        for (uint32_t j = 0; j < bloom->num_probes; j++) {
            /* A branch would be mispredicted half of the time. So each bit is written, and kept by counting it. The number of a
               bit before the part wraps to a large one. */
            bits[waiting] = walk_next(&at, bloom->num_bits) - 8 * first;
            waiting += bits[waiting] < 8 * num_bytes;
        }
    }
    set_bits(target, bits, waiting);
}

static void probes(const mmb_shape *shape, mmb_hash hash, uint64_t *numbers)
{
    bits_of(&shape->bloom, hash, numbers);
}

static size_t pages_of(const mmb_shape *shape, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t *pages)
{
    const uint32_t k = shape->bloom.num_probes;

    (void)payload;
    for (size_t i = 0; i < n; i++) {
        bits_of(&shape->bloom, hashes[i], pages + i * k);
    }
    for (size_t i = 0; i < n * k; i++) {
        pages[i] /= 8 * MMB_PAGE_BYTES;
    }
    return n * k;
}

static uint64_t payload_bytes(const mmb_shape *shape)
{
    return (shape->bloom.num_bits + 7) / 8;
}

const mmb_layout mmb_classic = {
    .payload_bytes = payload_bytes,
    .contains = contains,
    .contains_many = contains_many,
    .pages_of = pages_of,
    .probes = probes,
    .add = add,
    .add_many = add_many,
    .add_part = add_part,
    .block_bytes = 0,
    .max_probes = MMB_MAX_PROBES,
    .max_pages_per_key = MMB_MAX_PROBES,
};
