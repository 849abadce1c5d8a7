/* Radix sort from the top byte down. Hashes are uniform, so two rounds leave a million of them in groups of ~16, which
   insertion finishes. Depth is bounded by the 16 bytes of a hash, whatever the keys were. */
#include "sort.h"

#include <string.h>

#define DIGIT_VALUES 256U
#define HASH_BYTES 16U
#define SMALL_GROUP 24U

static inline int hash_less(const mmb_hash *a, const mmb_hash *b)
{
    return a->hi < b->hi || (a->hi == b->hi && a->lo < b->lo);
}

/* Byte `level` of a hash, 0 the most significant. */
static inline size_t digit_of(const mmb_hash *hash, unsigned level)
{
    return level < 8 ? (hash->hi >> (56 - 8 * level)) & 0xFF : (hash->lo >> (120 - 8 * level)) & 0xFF;
}

static void insertion_sort(mmb_hash *hashes, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const mmb_hash hash = hashes[i];
        size_t j = i;
        for (; j > 0 && hash_less(&hash, &hashes[j - 1]); j--) {
            hashes[j] = hashes[j - 1];
        }
        hashes[j] = hash;
    }
}

static void radix_sort(mmb_hash *hashes, mmb_hash *scratch, size_t n, unsigned level)
{
    size_t ends[DIGIT_VALUES] = {0};
    size_t start = 0;

    if (n <= SMALL_GROUP || level == HASH_BYTES) {
        insertion_sort(hashes, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        ends[digit_of(&hashes[i], level)]++;
    }
    for (size_t digit = 0; digit < DIGIT_VALUES; digit++) {
        const size_t count = ends[digit];
        ends[digit] = start;
        start += count;
    }
    for (size_t i = 0; i < n; i++) {
        scratch[ends[digit_of(&hashes[i], level)]++] = hashes[i];
    }
    memcpy(hashes, scratch, n * sizeof *hashes);
    start = 0;
    for (size_t digit = 0; digit < DIGIT_VALUES; digit++) {
        radix_sort(hashes + start, scratch, ends[digit] - start, level + 1);
        start = ends[digit];
    }
}

size_t mmb_sort_unique(mmb_hash *hashes, mmb_hash *scratch, size_t n)
{
    size_t kept = 0;

    radix_sort(hashes, scratch, n, 0);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || hash_less(&hashes[kept - 1], &hashes[i])) {
            hashes[kept++] = hashes[i];
        }
    }
    return kept;
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
