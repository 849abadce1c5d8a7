/* Bloom filters over a mapped payload: one door for the layouts. */
#include "layouts.h"

void mmb_bloom_probes(const mmb_bloom *bloom, mmb_hash hash, uint64_t *bits)
{
    if (bloom->layout == MMB_CLASSIC) {
        mmb_classic_probes(bloom, hash, bits);
    } else if (bloom->layout == MMB_NARROW) {
        mmb_narrow_probes(bloom, hash, bits);
    } else {
        mmb_lines_probes(bloom, hash, bits);
    }
}

size_t mmb_bloom_pages(const mmb_bloom *bloom, const mmb_hash *hashes, size_t n, uint64_t *pages)
{
    const uint32_t pages_per_key = bloom->layout == MMB_CLASSIC ? bloom->num_probes : 1;
    uint64_t bits[MMB_MAX_PROBES];

    for (size_t i = 0; i < n; i++) {
        mmb_bloom_probes(bloom, hashes[i], bits);
        for (uint32_t j = 0; j < pages_per_key; j++) {
            *pages++ = bits[j] / (8 * MMB_PAGE_BYTES);
        }
    }
    return n * pages_per_key;
}

uint8_t mmb_bloom_contains(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
    if (bloom->layout == MMB_CLASSIC) {
        return mmb_classic_contains(bloom, payload, hash);
    }
    if (bloom->layout == MMB_NARROW) {
        return mmb_narrow_contains(bloom, payload, hash);
    }
    return mmb_lines_contain(bloom, payload, hash);
}

void mmb_bloom_contains_many(const mmb_bloom *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                             uint8_t *maybe)
{
    if (bloom->layout == MMB_CLASSIC) {
        mmb_classic_contains_many(bloom, payload, hashes, n, maybe);
    } else if (bloom->layout == MMB_NARROW) {
        mmb_narrow_contains_many(bloom, payload, hashes, n, maybe);
    } else {
        mmb_lines_contain_many(bloom, payload, hashes, n, maybe);
    }
}

unsigned mmb_bloom_add(const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash)
{
    if (bloom->layout == MMB_CLASSIC) {
        return mmb_classic_add(bloom, payload, hash);
    }
    if (bloom->layout == MMB_NARROW) {
        return mmb_narrow_add(bloom, payload, hash);
    }
    return mmb_lines_add(bloom, payload, hash);
}

size_t mmb_bloom_add_many(const mmb_bloom *bloom, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                          uint64_t *num_new, const mmb_dirty *dirty)
{
    if (bloom->layout == MMB_CLASSIC) {
        return mmb_classic_add_many(bloom, payload, hashes, n, room, num_new, dirty);
    }
    if (bloom->layout == MMB_NARROW) {
        return mmb_narrow_add_many(bloom, payload, hashes, n, room, num_new, dirty);
    }
    return mmb_lines_add_many(bloom, payload, hashes, n, room, num_new, dirty);
}

void mmb_bloom_look_up(const void *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint8_t *maybe)
{
    mmb_bloom_contains_many(bloom, payload, hashes, n, maybe);
}

size_t mmb_bloom_pages_of(const void *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t *pages)
{
    (void)payload;
    return mmb_bloom_pages(bloom, hashes, n, pages);
}

void mmb_bloom_add_part(const mmb_bloom *bloom, uint8_t *target, uint64_t first, uint64_t num_bytes, const mmb_hash *hashes,
                        size_t n)
{
    if (bloom->layout == MMB_CLASSIC) {
        mmb_classic_add_part(bloom, target, first, num_bytes, hashes, n);
    } else if (bloom->layout == MMB_NARROW) {
        mmb_narrow_add_part(bloom, target, first, num_bytes, hashes, n);
    } else {
        mmb_lines_add_part(bloom, target, first, num_bytes, hashes, n);
    }
}

void mmb_bloom_span(const mmb_bloom *bloom, uint64_t lowest, uint64_t highest, uint64_t *first, uint64_t *end)
{
    const uint64_t block_bits = bloom->layout == MMB_NARROW ? MMB_NARROW_BITS
                                : bloom->layout == MMB_LINE ? MMB_LINE_BITS
                                                            : 8 * MMB_PAGE_BYTES;
    uint64_t fraction;

    if (bloom->layout == MMB_CLASSIC) {
        *first = 0;
        *end = (bloom->num_bits + MMB_LINE_BITS - 1) / MMB_LINE_BITS * MMB_LINE_BYTES;
    } else {
        const uint64_t blocks = bloom->num_bits / block_bits;
        *first = multiply_high(lowest, blocks, &fraction) * (block_bits / 8);
        *end = (multiply_high(highest, blocks, &fraction) + 1) * (block_bits / 8);
    }
}
