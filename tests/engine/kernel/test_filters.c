/* Hashes on their way to bits: bloom.c, held against the probe rules of FORMAT.md, written out once more below. */
#include "bloom.h"
#include "check.h"

static const size_t AROUND_PREFETCH[] = {0, 1, 2, 31, 32, 33, 63, 64, 65, 200}; /* 32 lines ahead; 512 / k keys a group */

static const mmb_hash EDGES[] = {
    {0, 0},           {0, UINT64_MAX},          {UINT64_MAX, 0}, {UINT64_MAX, UINT64_MAX},
    {1, 1},           {UINT64_C(1) << 63, 0},   {0, UINT64_C(1) << 63},
    {UINT64_MAX, 2},  {UINT64_C(1) << 63, 512}, {UINT32_MAX, UINT32_MAX},
};

static const mmb_bloom GEOMETRIES[] = {
    {MMB_CLASSIC, 1, 1},     {MMB_CLASSIC, 64, 1},      {MMB_CLASSIC, 5, 7},     {MMB_CLASSIC, 7, 8},
    {MMB_CLASSIC, 7, 9},     {MMB_CLASSIC, 64, 63},     {MMB_CLASSIC, 13, 65},   {MMB_CLASSIC, 1, 511},
    {MMB_CLASSIC, 7, 513},   {MMB_CLASSIC, 33, 99991},  {MMB_LINE, 1, 512},      {MMB_LINE, 16, 512},
    {MMB_LINE, 7, 1024},     {MMB_LINE, 8, 51200},      {MMB_LINE, 9, 51200},    {MMB_LINE, 15, 99840},
    {MMB_PAGE, 1, 32768},    {MMB_PAGE, 2, 32768},      {MMB_PAGE, 32, 32768},   {MMB_PAGE, 15, 65536},
    {MMB_PAGE, 16, 98304},   {MMB_PAGE, 17, 98304},     {MMB_PAGE, 31, 163840},  {MMB_NARROW, 1, 128},
    {MMB_NARROW, 16, 128},   {MMB_NARROW, 6, 384},      {MMB_NARROW, 8, 51200},  {MMB_NARROW, 9, 99968},
};

static size_t payload_bytes(const mmb_bloom *bloom)
{
    return bloom->layout == MMB_CLASSIC ? (size_t)(bloom->num_bits + 7) / 8 : (size_t)bloom->num_bits / 8;
}

/* ---- an oracle -------------------------------------------------------------------------------------------------- */

static uint32_t mixed_probe(uint32_t h, uint32_t j)
{
    const uint32_t golden = 0x9E3779B9;
    uint32_t multiplier = 1;

    for (uint32_t i = 0; i < j; i++) {
        multiplier *= golden;
    }
    return h * multiplier + (j + 1) * golden;
}

static uint64_t oracle_probe(const mmb_bloom *bloom, mmb_hash hash, uint32_t i)
{
    const uint32_t halves[2] = {(uint32_t)hash.lo, (uint32_t)(hash.lo >> 32)};

    if (bloom->layout == MMB_CLASSIC) {
        /* x after i steps of y += z, x += y, z += C, from z = C: hi + i lo + i(i+1)(i+2)/6 C */
        const uint64_t golden = UINT64_C(0x9E3779B97F4A7C15);
        const uint64_t steps = (uint64_t)i;
        const uint64_t x = hash.hi + steps * hash.lo + steps * (steps + 1) * (steps + 2) / 6 * golden;
        const uint64_t mixed = (x ^ (x >> 32)) * golden;
        return times(mixed, bloom->num_bits).high;
    }
    if (bloom->layout == MMB_LINE) {
        const uint64_t line = times(hash.hi, bloom->num_bits / 512).high;
        return 512 * line + (mixed_probe(halves[i / 8], i) >> 23);
    }
    if (bloom->layout == MMB_NARROW) {
        const uint64_t line = times(hash.hi, bloom->num_bits / 128).high;
        return 128 * line + (mixed_probe(halves[i / 8], i) >> 25);
    }
    const product place = times(hash.hi, bloom->num_bits / 32768);
    const uint64_t first = 64 * place.high;
    const uint64_t lines[2] = {first + (place.low >> 59), first + 32 + ((place.low >> 54) & 31)};
    return 512 * lines[i % 2] + (mixed_probe(halves[i % 2], i / 2) >> 23);
}

