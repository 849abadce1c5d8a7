/* Whole payloads: how full they are, and how two of them are combined. */
#ifndef MMB_BITS_H
#define MMB_BITS_H

#include "mmb.h"

/* The number of set bits in a word, by adding neighbours (Hacker's Delight, 5-1). */
static inline uint32_t count_bits(uint64_t word)
{
    word -= (word >> 1) & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + ((word >> 2) & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    return (uint32_t)((word * UINT64_C(0x0101010101010101)) >> 56);
}

/* The number of set bits in a payload. */
uint64_t mmb_popcount(const uint8_t *bytes, size_t num_bytes);

/* Add to histogram[x] the number of 64-byte lines with x set bits, 0 <= x <= 512. */
void mmb_line_histogram(const uint8_t *bytes, size_t num_lines, uint64_t histogram[513]);

/* The same for the 16-byte blocks of the layout `narrow`, 0 <= x <= 128. */
void mmb_narrow_histogram(const uint8_t *bytes, size_t num_blocks, uint64_t histogram[129]);

/* Layout `page`. The sum over all pages of mean(lower[x]) * mean(upper[x]), x = set bits of the lines 0..31 and 32..63 of the page.
   With lower[x] = (x / 512)^k1 and upper[x] = (x / 512)^k2 that is num_pages times the false-positive rate. The order of
   the additions is fixed, so the same payload gives the same double everywhere. */
double mmb_page_fill(const uint8_t *bytes, size_t num_pages, const double lower[513], const double upper[513]);

/* Layout `page`. Add to set_bits[0] the number of set bits in the lower halves of the pages, to set_bits[1] that in the upper
   halves. */
void mmb_page_halves(const uint8_t *bytes, size_t num_pages, uint64_t set_bits[2]);

#endif
