/* The layouts of bits, through their tables, compared with the probe rules of FORMAT.md, written out once more below. */
#include "check.h"
#include "layout.h"

static const size_t AROUND_PREFETCH[] = {0, 1, 2, 31, 32, 33, 63, 64, 65, 200}; /* 32 lines ahead; 512 / k keys a group */

static const mmb_hash EDGES[] = {
    {0, 0},           {0, UINT64_MAX},          {UINT64_MAX, 0}, {UINT64_MAX, UINT64_MAX},
    {1, 1},           {UINT64_C(1) << 63, 0},   {0, UINT64_C(1) << 63},
    {UINT64_MAX, 2},  {UINT64_C(1) << 63, 512}, {UINT32_MAX, UINT32_MAX},
};

typedef struct {
    uint32_t layout;
    uint32_t num_probes;
    uint64_t num_bits;
} geometry;

static const geometry GEOMETRIES[] = {
    {MMB_CLASSIC, 1, 1},     {MMB_CLASSIC, 64, 1},      {MMB_CLASSIC, 5, 7},     {MMB_CLASSIC, 7, 8},
    {MMB_CLASSIC, 7, 9},     {MMB_CLASSIC, 64, 63},     {MMB_CLASSIC, 13, 65},   {MMB_CLASSIC, 1, 511},
    {MMB_CLASSIC, 7, 513},   {MMB_CLASSIC, 33, 99991},  {MMB_LINE, 1, 512},      {MMB_LINE, 16, 512},
    {MMB_LINE, 7, 1024},     {MMB_LINE, 8, 51200},      {MMB_LINE, 9, 51200},    {MMB_LINE, 15, 99840},
    {MMB_PAGE, 1, 32768},    {MMB_PAGE, 2, 32768},      {MMB_PAGE, 32, 32768},   {MMB_PAGE, 15, 65536},
    {MMB_PAGE, 16, 98304},   {MMB_PAGE, 17, 98304},     {MMB_PAGE, 31, 163840},  {MMB_NARROW, 1, 128},
    {MMB_NARROW, 16, 128},   {MMB_NARROW, 6, 384},      {MMB_NARROW, 8, 51200},  {MMB_NARROW, 9, 99968},
};

static mmb_shape shape_of(const geometry *bloom)
{
    return (mmb_shape){.bloom = {bloom->num_probes, bloom->num_bits}};
}

/* The layouts of bits have the numbers of their probe schemes. */
static const mmb_layout *table_of(const geometry *bloom)
{
    const mmb_layout *layout = mmb_layout_of(bloom->layout, bloom->layout);

    CHECK(layout != NULL);
    return layout;
}

static size_t payload_bytes(const geometry *bloom)
{
    const mmb_shape shape = shape_of(bloom);

    return (size_t)table_of(bloom)->payload_bytes(&shape);
}

static uint8_t contains(const geometry *bloom, const uint8_t *payload, mmb_hash hash)
{
    const mmb_shape shape = shape_of(bloom);

    return table_of(bloom)->contains(&shape, payload, hash);
}

static void contains_many(const geometry *bloom, const uint8_t *payload, const mmb_hash *hashes, size_t n, uint8_t *maybe)
{
    const mmb_shape shape = shape_of(bloom);

    table_of(bloom)->contains_many(&shape, payload, hashes, n, maybe);
}

static size_t add_many(const geometry *bloom, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                       uint64_t *num_new, const mmb_dirty *dirty)
{
    const mmb_shape shape = shape_of(bloom);
    mmb_counted counted = {99, 99};
    const size_t done = table_of(bloom)->add_many(&shape, payload, hashes, n, room, &counted, dirty);

    CHECK(counted.num_saturated == 0);
    *num_new = counted.num_keys;
    return done;
}