static uint8_t oracle_contains(const mmb_bloom *bloom, const uint8_t *payload, mmb_hash hash)
{
    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        const uint64_t bit = oracle_probe(bloom, hash, i);
        if (!((payload[bit / 8] >> (bit % 8)) & 1)) {
            return 0;
        }
    }
    return 1;
}

static void oracle_add(const mmb_bloom *bloom, uint8_t *payload, mmb_hash hash)
{
    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        const uint64_t bit = oracle_probe(bloom, hash, i);
        payload[bit / 8] = (uint8_t)(payload[bit / 8] | (1U << (bit % 8)));
    }
}

/* n hashes: the edges, then random ones, every fifth a repetition. */
static mmb_hash *some_hashes(size_t n, uint64_t seed)
{
    mmb_hash *hashes = random_hashes(n, seed);

    for (size_t i = 0; i < n; i++) {
        if (i < LENGTH(EDGES)) {
            hashes[i] = EDGES[i];
        } else if (i % 5 == 0) {
            hashes[i] = hashes[i / 2];
        }
    }
    return hashes;
}

/* ---- probes ----------------------------------------------------------------------------------------------------- */

static void probes_follow_the_rules_for_every_layout_size_and_k(void)
{
    static const mmb_layout layouts[] = {MMB_CLASSIC, MMB_LINE, MMB_PAGE, MMB_NARROW};
    static const uint32_t most[] = {64, 16, 32, 16};
    static const uint64_t step[] = {1, 512, 32768, 128};
    static const uint64_t sizes[] = {1, 3, 1000, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1, (UINT64_C(1) << 53) / 32768};
    mmb_hash *hashes = some_hashes(40, 1);

    for (size_t i = 0; i < LENGTH(layouts); i++) {
        for (size_t j = 0; j < LENGTH(sizes); j++) {
            for (uint32_t k = 1; k <= most[i]; k++) {
                const mmb_bloom bloom = {layouts[i], k, sizes[j] * step[i]};
                for (size_t h = 0; h < 40; h++) {
                    uint64_t *bits = exactly(k * sizeof *bits);
                    mmb_bloom_probes(&bloom, hashes[h], bits);
                    for (uint32_t probe = 0; probe < k; probe++) {
                        CHECK(bits[probe] == oracle_probe(&bloom, hashes[h], probe));
                        CHECK(bits[probe] < bloom.num_bits);
                    }
                    free(bits);
                }
            }
        }
    }
    free(hashes);
}

static void pages_are_those_of_the_probes(void)
{
    mmb_hash *hashes = some_hashes(40, 2);

    for (size_t i = 0; i < LENGTH(GEOMETRIES); i++) {
        const mmb_bloom *bloom = &GEOMETRIES[i];
        const size_t per_key = bloom->layout == MMB_CLASSIC ? bloom->num_probes : 1;
        uint64_t *pages = exactly(40 * per_key * sizeof *pages);
        CHECK(mmb_bloom_pages(bloom, hashes, 0, pages) == 0);
        CHECK(mmb_bloom_pages(bloom, hashes, 40, pages) == 40 * per_key);
        for (size_t j = 0; j < 40 * per_key; j++) {
            CHECK(pages[j] == oracle_probe(bloom, hashes[j / per_key], (uint32_t)(j % per_key)) / 32768);
        }
        free(pages);
    }
    free(hashes);
}

/* ---- adding and looking up -------------------------------------------------------------------------------------- */

