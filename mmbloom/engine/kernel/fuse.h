/* Binary fuse filters: built once from all keys, then only read (Graf and Lemire, "Binary Fuse Filters", 2022).

   A key has one slot in each of 3 (or 4) neighbouring segments of its shard. The answer is "maybe" if the xor of the fingerprints
   in these slots is the fingerprint of the key. FORMAT.md, "Fuse filters", has the rules. Look-ups go through layout.h. */
#ifndef MMB_FUSE_H
#define MMB_FUSE_H

#include "mmb.h"

#define MMB_FUSE_MAX_ARITY 4U
#define MMB_FUSE_MAX_KEYS ((UINT32_C(1) << 24) - 1) /* in a shard: during a build a slot has 24 bits for the number of a key */

typedef struct {
    uint32_t arity;            /* 3 or 4                                                          */
    uint32_t fingerprint_bits; /* 1 to 32                                                         */
    uint32_t segment_slots;    /* a power of two up to 2^18                                       */
    uint32_t num_shards;       /* 0: the filter has no keys                                       */
    uint64_t start_slots;      /* the first slot of a key is below this: arity - 1 segments follow */
    uint64_t shard_bytes;      /* whole lines, at least 4 bytes more than the fingerprints need   */
} mmb_fuse;

/* A shape. Requires the bounds above; arity <= num_segments <= 2^14. */
mmb_fuse mmb_fuse_of(uint32_t arity, uint32_t fingerprint_bits, uint32_t segment_slots, uint32_t num_segments,
                     uint32_t num_shards);

/* Size of a payload: the shards, and the table of seeds after them. */
uint64_t mmb_fuse_bytes(const mmb_fuse *fuse);

/* Memory needed to build a shard, in addition to hashes and shard: 12 bytes per slot. */
uint64_t mmb_fuse_scratch_bytes(const mmb_fuse *fuse);

/* Construct one shard from its n distinct hashes. The same hashes give the same bytes.

   Args: hashes: all of one shard, at most MMB_FUSE_MAX_KEYS, sorted by hi, or at least by the segments of their first slots.
         max_seeds: how many seeds to try.
         scratch: mmb_fuse_scratch_bytes() bytes, with any contents; huge pages make it faster.
         shard: shard_bytes zeros; *seed: the entry for the table of seeds.
   Returns: MMB_OK; MMB_UNSOLVABLE: no seed worked; MMB_UNORDERED: the hashes are not sorted. Unless MMB_OK, the shard is still
            all zeros. */
mmb_status mmb_fuse_construct(const mmb_fuse *fuse, const mmb_hash *hashes, size_t n, uint32_t max_seeds,
                              uint32_t *scratch, uint8_t *shard, uint64_t *seed);

#endif
