/* Canonical bytes -> hashes. */
#ifndef MMB_HASH_H
#define MMB_HASH_H

#include "mmb.h"

/* XXH3-128 of `length` bytes under `seed`. */
mmb_hash mmb_hash_bytes(const uint8_t *bytes, size_t length, uint64_t seed);

/* Hash n views in order. Sets *count to n; on failure, to the index of the view that could not be hashed. The hashes before it
   have been written. Fails as mmb_canonical(). */
mmb_status mmb_hash_views(const mmb_view *views, size_t n, uint64_t seed, mmb_key_form form, mmb_hash *hashes,
                          size_t *count);

/* XXH3-64, seed 0: the checksum of headers and payloads. */
uint64_t mmb_checksum64(const uint8_t *bytes, size_t length);

#endif