static void a_batch_sets_and_finds_what_the_rules_say(void)
{
    for (size_t i = 0; i < LENGTH(GEOMETRIES); i++) {
        for (size_t j = 0; j < LENGTH(AROUND_PREFETCH); j++) {
            const mmb_bloom *bloom = &GEOMETRIES[i];
            const size_t n = AROUND_PREFETCH[j];
            const size_t size = payload_bytes(bloom);
            mmb_hash *hashes = some_hashes(n, i);
            mmb_hash *others = random_hashes(n, ~(uint64_t)i);
            uint8_t *payload = exactly(size);
            uint8_t *expected = exactly(size);
            uint8_t *maybe = exactly(n);
            uint64_t num_new = 99;
            uint64_t new_expected = 0;
            for (size_t h = 0; h < n; h++) {
                new_expected += !oracle_contains(bloom, expected, hashes[h]);
                oracle_add(bloom, expected, hashes[h]);
            }
            CHECK(mmb_bloom_add_many(bloom, payload, hashes, n, UINT64_MAX, &num_new, NULL) == n);
            CHECK(num_new == new_expected);
            CHECK(memcmp(payload, expected, size) == 0);
            mmb_bloom_contains_many(bloom, payload, hashes, n, maybe);
            for (size_t h = 0; h < n; h++) {
                CHECK(maybe[h] == 1 && mmb_bloom_contains(bloom, payload, hashes[h]) == 1);
            }
            mmb_bloom_contains_many(bloom, payload, others, n, maybe);
            for (size_t h = 0; h < n; h++) {
                CHECK(maybe[h] == oracle_contains(bloom, payload, others[h]));
                CHECK(maybe[h] == mmb_bloom_contains(bloom, payload, others[h]));
            }
            free(hashes);
            free(others);
            free(payload);
            free(expected);
            free(maybe);
        }
    }
}

static void single_adds_set_what_a_batch_sets(void)
{
    for (size_t i = 0; i < LENGTH(GEOMETRIES); i++) {
        const mmb_bloom *bloom = &GEOMETRIES[i];
        const size_t size = payload_bytes(bloom);
        mmb_hash *hashes = some_hashes(100, i);
        uint8_t *payload = exactly(size);
        uint8_t *expected = exactly(size);
        for (size_t h = 0; h < 100; h++) {
            const unsigned is_new = !oracle_contains(bloom, expected, hashes[h]);
            oracle_add(bloom, expected, hashes[h]);
            CHECK(mmb_bloom_add(bloom, payload, hashes[h]) == is_new);
        }
        CHECK(memcmp(payload, expected, size) == 0);
        free(hashes);
        free(payload);
        free(expected);
    }
}

static void answers_in_noise_are_those_of_the_rules(void)
{
    for (size_t i = 0; i < LENGTH(GEOMETRIES); i++) {
        const mmb_bloom *bloom = &GEOMETRIES[i];
        const size_t size = payload_bytes(bloom);
        uint8_t *payload = exactly(size);
        mmb_hash *hashes = some_hashes(300, i);
        uint8_t *maybe = exactly(300);
        uint64_t state = i;
        for (size_t byte = 0; byte < size; byte++) {
            payload[byte] = (uint8_t)(next_random(&state) | next_random(&state) | next_random(&state));
        }
        mmb_bloom_contains_many(bloom, payload, hashes, 300, maybe);
        for (size_t h = 0; h < 300; h++) {
            CHECK(maybe[h] == oracle_contains(bloom, payload, hashes[h]));
            CHECK(maybe[h] == mmb_bloom_contains(bloom, payload, hashes[h]));
        }
        free(payload);
        free(hashes);
        free(maybe);
    }
}

