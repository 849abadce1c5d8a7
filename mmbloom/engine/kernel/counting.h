/* Counters of 4 bits: what only a counting filter can do. Adding, removing and looking up go through layout.h. */
#ifndef MMB_COUNTING_H
#define MMB_COUNTING_H

#include "layout.h"

/* Add to histogram[x] the number of lines with x counters that are not zero, 0 <= x <= 128. Returns how many counters are
   MMB_COUNTER_MOST. */
uint64_t mmb_counting_histogram(const uint8_t *payload, size_t num_lines, uint64_t histogram[129]);

/* Add every counter of `other` to that of `target`, up to MMB_COUNTER_MOST. */
void mmb_counting_unite(uint8_t *target, const uint8_t *other, size_t num_bytes);

/* Write one bit for each counter, 16 bytes for each line: 1 where the counter is not zero. The result is a payload of the
   layout `narrow` with the same num_probes and as many bits as there were counters. */
void mmb_counting_flatten(const uint8_t *payload, size_t num_lines, uint8_t *bits);

#endif
