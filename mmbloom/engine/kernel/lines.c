/* Layouts `line` and `page`: a key's probes lie in one 64-byte line, or in two lines of one page.

   A line is tested whole, without leaving early: leaving early costs a mispredicted branch, twice the time of the test.
   Probe schemes 2 and 3 of FORMAT.md. A change here makes existing files answer "definitely not" for keys they hold: a better
   rule gets a new number beside these.

   The AVX2 path answers for up to 8 probes in one step; RocksDB's FastLocalBloom (P. Dillinger, 2019) has the idea. */
#include "layouts.h"
#include "mixing.h"

#include <string.h>

/* Lines asked for ahead of the one that is tested: enough to fill the ~12-16 line fill buffers of a core and the
   queue behind them. 16 to 64 measured alike. */
#define LINES_AHEAD 32U

/* Larger than any cache, a payload is read from memory at every key. There a group's lines are asked for in a loop of their
   own: tests between the requests stall on missing lines and hold up the next requests. Measured at 1.2 GB: 41 against 52
   ns a key; at 24 MB the other way is faster, 30 against 46. */
#define LARGE_BITS (UINT64_C(8) * 64 * 1024 * 1024)
#define GROUP_KEYS 64U

/* Probes in one 64-byte line: the first 8 from h[0], the rest from h[1]. */
typedef struct {
    uint32_t h[2];
    uint32_t count;
} line_probes;

/* A key's part in one line: where it lies in the payload, and its probes there. */
typedef struct {
    uint64_t offset;
    line_probes probes;
} line_place;

static inline uint32_t line_bit(const line_probes *probes, uint32_t i)
{
    return mix_probe(probes->h[i >> 3], i) >> 23;
}

static inline uint8_t line_contains(const uint8_t *line, const line_probes *probes)
{
    unsigned all = 1;

    for (uint32_t i = 0; i < probes->count; i++) {
        const uint32_t bit = line_bit(probes, i);
        all &= (unsigned)line[bit >> 3] >> (bit & 7);
    }
    return (uint8_t)(all & 1);
}

/* Set the probes; returns 1 if one of the bits was zero. */
static inline unsigned line_set(uint8_t *line, const line_probes *probes)
{
    unsigned all = 1;

    for (uint32_t i = 0; i < probes->count; i++) {
        const uint32_t bit = line_bit(probes, i);
        const unsigned byte = line[bit >> 3];
        all &= byte >> (bit & 7);
        line[bit >> 3] = (uint8_t)(byte | (1U << (bit & 7)));
    }
    return (all & 1) ^ 1;
}

/* The one line of a `line` key, or the two of a `page` key. Returns how many. */
static inline unsigned key_lines(const mmb_bloom *bloom, mmb_hash hash, line_place places[2])
{
    const uint32_t low = (uint32_t)hash.lo;
    const uint32_t high = (uint32_t)(hash.lo >> 32);
    uint64_t fraction;

    if (bloom->layout == MMB_LINE) {
        const uint64_t line = multiply_high(hash.hi, bloom->num_bits / MMB_LINE_BITS, &fraction);
        places[0] = (line_place){line * MMB_LINE_BYTES, {{low, high}, bloom->num_probes}};
        places[1] = (line_place){0, {{0, 0}, 0}};
        return 1;
    }
    const uint64_t page = multiply_high(hash.hi, bloom->num_bits / (8 * MMB_PAGE_BYTES), &fraction);
    const uint64_t lower_line = 64 * page + (fraction >> 59);
    const uint64_t upper_line = 64 * page + 32 + ((fraction >> 54) & 31);
    places[0] = (line_place){lower_line * MMB_LINE_BYTES, {{low, low}, (bloom->num_probes + 1) / 2}};
    places[1] = (line_place){upper_line * MMB_LINE_BYTES, {{high, high}, bloom->num_probes / 2}};
    return 2;
}

/* Ask for the lines of a key that will be looked at soon. */
static inline void prefetch_key(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
    line_place places[2];
    const unsigned lines = key_lines(bloom, hash, places);

    MMB_PREFETCH(payload + places[0].offset);
    if (lines == 2) {
        MMB_PREFETCH(payload + places[1].offset);
    }
}

typedef uint8_t (*key_test)(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash);
typedef unsigned (*key_setter)(const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash);

/* 1 if every probe of the key is set. */
static inline uint8_t key_contains(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
    line_place places[2];
    const unsigned lines = key_lines(bloom, hash, places);
    const uint8_t all = line_contains(payload + places[0].offset, &places[0].probes);

    return lines == 2 ? all & line_contains(payload + places[1].offset, &places[1].probes) : all;
}

