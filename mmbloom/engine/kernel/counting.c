/* Counters of 4 bits: the filter that can forget.

   Probe scheme 4 of FORMAT.md. A key counts once in each counter that its probes name, however many of them name it. Each
   counter lies in one byte, which is written at once: whoever reads beside the writer sees a counter as it was or as it is,
   never in between; a counter that several keys share does not pass through zero while one of them is removed. */
#include "counting.h"

#include <string.h>

#include "bits.h"
#include "layouts.h"
#include "mixing.h"

#define LINE_BYTES 64U

/* A stretch of counters. GCC and Clang make vector instructions of the wide one where there are some; left to themselves they
   unroll the loops over a line into 64-bit steps, three times as slow. */
#if defined(__GNUC__)
typedef uint64_t counters_word __attribute__((vector_size(32)));
#else
typedef uint64_t counters_word;
#endif
#define LINE_WORDS (LINE_BYTES / sizeof(counters_word))

/* As in lines.c, where both were measured. */
#define LINES_AHEAD 32U
#define LARGE_BYTES ((uint64_t)64 * 1024 * 1024)
#define GROUP_KEYS 64U

/* A line of 128 counters as words. Where the bytes of a word lie does not matter: no step leaves its counter. */
typedef struct {
    counters_word words[LINE_WORDS];
} line_words;

/* The lowest bit of each counter of a word. */
#define LOWEST UINT64_C(0x1111111111111111)

/* Word by word: a copy of the whole line goes in smaller steps, and reading those back as words has to wait for them. */
MMB_INLINE line_words load_line(const uint8_t *line)
{
    line_words counters;

    for (size_t j = 0; j < LINE_WORDS; j++) {
        memcpy(&counters.words[j], line + j * sizeof counters.words[j], sizeof counters.words[j]);
    }
    return counters;
}

MMB_INLINE void store_line(uint8_t *line, const line_words *counters)
{
    for (size_t j = 0; j < LINE_WORDS; j++) {
        memcpy(line + j * sizeof counters->words[j], &counters->words[j], sizeof counters->words[j]);
    }
}

static inline uint64_t line_of(const mmb_counting *counting, mmb_hash hash)
{
    uint64_t fraction;

    return multiply_high(hash.hi, counting->num_counters / MMB_LINE_COUNTERS, &fraction);
}

/* The number of counter i in its line. */
static inline uint32_t place_of(mmb_hash hash, uint32_t i)
{
    return mix_probe((uint32_t)(i < 8 ? hash.lo : hash.lo >> 32), i) >> 25;
}

/* 1 in each counter of its line that the key counts in. */
MMB_INLINE line_words steps_of(const mmb_counting *counting, mmb_hash hash)
{
    uint8_t steps[LINE_BYTES] = {0};

    for (uint32_t i = 0; i < counting->num_probes; i++) {
        const uint32_t place = place_of(hash, i);
        steps[place >> 1] = (uint8_t)(steps[place >> 1] | (1U << (4 * (place & 1))));
    }
    return load_line(steps);
}

/* LOWEST where a counter is not zero, and where it is MMB_COUNTER_MOST: of words of either size. */
#define NOT_ZERO(counters) (((counters) | (counters) >> 1 | (counters) >> 2 | (counters) >> 3) & LOWEST)
#define AT_MOST(counters) ((counters) & (counters) >> 1 & (counters) >> 2 & (counters) >> 3 & LOWEST)

MMB_INLINE int is_zero(const counters_word *word)
{
    uint64_t parts[sizeof *word / sizeof(uint64_t)];
    uint64_t all = 0;

    memcpy(parts, word, sizeof parts);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        all |= parts[i];
    }
    return all == 0;
}

/* Whether one of the key's counters is zero. */
MMB_INLINE int line_lacks(const line_words *counters, const line_words *steps)
{
    counters_word lacking = {0};

    for (size_t j = 0; j < LINE_WORDS; j++) {
        lacking |= steps->words[j] & ~NOT_ZERO(counters->words[j]);
    }
    return !is_zero(&lacking);
}

