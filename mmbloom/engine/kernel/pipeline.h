/* Keys in, answers out: the stages chained over chunks that stay in the L1 cache. */
#ifndef MMB_PIPELINE_H
#define MMB_PIPELINE_H

#include "source.h"

/* What every stage of one filter needs to know of a key. */
typedef struct {
    uint64_t seed;
    mmb_key_form form;
} mmb_keying;

/* How a filter of any kind answers n hashes: maybe[i] is 0 or 1. */
typedef void (*mmb_look_up)(const void *shape, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint8_t *maybe);

/* The 4 KiB pages of the payload that n hashes read, at most `pages_per_key` each. Returns how many were written. */
typedef size_t (*mmb_pages_of)(const void *shape, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t *pages);

/* One filter, as far as a look-up goes: `shape` is what its kind's functions expect, for instance an mmb_bloom. */
typedef struct {
    const void *shape;
    mmb_look_up contains_many;
    mmb_pages_of pages_of;
    size_t pages_per_key;
} mmb_lookup;

/* Hash up to `max` keys of a source. *count tells how many were hashed: on failure, the index of the key that failed. */
mmb_status mmb_hash_source(mmb_source *source, const mmb_keying *keying, mmb_hash *hashes, size_t max, size_t *count);

/* Look up n views: maybe[i] is 0 or 1. *count as above. */
mmb_status mmb_contains_views(const mmb_lookup *lookup, const uint8_t *payload, const mmb_keying *keying,
                              const mmb_view *views, size_t n, uint8_t *maybe, size_t *count);

/* Look up all keys of a source, at most `max`. *count as above. */
mmb_status mmb_contains_source(const mmb_lookup *lookup, const uint8_t *payload, const mmb_keying *keying,
                               mmb_source *source, uint8_t *maybe, size_t max, size_t *count);

#endif
