/* Hashes -> sorted distinct hashes. */
#ifndef MMB_SORT_H
#define MMB_SORT_H

#include "mmb.h"

/* Sort n hashes by (hi, lo), drop repetitions, return how many are left at the front of `hashes`.
   `scratch` holds n hashes; n < 2^32. Fast where the hashes fit in a cache, as those of a partition do. */
size_t mmb_sort_unique(mmb_hash *hashes, mmb_hash *scratch, size_t n);

/* The sum of n hashes modulo 2^128: equal for equal sets of keys, whatever their order. */
mmb_hash mmb_sum_hashes(const mmb_hash *hashes, size_t n);

#endif
