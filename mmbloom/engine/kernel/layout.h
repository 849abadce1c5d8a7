/* A layout is one table of functions: how a payload holds keys, for every kind of filter.

   The table is chosen once, when a payload is attached, together with the version for this processor. The rest of the kernel
   never asks which layout a payload has. A better probe rule for a layout gets a new probe scheme number
   and one new row in layout.c. The old row stays, because existing files need it. */
#ifndef MMB_LAYOUT_H
#define MMB_LAYOUT_H

#include "dirty.h"
#include "fuse.h"
#include "mmb.h"

/* A line is a cache line. */
#define MMB_LINE_BYTES 64U
#define MMB_LINE_BITS 512U
#define MMB_LINE_COUNTERS 128U

#define MMB_NARROW_BYTES 16U /* the block of `narrow` */
#define MMB_COUNTER_MOST 15U /* a counter that reaches this value is full: it never changes again */
#define MMB_MAX_PROBES 64U   /* the largest max_probes of all layouts */

/* Numbers as in FORMAT.md, field layout. */
enum {
    MMB_CLASSIC = 1,
    MMB_LINE = 2,
    MMB_PAGE = 3,
    MMB_NARROW = 4,
    MMB_FUSE3 = 5,
    MMB_FUSE4 = 6,
    MMB_COUNTERS = 7
};

/* Bits: `classic`, `line`, `page`, `narrow`.
   Requires: 1 <= num_probes <= max_probes of the layout; num_bits > 0, and a multiple of 8 * block_bytes if that is not 0. */
typedef struct {
    uint32_t num_probes;
    uint64_t num_bits;
} mmb_bloom;

/* Counters of 4 bits: `counters`. Counter i is the low half of byte i / 2 if i is even, its high half if i is odd.
   Requires: 1 <= num_probes <= 16; num_counters > 0, a multiple of 128. */
typedef struct {
    uint32_t num_probes;
    uint64_t num_counters;
} mmb_counting;

/* What the probes of a payload depend on besides the hash. Each layout reads its own member: `bloom`, `counting`, or `fuse`
   (`fuse3`, `fuse4`; see mmb_fuse_of). */
typedef union {
    mmb_bloom bloom;
    mmb_counting counting;
    mmb_fuse fuse;
} mmb_shape;

/* What a change did. */
typedef struct {
    uint64_t num_keys;      /* keys that were definitely absent before they were added, or are after they were removed */
    uint64_t num_saturated; /* counters that became full; 0 where a layout has none */
} mmb_counted;

/* Every function requires a valid shape, and a payload of payload_bytes() bytes. Nothing is checked here.
   add_many() and remove_many() handle the keys in order. They return how many they have handled: n, or the index of the key that
   stopped them, for which nothing was changed. They set *counted, and mark every page that they change in `dirty`, which may be
   NULL.
   A function is NULL if the layout cannot do what it does; each comment says where. */
typedef struct {
    /* The size of a payload of this shape. */
    uint64_t (*payload_bytes)(const mmb_shape *shape);

    /* 1 if the key may be in the filter, 0 if it is definitely not. */
    uint8_t (*contains)(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash);

    /* The same for n keys, with prefetching: maybe[i] is 0 or 1. Faster than n single calls. */
    void (*contains_many)(const mmb_shape *shape, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint8_t *maybe);

    /* The 4 KiB pages of the payload that looking up n keys reads, in the order of the keys, with repetitions. Returns how many
       numbers it has written, at most n * max_pages_per_key. Only `fuse3` and `fuse4` read the payload, for their seeds;
       elsewhere it may be NULL. */
    size_t (*pages_of)(const mmb_shape *shape, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t *pages);

    /* The num_probes bits (or counters) that the key reads and changes. A number may be repeated. NULL: `fuse3`, `fuse4`. */
    void (*probes)(const mmb_shape *shape, mmb_hash hash, uint64_t *numbers);

    /* Add one key, without marks and without a limit. Sets *counted; returns 1 if the key was definitely absent, else 0.
       NULL where no key can be added. */
    unsigned (*add)(const mmb_shape *shape, uint8_t *payload, mmb_hash hash, mmb_counted *counted);

    /* Add n keys. Stops at a key that is definitely absent if `room` such keys have been added already. NULL where `add` is. */
    size_t (*add_many)(const mmb_shape *shape, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                       mmb_counted *counted, const mmb_dirty *dirty);

    /* Remove n keys. Stops at a key that is definitely absent. NULL where no key can be removed. */
    size_t (*remove_many)(const mmb_shape *shape, uint8_t *payload, const mmb_hash *hashes, size_t n, mmb_counted *counted,
                          const mmb_dirty *dirty);

    /* The least counter of the key. The key was added at most this many times more than it was removed, unless the counter is
       full. NULL where there are no counters. */
    unsigned (*count_of)(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash);

    /* Add n keys to one piece of a payload: `target` holds its bytes [first, first + num_bytes), and probes elsewhere are ignored.
       Adding the same keys to every piece gives the same payload as add_many(). NULL: `fuse3`, `fuse4`.
       Requires: first and num_bytes are multiples of block_bytes, if that is not 0. */
    void (*add_part)(const mmb_shape *shape, uint8_t *target, uint64_t first, uint64_t num_bytes, const mmb_hash *hashes,
                     size_t n);

    uint64_t block_bytes;       /* all probes of a key lie in one block of this size; 0: they lie anywhere */
    uint32_t max_probes;        /* the largest num_probes (of `fuse3`, `fuse4`: the arity) */
    uint32_t max_pages_per_key; /* what pages_of() writes at most for one key */
} mmb_layout;

/* The table of a layout and a probe scheme (numbers of FORMAT.md), in the fastest version that this processor can run. All
   versions answer and write the same. NULL: this release does not know the pair. The table lives as long as the process. */
const mmb_layout *mmb_layout_of(uint32_t layout, uint32_t probe_scheme);

/* The bytes [*first, *end) of the payload that hold all probes of the keys with lowest <= hash.hi <= highest: whole blocks, or
   the whole payload where block_bytes is 0. Requires: lowest <= highest; `probes` is not NULL. */
void mmb_layout_span(const mmb_layout *layout, const mmb_shape *shape, uint64_t lowest, uint64_t highest, uint64_t *first,
                     uint64_t *end);

#endif