/* Set every probe of the key; returns 1 if one of the bits was zero: the key is new. */
static inline unsigned key_set(const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash)
{
    line_place places[2];
    const unsigned lines = key_lines(bloom, hash, places);
    const unsigned is_new = line_set(payload + places[0].offset, &places[0].probes);

    return lines == 2 ? is_new | line_set(payload + places[1].offset, &places[1].probes) : is_new;
}

/* The loops over keys, once: each processor's version hands in its test and its setter, which are inlined. */
MMB_INLINE void lines_contain(key_test contains, const mmb_bloom *bloom, const uint8_t *payload,
                              const mmb_hash *hashes, size_t n, uint8_t *maybe)
{
    if (bloom->num_bits < LARGE_BITS) {
        for (size_t i = 0; i < n; i++) {
            if (i + LINES_AHEAD < n) {
                prefetch_key(bloom, payload, hashes[i + LINES_AHEAD]);
            }
            maybe[i] = contains(bloom, payload, hashes[i]);
        }
        return;
    }
    for (size_t first = 0; first < n; first += GROUP_KEYS) {
        const size_t end = n - first < GROUP_KEYS ? n : first + GROUP_KEYS;
        for (size_t i = first; i < end; i++) {
            prefetch_key(bloom, payload, hashes[i]);
        }
        for (size_t i = first; i < end; i++) {
            maybe[i] = contains(bloom, payload, hashes[i]);
        }
    }
}

/* In memory of our own and with room left, setting is the test: one pass over the probes. Where a page that is written
   becomes a page to save, or where the last key has found its place, a key that is known must not write. */
MMB_INLINE size_t lines_add(key_test contains, key_setter set, const mmb_bloom *bloom, uint8_t *payload,
                            const mmb_hash *hashes, size_t n, uint64_t room, uint64_t *num_new, const mmb_dirty *dirty)
{
    line_place places[2];
    uint64_t added = 0;
    size_t i = 0;

    for (; i < n; i++) {
        if (i + LINES_AHEAD < n) {
            prefetch_key(bloom, payload, hashes[i + LINES_AHEAD]);
        }
        if (dirty == NULL && added < room) {
            added += set(bloom, payload, hashes[i]);
            continue;
        }
        if (contains(bloom, payload, hashes[i])) {
            continue;
        }
        if (added == room) {
            break;
        }
        added += set(bloom, payload, hashes[i]);
        const unsigned lines = key_lines(bloom, hashes[i], places);
        for (unsigned j = 0; j < lines; j++) {
            mmb_dirty_mark(dirty, places[j].offset);
        }
    }
    *num_new = added;
    return i;
}

/* Keys whose block lies in the part: its lines are there in whole. */
MMB_INLINE void lines_add_part(key_setter set, const mmb_bloom *bloom, uint8_t *target, uint64_t first,
                               uint64_t num_bytes, const mmb_hash *hashes, size_t n)
{
    uint8_t *payload = (uint8_t *)((uintptr_t)target - (uintptr_t)first); /* where byte 0 would lie */
    line_place places[2];

    for (size_t i = 0; i < n; i++) {
        if (i + LINES_AHEAD < n) {
            prefetch_key(bloom, payload, hashes[i + LINES_AHEAD]);
        }
        (void)key_lines(bloom, hashes[i], places);
        if (places[0].offset - first < num_bytes) {
            (void)set(bloom, payload, hashes[i]);
        }
    }
}

#if MMB_HAVE_AVX2
/* Eight probes of a line: which of its sixteen 32-bit words, and which bit of the word. Lanes from `count` on have none. */
typedef struct {
    __m256i mixed; /* bits 31..28: the word; bits 27..23: the bit */
    __m256i bits;
} eight_probes;

MMB_AVX2 static inline eight_probes mix_eight(uint32_t h, unsigned first, uint32_t count)
{
    const __m256i mixed = mix_eight_probes(h, first);
    const __m256i shift = _mm256_srli_epi32(_mm256_slli_epi32(mixed, 4), 27);

    return (eight_probes){mixed, _mm256_sllv_epi32(first_lanes(count), shift)};
}

/* Whether the probes are all set. */
MMB_AVX2 static inline int eight_are_set(const uint8_t *line, eight_probes probes)
{
    return _mm256_testc_si256(eight_words(line, probes.mixed), probes.bits);
}

MMB_AVX2 static inline unsigned eight_set(uint8_t *line, eight_probes probes, uint32_t count)
{
    const int known = eight_are_set(line, probes); /* costs nothing where nobody asks */
    uint32_t words[8];
    uint32_t bits[8];

    _mm256_storeu_si256((__m256i *)(void *)words, _mm256_srli_epi32(probes.mixed, 28));
    _mm256_storeu_si256((__m256i *)(void *)bits, probes.bits);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, line + 4 * words[i], sizeof word);
        word |= bits[i];
        memcpy(line + 4 * words[i], &word, sizeof word);
    }
    return known ? 0 : 1;
}

