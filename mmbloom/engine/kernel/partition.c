/* Partitioning (Manegold, Boncz & Kersten 2000, and the buffered writes of Balkesen et al. 2013): a hash goes to the end of
   its partition, and the ends of all partitions are more lines than the first cache holds. */
#include "partition.h"

#include <string.h>

#include "hash.h"

#if MMB_HAVE_SSE2
#include <emmintrin.h>
#endif

#define SOME_KEYS 512U /* views (12 KiB) and hashes (8 KiB) of this many keys stay in the L1 cache */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t num_partitions(const mmb_arena *arena)
{
    return (size_t)1 << arena->bits;
}

static mmb_hash *chunk_at(const mmb_arena *arena, uint32_t chunk)
{
    return arena->chunks + (size_t)chunk * MMB_CHUNK_HASHES;
}

static mmb_hash *stage_of(const mmb_lane *lane, size_t partition)
{
    return lane->stage + partition * MMB_STAGED_HASHES;
}

void mmb_partition_clear(mmb_arena *arena, mmb_lane *lanes, size_t num_lanes)
{
    const size_t count = num_partitions(arena);

    arena->lock = 0;
    arena->untouched = 0;
    arena->free_chunk = MMB_NO_CHUNK;
    arena->num_free = arena->num_chunks;
    for (size_t i = 0; i < num_lanes; i++) {
        memset(lanes[i].fills, 0, count * sizeof *lanes[i].fills);
        memset(lanes[i].staged, 0, count * sizeof *lanes[i].staged);
        for (size_t partition = 0; partition < count; partition++) {
            lanes[i].heads[partition] = MMB_NO_CHUNK;
        }
    }
}

uint32_t mmb_partition_chunks_for(const mmb_arena *arena, size_t n)
{
    const size_t chunks = n / MMB_CHUNK_HASHES + 1 + smaller(n, num_partitions(arena));

    return chunks < UINT32_MAX ? (uint32_t)chunks : UINT32_MAX;
}

#if !defined(__GNUC__)
#error "chunks are shared by threads: this compiler needs atomic operations here"
#endif

static void lock_arena(mmb_arena *arena)
{
    while (__atomic_exchange_n(&arena->lock, 1, __ATOMIC_ACQUIRE) != 0) {
    }
}

static void unlock_arena(mmb_arena *arena)
{
    __atomic_store_n(&arena->lock, 0, __ATOMIC_RELEASE);
}

static uint32_t take_chunk(mmb_arena *arena)
{
    lock_arena(arena);
    uint32_t chunk = arena->free_chunk;
    if (chunk != MMB_NO_CHUNK) {
        arena->free_chunk = arena->next[chunk];
    } else {
        chunk = arena->untouched++;
    }
    arena->num_free--;
    unlock_arena(arena);
    return chunk;
}

static void give_back(mmb_arena *arena, uint32_t chunk)
{
    lock_arena(arena);
    arena->next[chunk] = arena->free_chunk;
    arena->free_chunk = chunk;
    arena->num_free++;
    unlock_arena(arena);
}

/* Write hashes to memory without reading it into the caches first. Both are on 16-byte boundaries. */
static inline void write_past_caches(mmb_hash *target, const mmb_hash *hashes, size_t n)
{
#if MMB_HAVE_SSE2
    for (size_t i = 0; i < n; i++) {
        _mm_stream_si128((__m128i *)(void *)(target + i), _mm_load_si128((const __m128i *)(const void *)(hashes + i)));
    }
#else
    memcpy(target, hashes, n * sizeof *target);
#endif
}

/* Move what is staged of a partition to its chunks. */
static void unstage(mmb_lane *lane, size_t partition)
{
    const mmb_hash *staged = stage_of(lane, partition);
    size_t rest = lane->staged[partition];

    while (rest > 0) {
        uint32_t fill = lane->fills[partition];
        if (lane->heads[partition] == MMB_NO_CHUNK || fill == MMB_CHUNK_HASHES) {
            const uint32_t chunk = take_chunk(lane->arena);
            lane->arena->next[chunk] = lane->heads[partition];
            lane->heads[partition] = chunk;
            fill = 0;
        }
        const size_t some = smaller(rest, MMB_CHUNK_HASHES - fill);
        write_past_caches(chunk_at(lane->arena, lane->heads[partition]) + fill, staged, some);
        lane->fills[partition] = fill + (uint32_t)some;
        staged += some;
        rest -= some;
    }
    lane->staged[partition] = 0;
}