static void a_payload_larger_than_the_caches_answers_alike(void)
{
    static const mmb_layout layouts[] = {MMB_CLASSIC, MMB_LINE, MMB_PAGE, MMB_NARROW};
    static const size_t sizes[] = {0, 1, 63, 64, 65, 127, 128, 129, 300}; /* from 64 MiB on: groups of 64 keys */

    for (size_t i = 0; i < LENGTH(layouts); i++) {
        const mmb_bloom bloom = {layouts[i], 9, UINT64_C(1) << 29};
        uint8_t *payload = exactly(payload_bytes(&bloom));
        for (size_t j = 0; j < LENGTH(sizes); j++) {
            const size_t n = sizes[j];
            mmb_hash *hashes = some_hashes(n, j);
            uint8_t *maybe = exactly(n);
            uint64_t num_new;
            CHECK(mmb_bloom_add_many(&bloom, payload, hashes, n / 2, UINT64_MAX, &num_new, NULL) == n / 2);
            mmb_bloom_contains_many(&bloom, payload, hashes, n, maybe);
            for (size_t h = 0; h < n; h++) {
                CHECK(maybe[h] == oracle_contains(&bloom, payload, hashes[h]));
                CHECK(h >= n / 2 || maybe[h] == 1);
            }
            free(hashes);
            free(maybe);
        }
        free(payload);
    }
}

static void a_new_key_without_room_ends_a_batch_and_sets_nothing(void)
{
    for (size_t i = 0; i < LENGTH(GEOMETRIES); i++) {
        for (uint64_t room = 0; room <= 40; room += 13) {
            const mmb_bloom *bloom = &GEOMETRIES[i];
            const size_t size = payload_bytes(bloom);
            mmb_hash *hashes = some_hashes(150, i);
            uint8_t *payload = exactly(size);
            uint8_t *expected = exactly(size);
            uint64_t added = 0;
            uint64_t num_new = 99;
            size_t h = 0;
            for (; h < 150; h++) {
                if (!oracle_contains(bloom, expected, hashes[h])) {
                    if (added == room) {
                        break;
                    }
                    added++;
                    oracle_add(bloom, expected, hashes[h]);
                }
            }
            CHECK(mmb_bloom_add_many(bloom, payload, hashes, 150, room, &num_new, NULL) == h);
            CHECK(num_new == added);
            CHECK(memcmp(payload, expected, size) == 0);
            CHECK(mmb_bloom_add_many(bloom, payload, hashes, h, 0, &num_new, NULL) == h && num_new == 0);
            free(hashes);
            free(payload);
            free(expected);
        }
    }
}

/* ---- changed pages ---------------------------------------------------------------------------------------------- */

static mmb_dirty clean(uint64_t num_pages)
{
    return (mmb_dirty){exactly((size_t)num_pages), exactly((size_t)(num_pages / MMB_DIRTY_GROUP + 1))};
}

static void drop(mmb_dirty dirty)
{
    free(dirty.pages);
    free(dirty.groups);
}

static void exactly_the_pages_that_changed_are_dirty(void)
{
    for (size_t i = 0; i < LENGTH(GEOMETRIES); i++) {
        const mmb_bloom *bloom = &GEOMETRIES[i];
        const size_t size = payload_bytes(bloom);
        const uint64_t num_pages = (size + 4095) / 4096;
        mmb_hash *hashes = some_hashes(60, i);
        uint8_t *payload = exactly(size);
        uint8_t *before = exactly(size);
        mmb_dirty dirty = clean(num_pages);
        uint64_t num_new;
        for (size_t h = 0; h < 60; h++) {
            memcpy(before, payload, size);
            memset(dirty.pages, 0, (size_t)num_pages);
            CHECK(mmb_bloom_add_many(bloom, payload, hashes + h, 1, 1, &num_new, &dirty) == 1);
            for (uint64_t page = 0; page < num_pages; page++) {
                const size_t start = (size_t)page * 4096;
                const size_t length = size - start < 4096 ? size - start : 4096;
                CHECK(dirty.pages[page] == (memcmp(payload + start, before + start, length) != 0));
                CHECK(!dirty.pages[page] || dirty.groups[page / MMB_DIRTY_GROUP]);
            }
        }
        free(hashes);
        free(payload);
        free(before);
        drop(dirty);
    }
}

