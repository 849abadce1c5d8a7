/* Layouts `line`, `page` and `narrow`: the probes of a key lie in one block.

   A block of `line` is a cache line; one of `page` has 64 lines, of which a key uses two; one of `narrow` has 16 bytes, a quarter
   of a line. `narrow` is what a counting filter becomes when each counter becomes a bit: it has the probes of counting.c.
   A line is tested whole: leaving early costs a mispredicted branch, twice the time of the test.
   Probe schemes 2, 3 and 4 of FORMAT.md. A change here makes existing files answer "definitely not" for keys they hold: a
   better rule gets a new number and new rows.

   The AVX2 version tests up to 8 probes in one step, an idea of RocksDB's FastLocalBloom (P. Dillinger, 2019). */
#include <string.h>

#include "layout_rows.h"
#include "loops.h"
#include "mixing.h"
#include "multiply.h"

/* Every function takes the size of a block. It is a constant wherever a layout's own functions, at the end, call it: the compiler
   leaves only the code of that layout. */
#define NARROW MMB_NARROW_BYTES
#define LINE MMB_LINE_BYTES
#define PAGE MMB_PAGE_BYTES
#define LINES_PER_PAGE (MMB_PAGE_BYTES / MMB_LINE_BYTES)

/* Probes in one line (of `narrow`: in one block): the first 8 from h[0], the rest from h[1]. */
typedef struct {
    uint32_t h[2];
    uint32_t count;
} probe_group;

/* What a key reads and sets in one line: where the line lies in the payload, and the probes in it. */
typedef struct {
    uint64_t offset;
    probe_group probes;
} line_place;

/* The lines of a key: 1, or 2. */
#define LINES_PER_KEY(block) ((block) == PAGE ? 2U : 1U)

MMB_INLINE void key_lines(uint64_t block, const mmb_bloom *bloom, mmb_hash hash, line_place places[2])
{
    const uint32_t low = (uint32_t)hash.lo;
    const uint32_t high = (uint32_t)(hash.lo >> 32);
    uint64_t fraction;
    const uint64_t number = multiply_high(hash.hi, bloom->num_bits / (8 * block), &fraction);

    if (block == PAGE) {
        const uint64_t lower = LINES_PER_PAGE * number + (fraction >> 59);
        const uint64_t upper = LINES_PER_PAGE * number + LINES_PER_PAGE / 2 + ((fraction >> 54) & 31);
        places[0] = (line_place){lower * LINE, {{low, low}, (bloom->num_probes + 1) / 2}};
        places[1] = (line_place){upper * LINE, {{high, high}, bloom->num_probes / 2}};
    } else {
        places[0] = (line_place){number * block, {{low, high}, bloom->num_probes}};
    }
}

/* The bit of probe i in its line. */
MMB_INLINE uint32_t line_bit(uint64_t block, const probe_group *probes, uint32_t i)
{
    return mix_probe(probes->h[i >> 3], i) >> (block == NARROW ? 25 : 23);
}

/* How a version tests the probes of a line, and sets them. The setter returns 1 if one of the bits was zero. */
typedef uint8_t (*group_test)(uint64_t block, const uint8_t *line, const probe_group *probes);
typedef unsigned (*group_setter)(uint64_t block, uint8_t *line, const probe_group *probes);

MMB_INLINE uint8_t all_set(uint64_t block, const uint8_t *line, const probe_group *probes)
{
    unsigned all = 1;

    for (uint32_t i = 0; i < probes->count; i++) {
        const uint32_t bit = line_bit(block, probes, i);
        all &= (unsigned)line[bit >> 3] >> (bit & 7);
    }
    return (uint8_t)(all & 1);
}

MMB_INLINE unsigned set_all(uint64_t block, uint8_t *line, const probe_group *probes)
{
    unsigned all = 1;

    for (uint32_t i = 0; i < probes->count; i++) {
        const uint32_t bit = line_bit(block, probes, i);
        const unsigned byte = line[bit >> 3];
        all &= byte >> (bit & 7);
        line[bit >> 3] = (uint8_t)(byte | (1U << (bit & 7)));
    }
    return (all & 1) ^ 1;
}

#if MMB_HAVE_AVX2
/* Eight probes of a line: in which of its 32-bit words, and which bit of the word. Lanes from `count` on have no bit. */
typedef struct {
    __m256i mixed; /* the upper 4 bits (`narrow`: 2) are the number of the word, the 5 below them that of the bit */
    __m256i bits;
} eight_probes;

MMB_AVX2 MMB_INLINE eight_probes mix_eight(uint64_t block, uint32_t h, unsigned first, uint32_t count)
{
    const __m256i mixed = mix_eight_probes(h, first);
    const __m256i without_word = block == NARROW ? _mm256_slli_epi32(mixed, 2) : _mm256_slli_epi32(mixed, 4);

    return (eight_probes){mixed, _mm256_sllv_epi32(first_lanes(count), _mm256_srli_epi32(without_word, 27))};
}

