/* Hashes -> sorted distinct hashes, or hashes in a coarser order. */
#ifndef MMB_SORT_H
#define MMB_SORT_H

#include "mmb.h"

/* Sort n hashes by (hi, lo), drop repetitions, return how many are left at the front of `hashes`.
   `scratch` holds n hashes; n < 2^32. Fast where the hashes fit in a cache, as those of a partition do. */
size_t mmb_sort_unique(mmb_hash *hashes, mmb_hash *scratch, size_t n);

/* Write n hashes to `out` in the order of the parts in which they lie, of num_parts > 0 equal parts of the range of hi; those of
   one part stay in order. n < 2^32. Fast where they lie in few parts. */
void mmb_order_by_part(const mmb_hash *hashes, size_t n, uint64_t num_parts, mmb_hash *out);

/* The sum of n hashes modulo 2^128: equal for equal sets of keys, whatever their order. */
mmb_hash mmb_sum_hashes(const mmb_hash *hashes, size_t n);

#endif
