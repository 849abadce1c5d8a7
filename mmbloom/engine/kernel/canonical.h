/* A view -> canonical bytes. */
#ifndef MMB_CANONICAL_H
#define MMB_CANONICAL_H

#include "mmb.h"

/* Memory for keys that must be rewritten before they can be hashed. It grows as needed, and starts with room in place, so that
   ordinary keys (digests, domain names) never allocate. */
typedef struct {
    uint8_t *heap;
    size_t heap_size;
    uint8_t in_place[1024];
} mmb_scratch;

/* Before the first use, and after the last. */
void mmb_scratch_init(mmb_scratch *scratch);
void mmb_scratch_free(mmb_scratch *scratch);

/* Point *bytes and *length at the canonical bytes of `view` under `form`. They lie in the view itself or in `scratch`,
   and are valid until the next call. Fails with MMB_NO_MEMORY, MMB_SURROGATE, MMB_HEX_ODD or MMB_HEX_DIGIT. */
mmb_status mmb_canonical(const mmb_view *view, mmb_key_form form, mmb_scratch *scratch, const uint8_t **bytes,
                         size_t *length);

/* Decode `length` hexadecimal digits at `text` to length / 2 bytes at `out`, which may be `text` itself. Fails with MMB_HEX_ODD or
   MMB_HEX_DIGIT; the contents of `out` are then undefined. */
mmb_status mmb_decode_hex(const uint8_t *text, size_t length, uint8_t *out);

#endif