MMB_AVX2 MMB_INLINE int eight_are_set(uint64_t block, const uint8_t *line, eight_probes probes)
{
    if (block == NARROW) {
        const __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)line));
        return _mm256_testc_si256(
            _mm256_permutevar8x32_epi32(twice, _mm256_srli_epi32(probes.mixed, 30)), probes.bits);
    }
    return _mm256_testc_si256(eight_words(line, probes.mixed), probes.bits);
}

MMB_AVX2 MMB_INLINE unsigned eight_set(uint64_t block, uint8_t *line, eight_probes probes, uint32_t count)
{
    const int known = eight_are_set(block, line, probes); /* removed by the compiler where the result is not used */
    const __m256i word_numbers =
        block == NARROW ? _mm256_srli_epi32(probes.mixed, 30) : _mm256_srli_epi32(probes.mixed, 28);
    uint32_t words[8];
    uint32_t bits[8];

    _mm256_storeu_si256((__m256i *)(void *)words, word_numbers);
    _mm256_storeu_si256((__m256i *)(void *)bits, probes.bits);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, line + 4 * words[i], sizeof word);
        word |= bits[i];
        memcpy(line + 4 * words[i], &word, sizeof word);
    }
    return known ? 0 : 1;
}

MMB_AVX2 MMB_INLINE uint8_t all_set_avx2(uint64_t block, const uint8_t *line, const probe_group *probes)
{
    int all = eight_are_set(block, line, mix_eight(block, probes->h[0], 0, probes->count));

    if (probes->count > 8) {
        all &= eight_are_set(block, line, mix_eight(block, probes->h[1], 8, probes->count - 8));
    }
    return (uint8_t)all;
}

MMB_AVX2 MMB_INLINE unsigned set_all_avx2(uint64_t block, uint8_t *line, const probe_group *probes)
{
    if (probes->count <= 8) {
        return eight_set(block, line, mix_eight(block, probes->h[0], 0, probes->count), probes->count);
    }
    const unsigned is_new = eight_set(block, line, mix_eight(block, probes->h[0], 0, 8), 8);
    return is_new | eight_set(block, line, mix_eight(block, probes->h[1], 8, probes->count - 8), probes->count - 8);
}
#endif

MMB_INLINE uint8_t key_contains(group_test test, uint64_t block, const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
    line_place places[2];

    key_lines(block, bloom, hash, places);
    const uint8_t all = test(block, payload + places[0].offset, &places[0].probes);
    return block == PAGE ? all & test(block, payload + places[1].offset, &places[1].probes) : all;
}

/* Set every probe of the key; returns 1 if one of the bits was zero: the key is new. */
MMB_INLINE unsigned key_set(group_setter set, uint64_t block, const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash)
{
    line_place places[2];

    key_lines(block, bloom, hash, places);
    const unsigned is_new = set(block, payload + places[0].offset, &places[0].probes);
    return block == PAGE ? is_new | set(block, payload + places[1].offset, &places[1].probes) : is_new;
}

/* In private memory and with room left, setting is the test: one pass over the probes. A known key must not write where every
   page that is written has to be saved, nor where no room is left. */
MMB_INLINE size_t keys_add(group_test test, group_setter set, key_line line, uint64_t block, const mmb_shape *shape,
                           uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room, mmb_counted *counted,
                           const mmb_dirty *dirty)
{
    const mmb_bloom *bloom = &shape->bloom;
    line_place places[2];
    uint64_t added = 0;
    size_t i = 0;

    for (; i < n; i++) {
        prefetch_ahead(line, LINES_PER_KEY(block), shape, payload, hashes, n, i);
        if (dirty == NULL && added < room) {
            added += key_set(set, block, bloom, payload, hashes[i]);
            continue;
        }
        if (key_contains(test, block, bloom, payload, hashes[i])) {
            continue;
        }
        if (added == room) {
            break;
        }
        added += key_set(set, block, bloom, payload, hashes[i]);
        key_lines(block, bloom, hashes[i], places);
        for (unsigned j = 0; j < LINES_PER_KEY(block); j++) {
            mmb_dirty_mark(dirty, places[j].offset);
        }
    }
    *counted = (mmb_counted){added, 0};
    return i;
}

MMB_INLINE void keys_add_part(group_setter set, key_line line, uint64_t block, const mmb_shape *shape, uint8_t *target,
                              uint64_t first, uint64_t num_bytes, const mmb_hash *hashes, size_t n)
{
    const mmb_bloom *bloom = &shape->bloom;
    uint8_t *payload = (uint8_t *)((uintptr_t)target - (uintptr_t)first); /* where byte 0 would lie */
    line_place places[2];

    for (size_t i = 0; i < n; i++) {
        prefetch_ahead(line, LINES_PER_KEY(block), shape, payload, hashes, n, i);
        key_lines(block, bloom, hashes[i], places);
        if (places[0].offset - first < num_bytes) { /* one line in the part: the whole block is */
            (void)key_set(set, block, bloom, payload, hashes[i]);
        }
    }
}

