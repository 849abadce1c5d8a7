/* Hashes -> partitions by the top bits of hi, in memory of a fixed size. */
#ifndef MMB_PARTITION_H
#define MMB_PARTITION_H

#include "pipeline.h"

#define MMB_CHUNK_HASHES 256U   /* 4096 bytes */
#define MMB_STAGED_HASHES 16U   /* of a partition, beside its chunks: 256 bytes, four cache lines, written at once */
#define MMB_NO_CHUNK UINT32_MAX

/* Where hashes are kept: one array of chunks, handed out to whoever needs one. The caller owns the memory. */
typedef struct {
    mmb_hash *chunks;    /* num_chunks * MMB_CHUNK_HASHES, on a 4096-byte boundary */
    uint32_t *next;      /* of each chunk: the one that was filled before it in its partition, or MMB_NO_CHUNK */
    uint32_t num_chunks;
    unsigned bits;       /* of hi, that number the partitions: 1 to 16 */
    uint32_t lock;       /* held for the few instructions that take a chunk or give it back: threads do so at the same time */
    uint32_t untouched;  /* chunks from here on were never taken */
    uint32_t free_chunk; /* chunks given back, chained by `next`, or MMB_NO_CHUNK */
    uint32_t num_free;   /* all that can be taken */
} mmb_arena;

/* What one thread fills. Hashes wait in the stage until there are enough of a partition to write whole cache lines past the
   caches: without that every hash costs a line to be read and written back. */
typedef struct {
    mmb_arena *arena;
    uint32_t *heads;     /* of each partition: the chunk being filled, or MMB_NO_CHUNK */
    uint32_t *fills;     /* of each partition: hashes in that chunk                    */
    uint32_t *staged;    /* of each partition: hashes in the stage                     */
    mmb_hash *stage;     /* partitions * MMB_STAGED_HASHES, on a 16-byte boundary      */
} mmb_lane;

/* Keys of a batch that were no keys: the first few of them. `where` is the number of the key, in lines the byte at which the
   line begins. */
#define MMB_MOST_BAD 8U
typedef struct {
    uint64_t where[MMB_MOST_BAD];
    mmb_status status[MMB_MOST_BAD];
    size_t count; /* of all, not only of those that are kept */
} mmb_bad_keys;

/* Forget everything in the arena and in its lanes. */
void mmb_partition_clear(mmb_arena *arena, mmb_lane *lanes, size_t num_lanes);

/* The most chunks that adding n hashes to a lane can take; those of one partition: n / MMB_CHUNK_HASHES + 1. */
uint32_t mmb_partition_chunks_for(const mmb_arena *arena, size_t n);

/* Add n hashes. Requires: mmb_partition_chunks_for(n) chunks are left, for each lane that adds meanwhile. */
void mmb_partition_add(mmb_lane *lane, const mmb_hash *hashes, size_t n);

/* Hash the keys of a source and add them, at most `most`; *count tells how many. A bad key is noted in `bad` and passed over if `skip`, else
   it ends the call, and its status is returned. MMB_NO_MEMORY always does. */
mmb_status mmb_partition_source(mmb_lane *lane, mmb_source *source, const mmb_keying *keying, size_t most, int skip,
                                mmb_bad_keys *bad, size_t *count);

/* How many hashes the lane holds of a partition. */
size_t mmb_partition_count(const mmb_lane *lane, size_t partition);

/* Copy up to `max` hashes of a partition to `out`, the newest first, without the first `skip` of them; returns how many. */
size_t mmb_partition_copy(const mmb_lane *lane, size_t partition, size_t skip, mmb_hash *out, size_t max);

/* Take up to `max` of the newest hashes of a partition out of the lane, whole chunks and what is staged; 0 when none is left.
   Requires: max >= MMB_CHUNK_HASHES + MMB_STAGED_HASHES. */
size_t mmb_partition_take(mmb_lane *lane, size_t partition, mmb_hash *out, size_t max);

#endif
