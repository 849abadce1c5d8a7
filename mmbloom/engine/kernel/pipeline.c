/* Chunks of 512 keys: their views (12 KiB) and hashes (8 KiB) stay in the L1 cache from stage to stage. */
#include "pipeline.h"

#include "hash.h"

#define CHUNK_KEYS 512U

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

mmb_status mmb_hash_source(mmb_source *source, const mmb_keying *keying, mmb_hash *hashes, size_t max, size_t *count)
{
    mmb_view views[CHUNK_KEYS];
    size_t done = 0;

    while (done < max) {
        size_t filled = 0;
        size_t hashed = 0;
        const mmb_status filling = mmb_source_fill(source, views, smaller(CHUNK_KEYS, max - done), &filled);
        const mmb_status hashing = mmb_hash_views(views, filled, keying->seed, keying->form, hashes + done, &hashed);
        if (hashing != MMB_OK) {
            *count = done + hashed;
            return hashing;
        }
        done += filled;
        if (filling != MMB_OK || filled == 0) {
            *count = done;
            return filling;
        }
    }
    *count = done;
    return MMB_OK;
}

mmb_status mmb_contains_views(const mmb_layout *layout, const mmb_shape *shape, const uint8_t *payload,
                              const mmb_keying *keying, const mmb_view *views, size_t n, uint8_t *maybe, size_t *count)
{
    mmb_hash hashes[CHUNK_KEYS];

    for (size_t done = 0; done < n;) {
        const size_t keys = smaller(CHUNK_KEYS, n - done);
        size_t hashed = 0;
        const mmb_status status = mmb_hash_views(views + done, keys, keying->seed, keying->form, hashes, &hashed);
        if (status != MMB_OK) {
            *count = done + hashed;
            return status;
        }
        layout->contains_many(shape, payload, hashes, keys, maybe + done);
        done += keys;
    }
    *count = n;
    return MMB_OK;
}

mmb_status mmb_contains_source(const mmb_layout *layout, const mmb_shape *shape, const uint8_t *payload,
                               const mmb_keying *keying, mmb_source *source, uint8_t *maybe, size_t max, size_t *count)
{
    mmb_view views[CHUNK_KEYS];
    size_t done = 0;

    while (done < max) {
        size_t filled = 0;
        size_t looked_up = 0;
        const mmb_status filling = mmb_source_fill(source, views, smaller(CHUNK_KEYS, max - done), &filled);
        const mmb_status status =
            mmb_contains_views(layout, shape, payload, keying, views, filled, maybe + done, &looked_up);
        done += looked_up;
        if (status != MMB_OK || filling != MMB_OK || filled == 0) {
            *count = done;
            return status != MMB_OK ? status : filling;
        }
    }
    *count = done;
    return MMB_OK;
}