/* Count the key. Of the steps those are left that have taken a counter to the most; returns whether there are any. */
MMB_INLINE int line_add(line_words *counters, line_words *steps)
{
    counters_word filled = {0};

    for (size_t j = 0; j < LINE_WORDS; j++) {
        const counters_word up = steps->words[j] & ~AT_MOST(counters->words[j]);
        counters->words[j] += up;
        steps->words[j] = up & AT_MOST(counters->words[j]);
        filled |= steps->words[j];
    }
    return !is_zero(&filled);
}

/* Take the key out. Returns whether one of its counters is zero now. */
MMB_INLINE int line_remove(line_words *counters, const line_words *steps)
{
    counters_word lacking = {0};

    for (size_t j = 0; j < LINE_WORDS; j++) {
        counters->words[j] -= steps->words[j] & ~AT_MOST(counters->words[j]);
        lacking |= steps->words[j] & ~NOT_ZERO(counters->words[j]);
    }
    return !is_zero(&lacking);
}

static uint64_t count_steps(const line_words *steps)
{
    uint64_t parts[LINE_BYTES / 8];
    uint64_t count = 0;

    memcpy(parts, steps, sizeof parts);
    for (size_t j = 0; j < LINE_BYTES / 8; j++) {
        count += count_bits(parts[j]);
    }
    return count;
}

static inline unsigned counter_at(const uint8_t *line, uint32_t place)
{
    return ((unsigned)line[place >> 1] >> (4 * (place & 1))) & MMB_COUNTER_MOST;
}

static inline uint8_t key_contains(const mmb_counting *counting, const uint8_t *payload, mmb_hash hash)
{
    const uint8_t *line = payload + LINE_BYTES * line_of(counting, hash);
    unsigned all = 1;

    for (uint32_t i = 0; i < counting->num_probes; i++) {
        all &= counter_at(line, place_of(hash, i)) != 0;
    }
    return (uint8_t)all;
}

static inline void prefetch_ahead(const mmb_counting *counting, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                                  size_t i)
{
    if (i + LINES_AHEAD < n) {
        MMB_PREFETCH(payload + LINE_BYTES * line_of(counting, hashes[i + LINES_AHEAD]));
    }
}

typedef uint8_t (*key_test)(const mmb_counting *counting, const uint8_t *payload, mmb_hash hash);

/* The loops over keys, once: each processor's version inlines them. */
MMB_INLINE void keys_contain(key_test contains, const mmb_counting *counting, const uint8_t *payload,
                             const mmb_hash *hashes, size_t n, uint8_t *maybe)
{
    if (counting->num_counters / 2 < LARGE_BYTES) {
        for (size_t i = 0; i < n; i++) {
            prefetch_ahead(counting, payload, hashes, n, i);
            maybe[i] = contains(counting, payload, hashes[i]);
        }
        return;
    }
    for (size_t first = 0; first < n; first += GROUP_KEYS) {
        const size_t end = n - first < GROUP_KEYS ? n : first + GROUP_KEYS;
        for (size_t i = first; i < end; i++) {
            MMB_PREFETCH(payload + LINE_BYTES * line_of(counting, hashes[i]));
        }
        for (size_t i = first; i < end; i++) {
            maybe[i] = contains(counting, payload, hashes[i]);
        }
    }
}

MMB_INLINE size_t keys_add(const mmb_counting *counting, uint8_t *payload, const mmb_hash *hashes, size_t n,
                           uint64_t room, mmb_counted *counted, const mmb_dirty *dirty)
{
    mmb_counted total = {0, 0};
    size_t i = 0;

    for (; i < n; i++) {
        prefetch_ahead(counting, payload, hashes, n, i);
        uint8_t *line = payload + LINE_BYTES * line_of(counting, hashes[i]);
        line_words steps = steps_of(counting, hashes[i]);
        line_words counters = load_line(line);
        const int is_new = line_lacks(&counters, &steps);
        if (is_new && total.num_keys == room) {
            break;
        }
        if (line_add(&counters, &steps)) {
            total.num_saturated += count_steps(&steps);
        }
        store_line(line, &counters);
        total.num_keys += (uint64_t)is_new;
        mmb_dirty_mark(dirty, (uint64_t)(line - payload));
    }
    *counted = total;
    return i;
}