static void runs_are_found_in_order(void)
{
    static const uint64_t pages[] = {0, 1, 510, 511, 512, 1024, 1535, 1599};
    static const uint64_t runs[][2] = {{0, 2}, {510, 3}, {1024, 1}, {1535, 1}, {1599, 1}};
    mmb_dirty dirty = clean(1600);
    uint64_t first = 0;
    uint64_t count;

    CHECK(!mmb_dirty_next(&dirty, 1600, &first, &count));
    for (size_t i = 0; i < LENGTH(pages); i++) {
        dirty.pages[pages[i]] = 1;
        dirty.groups[pages[i] / MMB_DIRTY_GROUP] = 1;
    }
    for (size_t i = 0; i < LENGTH(runs); i++) {
        CHECK(mmb_dirty_next(&dirty, 1600, &first, &count));
        CHECK(first == runs[i][0] && count == runs[i][1]);
        first += count;
    }
    CHECK(!mmb_dirty_next(&dirty, 1600, &first, &count));
    first = 0;
    CHECK(mmb_dirty_next(&dirty, 1600, &first, &count) && first == 0 && count == 2);
    CHECK(!mmb_dirty_next(&dirty, 0, &first, &count));
    drop(dirty);
}

static void a_payload_that_is_dirty_all_over_is_one_run(void)
{
    static const uint64_t sizes[] = {1, 511, 512, 513, 2000};

    for (size_t i = 0; i < LENGTH(sizes); i++) {
        mmb_dirty dirty = clean(sizes[i]);
        uint64_t first = 0;
        uint64_t count;
        memset(dirty.pages, 1, (size_t)sizes[i]);
        memset(dirty.groups, 1, (size_t)(sizes[i] / MMB_DIRTY_GROUP + 1));
        CHECK(mmb_dirty_next(&dirty, sizes[i], &first, &count) && first == 0 && count == sizes[i]);
        first = count;
        CHECK(!mmb_dirty_next(&dirty, sizes[i], &first, &count));
        drop(dirty);
    }
}

/* ---- payloads in parts ------------------------------------------------------------------------------------------ */

static size_t block_bytes(const mmb_bloom *bloom)
{
    static const size_t bytes[] = {[MMB_CLASSIC] = 1, [MMB_NARROW] = 16, [MMB_LINE] = 64, [MMB_PAGE] = 4096};

    return bytes[bloom->layout];
}

static void parts_cut_at_any_block_are_the_whole_payload(void)
{
    for (size_t i = 0; i < LENGTH(GEOMETRIES); i++) {
        const mmb_bloom *bloom = &GEOMETRIES[i];
        const size_t size = payload_bytes(bloom);
        const size_t block = block_bytes(bloom);
        const size_t step = size / block > 200 ? size / block / 200 * block + block : block;
        mmb_hash *hashes = some_hashes(120, i);
        uint8_t *expected = exactly(size);
        uint64_t num_new;
        CHECK(mmb_bloom_add_many(bloom, expected, hashes, 120, UINT64_MAX, &num_new, NULL) == 120);
        for (size_t cut = 0; cut <= size; cut += step) {
            uint8_t *lower = exactly(cut);
            uint8_t *upper = exactly(size - cut);
            mmb_bloom_add_part(bloom, lower, 0, cut, hashes, 120);
            mmb_bloom_add_part(bloom, upper, cut, size - cut, hashes, 120);
            CHECK(cut == 0 || memcmp(lower, expected, cut) == 0);
            CHECK(cut == size || memcmp(upper, expected + cut, size - cut) == 0);
            free(lower);
            free(upper);
        }
        free(hashes);
        free(expected);
    }
}

