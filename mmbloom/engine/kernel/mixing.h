/* How one 32-bit word of a hash becomes up to 16 probes in a line: layouts `line`, `page`, `narrow` and `counters`. */
#ifndef MMB_MIXING_H
#define MMB_MIXING_H

#include "mmb.h"

#if MMB_HAVE_AVX2
#include <immintrin.h>
#define MMB_AVX2 __attribute__((target("avx2")))
#endif

/* MULTIPLIERS[i] = C^i and ADDENDS[i] = (i + 1) * C mod 2^32, C = floor(2^32 / golden ratio). The addends keep the 16 probes
   of h = 0 (and of any h with few bits) apart. */
static const uint32_t MULTIPLIERS[16] = {
    0x00000001, 0x9E3779B9, 0xE35E67B1, 0x734297E9, 0x35FBE861, 0xDEB7C719, 0x0448B211, 0x3459B749,
    0xAB25F4C1, 0x52941879, 0x9C95E071, 0xF5AB9AA9, 0x2D6BA521, 0x8BEDEDD9, 0x9BFB72D1, 0x3AE1C209,
};
static const uint32_t ADDENDS[16] = {
    0x9E3779B9, 0x3C6EF372, 0xDAA66D2B, 0x78DDE6E4, 0x1715609D, 0xB54CDA56, 0x5384540F, 0xF1BBCDC8,
    0x8FF34781, 0x2E2AC13A, 0xCC623AF3, 0x6A99B4AC, 0x08D12E65, 0xA708A81E, 0x454021D7, 0xE3779B90,
};

/* Probe i of the word h, 0 <= i < 16. Its upper bits are the result: 9 of them for 512 bits, 7 for 128 bits or counters. */
static inline uint32_t mix_probe(uint32_t h, uint32_t i)
{
    return h * MULTIPLIERS[i] + ADDENDS[i];
}

#if MMB_HAVE_AVX2
/* Probes first to first + 7 of the word h; first is 0 or 8. */
MMB_AVX2 static inline __m256i mix_eight_probes(uint32_t h, unsigned first)
{
    const __m256i multipliers = _mm256_loadu_si256((const __m256i *)(const void *)(MULTIPLIERS + first));
    const __m256i addends = _mm256_loadu_si256((const __m256i *)(const void *)(ADDENDS + first));

    return _mm256_add_epi32(_mm256_mullo_epi32(_mm256_set1_epi32((int)h), multipliers), addends);
}

/* 1 in the first `count` lanes, 0 in the others. */
MMB_AVX2 static inline __m256i first_lanes(uint32_t count)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    return _mm256_srli_epi32(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lanes), 31);
}

/* For each lane, the 32-bit word of a line that its upper 4 bits select, of 16. The shuffles read the low 3 bits of that number, the
   blend the highest. */
MMB_AVX2 static inline __m256i eight_words(const uint8_t *line, __m256i mixed)
{
    const __m256i lower = _mm256_loadu_si256((const __m256i *)(const void *)line);
    const __m256i upper = _mm256_loadu_si256((const __m256i *)(const void *)(line + 32));
    const __m256i word = _mm256_srli_epi32(mixed, 28);
    const __m256i from_lower = _mm256_permutevar8x32_epi32(lower, word);
    const __m256i from_upper = _mm256_permutevar8x32_epi32(upper, word);

    return _mm256_castps_si256(_mm256_blendv_ps(
        _mm256_castsi256_ps(from_lower), _mm256_castsi256_ps(from_upper), _mm256_castsi256_ps(mixed)));
}
#endif

#endif