MMB_INLINE size_t keys_remove(const mmb_counting *counting, uint8_t *payload, const mmb_hash *hashes, size_t n,
                              mmb_counted *counted, const mmb_dirty *dirty)
{
    mmb_counted total = {0, 0};
    size_t i = 0;

    for (; i < n; i++) {
        prefetch_ahead(counting, payload, hashes, n, i);
        uint8_t *line = payload + LINE_BYTES * line_of(counting, hashes[i]);
        const line_words steps = steps_of(counting, hashes[i]);
        line_words counters = load_line(line);
        if (line_lacks(&counters, &steps)) {
            break;
        }
        total.num_keys += (uint64_t)line_remove(&counters, &steps);
        store_line(line, &counters);
        mmb_dirty_mark(dirty, (uint64_t)(line - payload));
    }
    *counted = total;
    return i;
}

#if MMB_HAVE_AVX2
/* Up to eight counters at once: not zero, each. A probe's upper 4 bits name the word, the 3 below them the counter in it. */
MMB_AVX2 static inline int eight_counted(const uint8_t *line, uint32_t h, unsigned first, uint32_t count)
{
    const __m256i mixed = mix_eight_probes(h, first);
    const __m256i shift = _mm256_and_si256(_mm256_srli_epi32(mixed, 23), _mm256_set1_epi32(28));
    const __m256i words = eight_words(line, mixed);
    const __m256i pairs = _mm256_or_si256(words, _mm256_srli_epi32(words, 1));
    const __m256i counted = _mm256_or_si256(pairs, _mm256_srli_epi32(pairs, 2));

    return _mm256_testc_si256(counted, _mm256_sllv_epi32(first_lanes(count), shift));
}

MMB_AVX2 static inline uint8_t key_contains_avx2(const mmb_counting *counting, const uint8_t *payload, mmb_hash hash)
{
    const uint8_t *line = payload + LINE_BYTES * line_of(counting, hash);
    const uint32_t k = counting->num_probes;
    int all = eight_counted(line, (uint32_t)hash.lo, 0, k);

    if (k > 8) {
        all &= eight_counted(line, (uint32_t)(hash.lo >> 32), 8, k - 8);
    }
    return (uint8_t)all;
}

MMB_AVX2 static uint8_t contains_one_avx2(const mmb_counting *counting, const uint8_t *payload, mmb_hash hash)
{
    return key_contains_avx2(counting, payload, hash);
}

MMB_AVX2 static void keys_contain_avx2(const mmb_counting *counting, const uint8_t *payload, const mmb_hash *hashes,
                                       size_t n, uint8_t *maybe)
{
    keys_contain(key_contains_avx2, counting, payload, hashes, n, maybe);
}

MMB_AVX2 static size_t keys_add_avx2(const mmb_counting *counting, uint8_t *payload, const mmb_hash *hashes, size_t n,
                                     uint64_t room, mmb_counted *counted, const mmb_dirty *dirty)
{
    return keys_add(counting, payload, hashes, n, room, counted, dirty);
}

MMB_AVX2 static size_t keys_remove_avx2(const mmb_counting *counting, uint8_t *payload, const mmb_hash *hashes, size_t n,
                                        mmb_counted *counted, const mmb_dirty *dirty)
{
    return keys_remove(counting, payload, hashes, n, counted, dirty);
}
#endif

void mmb_counting_probes(const mmb_counting *counting, mmb_hash hash, uint64_t *counters)
{
    for (uint32_t i = 0; i < counting->num_probes; i++) {
        counters[i] = MMB_LINE_COUNTERS * line_of(counting, hash) + place_of(hash, i);
    }
}

int mmb_counting_meet(const mmb_counting *counting, mmb_hash one, mmb_hash other)
{
    return line_of(counting, one) == line_of(counting, other);
}

uint8_t mmb_counting_contains(const mmb_counting *counting, const uint8_t *payload, mmb_hash hash)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        return contains_one_avx2(counting, payload, hash);
    }