static void a_part_keeps_the_bits_that_are_in_it(void)
{
    for (size_t i = 0; i < LENGTH(GEOMETRIES); i++) {
        const mmb_bloom *bloom = &GEOMETRIES[i];
        const size_t size = payload_bytes(bloom);
        mmb_hash *hashes = some_hashes(80, i);
        uint8_t *expected = exactly(size);
        uint8_t *part = exactly(size);
        for (size_t h = 0; h < 80; h++) {
            oracle_add(bloom, expected, hashes[h]);
            mmb_bloom_add_part(bloom, part, 0, size, hashes + h, 1);
        }
        mmb_bloom_add_part(bloom, part, 0, size, hashes, 0);
        CHECK(memcmp(part, expected, size) == 0);
        free(hashes);
        free(expected);
        free(part);
    }
}

static void spans_of_neighbours_follow_one_another_and_hold_their_keys(void)
{
    static const uint64_t blocks[] = {1, 2, 3, 100, 1023, 1024, 1025, UINT64_C(1) << 38};
    static const mmb_layout layouts[] = {MMB_NARROW, MMB_LINE, MMB_PAGE};

    for (size_t i = 0; i < LENGTH(blocks); i++) {
        for (size_t j = 0; j < LENGTH(layouts); j++) {
            const uint64_t block = block_bytes(&(mmb_bloom){layouts[j], 0, 0});
            const mmb_bloom bloom = {layouts[j], 4, blocks[i] * 8 * block};
            uint64_t last_end = 0;
            for (uint64_t partition = 0; partition < 1024; partition++) {
                const uint64_t lowest = partition << 54;
                const uint64_t highest = lowest | (UINT64_MAX >> 10);
                const uint64_t his[] = {lowest, lowest + (highest - lowest) / 2, highest};
                uint64_t first = 99;
                uint64_t end = 99;
                mmb_bloom_span(&bloom, lowest, highest, &first, &end);
                CHECK(first < end && first % block == 0 && end % block == 0);
                CHECK(first == last_end || first + block == last_end);
                for (size_t h = 0; h < LENGTH(his); h++) {
                    for (uint32_t probe = 0; probe < 4; probe++) {
                        const uint64_t bit = oracle_probe(&bloom, (mmb_hash){his[h], partition}, probe);
                        CHECK(8 * first <= bit && bit < 8 * end);
                    }
                }
                last_end = end;
            }
            CHECK(8 * last_end == bloom.num_bits);
        }
    }
}

static void the_span_of_a_classic_filter_is_all_of_it(void)
{
    const mmb_bloom bloom = {MMB_CLASSIC, 7, 513};
    uint64_t first = 99;
    uint64_t end = 99;

    mmb_bloom_span(&bloom, 5, 6, &first, &end);
    CHECK(first == 0 && end == 128);
}

#define TEST(name) {#name, name}
const test FILTER_TESTS[] = {
    TEST(probes_follow_the_rules_for_every_layout_size_and_k),
    TEST(pages_are_those_of_the_probes),
    TEST(a_batch_sets_and_finds_what_the_rules_say),
    TEST(single_adds_set_what_a_batch_sets),
    TEST(answers_in_noise_are_those_of_the_rules),
    TEST(a_payload_larger_than_the_caches_answers_alike),
    TEST(a_new_key_without_room_ends_a_batch_and_sets_nothing),
    TEST(exactly_the_pages_that_changed_are_dirty),
    TEST(runs_are_found_in_order),
    TEST(a_payload_that_is_dirty_all_over_is_one_run),
    TEST(parts_cut_at_any_block_are_the_whole_payload),
    TEST(a_part_keeps_the_bits_that_are_in_it),
    TEST(spans_of_neighbours_follow_one_another_and_hold_their_keys),
    TEST(the_span_of_a_classic_filter_is_all_of_it),
    {NULL, NULL},
};
