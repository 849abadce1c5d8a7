/* Binary fuse filters: sorted out offline, then only read (Graf and Lemire, "Binary Fuse Filters", 2022).

   A key has one slot in each of 3 (or 4) neighbouring segments of its shard, and is answered "maybe" if the fingerprints in
   these slots, combined by xor, are its own. FORMAT.md, "Fuse filters", has the rules. */
#ifndef MMB_FUSE_H
#define MMB_FUSE_H

#include "mmb.h"

#define MMB_FUSE_MAX_ARITY 4U
#define MMB_FUSE_MAX_KEYS ((UINT32_C(1) << 24) - 1) /* of a shard: a slot under construction has 24 bits for a key's number */

typedef struct {
    uint32_t arity;            /* 3 or 4                                                          */
    uint32_t fingerprint_bits; /* 1 to 32                                                         */
    uint32_t segment_slots;    /* a power of two up to 2^18                                       */
    uint32_t num_shards;       /* 0: no keys at all                                               */
    uint64_t start_slots;      /* a key's first slot is one of so many: all but the last segments */
    uint64_t shard_bytes;      /* whole lines, with 4 bytes or more behind the last fingerprint   */
} mmb_fuse;

/* Requires the bounds above; arity <= num_segments <= 2^14. */
mmb_fuse mmb_fuse_of(uint32_t arity, uint32_t fingerprint_bits, uint32_t segment_slots, uint32_t num_segments,
                     uint32_t num_shards);

/* Bytes of the shards and the table of seeds behind them. */
uint64_t mmb_fuse_bytes(const mmb_fuse *fuse);

/* 1 if the key may be in. `payload`: mmb_fuse_bytes() of them. */
uint8_t mmb_fuse_contains(const mmb_fuse *fuse, const uint8_t *payload, mmb_hash hash);

/* As an mmb_look_up and an mmb_pages_of of pipeline.h; `fuse` points to an mmb_fuse. */
void mmb_fuse_look_up(const void *fuse, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint8_t *maybe);
size_t mmb_fuse_pages_of(const void *fuse, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t *pages);

/* Memory that building a shard takes beside hashes and shard: 12 bytes a slot. */
uint64_t mmb_fuse_scratch_bytes(const mmb_fuse *fuse);

/* Construct one shard from its n distinct hashes. The same hashes give the same bytes.

   Args: hashes: all of one shard, at most MMB_FUSE_MAX_KEYS, sorted by hi, or at least by the segments of their first slots.
         max_seeds: seeds to try, one after the other.
         scratch: mmb_fuse_scratch_bytes() of them, with any contents; huge pages make it faster.
         shard: shard_bytes of zeros; *seed: goes to the table.
   Returns: MMB_OK; MMB_UNSOLVABLE: no seed worked; MMB_UNORDERED: they are not sorted. If not MMB_OK, the shard is still
            zeros. */
mmb_status mmb_fuse_construct(const mmb_fuse *fuse, const mmb_hash *hashes, size_t n, uint32_t max_seeds,
                              uint32_t *scratch, uint8_t *shard, uint64_t *seed);

#endif