#endif
    return key_contains(counting, payload, hash);
}

void mmb_counting_contains_many(const mmb_counting *counting, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                                uint8_t *maybe)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        keys_contain_avx2(counting, payload, hashes, n, maybe);
        return;
    }
#endif
    keys_contain(key_contains, counting, payload, hashes, n, maybe);
}

void mmb_counting_look_up(const void *counting, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint8_t *maybe)
{
    mmb_counting_contains_many(counting, payload, hashes, n, maybe);
}

size_t mmb_counting_pages_of(const void *counting, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t *pages)
{
    (void)payload;
    for (size_t i = 0; i < n; i++) {
        pages[i] = line_of(counting, hashes[i]) / (MMB_PAGE_BYTES / LINE_BYTES);
    }
    return n;
}

unsigned mmb_counting_least(const mmb_counting *counting, const uint8_t *payload, mmb_hash hash)
{
    const uint8_t *line = payload + LINE_BYTES * line_of(counting, hash);
    unsigned least = MMB_COUNTER_MOST;

    for (uint32_t i = 0; i < counting->num_probes; i++) {
        const unsigned counter = counter_at(line, place_of(hash, i));
        least = counter < least ? counter : least;
    }
    return least;
}

size_t mmb_counting_add_many(const mmb_counting *counting, uint8_t *payload, const mmb_hash *hashes, size_t n,
                             uint64_t room, mmb_counted *counted, const mmb_dirty *dirty)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        return keys_add_avx2(counting, payload, hashes, n, room, counted, dirty);
    }
#endif
    return keys_add(counting, payload, hashes, n, room, counted, dirty);
}

size_t mmb_counting_remove_many(const mmb_counting *counting, uint8_t *payload, const mmb_hash *hashes, size_t n,
                                mmb_counted *counted, const mmb_dirty *dirty)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        return keys_remove_avx2(counting, payload, hashes, n, counted, dirty);
    }
#endif
    return keys_remove(counting, payload, hashes, n, counted, dirty);
}

void mmb_counting_add_part(const mmb_counting *counting, uint8_t *target, uint64_t first, uint64_t num_bytes,
                           const mmb_hash *hashes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t offset = LINE_BYTES * line_of(counting, hashes[i]) - first;
        if (offset < num_bytes) {
            line_words steps = steps_of(counting, hashes[i]);
            line_words counters = load_line(target + offset);
            (void)line_add(&counters, &steps);
            store_line(target + offset, &counters);
        }
    }
}

void mmb_counting_unite(uint8_t *target, const uint8_t *other, size_t num_bytes)
{
    for (size_t i = 0; i < num_bytes; i++) {
        const unsigned low = (target[i] & 15U) + (other[i] & 15U);
        const unsigned high = (target[i] >> 4) + (other[i] >> 4);
        target[i] = (uint8_t)((low < 15 ? low : 15) | (high < 15 ? high : 15) << 4);
    }
}

uint64_t mmb_counting_histogram(const uint8_t *payload, size_t num_lines, uint64_t histogram[129])
{
    uint64_t saturated = 0;

    for (size_t i = 0; i < num_lines; i++) {
        unsigned counted = 0;
        for (size_t j = 0; j < LINE_BYTES; j += 8) {
            uint64_t counters;
            memcpy(&counters, payload + LINE_BYTES * i + j, sizeof counters);
            counted += count_bits(NOT_ZERO(counters));
            saturated += count_bits(AT_MOST(counters));
        }
        histogram[counted]++;
    }
    return saturated;
}

void mmb_counting_flatten(const uint8_t *payload, size_t num_lines, uint8_t *bits)
{
    for (size_t i = 0; i < num_lines * LINE_BYTES / 4; i++) {
        unsigned eight = 0;
        for (size_t j = 0; j < 4; j++) {
            const unsigned both = (unsigned)NOT_ZERO((uint64_t)payload[4 * i + j]);
            eight |= ((both & 1) | both >> 3) << (2 * j);
        }
        bits[i] = (uint8_t)eight;
    }
}
