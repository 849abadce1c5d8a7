/* Fuse filters: fuse.c and fuse_build.c. Memory has exactly the promised size, so that the sanitizers see any read beyond it. */
#include "check.h"
#include "layout.h"

static const uint32_t WIDTHS[] = {1, 7, 8, 10, 12, 15, 16, 24, 25, 26, 31, 32};

static const mmb_layout *table_of(const mmb_fuse *fuse)
{
    const mmb_layout *layout = fuse->arity == 3 ? mmb_layout_of(MMB_FUSE3, 5) : mmb_layout_of(MMB_FUSE4, 6);

    CHECK(layout != NULL && layout->max_probes == fuse->arity);
    CHECK(layout->payload_bytes(&(mmb_shape){.fuse = *fuse}) == mmb_fuse_bytes(fuse));
    return layout;
}

static uint8_t contains(const mmb_fuse *fuse, const uint8_t *payload, mmb_hash hash)
{
    return table_of(fuse)->contains(&(mmb_shape){.fuse = *fuse}, payload, hash);
}

static void contains_many(const mmb_fuse *fuse, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint8_t *maybe)
{
    table_of(fuse)->contains_many(&(mmb_shape){.fuse = *fuse}, payload, hashes, n, maybe);
}

static size_t pages_of(const mmb_fuse *fuse, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t *pages)
{
    const mmb_layout *layout = table_of(fuse);
    const size_t count = layout->pages_of(&(mmb_shape){.fuse = *fuse}, payload, hashes, n, pages);

    CHECK(count <= n * layout->max_pages_per_key);
    return count;
}

static int by_hi(const void *a, const void *b)
{
    const mmb_hash *first = a;
    const mmb_hash *second = b;

    return (first->hi > second->hi) - (first->hi < second->hi);
}

/* As random_hashes(), but the first n of them in the order that a shard is built from. */
static mmb_hash *sorted_hashes(size_t n, size_t others, uint64_t seed)
{
    mmb_hash *hashes = random_hashes(n + others, seed);

    qsort(hashes, n, sizeof *hashes, by_hi);
    return hashes;
}

/* One shard of n hashes in a payload of its own: shard, then its seed. */
static uint8_t *built(const mmb_fuse *fuse, const mmb_hash *hashes, size_t n, uint32_t max_seeds)
{
    uint8_t *shard = exactly((size_t)fuse->shard_bytes);
    uint8_t *payload = exactly((size_t)mmb_fuse_bytes(fuse));
    uint32_t *scratch = exactly((size_t)mmb_fuse_scratch_bytes(fuse));
    uint64_t seed = 0;

    memset(scratch, 0xA5, (size_t)mmb_fuse_scratch_bytes(fuse)); /* any contents will do */
    CHECK(mmb_fuse_construct(fuse, hashes, n, max_seeds, scratch, shard, &seed) == MMB_OK);
    free(scratch);
    memcpy(payload, shard, (size_t)fuse->shard_bytes);
    for (unsigned i = 0; i < 8; i++) {
        payload[fuse->shard_bytes + i] = (uint8_t)(seed >> (8 * i));
    }
    free(shard);
    return payload;
}

/* A shape that n keys fit into with room to spare. */
static mmb_fuse roomy(uint32_t arity, uint32_t width, size_t n)
{
    const uint32_t slots = n < 100 ? 16 : 64;

    return mmb_fuse_of(arity, width, slots, arity + (uint32_t)(n * 2 / slots), 1);
}

static void every_key_is_found_in_every_width_and_arity(void)
{
    for (uint32_t arity = 3; arity <= 4; arity++) {
        for (size_t w = 0; w < LENGTH(WIDTHS); w++) {
            const size_t n = 700;
            const mmb_fuse fuse = roomy(arity, WIDTHS[w], n);
            mmb_hash *hashes = sorted_hashes(n, 0, w);
            uint8_t *payload = built(&fuse, hashes, n, 64);
            for (size_t i = 0; i < n; i++) {
                CHECK(contains(&fuse, payload, hashes[i]));
            }
            free(hashes);
            free(payload);
        }
    }
}

static void few_keys_are_built_and_found(void)
{
    for (uint32_t arity = 3; arity <= 4; arity++) {
        for (size_t n = 0; n <= 20; n++) {
            for (uint64_t seed = 0; seed < 20; seed++) {
                const mmb_fuse fuse = roomy(arity, 32, n);
                mmb_hash *hashes = sorted_hashes(n, 0, seed);
                uint8_t *payload = built(&fuse, hashes, n, 64);
                for (size_t i = 0; i < n; i++) {
                    CHECK(contains(&fuse, payload, hashes[i]));
                }
                free(hashes);
                free(payload);
            }
        }
    }
}

static void a_batch_answers_as_one_by_one(void)
{
    for (uint32_t arity = 3; arity <= 4; arity++) {
        for (size_t w = 0; w < LENGTH(WIDTHS); w++) {
            const size_t n = 200;
            const mmb_fuse fuse = roomy(arity, WIDTHS[w], n);
            mmb_hash *hashes = sorted_hashes(n, n, 5);
            uint8_t *payload = built(&fuse, hashes, n, 64);
            for (size_t count = 0; count <= 2 * n; count += count < 130 ? 13 : 135) {
                uint8_t *maybe = exactly(count);
                contains_many(&fuse, payload, hashes, count, maybe);
                for (size_t i = 0; i < count; i++) {
                    CHECK(maybe[i] == contains(&fuse, payload, hashes[i]));
                    CHECK(maybe[i] || i >= n);
                }
                free(maybe);
            }
            free(hashes);
            free(payload);
        }
    }
}