MMB_AVX2 static inline uint8_t line_contains_avx2(const uint8_t *line, const line_probes *probes)
{
    int all = eight_are_set(line, mix_eight(probes->h[0], 0, probes->count));

    if (probes->count > 8) {
        all &= eight_are_set(line, mix_eight(probes->h[1], 8, probes->count - 8));
    }
    return (uint8_t)all;
}

MMB_AVX2 static inline unsigned line_set_avx2(uint8_t *line, const line_probes *probes)
{
    if (probes->count <= 8) {
        return eight_set(line, mix_eight(probes->h[0], 0, probes->count), probes->count);
    }
    const unsigned is_new = eight_set(line, mix_eight(probes->h[0], 0, 8), 8);
    return is_new | eight_set(line, mix_eight(probes->h[1], 8, probes->count - 8), probes->count - 8);
}

MMB_AVX2 static inline uint8_t key_contains_avx2(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
    line_place places[2];
    const unsigned lines = key_lines(bloom, hash, places);
    const uint8_t all = line_contains_avx2(payload + places[0].offset, &places[0].probes);

    return lines == 2 ? all & line_contains_avx2(payload + places[1].offset, &places[1].probes) : all;
}

MMB_AVX2 static inline unsigned key_set_avx2(const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash)
{
    line_place places[2];
    const unsigned lines = key_lines(bloom, hash, places);
    const unsigned is_new = line_set_avx2(payload + places[0].offset, &places[0].probes);

    return lines == 2 ? is_new | line_set_avx2(payload + places[1].offset, &places[1].probes) : is_new;
}

MMB_AVX2 static uint8_t contains_one_avx2(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
    return key_contains_avx2(bloom, payload, hash);
}

MMB_AVX2 static unsigned add_one_avx2(const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash)
{
    return key_set_avx2(bloom, payload, hash);
}

MMB_AVX2 static void lines_contain_avx2(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes,
                                        size_t n, uint8_t *maybe)
{
    lines_contain(key_contains_avx2, bloom, payload, hashes, n, maybe);
}

MMB_AVX2 static size_t lines_add_avx2(const mmb_bloom *bloom, uint8_t *payload, const mmb_hash *hashes, size_t n,
                                      uint64_t room, uint64_t *num_new, const mmb_dirty *dirty)
{
    return lines_add(key_contains_avx2, key_set_avx2, bloom, payload, hashes, n, room, num_new, dirty);
}

MMB_AVX2 static void lines_add_part_avx2(const mmb_bloom *bloom, uint8_t *target, uint64_t first, uint64_t num_bytes,
                                         const mmb_hash *hashes, size_t n)
{
    lines_add_part(key_set_avx2, bloom, target, first, num_bytes, hashes, n);
}
#endif

void mmb_lines_probes(const mmb_bloom *bloom, mmb_hash hash, uint64_t *bits)
{
    line_place places[2];
    const unsigned lines = key_lines(bloom, hash, places);

    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        const line_place *place = &places[i % lines];
        bits[i] = 8 * place->offset + line_bit(&place->probes, i / lines);
    }
}

uint8_t mmb_lines_contain(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        return contains_one_avx2(bloom, payload, hash);
    }
#endif
    return key_contains(bloom, payload, hash);
}

void mmb_lines_contain_many(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                            uint8_t *maybe)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        lines_contain_avx2(bloom, payload, hashes, n, maybe);
        return;
    }
#endif
    lines_contain(key_contains, bloom, payload, hashes, n, maybe);
}

unsigned mmb_lines_add(const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        return add_one_avx2(bloom, payload, hash);
    }
#endif
    return key_set(bloom, payload, hash);
}

size_t mmb_lines_add_many(const mmb_bloom *bloom, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                          uint64_t *num_new, const mmb_dirty *dirty)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        return lines_add_avx2(bloom, payload, hashes, n, room, num_new, dirty);
    }
#endif
    return lines_add(key_contains, key_set, bloom, payload, hashes, n, room, num_new, dirty);
}

void mmb_lines_add_part(const mmb_bloom *bloom, uint8_t *target, uint64_t first, uint64_t num_bytes,
                        const mmb_hash *hashes, size_t n)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        lines_add_part_avx2(bloom, target, first, num_bytes, hashes, n);
        return;
    }
#endif
    lines_add_part(key_set, bloom, target, first, num_bytes, hashes, n);
}
