/* Bloom filters over a mapped payload.

   Three layouts, two shapes of work. `line` and `page` touch one or two 64-byte lines a key: the line is tested whole,
   without leaving early (leaving early costs a mispredicted branch, twice the time of the test). `classic` touches
   num_probes lines: their bit numbers are computed for a group of keys, prefetched, and only then tested.

   The probe rules are part of the file format (FORMAT.md, "Probes", schemes 1, 2 and 3). A change here makes existing
   files answer "definitely not" for keys they hold: a better rule gets a new scheme number beside these.

   The AVX2 path answers for up to 8 probes in one step: RocksDB's FastLocalBloom (P. Dillinger, 2019) has the idea. */
#include "bloom.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define MMB_HAVE_AVX2 1
#endif

/* floor(2^64 / golden ratio), odd: Fibonacci hashing, Knuth TAOCP 3, 6.4. */
#define MMB_GOLDEN64 UINT64_C(0x9E3779B97F4A7C15)

/* Probe i of a line: ((h * MULTIPLIERS[i] + ADDENDS[i]) mod 2^32) >> 23. MULTIPLIERS[i] = C^i and ADDENDS[i] = (i + 1) * C
   mod 2^32, C = floor(2^32 / golden ratio). The addends keep the 16 probes of h = 0 (and of any h with few bits) apart. */
static const uint32_t MULTIPLIERS[16] = {
    0x00000001, 0x9E3779B9, 0xE35E67B1, 0x734297E9, 0x35FBE861, 0xDEB7C719, 0x0448B211, 0x3459B749,
    0xAB25F4C1, 0x52941879, 0x9C95E071, 0xF5AB9AA9, 0x2D6BA521, 0x8BEDEDD9, 0x9BFB72D1, 0x3AE1C209,
};
static const uint32_t ADDENDS[16] = {
    0x9E3779B9, 0x3C6EF372, 0xDAA66D2B, 0x78DDE6E4, 0x1715609D, 0xB54CDA56, 0x5384540F, 0xF1BBCDC8,
    0x8FF34781, 0x2E2AC13A, 0xCC623AF3, 0x6A99B4AC, 0x08D12E65, 0xA708A81E, 0x454021D7, 0xE3779B90,
};

/* Lines asked for ahead of the one that is tested: enough to fill the ~12-16 line fill buffers of a core and the
   queue behind them. 16 to 64 measured alike. */
#define LINES_AHEAD 32U

/* Bit numbers held for a group of classic keys: 512 * 8 bytes, a small part of the L1 cache. */
#define GROUP_BITS 512U

static inline uint64_t multiply_high(uint64_t a, uint64_t b, uint64_t *low)
{
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 uint128;
    const uint128 product = (uint128)a * b;
    *low = (uint64_t)product;
    return (uint64_t)(product >> 64);
#else
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + ((a0 * b0) >> 32);
    const uint64_t other = a0 * b1 + (uint32_t)middle;
    *low = a * b;
    return a1 * b1 + (middle >> 32) + (other >> 32);
#endif
}

/* ---- one line ------------------------------------------------------------------------------------------------- */

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
    return (probes->h[i >> 3] * MULTIPLIERS[i] + ADDENDS[i]) >> 23;
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

static inline void line_set(uint8_t *line, const line_probes *probes)
{
    for (uint32_t i = 0; i < probes->count; i++) {
        const uint32_t bit = line_bit(probes, i);
        line[bit >> 3] = (uint8_t)(line[bit >> 3] | (1U << (bit & 7)));
    }
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
        return 1;
    }
    const uint64_t page = multiply_high(hash.hi, bloom->num_bits / (8 * MMB_PAGE_BYTES), &fraction);
    const uint64_t lower_line = 64 * page + (fraction >> 59);
    const uint64_t upper_line = 64 * page + 32 + ((fraction >> 54) & 31);
    places[0] = (line_place){lower_line * MMB_LINE_BYTES, {{low, low}, (bloom->num_probes + 1) / 2}};
    places[1] = (line_place){upper_line * MMB_LINE_BYTES, {{high, high}, bloom->num_probes / 2}};
    return 2;
}

