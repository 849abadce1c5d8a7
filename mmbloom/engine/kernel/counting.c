/* Layout `counters`: 4 bits a counter, so that keys can be removed. All counters of a key lie in one line.

   Probe scheme 4 of FORMAT.md. A key counts once in each counter that its probes name, even if several of them name it. A
   counter lies in one byte and is written in one step: a reader beside the writer sees either the old or the new value, and a
   counter that several keys share does not become zero while one of them is removed. */
#include "counting.h"

#include <string.h>

#include "bits.h"
#include "layout_rows.h"
#include "loops.h"
#include "mixing.h"
#include "multiply.h"

#define LINE_BYTES MMB_LINE_BYTES

/* Several counters. GCC and Clang compile the wide type to vector instructions if the processor has them; without it they unroll
   the loops over a line into 64-bit steps, which is three times as slow. */
#if defined(__GNUC__)
typedef uint64_t counters_word __attribute__((vector_size(32)));
#else
typedef uint64_t counters_word;
#endif
#define LINE_WORDS (LINE_BYTES / sizeof(counters_word))

/* A line of 128 counters as words. The byte order does not matter: no operation crosses the border of a counter. */
typedef struct {
    counters_word words[LINE_WORDS];
} line_words;

/* The lowest bit of each counter of a word. */
#define LOWEST UINT64_C(0x1111111111111111)

/* Word by word: a copy of the whole line uses smaller steps, and reading them back as words has to wait for all of them. */
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

/* The place in its line of the counter of probe i. */
static inline uint32_t place_of(mmb_hash hash, uint32_t i)
{
    return mix_probe((uint32_t)(i < 8 ? hash.lo : hash.lo >> 32), i) >> 25;
}

/* A line with 1 in each counter of the key. */
MMB_INLINE line_words steps_of(const mmb_counting *counting, mmb_hash hash)
{
    uint8_t steps[LINE_BYTES] = {0};

    for (uint32_t i = 0; i < counting->num_probes; i++) {
        const uint32_t place = place_of(hash, i);
        steps[place >> 1] = (uint8_t)(steps[place >> 1] | (1U << (4 * (place & 1))));
    }
    return load_line(steps);
}

/* The lowest bit of each counter that is not zero, and of each that is full. For words of either type. */
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

/* Add the key. Leaves in `steps` those that made a counter full; returns whether there are any. */
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

/* Remove the key. Returns whether one of its counters is zero now. */
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

MMB_INLINE uint8_t test_one(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash)
{
    const uint8_t *line = payload + LINE_BYTES * line_of(&shape->counting, hash);
    unsigned all = 1;

    for (uint32_t i = 0; i < shape->counting.num_probes; i++) {
        all &= counter_at(line, place_of(hash, i)) != 0;
    }
    return (uint8_t)all;
}

MMB_INLINE uint64_t line_offset(const mmb_shape *shape, mmb_hash hash, unsigned i)
{
    (void)i; /* always 0: a key has one line */
    return LINE_BYTES * line_of(&shape->counting, hash);
}

