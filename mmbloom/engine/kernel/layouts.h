/* The rooms behind bloom.c: what each layout's file offers it, and the arithmetic that they share. */
#ifndef MMB_LAYOUTS_H
#define MMB_LAYOUTS_H

#include "bloom.h"

/* floor(2^64 / golden ratio), odd: Fibonacci hashing, Knuth TAOCP 3, 6.4. */
#define MMB_GOLDEN64 UINT64_C(0x9E3779B97F4A7C15)

/* The upper word of a * b: fast range reduction (Lemire 2019). *low is the lower word, uniform again for the next level. */
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

/* `line` and `page`. */
void mmb_lines_probes(const mmb_bloom *bloom, mmb_hash hash, uint64_t *bits);
uint8_t mmb_lines_contain(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash);
void mmb_lines_contain_many(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                            uint8_t *maybe);
unsigned mmb_lines_add(const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash);
size_t mmb_lines_add_many(const mmb_bloom *bloom, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                          uint64_t *num_new, const mmb_dirty *dirty);
void mmb_lines_add_part(const mmb_bloom *bloom, uint8_t *target, uint64_t first, uint64_t num_bytes,
                        const mmb_hash *hashes, size_t n);

/* `narrow`. */
void mmb_narrow_probes(const mmb_bloom *bloom, mmb_hash hash, uint64_t *bits);
uint8_t mmb_narrow_contains(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash);
void mmb_narrow_contains_many(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                              uint8_t *maybe);
unsigned mmb_narrow_add(const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash);
size_t mmb_narrow_add_many(const mmb_bloom *bloom, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                           uint64_t *num_new, const mmb_dirty *dirty);
void mmb_narrow_add_part(const mmb_bloom *bloom, uint8_t *target, uint64_t first, uint64_t num_bytes,
                         const mmb_hash *hashes, size_t n);

/* `classic`. */
void mmb_classic_probes(const mmb_bloom *bloom, mmb_hash hash, uint64_t *bits);
uint8_t mmb_classic_contains(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash);
void mmb_classic_contains_many(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                               uint8_t *maybe);
unsigned mmb_classic_add(const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash);
size_t mmb_classic_add_many(const mmb_bloom *bloom, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                            uint64_t *num_new, const mmb_dirty *dirty);
void mmb_classic_add_part(const mmb_bloom *bloom, uint8_t *target, uint64_t first, uint64_t num_bytes,
                          const mmb_hash *hashes, size_t n);

#endif