#if MMB_HAVE_AVX2
#define MMB_AVX2 __attribute__((target("avx2")))

/* Eight 32-bit words of a line by number 0..15, and the bits wanted of them: the test is one instruction. */
MMB_AVX2 static inline int eight_probes_avx2(__m256i lower, __m256i upper, uint32_t h, unsigned first, uint32_t count)
{
    const __m256i multipliers = _mm256_loadu_si256((const __m256i *)(const void *)(MULTIPLIERS + first));
    const __m256i addends = _mm256_loadu_si256((const __m256i *)(const void *)(ADDENDS + first));
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i mixed = _mm256_add_epi32(_mm256_mullo_epi32(_mm256_set1_epi32((int)h), multipliers), addends);
    const __m256i word = _mm256_srli_epi32(mixed, 28); /* bits 31..28; the shuffles read the low 3 of them */
    const __m256i from_lower = _mm256_permutevar8x32_epi32(lower, word);
    const __m256i from_upper = _mm256_permutevar8x32_epi32(upper, word);
    const __m256i words = _mm256_castps_si256(_mm256_blendv_ps(
        _mm256_castsi256_ps(from_lower), _mm256_castsi256_ps(from_upper), _mm256_castsi256_ps(mixed)));
    const __m256i shift = _mm256_srli_epi32(_mm256_slli_epi32(mixed, 4), 27); /* bits 27..23 */
    const __m256i active = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lanes);
    const __m256i bits = _mm256_sllv_epi32(_mm256_srli_epi32(active, 31), shift);

    return _mm256_testc_si256(words, bits);
}

MMB_AVX2 static inline uint8_t line_contains_avx2(const uint8_t *line, const line_probes *probes)
{
    const __m256i lower = _mm256_loadu_si256((const __m256i *)(const void *)line);
    const __m256i upper = _mm256_loadu_si256((const __m256i *)(const void *)(line + 32));
    int all = eight_probes_avx2(lower, upper, probes->h[0], 0, probes->count);

    if (probes->count > 8) {
        all &= eight_probes_avx2(lower, upper, probes->h[1], 8, probes->count - 8);
    }
    return (uint8_t)all;
}

MMB_AVX2 static void lines_contain_avx2(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes,
                                        size_t n, uint8_t *maybe)
{
    line_place ahead[2];
    line_place here[2];

    for (size_t i = 0; i < n + LINES_AHEAD; i++) {
        if (i < n) {
            const unsigned lines = key_lines(bloom, hashes[i], ahead);
            MMB_PREFETCH(payload + ahead[0].offset);
            if (lines == 2) {
                MMB_PREFETCH(payload + ahead[1].offset);
            }
        }
        if (i >= LINES_AHEAD) {
            const unsigned lines = key_lines(bloom, hashes[i - LINES_AHEAD], here);
            uint8_t all = line_contains_avx2(payload + here[0].offset, &here[0].probes);
            if (lines == 2) {
                all &= line_contains_avx2(payload + here[1].offset, &here[1].probes);
            }
            maybe[i - LINES_AHEAD] = all;
        }
    }
}
#endif

static void lines_contain_portable(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                                   uint8_t *maybe)
{
    line_place places[2];

    for (size_t i = 0; i < n; i++) {
        if (i + LINES_AHEAD < n) {
            const unsigned lines = key_lines(bloom, hashes[i + LINES_AHEAD], places);
            MMB_PREFETCH(payload + places[0].offset);
            if (lines == 2) {
                MMB_PREFETCH(payload + places[1].offset);
            }
        }
        const unsigned lines = key_lines(bloom, hashes[i], places);
        uint8_t all = line_contains(payload + places[0].offset, &places[0].probes);
        if (lines == 2) {
            all &= line_contains(payload + places[1].offset, &places[1].probes);
        }
        maybe[i] = all;
    }
}

