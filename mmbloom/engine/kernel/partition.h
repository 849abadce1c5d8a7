/* Hashes -> partitions by the top bits of hi, in memory of a fixed size. */
#ifndef MMB_PARTITION_H
#define MMB_PARTITION_H

#include "pipeline.h"

#define MMB_CHUNK_HASHES 256U   /* 4096 bytes */
#define MMB_STAGED_HASHES 16U   /* of each partition, in addition to its chunks: 256 bytes, four lines, written together */
#define MMB_NO_CHUNK UINT32_MAX

/* Where hashes are stored: one array of chunks, which the lanes take as they need them. The caller owns the memory. */
typedef struct {
    mmb_hash *chunks;    /* num_chunks * MMB_CHUNK_HASHES, on a 4096-byte boundary */
    uint32_t *next;      /* for each chunk: the one filled before it in its partition, or MMB_NO_CHUNK */
    uint32_t num_chunks;
    unsigned bits;       /* the number of top bits of hi that select the partition: 1 to 16 */
    uint32_t lock;       /* a spinlock, held while a thread takes a chunk or gives it back */
    uint32_t untouched;  /* the first of the chunks that were never taken */
    uint32_t free_chunk; /* the first of the chunks given back, linked by `next`, or MMB_NO_CHUNK */
    uint32_t num_free;   /* how many chunks can be taken */
} mmb_arena;

/* What one thread fills. The stage collects hashes until a partition has enough of them to write whole lines to memory without
   reading them into the caches. Otherwise every hash would cost a line that is read and written back. */
typedef struct {
    mmb_arena *arena;
    uint32_t *heads;     /* of each partition: the chunk being filled, or MMB_NO_CHUNK */
    uint32_t *fills;     /* of each partition: hashes in that chunk                    */
    uint32_t *staged;    /* of each partition: hashes in the stage                     */
    mmb_hash *stage;     /* partitions * MMB_STAGED_HASHES, on a 16-byte boundary      */
} mmb_lane;

/* The first few bad keys of a batch. `where` is the number of the key, or the byte where its text line begins. */
#define MMB_MOST_BAD 8U
typedef struct {
    uint64_t where[MMB_MOST_BAD];
    mmb_status status[MMB_MOST_BAD];
    size_t count; /* of all bad keys, including those that are not listed */
} mmb_bad_keys;

/* Empty the arena and its lanes. Also initialises them. */
void mmb_partition_clear(mmb_arena *arena, mmb_lane *lanes, size_t num_lanes);

/* The largest number of chunks that adding n hashes to a lane can take. */
uint32_t mmb_partition_chunks_for(const mmb_arena *arena, size_t n);

/* Add n hashes. Requires: mmb_partition_chunks_for(n) chunks can be taken, for each lane that adds at the same time. */
void mmb_partition_add(mmb_lane *lane, const mmb_hash *hashes, size_t n);

/* Hash the keys of a source and add them, at most `most`. Sets *count to how many. A bad key is noted in `bad`; it is skipped if
   `skip` is not 0, otherwise it ends the call, which returns its status. MMB_NO_MEMORY always ends the call.
   Requires: as mmb_partition_add() of `most` hashes. */
mmb_status mmb_partition_source(mmb_lane *lane, mmb_source *source, const mmb_keying *keying, size_t most, int skip,
                                mmb_bad_keys *bad, size_t *count);

/* The number of hashes that the lane holds for a partition. */
size_t mmb_partition_count(const mmb_lane *lane, size_t partition);

/* Copy hashes of a partition to `out`, the newest first: skip `skip` of them, then copy up to `max`. Returns how many. */
size_t mmb_partition_copy(const mmb_lane *lane, size_t partition, size_t skip, mmb_hash *out, size_t max);

/* Move the newest hashes of a partition from the lane to `out`, up to `max`: staged ones and whole chunks. Returns how many, 0 when
   the lane has none left. Requires: max >= MMB_CHUNK_HASHES + MMB_STAGED_HASHES. */
size_t mmb_partition_take(mmb_lane *lane, size_t partition, mmb_hash *out, size_t max);

#endif
