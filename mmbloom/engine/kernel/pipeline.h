/* Keys -> hashes or answers: the stages, one after the other, over chunks that stay in the L1 cache. */
#ifndef MMB_PIPELINE_H
#define MMB_PIPELINE_H

#include "layout.h"
#include "source.h"

/* How the keys of one filter are hashed. */
typedef struct {
    uint64_t seed;
    mmb_key_form form;
} mmb_keying;

/* Hash up to `max` keys of a source. Sets *count to the number of keys hashed; on failure this is the index of the key that
   failed. */
mmb_status mmb_hash_source(mmb_source *source, const mmb_keying *keying, mmb_hash *hashes, size_t max, size_t *count);

/* Look up n views in a payload: maybe[i] is 0 or 1. *count as above. */
mmb_status mmb_contains_views(const mmb_layout *layout, const mmb_shape *shape, const uint8_t *payload,
                              const mmb_keying *keying, const mmb_view *views, size_t n, uint8_t *maybe, size_t *count);

/* Look up all keys of a source, at most `max`. *count as above. */
mmb_status mmb_contains_source(const mmb_layout *layout, const mmb_shape *shape, const uint8_t *payload,
                               const mmb_keying *keying, mmb_source *source, uint8_t *maybe, size_t max, size_t *count);

#endif
