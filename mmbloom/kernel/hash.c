/* XXH3 (Collet, xxHash specification 0.2.0), seeded: the one place of the kernel that knows which hash it is. */
#define XXH_INLINE_ALL
#include "xxhash.h"

#include "canonical.h"
#include "hash.h"

/* Keys far apart in memory (a shuffled Python list) arrive from DRAM; 12 keys ahead covers ~100 ns at 8 ns a key. */
#define KEYS_AHEAD 12

mmb_hash mmb_hash_bytes(const uint8_t *bytes, size_t length, uint64_t seed)
{
    const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, length, seed);

    return (mmb_hash){.hi = hash.high64, .lo = hash.low64};
}

mmb_status mmb_hash_views(const mmb_view *views, size_t n, uint64_t seed, mmb_key_form form, mmb_hash *hashes,
                          size_t *count)
{
    mmb_scratch scratch;
    mmb_status status = MMB_OK;
    size_t i = 0;

    mmb_scratch_init(&scratch);
    for (; i < n; i++) {
        const uint8_t *bytes = views[i].data;
        size_t length = (size_t)views[i].length;

        if (i + KEYS_AHEAD < n) {
            MMB_PREFETCH(views[i + KEYS_AHEAD].data);
        }
        if (form != MMB_RAW || views[i].encoding != MMB_BYTES) {
            status = mmb_canonical(&views[i], form, &scratch, &bytes, &length);
            if (status != MMB_OK) {
                break;
            }
        }
        hashes[i] = mmb_hash_bytes(bytes, length, seed);
    }
    mmb_scratch_free(&scratch);
    *count = i;
    return status;
}

uint64_t mmb_checksum64(const uint8_t *bytes, size_t length)
{
    return XXH3_64bits(bytes, length);
}
