/* What fuse filters are held against: scattered accesses in a cache, and a peer without Python around it.

   tools/bench/fuse_peers.py compiles this file at run time (cc -O3, no -march) and calls it through ctypes; it is not part
   of the package. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The upper word of place * size: a number below size. */
static inline uint64_t scaled(uint64_t place, uint64_t size) {
    return (uint64_t)(((unsigned __int128)place * size) >> 64);
}

/* A permutation of 64-bit numbers without pattern: splitmix64's output step (Steele, Lea, Flood 2014). */
static inline uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* Change num_changes random words of a window, as putting keys into slots does. Requires: num_words > 0. */
void floor_changes(uint32_t *window, uint64_t num_words, size_t num_changes, uint64_t seed) {
    for (size_t i = 0; i < num_changes; i++) {
        window[scaled(mix(seed + i), num_words)] += (uint32_t)i;
    }
}

/* Ask another library's own function about every hash: a batch that it does not offer. */
void ask_each(bool (*contains)(uint64_t, const void *), const void *filter, const uint64_t *hashes, size_t num_hashes,
              uint8_t *maybe) {
    for (size_t i = 0; i < num_hashes; i++) {
        maybe[i] = contains(hashes[i], filter);
    }
}
