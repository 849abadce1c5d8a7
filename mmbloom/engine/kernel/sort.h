/* Hashes -> sorted distinct hashes, or hashes in a coarser order. */
#ifndef MMB_SORT_H
#define MMB_SORT_H

#include "mmb.h"

/* Sort n hashes by (hi, lo) and remove repetitions. Returns how many are left, at the front of `hashes`.
   Requires: room for n hashes in `scratch`; n < 2^32. Fast if the hashes fit in a cache, as those of a partition do. */
size_t mmb_sort_unique(mmb_hash *hashes, mmb_hash *scratch, size_t n);

/* Divide the range of hi into num_parts equal parts, and write n hashes to `out` in the order of their parts. Hashes of one part
   keep their order. Requires: num_parts > 0; n < 2^32. Fast if the hashes lie in few parts. */
void mmb_order_by_part(const mmb_hash *hashes, size_t n, uint64_t num_parts, mmb_hash *out);

/* The sum of n hashes modulo 2^128: equal for equal sets of keys, whatever their order. */
mmb_hash mmb_sum_hashes(const mmb_hash *hashes, size_t n);

#endif