static void add_part(const geometry *bloom, uint8_t *target, uint64_t first, uint64_t num_bytes, const mmb_hash *hashes,
                     size_t n)
{
    const mmb_shape shape = shape_of(bloom);

    table_of(bloom)->add_part(&shape, target, first, num_bytes, hashes, n);
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

static uint64_t oracle_probe(const geometry *bloom, mmb_hash hash, uint32_t i)
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

static uint8_t oracle_contains(const geometry *bloom, const uint8_t *payload, mmb_hash hash)
{
    for (uint32_t i = 0; i < bloom->num_probes; i++) {
        const uint64_t bit = oracle_probe(bloom, hash, i);
        if (!((payload[bit / 8] >> (bit % 8)) & 1)) {
            return 0;
        }
    }
    return 1;
}

static void oracle_add(const geometry *bloom, uint8_t *payload, mmb_hash hash)
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

static void only_the_pairs_of_the_format_have_a_table(void)
{
    static const uint32_t pairs[][2] = {
        {MMB_CLASSIC, 1}, {MMB_LINE, 2}, {MMB_PAGE, 3}, {MMB_NARROW, 4}, {MMB_FUSE3, 5}, {MMB_FUSE4, 6}, {MMB_COUNTERS, 4},
    };
    size_t found = 0;

    for (uint32_t layout = 0; layout < 20; layout++) {
        for (uint32_t scheme = 0; scheme < 20; scheme++) {
            found += mmb_layout_of(layout, scheme) != NULL;
        }
    }
    CHECK(found == LENGTH(pairs));
    for (size_t i = 0; i < LENGTH(pairs); i++) {
        const mmb_layout *layout = mmb_layout_of(pairs[i][0], pairs[i][1]);
        CHECK(layout != NULL && layout->payload_bytes != NULL && layout->contains != NULL);
        CHECK(layout->contains_many != NULL && layout->pages_of != NULL && layout->max_pages_per_key > 0);
        const int is_fuse = pairs[i][0] == MMB_FUSE3 || pairs[i][0] == MMB_FUSE4;
        const int has_counters = pairs[i][0] == MMB_COUNTERS;
        CHECK((layout->probes == NULL) == is_fuse && (layout->add == NULL) == is_fuse);
        CHECK((layout->add_many == NULL) == is_fuse && (layout->add_part == NULL) == is_fuse);
        CHECK((layout->remove_many != NULL) == has_counters && (layout->count_of != NULL) == has_counters);
    }
}

static void probes_follow_the_rules_for_every_layout_size_and_k(void)
{
    static const uint32_t layouts[] = {MMB_CLASSIC, MMB_LINE, MMB_PAGE, MMB_NARROW};
    static const uint32_t most[] = {64, 16, 32, 16};
    static const uint64_t step[] = {1, 512, 32768, 128};
    static const uint64_t sizes[] = {1, 3, 1000, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1, (UINT64_C(1) << 53) / 32768};
    mmb_hash *hashes = some_hashes(40, 1);

    for (size_t i = 0; i < LENGTH(layouts); i++) {
        for (size_t j = 0; j < LENGTH(sizes); j++) {
            for (uint32_t k = 1; k <= most[i]; k++) {
                const geometry bloom = {layouts[i], k, sizes[j] * step[i]};
                const mmb_shape shape = shape_of(&bloom);
                CHECK(k <= table_of(&bloom)->max_probes);
                for (size_t h = 0; h < 40; h++) {
                    uint64_t *bits = exactly(k * sizeof *bits);
                    table_of(&bloom)->probes(&shape, hashes[h], bits);
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
        const geometry *bloom = &GEOMETRIES[i];
        const size_t per_key = bloom->layout == MMB_CLASSIC ? bloom->num_probes : 1;
        const mmb_shape shape = shape_of(bloom);
        const mmb_layout *layout = table_of(bloom);
        uint64_t *pages = exactly(40 * per_key * sizeof *pages);
        CHECK(per_key <= layout->max_pages_per_key);
        CHECK(layout->pages_of(&shape, NULL, hashes, 0, pages) == 0);
        CHECK(layout->pages_of(&shape, NULL, hashes, 40, pages) == 40 * per_key);
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
            const geometry *bloom = &GEOMETRIES[i];
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
            CHECK(add_many(bloom, payload, hashes, n, UINT64_MAX, &num_new, NULL) == n);
            CHECK(num_new == new_expected);
            CHECK(memcmp(payload, expected, size) == 0);
            contains_many(bloom, payload, hashes, n, maybe);
            for (size_t h = 0; h < n; h++) {
                CHECK(maybe[h] == 1 && contains(bloom, payload, hashes[h]) == 1);
            }
            contains_many(bloom, payload, others, n, maybe);
            for (size_t h = 0; h < n; h++) {
                CHECK(maybe[h] == oracle_contains(bloom, payload, others[h]));
                CHECK(maybe[h] == contains(bloom, payload, others[h]));
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
        const geometry *bloom = &GEOMETRIES[i];
        const mmb_shape shape = shape_of(bloom);
        const size_t size = payload_bytes(bloom);
        mmb_hash *hashes = some_hashes(100, i);
        uint8_t *payload = exactly(size);
        uint8_t *expected = exactly(size);
        for (size_t h = 0; h < 100; h++) {
            const unsigned is_new = !oracle_contains(bloom, expected, hashes[h]);
            oracle_add(bloom, expected, hashes[h]);
            mmb_counted counted = {99, 99};
            CHECK(table_of(bloom)->add(&shape, payload, hashes[h], &counted) == is_new);
            CHECK(counted.num_keys == is_new && counted.num_saturated == 0);
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
        const geometry *bloom = &GEOMETRIES[i];
        const size_t size = payload_bytes(bloom);
        uint8_t *payload = exactly(size);
        mmb_hash *hashes = some_hashes(300, i);
        uint8_t *maybe = exactly(300);
        uint64_t state = i;
        for (size_t byte = 0; byte < size; byte++) {
            payload[byte] = (uint8_t)(next_random(&state) | next_random(&state) | next_random(&state));
        }
        contains_many(bloom, payload, hashes, 300, maybe);
        for (size_t h = 0; h < 300; h++) {
            CHECK(maybe[h] == oracle_contains(bloom, payload, hashes[h]));
            CHECK(maybe[h] == contains(bloom, payload, hashes[h]));
        }
        free(payload);
        free(hashes);
        free(maybe);
    }
}

static void a_payload_larger_than_the_caches_answers_alike(void)
{
    static const uint32_t layouts[] = {MMB_CLASSIC, MMB_LINE, MMB_PAGE, MMB_NARROW};
    static const size_t sizes[] = {0, 1, 63, 64, 65, 127, 128, 129, 300}; /* from 64 MiB on: groups of 64 keys */

    for (size_t i = 0; i < LENGTH(layouts); i++) {
        const geometry bloom = {layouts[i], 9, UINT64_C(1) << 29};
        uint8_t *payload = exactly(payload_bytes(&bloom));
        for (size_t j = 0; j < LENGTH(sizes); j++) {
            const size_t n = sizes[j];
            mmb_hash *hashes = some_hashes(n, j);
            uint8_t *maybe = exactly(n);
            uint64_t num_new;
            CHECK(add_many(&bloom, payload, hashes, n / 2, UINT64_MAX, &num_new, NULL) == n / 2);
            contains_many(&bloom, payload, hashes, n, maybe);
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
            const geometry *bloom = &GEOMETRIES[i];
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
            CHECK(add_many(bloom, payload, hashes, 150, room, &num_new, NULL) == h);
            CHECK(num_new == added);
            CHECK(memcmp(payload, expected, size) == 0);
            CHECK(add_many(bloom, payload, hashes, h, 0, &num_new, NULL) == h && num_new == 0);
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
        const geometry *bloom = &GEOMETRIES[i];
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
            CHECK(add_many(bloom, payload, hashes + h, 1, 1, &num_new, &dirty) == 1);
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

/* ---- payloads in parts ------------------------------------------------------------------------------------------ */

static size_t block_bytes(uint32_t layout)
{
    static const size_t bytes[] = {[MMB_CLASSIC] = 0, [MMB_NARROW] = 16, [MMB_LINE] = 64, [MMB_PAGE] = 4096};

    CHECK(mmb_layout_of(layout, layout)->block_bytes == bytes[layout]);
    return bytes[layout] == 0 ? 1 : bytes[layout];
}

static void parts_cut_at_any_block_are_the_whole_payload(void)
{
    for (size_t i = 0; i < LENGTH(GEOMETRIES); i++) {
        const geometry *bloom = &GEOMETRIES[i];
        const size_t size = payload_bytes(bloom);
        const size_t block = block_bytes(bloom->layout);
        const size_t step = size / block > 200 ? size / block / 200 * block + block : block;
        mmb_hash *hashes = some_hashes(120, i);
        uint8_t *expected = exactly(size);
        uint64_t num_new;
        CHECK(add_many(bloom, expected, hashes, 120, UINT64_MAX, &num_new, NULL) == 120);
        for (size_t cut = 0; cut <= size; cut += step) {
            uint8_t *lower = exactly(cut);
            uint8_t *upper = exactly(size - cut);
            add_part(bloom, lower, 0, cut, hashes, 120);
            add_part(bloom, upper, cut, size - cut, hashes, 120);
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
        const geometry *bloom = &GEOMETRIES[i];
        const size_t size = payload_bytes(bloom);
        mmb_hash *hashes = some_hashes(80, i);
        uint8_t *expected = exactly(size);
        uint8_t *part = exactly(size);
        for (size_t h = 0; h < 80; h++) {
            oracle_add(bloom, expected, hashes[h]);
            add_part(bloom, part, 0, size, hashes + h, 1);
        }
        add_part(bloom, part, 0, size, hashes, 0);
        CHECK(memcmp(part, expected, size) == 0);
        free(hashes);
        free(expected);
        free(part);
    }
}

static void spans_of_neighbours_follow_one_another_and_hold_their_keys(void)
{
    static const uint64_t blocks[] = {1, 2, 3, 100, 1023, 1024, 1025, UINT64_C(1) << 38};
    static const uint32_t layouts[] = {MMB_NARROW, MMB_LINE, MMB_PAGE};

    for (size_t i = 0; i < LENGTH(blocks); i++) {
        for (size_t j = 0; j < LENGTH(layouts); j++) {
            const uint64_t block = block_bytes(layouts[j]);
            const geometry bloom = {layouts[j], 4, blocks[i] * 8 * block};
            const mmb_shape shape = shape_of(&bloom);
            uint64_t last_end = 0;
            for (uint64_t partition = 0; partition < 1024; partition++) {
                const uint64_t lowest = partition << 54;
                const uint64_t highest = lowest | (UINT64_MAX >> 10);
                const uint64_t his[] = {lowest, lowest + (highest - lowest) / 2, highest};
                uint64_t first = 99;
                uint64_t end = 99;
                mmb_layout_span(table_of(&bloom), &shape, lowest, highest, &first, &end);
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
    const geometry bloom = {MMB_CLASSIC, 7, 513};
    const mmb_shape shape = shape_of(&bloom);
    uint64_t first = 99;
    uint64_t end = 99;

    mmb_layout_span(table_of(&bloom), &shape, 5, 6, &first, &end);
    CHECK(first == 0 && end == 128);
}

#define TEST(name) {#name, name}
const test FILTER_TESTS[] = {
    TEST(only_the_pairs_of_the_format_have_a_table),
    TEST(probes_follow_the_rules_for_every_layout_size_and_k),
    TEST(pages_are_those_of_the_probes),
    TEST(a_batch_sets_and_finds_what_the_rules_say),
    TEST(single_adds_set_what_a_batch_sets),
    TEST(answers_in_noise_are_those_of_the_rules),
    TEST(a_payload_larger_than_the_caches_answers_alike),
    TEST(a_new_key_without_room_ends_a_batch_and_sets_nothing),
    TEST(exactly_the_pages_that_changed_are_dirty),
    TEST(parts_cut_at_any_block_are_the_whole_payload),
    TEST(a_part_keeps_the_bits_that_are_in_it),
    TEST(spans_of_neighbours_follow_one_another_and_hold_their_keys),
    TEST(the_span_of_a_classic_filter_is_all_of_it),
    {NULL, NULL},
};