static void the_ends_of_the_range_of_hashes_lie_within_the_payload(void)
{
    static const uint64_t WORDS[] = {0, 1, UINT64_C(1) << 63, UINT64_MAX - 1, UINT64_MAX};

    for (uint32_t arity = 3; arity <= 4; arity++) {
        for (size_t w = 0; w < LENGTH(WIDTHS); w++) {
            for (uint32_t shards = 1; shards <= 9; shards += 4) {
                const mmb_fuse fuse = mmb_fuse_of(arity, WIDTHS[w], 1, arity, shards);
                uint8_t *payload = exactly((size_t)mmb_fuse_bytes(&fuse));
                uint8_t maybe = 2;
                memset(payload, 0xFF, (size_t)mmb_fuse_bytes(&fuse));
                for (size_t i = 0; i < LENGTH(WORDS) * LENGTH(WORDS); i++) {
                    const mmb_hash hash = {WORDS[i / LENGTH(WORDS)], WORDS[i % LENGTH(WORDS)]};
                    uint64_t pages[2 * MMB_FUSE_MAX_ARITY + 1];
                    contains_many(&fuse, payload, &hash, 1, &maybe);
                    CHECK(maybe == contains(&fuse, payload, hash));
                    const size_t count = pages_of(&fuse, payload, &hash, 1, pages);
                    CHECK(count >= arity + 1);
                    for (size_t j = 0; j < count; j++) {
                        CHECK(pages[j] <= (mmb_fuse_bytes(&fuse) - 1) / 4096);
                    }
                }
                free(payload);
            }
        }
    }
}

static void a_filter_without_shards_has_no_key(void)
{
    const mmb_fuse fuse = mmb_fuse_of(3, 8, 0, 0, 0);
    const mmb_hash hashes[2] = {{0, 0}, {UINT64_MAX, UINT64_MAX}};
    uint8_t *payload = exactly((size_t)mmb_fuse_bytes(&fuse));
    uint8_t maybe[2] = {2, 2};
    uint64_t pages[2 * MMB_FUSE_MAX_ARITY + 1];

    contains_many(&fuse, payload, hashes, 2, maybe);
    CHECK(maybe[0] == 0 && maybe[1] == 0 && !contains(&fuse, payload, hashes[0]));
    CHECK(pages_of(&fuse, payload, hashes, 2, pages) == 0);
    free(payload);
}

static void keys_that_nothing_fits_end_in_a_status_and_zeros(void)
{
    const mmb_fuse tight = mmb_fuse_of(3, 8, 4, 3, 1);
    mmb_hash *hashes = sorted_hashes(600, 0, 1);
    uint8_t *shard = exactly((size_t)tight.shard_bytes);
    uint32_t *scratch = exactly((size_t)mmb_fuse_scratch_bytes(&tight));
    uint64_t seed;

    for (size_t n = 12; n <= 600; n += 588) { /* as many as slots; more than slots */
        CHECK(mmb_fuse_construct(&tight, hashes, n, 5, scratch, shard, &seed) == MMB_UNSOLVABLE);
    }
    hashes[1] = hashes[0]; /* equal hashes share all slots */
    CHECK(mmb_fuse_construct(&tight, hashes, 2, 64, scratch, shard, &seed) == MMB_UNSOLVABLE);
    CHECK(mmb_fuse_construct(&tight, hashes, 1, 0, scratch, shard, &seed) == MMB_UNSOLVABLE);
    for (size_t i = 0; i < tight.shard_bytes; i++) {
        CHECK(shard[i] == 0);
    }
    free(hashes);
    free(scratch);
    free(shard);
}

static void keys_that_do_not_come_in_order_end_in_a_status_and_zeros(void)
{
    const mmb_fuse fuse = roomy(3, 8, 700);
    mmb_hash *hashes = sorted_hashes(700, 0, 1);
    uint8_t *shard = exactly((size_t)fuse.shard_bytes);
    uint32_t *scratch = exactly((size_t)mmb_fuse_scratch_bytes(&fuse));
    const mmb_hash first = hashes[0];
    uint64_t seed;

    hashes[0] = hashes[699];
    hashes[699] = first;
    CHECK(mmb_fuse_construct(&fuse, hashes, 700, 64, scratch, shard, &seed) == MMB_UNORDERED);
    for (size_t i = 0; i < fuse.shard_bytes; i++) {
        CHECK(shard[i] == 0);
    }
    free(hashes);
    free(scratch);
    free(shard);
}

static void a_slot_that_more_keys_have_than_it_counts_ends_in_a_status(void)
{
    const mmb_fuse wide = mmb_fuse_of(3, 8, 256, 9, 1);
    uint32_t *scratch = exactly((size_t)mmb_fuse_scratch_bytes(&wide));
    uint8_t *shard = exactly((size_t)wide.shard_bytes);
    mmb_hash *hashes = random_hashes(300, 1);
    uint64_t seed;

    for (size_t i = 0; i < 300; i++) {
        hashes[i].hi = 7;
    }
    CHECK(mmb_fuse_construct(&wide, hashes, 300, 3, scratch, shard, &seed) == MMB_UNSOLVABLE);
    free(hashes);
    free(scratch);
    free(shard);
}

#define TEST(name) {#name, name}
const test FUSE_TESTS[] = {
    TEST(every_key_is_found_in_every_width_and_arity),
    TEST(few_keys_are_built_and_found),
    TEST(a_batch_answers_as_one_by_one),
    TEST(the_ends_of_the_range_of_hashes_lie_within_the_payload),
    TEST(a_filter_without_shards_has_no_key),
    TEST(keys_that_nothing_fits_end_in_a_status_and_zeros),
    TEST(keys_that_do_not_come_in_order_end_in_a_status_and_zeros),
    TEST(a_slot_that_more_keys_have_than_it_counts_ends_in_a_status),
    {NULL, NULL},
};
