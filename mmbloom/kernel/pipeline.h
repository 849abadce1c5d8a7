/* Keys in, answers out: the stages chained over chunks that stay in the L1 cache. */
#ifndef MMB_PIPELINE_H
#define MMB_PIPELINE_H

#include "bloom.h"
#include "source.h"

/* What every stage of one filter needs to know of a key. */
typedef struct {
    uint64_t seed;
    mmb_key_form form;
} mmb_keying;

/* Hash up to `max` keys of a source. *count tells how many were hashed: on failure, the index of the key that failed. */
mmb_status mmb_hash_source(mmb_source *source, const mmb_keying *keying, mmb_hash *hashes, size_t max, size_t *count);

/* Look up n views: maybe[i] is 0 or 1. *count as above. */
mmb_status mmb_contains_views(const mmb_bloom *bloom, const uint8_t *payload, const mmb_keying *keying,
                              const mmb_view *views, size_t n, uint8_t *maybe, size_t *count);

/* Look up all keys of a source, at most `max`. *count as above. */
mmb_status mmb_contains_source(const mmb_bloom *bloom, const uint8_t *payload, const mmb_keying *keying,
                               mmb_source *source, uint8_t *maybe, size_t max, size_t *count);

#endif