static uint64_t payload_bytes(const mmb_shape *shape)
{
    return shape->bloom.num_bits / 8;
}

/* What the versions of a layout share. */
#define LAYOUT(name, block)                                                                                                    \
    static void name##_probes(const mmb_shape *shape, mmb_hash hash, uint64_t *numbers)                                        \
    {                                                                                                                          \
        line_place places[2];                                                                                                  \
        key_lines(block, &shape->bloom, hash, places);                                                                         \
        for (uint32_t i = 0; i < shape->bloom.num_probes; i++) {                                                               \
            const line_place *place = &places[i % LINES_PER_KEY(block)];                                                       \
            numbers[i] = 8 * place->offset + line_bit(block, &place->probes, i / LINES_PER_KEY(block));                        \
        }                                                                                                                      \
    }                                                                                                                          \
    MMB_INLINE uint64_t name##_line(const mmb_shape *shape, mmb_hash hash, unsigned i)                                         \
    {                                                                                                                          \
        line_place places[2];                                                                                                  \
        key_lines(block, &shape->bloom, hash, places);                                                                         \
        return places[i].offset;                                                                                               \
    }                                                                                                                          \
    static size_t name##_pages_of(const mmb_shape *shape, const uint8_t *payload, const mmb_hash *hashes, size_t n,            \
                                  uint64_t *pages)                                                                             \
    {                                                                                                                          \
        (void)payload;                                                                                                         \
        return one_page_each(name##_line, shape, hashes, n, pages);                                                            \
    }

/* One version of a layout, and its row: how a line is tested and set, for the instructions of `target`. */
#define VERSION(name, version, target, block, most_probes, test, set)                                                          \
    target MMB_INLINE uint8_t name##_test##version(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash)              \
    {                                                                                                                          \
        return key_contains(test, block, &shape->bloom, payload, hash);                                                        \
    }                                                                                                                          \
    target static uint8_t name##_contains##version(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash)              \
    {                                                                                                                          \
        return name##_test##version(shape, payload, hash);                                                                     \
    }                                                                                                                          \
    target static void name##_contains_many##version(const mmb_shape *shape, const uint8_t *payload, const mmb_hash *hashes,   \
                                                     size_t n, uint8_t *maybe)                                                 \
    {                                                                                                                          \
        test_many(name##_test##version, name##_line, LINES_PER_KEY(block), payload_bytes(shape), shape, payload, hashes, n,    \
                  maybe);                                                                                                      \
    }                                                                                                                          \
    target static unsigned name##_add##version(const mmb_shape *shape, uint8_t *payload, mmb_hash hash, mmb_counted *counted)  \
    {                                                                                                                          \
        const unsigned is_new = key_set(set, block, &shape->bloom, payload, hash);                                             \
        *counted = (mmb_counted){is_new, 0};                                                                                   \
        return is_new;                                                                                                         \
    }                                                                                                                          \
    target static size_t name##_add_many##version(const mmb_shape *shape, uint8_t *payload, const mmb_hash *hashes,            \
                                                  size_t n, uint64_t room, mmb_counted *counted, const mmb_dirty *dirty)       \
    {                                                                                                                          \
        return keys_add(test, set, name##_line, block, shape, payload, hashes, n, room, counted, dirty);                       \
    }                                                                                                                          \
    target static void name##_add_part##version(const mmb_shape *shape, uint8_t *target_bytes, uint64_t first,                 \
                                                uint64_t num_bytes, const mmb_hash *hashes, size_t n)                          \
    {                                                                                                                          \
        keys_add_part(set, name##_line, block, shape, target_bytes, first, num_bytes, hashes, n);                              \
    }                                                                                                                          \
    const mmb_layout mmb_##name##version = {                                                                                   \
        .payload_bytes = payload_bytes,                                                                                        \
        .contains = name##_contains##version,                                                                                  \
        .contains_many = name##_contains_many##version,                                                                        \
        .pages_of = name##_pages_of,                                                                                           \
        .probes = name##_probes,                                                                                               \
        .add = name##_add##version,                                                                                            \
        .add_many = name##_add_many##version,                                                                                  \
        .add_part = name##_add_part##version,                                                                                  \
        .block_bytes = block,                                                                                                  \
        .max_probes = most_probes,                                                                                             \
        .max_pages_per_key = 1,                                                                                                \
    };

LAYOUT(line, LINE)
LAYOUT(page, PAGE)
LAYOUT(narrow, NARROW)

VERSION(line, , , LINE, 16, all_set, set_all)
VERSION(page, , , PAGE, 32, all_set, set_all)
VERSION(narrow, , , NARROW, 16, all_set, set_all)
#if MMB_HAVE_AVX2
VERSION(line, _avx2, MMB_AVX2, LINE, 16, all_set_avx2, set_all_avx2)
VERSION(page, _avx2, MMB_AVX2, PAGE, 32, all_set_avx2, set_all_avx2)
VERSION(narrow, _avx2, MMB_AVX2, NARROW, 16, all_set_avx2, set_all_avx2)
#endif
