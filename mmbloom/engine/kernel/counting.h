/* Hashes -> counters of 4 bits. All counters of a key lie in one line of 64 bytes: 128 counters. */
#ifndef MMB_COUNTING_H
#define MMB_COUNTING_H

#include "dirty.h"
#include "mmb.h"

#define MMB_LINE_COUNTERS 128U
#define MMB_COUNTER_MOST 15U /* a counter that is there stays there: it no longer knows how many keys it counts */

/* Requires: 1 <= num_probes <= 16; num_counters > 0, a multiple of 128. Counter i is the low half of byte i / 2 if i is even,
   its high half if i is odd. */
typedef struct {
    uint32_t num_probes;
    uint64_t num_counters;
} mmb_counting;

/* What a batch of changes did. */
typedef struct {
    uint64_t num_keys;      /* keys that were certainly absent before they were added, or are so after they were removed */
    uint64_t num_saturated; /* counters that reached MMB_COUNTER_MOST */
} mmb_counted;

/* The counter numbers of the key with this hash, num_probes of them. A number that is there twice counts once. */
void mmb_counting_probes(const mmb_counting *counting, mmb_hash hash, uint64_t *counters);

/* Whether the counters of two keys lie in the same line, so that one may have some of the other's. */
int mmb_counting_meet(const mmb_counting *counting, mmb_hash one, mmb_hash other);

/* 1 if no counter of the key is zero, else 0. */
uint8_t mmb_counting_contains(const mmb_counting *counting, const uint8_t *payload, mmb_hash hash);

/* The same for n hashes, prefetching ahead: maybe[i] is 0 or 1. */
void mmb_counting_contains_many(const mmb_counting *counting, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                                uint8_t *maybe);

/* The same as an mmb_look_up and an mmb_pages_of of pipeline.h, one page a key; `counting` points to an mmb_counting. */
void mmb_counting_look_up(const void *counting, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint8_t *maybe);
size_t mmb_counting_pages_of(const void *counting, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t *pages);

/* The least counter of the key. It was added at most so many times more than it was removed, unless that is
   MMB_COUNTER_MOST. */
unsigned mmb_counting_least(const mmb_counting *counting, const uint8_t *payload, mmb_hash hash);

/* Count each key in each of its counters that is below MMB_COUNTER_MOST, in order, while keys that are certainly absent fit
   into `room`. Returns how many were dealt with: n, or the index of the first that did not fit, which changed nothing.
   `dirty` may be NULL. */
size_t mmb_counting_add_many(const mmb_counting *counting, uint8_t *payload, const mmb_hash *hashes, size_t n,
                             uint64_t room, mmb_counted *counted, const mmb_dirty *dirty);

/* Take each key out of each of its counters that is below MMB_COUNTER_MOST, in order. Returns how many were dealt with: n, or
   the index of the first that was certainly absent, which changed nothing. `dirty` may be NULL. */
size_t mmb_counting_remove_many(const mmb_counting *counting, uint8_t *payload, const mmb_hash *hashes, size_t n,
                                mmb_counted *counted, const mmb_dirty *dirty);

/* Count the keys whose line lies in `num_bytes` bytes of the payload from byte `first`, of which `target` is a copy: whole lines.
   The others are passed over. For building a payload in parts. */
void mmb_counting_add_part(const mmb_counting *counting, uint8_t *target, uint64_t first, uint64_t num_bytes,
                           const mmb_hash *hashes, size_t n);

/* Add every counter of `other` to that of `target`; the sum is at most MMB_COUNTER_MOST. */
void mmb_counting_unite(uint8_t *target, const uint8_t *other, size_t num_bytes);

/* Add to histogram[x] the number of lines with x counters that are not zero, 0 <= x <= 128. Returns how many counters of all
   are MMB_COUNTER_MOST. */
uint64_t mmb_counting_histogram(const uint8_t *payload, size_t num_lines, uint64_t histogram[129]);

/* Write one bit a counter, 16 bytes a line: 1 where it is not zero. */
void mmb_counting_flatten(const uint8_t *payload, size_t num_lines, uint8_t *bits);

#endif