/* The loops over keys, once: each version inlines them. */
MMB_INLINE size_t keys_add(const mmb_shape *shape, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                           mmb_counted *counted, const mmb_dirty *dirty)
{
    const mmb_counting *counting = &shape->counting;
    mmb_counted total = {0, 0};
    size_t i = 0;

    for (; i < n; i++) {
        prefetch_ahead(line_offset, 1, shape, payload, hashes, n, i);
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

MMB_INLINE size_t keys_remove(const mmb_shape *shape, uint8_t *payload, const mmb_hash *hashes, size_t n,
                              mmb_counted *counted, const mmb_dirty *dirty)
{
    const mmb_counting *counting = &shape->counting;
    mmb_counted total = {0, 0};
    size_t i = 0;

    for (; i < n; i++) {
        prefetch_ahead(line_offset, 1, shape, payload, hashes, n, i);
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
/* 1 if up to eight counters are all not zero. The upper 4 bits of a probe select the word, the 3 below them the counter in it. */
MMB_AVX2 static inline int eight_counted(const uint8_t *line, uint32_t h, unsigned first, uint32_t count)
{
    const __m256i mixed = mix_eight_probes(h, first);
    const __m256i shift = _mm256_and_si256(_mm256_srli_epi32(mixed, 23), _mm256_set1_epi32(28));
    const __m256i words = eight_words(line, mixed);
    const __m256i pairs = _mm256_or_si256(words, _mm256_srli_epi32(words, 1));
    const __m256i counted = _mm256_or_si256(pairs, _mm256_srli_epi32(pairs, 2));

    return _mm256_testc_si256(counted, _mm256_sllv_epi32(first_lanes(count), shift));
}

MMB_AVX2 MMB_INLINE uint8_t test_one_avx2(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash)
{
    const uint8_t *line = payload + LINE_BYTES * line_of(&shape->counting, hash);
    const uint32_t k = shape->counting.num_probes;
    int all = eight_counted(line, (uint32_t)hash.lo, 0, k);

    if (k > 8) {
        all &= eight_counted(line, (uint32_t)(hash.lo >> 32), 8, k - 8);
    }
    return (uint8_t)all;
}
#endif

static void probes(const mmb_shape *shape, mmb_hash hash, uint64_t *numbers)
{
    for (uint32_t i = 0; i < shape->counting.num_probes; i++) {
        numbers[i] = MMB_LINE_COUNTERS * line_of(&shape->counting, hash) + place_of(hash, i);
    }
}

static size_t pages_of(const mmb_shape *shape, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t *pages)
{
    (void)payload;
    return one_page_each(line_offset, shape, hashes, n, pages);
}

static unsigned count_of(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash)
{
    const uint8_t *line = payload + LINE_BYTES * line_of(&shape->counting, hash);
    unsigned least = MMB_COUNTER_MOST;

    for (uint32_t i = 0; i < shape->counting.num_probes; i++) {
        const unsigned counter = counter_at(line, place_of(hash, i));
        least = counter < least ? counter : least;
    }
    return least;
}

static void add_part(const mmb_shape *shape, uint8_t *target, uint64_t first, uint64_t num_bytes, const mmb_hash *hashes,
                     size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t offset = LINE_BYTES * line_of(&shape->counting, hashes[i]) - first;
        if (offset < num_bytes) {
            line_words steps = steps_of(&shape->counting, hashes[i]);
            line_words counters = load_line(target + offset);
            (void)line_add(&counters, &steps);
            store_line(target + offset, &counters);
        }
    }
}

static uint64_t payload_bytes(const mmb_shape *shape)
{
    return shape->counting.num_counters / 2;
}

/* One version, and its row. */
#define VERSION(version, target)                                                                                               \
    target static uint8_t contains##version(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash)                     \
    {                                                                                                                          \
        return test_one##version(shape, payload, hash);                                                                        \
    }                                                                                                                          \
    target static void contains_many##version(const mmb_shape *shape, const uint8_t *payload, const mmb_hash *hashes,          \
                                              size_t n, uint8_t *maybe)                                                        \
    {                                                                                                                          \
        test_many(test_one##version, line_offset, 1, payload_bytes(shape), shape, payload, hashes, n, maybe);                  \
    }                                                                                                                          \
    target static unsigned add##version(const mmb_shape *shape, uint8_t *payload, mmb_hash hash, mmb_counted *counted)         \
    {                                                                                                                          \
        (void)keys_add(shape, payload, &hash, 1, 1, counted, NULL);                                                            \
        return (unsigned)counted->num_keys;                                                                                    \
    }                                                                                                                          \
    target static size_t add_many##version(const mmb_shape *shape, uint8_t *payload, const mmb_hash *hashes, size_t n,         \
                                           uint64_t room, mmb_counted *counted, const mmb_dirty *dirty)                        \
    {                                                                                                                          \
        return keys_add(shape, payload, hashes, n, room, counted, dirty);                                                      \
    }                                                                                                                          \
    target static size_t remove_many##version(const mmb_shape *shape, uint8_t *payload, const mmb_hash *hashes, size_t n,      \
                                              mmb_counted *counted, const mmb_dirty *dirty)                                    \
    {                                                                                                                          \
        return keys_remove(shape, payload, hashes, n, counted, dirty);                                                         \
    }                                                                                                                          \
    const mmb_layout mmb_counters##version = {                                                                                 \
        .payload_bytes = payload_bytes,                                                                                        \
        .contains = contains##version,                                                                                         \
        .contains_many = contains_many##version,                                                                               \
        .pages_of = pages_of,                                                                                                  \
        .probes = probes,                                                                                                      \
        .add = add##version,                                                                                                   \
        .add_many = add_many##version,                                                                                         \
        .remove_many = remove_many##version,                                                                                   \
        .count_of = count_of,                                                                                                  \
        .add_part = add_part,                                                                                                  \
        .block_bytes = LINE_BYTES,                                                                                             \
        .max_probes = 16,                                                                                                      \
        .max_pages_per_key = 1,                                                                                                \
    };

VERSION(, )
#if MMB_HAVE_AVX2
VERSION(_avx2, MMB_AVX2)
#endif

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
