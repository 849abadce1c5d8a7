/* The floor of this machine for contains_many, which no Bloom filter in a file can beat.

   Three loops: hash the keys; touch one random cache line of a map per key; both, in chunks, as a
   batch look-up must. No probes are computed and no answer is written, so a real look-up
   costs more. tools/bench/floor.py compiles this file at run time (cc -O3, no -march) and calls it
   through ctypes; it is not part of the package.

   Requires, in all three: LINE_BYTES * num_lines bytes readable at map, num_lines > 0. */
#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include "xxhash.h"

#define LINE_BYTES 64
/* 512 addresses of 8 bytes are 4 KiB: they stay in the first-level cache between the two stages. */
#define CHUNK_KEYS 512
/* Keys are read from a stream that is far larger than the caches; 16 keys of 50 bytes are 12 lines. */
#define KEYS_AHEAD 16

/* FORMAT.md's rule for the place of a key: the upper word of place * num_lines. */
static inline uint64_t line_of(uint64_t place, uint64_t num_lines) {
    return (uint64_t)(((unsigned __int128)place * num_lines) >> 64);
}

/* A permutation of 64-bit numbers without pattern: splitmix64's output step (Steele, Lea, Flood 2014). */
static inline uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* The seed comes from the caller, as a filter's comes from its file: the compiler must not know it. */
static inline uint64_t hash_of(const uint8_t *data, const int32_t *offsets, size_t i, uint64_t seed) {
    const size_t num_bytes = (size_t)(offsets[i + 1] - offsets[i]);
    const XXH128_hash_t hash = XXH3_128bits_withSeed(data + offsets[i], num_bytes, seed);
    return hash.high64 ^ hash.low64; /* a filter needs both halves */
}

/* Hash num_keys keys laid out as in an Arrow string array (int32 offsets, num_keys + 1 of them). */
uint64_t floor_hash(const uint8_t *data, const int32_t *offsets, size_t num_keys, uint64_t seed) {
    uint64_t sum = 0;
    for (size_t i = 0; i < num_keys; i++) {
        if (i + KEYS_AHEAD < num_keys) __builtin_prefetch(data + offsets[i + KEYS_AHEAD]);
        sum += hash_of(data, offsets, i, seed);
    }
    return sum;
}

/* Touch num_reads independent random lines of the map, each asked for lines_ahead reads before. */
uint64_t floor_lines(const uint8_t *map, uint64_t num_lines, size_t num_reads, size_t lines_ahead,
                     uint64_t seed) {
    uint64_t sum = 0;
    for (size_t i = 0; i < num_reads; i++) {
        __builtin_prefetch(map + LINE_BYTES * line_of(mix(seed + i + lines_ahead), num_lines));
        sum += map[LINE_BYTES * line_of(mix(seed + i), num_lines)];
    }
    return sum;
}

/* Hash each key and touch the one line that its hash names, chunk by chunk.

   Two stages, and no prefetch in the first: a prefetch between two hashes waits for its page walk, which
   in a virtual machine is two walks deep, and the hashes wait behind it. Measured on such a machine,
   ns a key: 25 as below, 60 to 100 with the prefetch in the loop that hashes. */
uint64_t floor_fused(const uint8_t *data, const int32_t *offsets, size_t num_keys, const uint8_t *map,
                     uint64_t num_lines, size_t lines_ahead, uint64_t seed) {
    uint64_t sum = 0;
    const uint8_t *lines[CHUNK_KEYS];
    for (size_t start = 0; start < num_keys; start += CHUNK_KEYS) {
        const size_t left = num_keys - start;
        const size_t chunk = left < CHUNK_KEYS ? left : CHUNK_KEYS;
        for (size_t i = 0; i < chunk; i++) {
            const size_t key = start + i;
            if (key + KEYS_AHEAD < num_keys) __builtin_prefetch(data + offsets[key + KEYS_AHEAD]);
            lines[i] = map + LINE_BYTES * line_of(hash_of(data, offsets, key, seed), num_lines);
        }
        for (size_t i = 0; i < chunk; i++) {
            if (i + lines_ahead < chunk) __builtin_prefetch(lines[i + lines_ahead]);
            sum += *lines[i];
        }
    }
    return sum;
}