int mmb_dirty_take(const mmb_dirty *dirty, uint64_t num_pages, uint64_t *first, uint64_t *count)
{
    uint64_t page = *first;

    while (page < num_pages && !dirty->pages[page]) {
        const uint64_t group = page / MMB_DIRTY_GROUP;
        page = page % MMB_DIRTY_GROUP == 0 && !dirty->groups[group] ? page + MMB_DIRTY_GROUP : page + 1;
    }
    if (page >= num_pages) {
        return 0;
    }
    *first = page;
    while (page < num_pages && dirty->pages[page]) {
        dirty->pages[page++] = 0;
    }
    *count = page - *first;
    return 1;
}

static void mark_dirty(const mmb_dirty *dirty, uint64_t offset)
{
    if (dirty != NULL) {
        const uint64_t page = offset / MMB_PAGE_BYTES;
        dirty->pages[page] = 1;
        dirty->groups[page / MMB_DIRTY_GROUP] = 1;
    }
}

static size_t lines_add(const mmb_bloom *bloom, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                        uint64_t *num_new, const mmb_dirty *dirty)
{
    line_place places[2];
    uint64_t added = 0;
    size_t i = 0;

    for (; i < n; i++) {
        if (i + LINES_AHEAD < n) {
            const unsigned lines = key_lines(bloom, hashes[i + LINES_AHEAD], places);
            MMB_PREFETCH(payload + places[0].offset);
            if (lines == 2) {
                MMB_PREFETCH(payload + places[1].offset);
            }
        }
        const unsigned lines = key_lines(bloom, hashes[i], places);
        uint8_t known = line_contains(payload + places[0].offset, &places[0].probes);
        if (lines == 2) {
            known &= line_contains(payload + places[1].offset, &places[1].probes);
        }
        if (known) {
            continue;
        }
        if (added == room) {
            break;
        }
        added++;
        for (unsigned j = 0; j < lines; j++) {
            line_set(payload + places[j].offset, &places[j].probes);
            mark_dirty(dirty, places[j].offset);
        }
    }
    *num_new = added;
    return i;
}

/* ---- classic -------------------------------------------------------------------------------------------------- */

/* Cubic enhanced double hashing over fast range reduction (Dillinger & Manolios 2004; Lemire 2019): textbook double
   hashing has 56 times too many false positives at n = 1000, p = 1e-6. */
static inline void classic_bits(const mmb_bloom *bloom, mmb_hash hash, uint64_t *bits)
{
    uint64_t x = hash.hi, y = hash.lo, z = MMB_GOLDEN64, fraction;

    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        bits[i] = multiply_high(x, bloom->num_bits, &fraction);
        x += y;
        y += z;
        z += MMB_GOLDEN64;
    }
}

static inline uint8_t classic_contains(const uint8_t *payload, const uint64_t *bits, uint32_t num_probes)
{
    unsigned all = 1;

    for (uint32_t i = 0; i < num_probes; i++) {
        all &= (unsigned)payload[bits[i] >> 3] >> (bits[i] & 7);
    }
    return (uint8_t)(all & 1);
}

/* One key, unprepared: here leaving early saves a cache miss a probe. */
static uint8_t classic_contains_one(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
    uint64_t x = hash.hi, y = hash.lo, z = MMB_GOLDEN64, fraction;

    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        const uint64_t bit = multiply_high(x, bloom->num_bits, &fraction);
        if (!((payload[bit >> 3] >> (bit & 7)) & 1)) {
            return 0;
        }
        x += y;
        y += z;
        z += MMB_GOLDEN64;
    }
    return 1;
}

