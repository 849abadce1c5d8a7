/* Layout `narrow`: a key's probes lie in one line of 16 bytes. The filter that a counting filter leaves when its counters
   become bits: probe scheme 4 of FORMAT.md, as counting.c has it. */
#include <string.h>

#include "bits.h"
#include "layouts.h"
#include "mixing.h"

/* As in lines.c, where they were measured. */
#define LINES_AHEAD 32U
#define GROUP_KEYS 64U

static inline uint64_t offset_of(const mmb_bloom *bloom, mmb_hash hash)
{
    uint64_t fraction;

    return MMB_NARROW_BYTES * multiply_high(hash.hi, bloom->num_bits / MMB_NARROW_BITS, &fraction);
}

/* The number of probe i in its line. */
static inline uint32_t bit_of(mmb_hash hash, uint32_t i)
{
    return mix_probe((uint32_t)(i < 8 ? hash.lo : hash.lo >> 32), i) >> 25;
}

static inline uint8_t key_contains(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
    const uint8_t *line = payload + offset_of(bloom, hash);
    unsigned all = 1;

    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        const uint32_t bit = bit_of(hash, i);
        all &= (unsigned)line[bit >> 3] >> (bit & 7);
    }
    return (uint8_t)(all & 1);
}

static inline void set_key(const mmb_bloom *bloom, uint8_t *line, mmb_hash hash)
{
    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        const uint32_t bit = bit_of(hash, i);
        line[bit >> 3] = (uint8_t)(line[bit >> 3] | (1U << (bit & 7)));
    }
}

typedef uint8_t (*key_test)(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash);

MMB_INLINE void keys_contain(key_test contains, const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes,
                             size_t n, uint8_t *maybe)
{
    for (size_t first = 0; first < n; first += GROUP_KEYS) {
        const size_t end = n - first < GROUP_KEYS ? n : first + GROUP_KEYS;
        for (size_t i = first; i < end; i++) {
            MMB_PREFETCH(payload + offset_of(bloom, hashes[i]));
        }
        for (size_t i = first; i < end; i++) {
            maybe[i] = contains(bloom, payload, hashes[i]);
        }
    }
}

#if MMB_HAVE_AVX2
/* Up to eight probes at once: all set. A probe's upper 2 bits name the 32-bit word, the 5 below them the bit. */
MMB_AVX2 static inline int eight_are_set(const uint8_t *line, uint32_t h, unsigned first, uint32_t count)
{
    const __m256i mixed = mix_eight_probes(h, first);
    const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)line));
    const __m256i words = _mm256_permutevar8x32_epi32(both, _mm256_srli_epi32(mixed, 30));
    const __m256i shift = _mm256_srli_epi32(_mm256_slli_epi32(mixed, 2), 27);

    return _mm256_testc_si256(words, _mm256_sllv_epi32(first_lanes(count), shift));
}

MMB_AVX2 static inline uint8_t key_contains_avx2(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
    const uint8_t *line = payload + offset_of(bloom, hash);
    const uint32_t k = bloom->num_probes;
    int all = eight_are_set(line, (uint32_t)hash.lo, 0, k);

    if (k > 8) {
        all &= eight_are_set(line, (uint32_t)(hash.lo >> 32), 8, k - 8);
    }
    return (uint8_t)all;
}

MMB_AVX2 static uint8_t contains_one_avx2(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
    return key_contains_avx2(bloom, payload, hash);
}

MMB_AVX2 static void keys_contain_avx2(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                                       uint8_t *maybe)
{
    keys_contain(key_contains_avx2, bloom, payload, hashes, n, maybe);
}
#endif

void mmb_narrow_probes(const mmb_bloom *bloom, mmb_hash hash, uint64_t *bits)
{
    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        bits[i] = 8 * offset_of(bloom, hash) + bit_of(hash, i);
    }
}

uint8_t mmb_narrow_contains(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        return contains_one_avx2(bloom, payload, hash);
    }
#endif
    return key_contains(bloom, payload, hash);
}

void mmb_narrow_contains_many(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                              uint8_t *maybe)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        keys_contain_avx2(bloom, payload, hashes, n, maybe);
        return;
    }
#endif
    keys_contain(key_contains, bloom, payload, hashes, n, maybe);
}

unsigned mmb_narrow_add(const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash)
{
    const unsigned is_new = !key_contains(bloom, payload, hash);

    set_key(bloom, payload + offset_of(bloom, hash), hash);
    return is_new;
}

size_t mmb_narrow_add_many(const mmb_bloom *bloom, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                           uint64_t *num_new, const mmb_dirty *dirty)
{
    uint64_t added = 0;
    size_t i = 0;

    for (; i < n; i++) {
        if (i + LINES_AHEAD < n) {
            MMB_PREFETCH(payload + offset_of(bloom, hashes[i + LINES_AHEAD]));
        }
        if (key_contains(bloom, payload, hashes[i])) {
            continue; /* and writes nothing: a page that is written becomes a page to save */
        }
        if (added == room) {
            break;
        }
        added += mmb_narrow_add(bloom, payload, hashes[i]);
        mmb_dirty_mark(dirty, offset_of(bloom, hashes[i]));
    }
    *num_new = added;
    return i;
}

void mmb_narrow_add_part(const mmb_bloom *bloom, uint8_t *target, uint64_t first, uint64_t num_bytes,
                         const mmb_hash *hashes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t offset = offset_of(bloom, hashes[i]) - first;
        if (offset < num_bytes) {
            set_key(bloom, target + offset, hashes[i]);
        }
    }
}

void mmb_narrow_histogram(const uint8_t *bytes, size_t num_lines, uint64_t histogram[129])
{
    uint64_t words[2];

    for (size_t i = 0; i < num_lines; i++) {
        memcpy(words, bytes + MMB_NARROW_BYTES * i, sizeof words);
        histogram[count_bits(words[0]) + count_bits(words[1])]++;
    }
}
