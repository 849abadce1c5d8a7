/* The 64-bit arithmetic that places keys, shared by all layouts. */
#ifndef MMB_MULTIPLY_H
#define MMB_MULTIPLY_H

#include <stdint.h>

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

#endif