/* The bit numbers of up to GROUP_BITS / num_probes keys, with their lines asked for. Returns how many keys. */
static size_t classic_group(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                            uint64_t *bits)
{
    const uint32_t k = bloom->num_probes;
    const size_t keys = n < GROUP_BITS / k ? n : GROUP_BITS / k;

    for (size_t i = 0; i < keys; i++) {
        classic_bits(bloom, hashes[i], bits + i * k);
        for (uint32_t j = 0; j < k; j++) {
            MMB_PREFETCH(payload + (bits[i * k + j] >> 3));
        }
    }
    return keys;
}

static void classic_contain(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                            uint8_t *maybe)
{
    uint64_t bits[GROUP_BITS];

    for (size_t first = 0; first < n;) {
        const size_t keys = classic_group(bloom, payload, hashes + first, n - first, bits);
        for (size_t i = 0; i < keys; i++) {
            maybe[first + i] = classic_contains(payload, bits + i * bloom->num_probes, bloom->num_probes);
        }
        first += keys;
    }
}

static size_t classic_add(const mmb_bloom *bloom, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                          uint64_t *num_new, const mmb_dirty *dirty)
{
    const uint32_t k = bloom->num_probes;
    uint64_t bits[GROUP_BITS];
    uint64_t added = 0;
    size_t first = 0;

    while (first < n) {
        const size_t keys = classic_group(bloom, payload, hashes + first, n - first, bits);
        size_t i = 0;
        for (; i < keys; i++) {
            const uint64_t *key_bits = bits + i * k;
            if (classic_contains(payload, key_bits, k)) {
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
                    mark_dirty(dirty, key_bits[j] >> 3);
                }
            }
        }
        first += i;
        if (i < keys) {
            break;
        }
    }
    *num_new = added;
    return first;
}

/* ---- the three layouts ------------------------------------------------------------------------------------------ */

void mmb_bloom_probes(const mmb_bloom *bloom, mmb_hash hash, uint64_t *bits)
{
    line_place places[2];

    if (bloom->layout == MMB_CLASSIC) {
        classic_bits(bloom, hash, bits);
        return;
    }
    const unsigned lines = key_lines(bloom, hash, places);
    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        const line_place *place = &places[i % lines];
        bits[i] = 8 * place->offset + line_bit(&place->probes, i / lines);
    }
}

size_t mmb_bloom_pages(const mmb_bloom *bloom, const mmb_hash *hashes, size_t n, uint64_t *pages)
{
    const uint32_t pages_per_key = bloom->layout == MMB_CLASSIC ? bloom->num_probes : 1;
    uint64_t bits[MMB_MAX_PROBES];

    for (size_t i = 0; i < n; i++) {
        mmb_bloom_probes(bloom, hashes[i], bits);
        for (uint32_t j = 0; j < pages_per_key; j++) {
            *pages++ = bits[j] / (8 * MMB_PAGE_BYTES);
        }
    }
    return n * pages_per_key;
}

uint8_t mmb_bloom_contains(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
    uint8_t maybe;

    if (bloom->layout == MMB_CLASSIC) {
        return classic_contains_one(bloom, payload, hash);
    }
    line_place places[2];
    const unsigned lines = key_lines(bloom, hash, places);
    maybe = line_contains(payload + places[0].offset, &places[0].probes);
    return lines == 2 ? maybe & line_contains(payload + places[1].offset, &places[1].probes) : maybe;
}

void mmb_bloom_contains_many(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                             uint8_t *maybe)
{
    if (bloom->layout == MMB_CLASSIC) {
        classic_contain(bloom, payload, hashes, n, maybe);
        return;
    }
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        lines_contain_avx2(bloom, payload, hashes, n, maybe);
        return;
    }
#endif
    lines_contain_portable(bloom, payload, hashes, n, maybe);
}

size_t mmb_bloom_add_many(const mmb_bloom *bloom, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                          uint64_t *num_new, const mmb_dirty *dirty)
{
    if (bloom->layout == MMB_CLASSIC) {
        return classic_add(bloom, payload, hashes, n, room, num_new, dirty);
    }
    return lines_add(bloom, payload, hashes, n, room, num_new, dirty);
}