void mmb_partition_add(mmb_lane *lane, const mmb_hash *hashes, size_t n)
{
    const unsigned shift = 64 - lane->arena->bits;

    for (size_t i = 0; i < n; i++) {
        const size_t partition = (size_t)(hashes[i].hi >> shift);
        const uint32_t staged = lane->staged[partition];
        stage_of(lane, partition)[staged] = hashes[i];
        lane->staged[partition] = staged + 1;
        if (staged + 1 == MMB_STAGED_HASHES) {
            unstage(lane, partition);
        }
    }
}

/* Note a bad key; returns whether to go on. */
static int pass_over(mmb_bad_keys *bad, uint64_t where, mmb_status status, int skip)
{
    if (bad->count < MMB_MOST_BAD) {
        bad->where[bad->count] = where;
        bad->status[bad->count] = status;
    }
    bad->count++;
    return skip && status != MMB_NO_MEMORY;
}

mmb_status mmb_partition_source(mmb_lane *lane, mmb_source *source, const mmb_keying *keying, size_t most, int skip,
                                mmb_bad_keys *bad, size_t *count)
{
    mmb_view views[SOME_KEYS];
    mmb_hash hashes[SOME_KEYS];

    *count = 0;
    bad->count = 0;
    for (;;) {
        const uint64_t first = source->next;
        size_t filled = 0;
        const mmb_status filling = mmb_source_fill(source, views, smaller(SOME_KEYS, most - *count), &filled);
        for (size_t done = 0; done < filled; done++) {
            size_t hashed = 0;
            const mmb_status status =
                mmb_hash_views(views + done, filled - done, keying->seed, keying->form, hashes, &hashed);
            mmb_partition_add(lane, hashes, hashed);
            *count += hashed;
            done += hashed;
            if (status != MMB_OK) {
                const uint64_t where = source->layout == MMB_LINES
                                           ? (uint64_t)(views[done].data - source->data)
                                           : first + done;
                if (!pass_over(bad, where, status, skip)) {
                    return status;
                }
            }
        }
        if (filling != MMB_OK) {
            if (!pass_over(bad, source->next, filling, skip)) {
                return filling;
            }
            mmb_source_skip_line(source);
        } else if (filled == 0) {
            return MMB_OK;
        }
    }
}

size_t mmb_partition_count(const mmb_lane *lane, size_t partition)
{
    size_t count = lane->staged[partition];
    uint32_t chunk = lane->heads[partition];

    if (chunk != MMB_NO_CHUNK) {
        count += lane->fills[partition];
        while ((chunk = lane->arena->next[chunk]) != MMB_NO_CHUNK) {
            count += MMB_CHUNK_HASHES;
        }
    }
    return count;
}

/* Copy what is left of `count` hashes behind `*skip`, and of `max`. */
static size_t copy_behind(const mmb_hash *hashes, size_t count, size_t *skip, mmb_hash *out, size_t max)
{
    const size_t skipped = smaller(*skip, count);
    const size_t some = smaller(count - skipped, max);

    memcpy(out, hashes + skipped, some * sizeof *out);
    *skip -= skipped;
    return some;
}

size_t mmb_partition_copy(const mmb_lane *lane, size_t partition, size_t skip, mmb_hash *out, size_t max)
{
    size_t done = copy_behind(stage_of(lane, partition), lane->staged[partition], &skip, out, max);
    size_t fill = lane->fills[partition];

    for (uint32_t chunk = lane->heads[partition]; chunk != MMB_NO_CHUNK && done < max; chunk = lane->arena->next[chunk]) {
        done += copy_behind(chunk_at(lane->arena, chunk), fill, &skip, out + done, max - done);
        fill = MMB_CHUNK_HASHES;
    }
    return done;
}

size_t mmb_partition_take(mmb_lane *lane, size_t partition, mmb_hash *out, size_t max)
{
    size_t taken = lane->staged[partition];

    memcpy(out, stage_of(lane, partition), taken * sizeof *out);
    lane->staged[partition] = 0;
    while (lane->heads[partition] != MMB_NO_CHUNK && lane->fills[partition] <= max - taken) {
        const uint32_t chunk = lane->heads[partition];
        const uint32_t before = lane->arena->next[chunk];
        memcpy(out + taken, chunk_at(lane->arena, chunk), lane->fills[partition] * sizeof *out);
        taken += lane->fills[partition];
        lane->heads[partition] = before;
        lane->fills[partition] = before == MMB_NO_CHUNK ? 0 : MMB_CHUNK_HASHES;
        give_back(lane->arena, chunk);
    }
    return taken;
}
