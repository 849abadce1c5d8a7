/* Radix sort from the top down. Hashes are uniform, so one round into about as many groups as a cache has counters for leaves
   groups of a few, which insertion finishes.

   What is not uniform: the top bits of a partition's hashes are all alike (they are skipped), and a list may repeat a few
   keys millions of times (a group that stays large is shared out again, by its own next bits, down to the last bit). */
#include "sort.h"

#include <string.h>

#include "multiply.h"

#define TOP_BITS 14U /* of the first round: 2^14 counters of 4 bytes are a part of the L2 cache */
#define COUNTERS ((size_t)1 << TOP_BITS)
#define NEXT_BITS 8U    /* of later rounds, which may nest: 1 KiB of stack each                     */
#define GROUP_HASHES 4U /* the size of the groups to aim at */
#define SMALL_GROUP 32U
#define HASH_BITS 128U

static inline int hash_less(const mmb_hash *a, const mmb_hash *b)
{
    return a->hi < b->hi || (a->hi == b->hi && a->lo < b->lo);
}

/* Sort n hashes and write the distinct ones to `out`; returns how many. */
static inline size_t sort_small(mmb_hash *hashes, size_t n, mmb_hash *out)
{
    size_t kept = 0;

    for (size_t i = 1; i < n; i++) {
        const mmb_hash hash = hashes[i];
        size_t j = i;
        for (; j > 0 && hash_less(&hash, &hashes[j - 1]); j--) {
            hashes[j] = hashes[j - 1];
        }
        hashes[j] = hash;
    }
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || hash_less(&hashes[i - 1], &hashes[i])) {
            out[kept++] = hashes[i];
        }
    }
    return kept;
}

/* `count` bits of a hash, 1 to 32; bit `first` from the top is the first of them. */
static inline size_t bits_of(const mmb_hash *hash, unsigned first, unsigned count)
{
    uint64_t top = hash->hi;

    if (first >= 64) {
        top = hash->lo << (first - 64);
    } else if (first > 0) {
        top = (hash->hi << first) | (hash->lo >> (64 - first));
    }
    return (size_t)(top >> (64 - count));
}

static unsigned leading_zeros(uint64_t bits)
{
    unsigned zeros = 0;

    while (zeros < 64 && !((bits >> (63 - zeros)) & 1)) {
        zeros++;
    }
    return zeros;
}

/* How many of their top bits all n > 0 hashes have in common. */
static unsigned common_bits(const mmb_hash *hashes, size_t n)
{
    uint64_t hi = 0;
    uint64_t lo = 0;

    for (size_t i = 1; i < n; i++) {
        hi |= hashes[i].hi ^ hashes[0].hi;
        lo |= hashes[i].lo ^ hashes[0].lo;
    }
    return hi != 0 ? leading_zeros(hi) : 64 + leading_zeros(lo);
}

/* How many bits share n hashes out into groups of GROUP_HASHES. */
static unsigned bits_for(size_t n, unsigned most)
{
    unsigned bits = 1;

    while (bits < most && (n >> bits) > GROUP_HASHES) {
        bits++;
    }
    return bits;
}

static size_t sort_large(mmb_hash *hashes, mmb_hash *scratch, size_t n);

/* Share n hashes out by the first bits in which they differ, sort each group, and return how many distinct hashes are left
   at the front. A group is smaller than what it came from, so rounds nest at most HASH_BITS deep. `ends` has 2^most_bits. */
static size_t sort_round(mmb_hash *hashes, mmb_hash *scratch, size_t n, uint32_t *ends, unsigned most_bits)
{
    const unsigned first = common_bits(hashes, n);
    uint32_t start = 0;
    size_t kept = 0;

    if (first == HASH_BITS) {
        return 1;
    }
    const unsigned wanted = bits_for(n, most_bits);
    const unsigned bits = wanted < HASH_BITS - first ? wanted : HASH_BITS - first;
    const size_t groups = (size_t)1 << bits;
    memset(ends, 0, groups * sizeof *ends);
    for (size_t i = 0; i < n; i++) {
        ends[bits_of(&hashes[i], first, bits)]++;
    }
    for (size_t group = 0; group < groups; group++) {
        const uint32_t count = ends[group];
        ends[group] = start;
        start += count;
    }
    for (size_t i = 0; i < n; i++) {
        scratch[ends[bits_of(&hashes[i], first, bits)]++] = hashes[i];
    }
    start = 0;
    for (size_t group = 0; group < groups; group++) {
        const size_t count = ends[group] - start;
        if (count <= SMALL_GROUP) {
            kept += sort_small(scratch + start, count, hashes + kept);
        } else { /* its old room is its scratch now: what was kept so far lies before that */
            const size_t distinct = sort_large(scratch + start, hashes + start, count);
            memcpy(hashes + kept, scratch + start, distinct * sizeof *hashes);
            kept += distinct;
        }
        start = ends[group];
    }
    return kept;
}

static size_t sort_large(mmb_hash *hashes, mmb_hash *scratch, size_t n)
{
    uint32_t ends[(size_t)1 << NEXT_BITS];

    return sort_round(hashes, scratch, n, ends, NEXT_BITS);
}

size_t mmb_sort_unique(mmb_hash *hashes, mmb_hash *scratch, size_t n)
{
    uint32_t ends[COUNTERS];

    if (n <= SMALL_GROUP) {
        const size_t kept = sort_small(hashes, n, scratch);
        memcpy(hashes, scratch, kept * sizeof *hashes);
        return kept;
    }
    return sort_round(hashes, scratch, n, ends, TOP_BITS);
}

static inline uint64_t part_of(mmb_hash hash, uint64_t num_parts)
{
    uint64_t rest;

    return multiply_high(hash.hi, num_parts, &rest);
}

/* Counting sort. Hashes that lie in more parts than there are counters are gone through again for the next of these. */
void mmb_order_by_part(const mmb_hash *hashes, size_t n, uint64_t num_parts, mmb_hash *out)
{
    uint32_t ends[COUNTERS];
    uint64_t first = num_parts;
    uint64_t end = 0;
    uint32_t start = 0;

    for (size_t i = 0; i < n; i++) {
        const uint64_t part = part_of(hashes[i], num_parts);
        first = part < first ? part : first;
        end = part >= end ? part + 1 : end;
    }
    for (; first < end; first += COUNTERS) {
        const uint64_t left = end - first;
        const uint64_t count = left < COUNTERS ? left : COUNTERS;
        memset(ends, 0, (size_t)count * sizeof *ends);
        for (size_t i = 0; i < n; i++) {
            const uint64_t part = part_of(hashes[i], num_parts) - first;
            if (part < count) {
                ends[part]++;
            }
        }
        for (size_t part = 0; part < count; part++) {
            const uint32_t hashes_in = ends[part];
            ends[part] = start;
            start += hashes_in;
        }
        for (size_t i = 0; i < n; i++) {
            const uint64_t part = part_of(hashes[i], num_parts) - first;
            if (part < count) {
                out[ends[part]++] = hashes[i];
            }
        }
    }
}

mmb_hash mmb_sum_hashes(const mmb_hash *hashes, size_t n)
{
    mmb_hash sum = {0, 0};

    for (size_t i = 0; i < n; i++) {
        sum.lo += hashes[i].lo;
        sum.hi += hashes[i].hi + (sum.lo < hashes[i].lo ? 1 : 0);
    }
    return sum;
}
