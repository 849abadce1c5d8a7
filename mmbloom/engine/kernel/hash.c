/* XXH3 (Collet, xxHash specification 0.2.0), seeded: the one place of the kernel that knows which hash it is. */
#define XXH_INLINE_ALL
#include "xxhash.h"

#include "canonical.h"
#include "hash.h"

/* Keys far apart in memory (a shuffled Python list) arrive from DRAM; 12 keys ahead covers ~100 ns at 8 ns a key. */
#define KEYS_AHEAD 12

/* Digests that are decoded before they are hashed: of up to 512 bits, in 2 KiB of stack. */
#define GROUP_KEYS 32U
#define SLOT_BYTES 64U

mmb_hash mmb_hash_bytes(const uint8_t *bytes, size_t length, uint64_t seed)
{
    const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, length, seed);

    return (mmb_hash){.hi = hash.high64, .lo = hash.low64};
}

/* Whether a digest can be decoded into a slot. Others, and text that is no ASCII, are decoded one by one. */
static inline int fits_slot(const mmb_view *view)
{
    return view->encoding == MMB_BYTES && view->length <= 2 * SLOT_BYTES;
}

/* Hash up to GROUP_KEYS digests that fit slots. All are decoded before the first is hashed: a hash that reads what was just
   stored in pieces of other sizes would wait for every store to reach the cache. */
static mmb_status hash_digests(const mmb_view *views, size_t n, uint64_t seed, mmb_hash *hashes, size_t *count)
{
    uint8_t slots[GROUP_KEYS][SLOT_BYTES];
    mmb_status status = MMB_OK;
    size_t decoded = 0;

    while (decoded < n && (status = mmb_decode_hex(views[decoded].data, (size_t)views[decoded].length, slots[decoded])) == MMB_OK) {
        decoded++;
    }
    for (size_t i = 0; i < decoded; i++) {
        hashes[i] = mmb_hash_bytes(slots[i], (size_t)views[i].length / 2, seed);
    }
    *count = decoded;
    return status;
}

mmb_status mmb_hash_views(const mmb_view *views, size_t n, uint64_t seed, mmb_key_form form, mmb_hash *hashes,
                          size_t *count)
{
    mmb_scratch scratch;
    mmb_status status = MMB_OK;
    size_t i = 0;

    mmb_scratch_init(&scratch);
    while (i < n) {
        const uint8_t *bytes = views[i].data;
        size_t length = (size_t)views[i].length;

        if (i + KEYS_AHEAD < n) {
            MMB_PREFETCH(views[i + KEYS_AHEAD].data);
        }
        if (form == MMB_HEX && fits_slot(&views[i])) {
            size_t group = 1;
            size_t done = 0;
            while (group < GROUP_KEYS && i + group < n && fits_slot(&views[i + group])) {
                group++;
            }
            status = hash_digests(views + i, group, seed, hashes + i, &done);
            i += done;
            if (status != MMB_OK) {
                break;
            }
            continue;
        }
        if (form != MMB_RAW || views[i].encoding != MMB_BYTES) {
            status = mmb_canonical(&views[i], form, &scratch, &bytes, &length);
            if (status != MMB_OK) {
                break;
            }
        }
        hashes[i++] = mmb_hash_bytes(bytes, length, seed);
    }
    mmb_scratch_free(&scratch);
    *count = i;
    return status;
}

uint64_t mmb_checksum64(const uint8_t *bytes, size_t length)
{
    return XXH3_64bits(bytes, length);
}
