/* Hashes -> bits. The probe rules of FORMAT.md, one key at a time and in prefetched batches. */
#ifndef MMB_BLOOM_H
#define MMB_BLOOM_H

#include "dirty.h"
#include "mmb.h"

#define MMB_LINE_BYTES 64U
#define MMB_LINE_BITS 512U
#define MMB_NARROW_BYTES 16U
#define MMB_NARROW_BITS 128U
#define MMB_MAX_PROBES 64U /* classic; line and narrow take up to 16, page up to 32 */

/* Requires: num_probes within the layout's range; num_bits > 0, a multiple of 512 (line), 32768 (page) or 128 (narrow). */
typedef struct {
    mmb_layout layout;
    uint32_t num_probes;
    uint64_t num_bits;
} mmb_bloom;

/* The bit numbers that the key with this hash reads and sets, num_probes of them. */
void mmb_bloom_probes(const mmb_bloom *bloom, mmb_hash hash, uint64_t *bits);

/* The 4 KiB pages of the payload that n keys read, in the order of the keys: one each, `classic` num_probes each. Returns how
   many numbers were written. */
size_t mmb_bloom_pages(const mmb_bloom *bloom, const mmb_hash *hashes, size_t n, uint64_t *pages);

/* 1 if every bit of the hash is set, else 0. */
uint8_t mmb_bloom_contains(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash);

/* The same for n hashes, prefetching ahead: maybe[i] is 0 or 1. */
void mmb_bloom_contains_many(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                             uint8_t *maybe);

/* The same as an mmb_look_up and an mmb_pages_of of pipeline.h; `bloom` points to an mmb_bloom. */
size_t mmb_bloom_pages_of(const void *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t *pages);
void mmb_bloom_look_up(const void *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint8_t *maybe);

/* Set the bits of one key; 1 if one of them was zero: the key is new. */
unsigned mmb_bloom_add(const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash);

/* Add hashes in order while new keys fit into `room`. Returns how many were dealt with: n, or the index of the first new
   key that did not fit, of which no bit was set. *num_new counts those that set a bit. `dirty` may be NULL. */
size_t mmb_bloom_add_many(const mmb_bloom *bloom, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                          uint64_t *num_new, const mmb_dirty *dirty);

/* Set the bits that fall into `num_bytes` bytes of the payload from byte `first`, of which `target` is a copy; the others are
   passed over. For building a payload in parts. */
void mmb_bloom_add_part(const mmb_bloom *bloom, uint8_t *target, uint64_t first, uint64_t num_bytes, const mmb_hash *hashes,
                        size_t n);

/* The bytes of the payload, [*first, *end), in which all probes of keys lie whose hi is within [lowest, highest]: for `classic` all
   of it, for the others whole blocks. */
void mmb_bloom_span(const mmb_bloom *bloom, uint64_t lowest, uint64_t highest, uint64_t *first, uint64_t *end);

#endif
