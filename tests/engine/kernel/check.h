/* What the kernel's tests share. A test is a function without arguments; it stops the program where a CHECK fails. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mmb.h"

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);        \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

typedef struct {
    const char *name;
    void (*run)(void);
} test;

/* The tests of each file; the last has no name. */
extern const test KEY_TESTS[];
extern const test FILTER_TESTS[];
extern const test BIT_TESTS[];
extern const test COUNTING_TESTS[];
extern const test FUSE_TESTS[];
extern const test PARTITION_TESTS[];

typedef struct {
    uint64_t high;
    uint64_t low;
} product;

/* All 128 bits of a * b. By 32-bit halves, as at school: compilers for 32-bit processors have no wider type. */
static inline product times(uint64_t a, uint64_t b)
{
    const uint64_t mask = UINT32_MAX;
    const uint64_t low = (a & mask) * (b & mask);
    const uint64_t left = (a >> 32) * (b & mask) + (low >> 32);
    const uint64_t right = (a & mask) * (b >> 32) + (left & mask);
    const product result = {(a >> 32) * (b >> 32) + (left >> 32) + (right >> 32), a * b};

    return result;
}

/* Memory of exactly this size, zeroed: the address sanitizer sees every byte read or written beyond it. */
static inline void *exactly(size_t num_bytes)
{
    void *memory = calloc(num_bytes == 0 ? 1 : num_bytes, 1);

    CHECK(memory != NULL);
    return memory;
}

/* The same, holding a copy. */
static inline uint8_t *copy_of(const void *bytes, size_t num_bytes)
{
    uint8_t *copy = exactly(num_bytes);

    if (num_bytes > 0) {
        memcpy(copy, bytes, num_bytes);
    }
    return copy;
}

/* SplitMix64 (Steele, Lea, Flood 2014): the same numbers in every run. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline mmb_hash *random_hashes(size_t n, uint64_t seed)
{
    mmb_hash *hashes = exactly(n * sizeof *hashes);

    for (size_t i = 0; i < n; i++) {
        hashes[i].hi = next_random(&seed);
        hashes[i].lo = next_random(&seed);
    }
    return hashes;
}

static inline int same_hash(mmb_hash a, mmb_hash b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

#endif
