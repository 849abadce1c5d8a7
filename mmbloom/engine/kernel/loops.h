/* The loop over many keys, once for all layouts whose probes of a key lie in one block. Each version of a layout passes its own
   functions; they are compiled into the loop. */
#ifndef MMB_LOOPS_H
#define MMB_LOOPS_H

#include "layout.h"

/* Lines requested ahead of the one that is tested: enough to fill the ~12-16 line fill buffers of a core and the queue behind
   them. 16 to 64 measured alike. */
#define LINES_AHEAD 32U

/* A payload larger than any cache is read from memory at every key. There the lines of a group are requested in a loop of their
   own: tests between the requests stall on missing lines and delay the next requests. Measured at 1.2 GB: 41 against 52
   ns a key; at 24 MB the other way is faster, 30 against 46. */
#define LARGE_BYTES ((uint64_t)64 * 1024 * 1024)
#define GROUP_KEYS 64U

typedef uint8_t (*key_test)(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash);

/* The offset in the payload of line i of a key, of 1 line or 2. It is an offset that is passed, not a function that prefetches:
   GCC takes such a function for one without effect and removes the call. */
typedef uint64_t (*key_line)(const mmb_shape *shape, mmb_hash hash, unsigned i);

MMB_INLINE void prefetch_key(key_line line, unsigned num_lines, const mmb_shape *shape, const uint8_t *payload, mmb_hash hash)
{
    for (unsigned i = 0; i < num_lines; i++) {
        MMB_PREFETCH(payload + line(shape, hash, i));
    }
}

/* Request the lines of the key LINES_AHEAD after key i, if there is one. */
MMB_INLINE void prefetch_ahead(key_line line, unsigned num_lines, const mmb_shape *shape, const uint8_t *payload,
                               const mmb_hash *hashes, size_t n, size_t i)
{
    if (i + LINES_AHEAD < n) {
        prefetch_key(line, num_lines, shape, payload, hashes[i + LINES_AHEAD]);
    }
}

MMB_INLINE void test_many(key_test contains, key_line line, unsigned num_lines, uint64_t payload_bytes, const mmb_shape *shape,
                          const uint8_t *payload, const mmb_hash *hashes, size_t n, uint8_t *maybe)
{
    if (payload_bytes < LARGE_BYTES) {
        for (size_t i = 0; i < n; i++) {
            prefetch_ahead(line, num_lines, shape, payload, hashes, n, i);
            maybe[i] = contains(shape, payload, hashes[i]);
        }
        return;
    }
    for (size_t first = 0; first < n; first += GROUP_KEYS) {
        const size_t end = n - first < GROUP_KEYS ? n : first + GROUP_KEYS;
        for (size_t i = first; i < end; i++) {
            prefetch_key(line, num_lines, shape, payload, hashes[i]);
        }
        for (size_t i = first; i < end; i++) {
            maybe[i] = contains(shape, payload, hashes[i]);
        }
    }
}

/* The pages of n keys, of one line or of two lines in the same page. */
MMB_INLINE size_t one_page_each(key_line line, const mmb_shape *shape, const mmb_hash *hashes, size_t n, uint64_t *pages)
{
    for (size_t i = 0; i < n; i++) {
        pages[i] = line(shape, hashes[i], 0) / MMB_PAGE_BYTES;
    }
    return n;
}

#endif
