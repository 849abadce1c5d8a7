/* Counters of 4 bits: counting.c, compared with one number per counter and the probe rule of FORMAT.md, written out once more. */
#include "bits.h"
#include "check.h"
#include "counting.h"

static const size_t AROUND_PREFETCH[] = {0, 1, 2, 31, 32, 33, 63, 64, 65, 200};

static const mmb_counting SHAPES[] = {
    {1, 128}, {16, 128}, {2, 256}, {6, 384}, {7, 12800}, {8, 12800}, {9, 12800}, {15, 99968}, {16, 99968},
};

/* ---- the table of the layout, for a shape ------------------------------------------------------------------------ */

static const mmb_layout *table(void)
{
    const mmb_layout *layout = mmb_layout_of(MMB_COUNTERS, 4);

    CHECK(layout != NULL);
    return layout;
}

static mmb_shape shape_of(const mmb_counting *counting)
{
    return (mmb_shape){.counting = *counting};
}

static void probes(const mmb_counting *counting, mmb_hash hash, uint64_t *counters)
{
    const mmb_shape shape = shape_of(counting);

    table()->probes(&shape, hash, counters);
}

static uint8_t contains(const mmb_counting *counting, const uint8_t *payload, mmb_hash hash)
{
    const mmb_shape shape = shape_of(counting);

    return table()->contains(&shape, payload, hash);
}

static void contains_many(const mmb_counting *counting, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                          uint8_t *maybe)
{
    const mmb_shape shape = shape_of(counting);

    table()->contains_many(&shape, payload, hashes, n, maybe);
}

static unsigned count_of(const mmb_counting *counting, const uint8_t *payload, mmb_hash hash)
{
    const mmb_shape shape = shape_of(counting);

    return table()->count_of(&shape, payload, hash);
}

static size_t add_many(const mmb_counting *counting, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                       mmb_counted *counted, const mmb_dirty *dirty)
{
    const mmb_shape shape = shape_of(counting);

    return table()->add_many(&shape, payload, hashes, n, room, counted, dirty);
}

static size_t remove_many(const mmb_counting *counting, uint8_t *payload, const mmb_hash *hashes, size_t n,
                          mmb_counted *counted, const mmb_dirty *dirty)
{
    const mmb_shape shape = shape_of(counting);

    return table()->remove_many(&shape, payload, hashes, n, counted, dirty);
}

static void add_part(const mmb_counting *counting, uint8_t *target, uint64_t first, uint64_t num_bytes,
                     const mmb_hash *hashes, size_t n)
{
    const mmb_shape shape = shape_of(counting);

    table()->add_part(&shape, target, first, num_bytes, hashes, n);
}

static size_t size_of(const mmb_counting *counting)
{
    const mmb_shape shape = shape_of(counting);

    return (size_t)table()->payload_bytes(&shape);
}

/* ---- a model: how often each counter was counted, up to 15 ------------------------------------------------------ */

typedef struct {
    const mmb_counting *counting;
    uint8_t *counters;
} model;

static model empty_model(const mmb_counting *counting)
{
    return (model){counting, exactly((size_t)counting->num_counters)};
}

static uint64_t counter_of(const mmb_counting *counting, mmb_hash hash, uint32_t i)
{
    const uint64_t line = times(hash.hi, counting->num_counters / 128).high;
    const uint32_t h = (uint32_t)(hash.lo >> (32 * (i / 8)));
    uint32_t mixed = h;

    for (uint32_t j = 0; j < i; j++) {
        mixed *= 0x9E3779B9;
    }
    mixed += (i + 1) * 0x9E3779B9;
    return 128 * line + mixed / (UINT32_C(1) << 25);
}

/* Whether probe i names a counter that an earlier one has named. */
static int is_repeated(const mmb_counting *counting, mmb_hash hash, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++) {
        if (counter_of(counting, hash, j) == counter_of(counting, hash, i)) {
            return 1;
        }
    }
    return 0;
}

static unsigned model_least(model m, mmb_hash hash)
{
    unsigned least = 15;

    for (uint32_t i = 0; i < m.counting->num_probes; i++) {
        const unsigned counter = m.counters[counter_of(m.counting, hash, i)];
        least = counter < least ? counter : least;
    }
    return least;
}

/* Count up or down by one; returns how many counters have reached 15. */
static uint64_t model_step(model m, mmb_hash hash, int step)
{
    uint64_t filled = 0;

    for (uint32_t i = 0; i < m.counting->num_probes; i++) {
        uint8_t *counter = &m.counters[counter_of(m.counting, hash, i)];
        if (*counter < 15 && !is_repeated(m.counting, hash, i)) {
            *counter = (uint8_t)(*counter + step);
            filled += *counter == 15;
        }
    }
    return filled;
}

static int is_model(model m, const uint8_t *payload)
{
    for (uint64_t i = 0; i < m.counting->num_counters; i++) {
        if (((payload[i / 2] >> (i % 2 == 0 ? 0 : 4)) & 15) != m.counters[i]) {
            return 0;
        }
    }
    return 1;
}

/* n hashes, most of them several times. */
static mmb_hash *some_hashes(size_t n, uint64_t seed)
{
    mmb_hash *hashes = random_hashes(n, seed);

    for (size_t i = 0; i < n; i++) {
        if (i % 3 != 0) {
            hashes[i] = hashes[i / 3];
        }
    }
    return hashes;
}

/* ---- probes ----------------------------------------------------------------------------------------------------- */

static void counters_of_a_key_follow_the_rule(void)
{
    static const uint64_t sizes[] = {1, 3, 1000, UINT64_C(1) << 32, (UINT64_C(1) << 53) / 128};
    mmb_hash *hashes = random_hashes(40, 1);
    hashes[0] = (mmb_hash){0, 0};
    hashes[1] = (mmb_hash){UINT64_MAX, UINT64_MAX};

    for (size_t i = 0; i < LENGTH(sizes); i++) {
        for (uint32_t k = 1; k <= 16; k++) {
            const mmb_counting counting = {k, 128 * sizes[i]};
            for (size_t h = 0; h < 40; h++) {
                uint64_t *counters = exactly(k * sizeof *counters);
                uint64_t page = 99;
                probes(&counting, hashes[h], counters);
                for (uint32_t j = 0; j < k; j++) {
                    CHECK(counters[j] == counter_of(&counting, hashes[h], j));
                    CHECK(counters[j] < counting.num_counters);
                }
                CHECK(table()->pages_of(&(mmb_shape){.counting = counting}, NULL, &hashes[h], 1, &page) == 1);
                CHECK(page == counters[0] / 8192);
                free(counters);
            }
        }
    }
    free(hashes);
}

static void bits_of_the_narrow_layout_are_the_counters_of_a_key(void)
{
    mmb_hash *hashes = random_hashes(100, 2);

    for (size_t i = 0; i < LENGTH(SHAPES); i++) {
        const mmb_shape narrow = {.bloom = {SHAPES[i].num_probes, SHAPES[i].num_counters}};
        for (size_t h = 0; h < 100; h++) {
            uint64_t counters[16];
            uint64_t bits[16];
            probes(&SHAPES[i], hashes[h], counters);
            mmb_layout_of(MMB_NARROW, 4)->probes(&narrow, hashes[h], bits);
            CHECK(memcmp(counters, bits, SHAPES[i].num_probes * sizeof bits[0]) == 0);
        }
    }
    free(hashes);
}

/* ---- adding, removing and looking up ---------------------------------------------------------------------------- */

static void adds_and_removes_count_what_the_rule_says(void)
{
    for (size_t i = 0; i < LENGTH(SHAPES); i++) {
        for (size_t j = 0; j < LENGTH(AROUND_PREFETCH); j++) {
            const mmb_counting *counting = &SHAPES[i];
            const size_t n = AROUND_PREFETCH[j];
            model m = empty_model(counting);
            uint8_t *payload = exactly(size_of(counting));
            mmb_hash *hashes = some_hashes(n, i);
            mmb_counted expected = {0, 0};
            mmb_counted counted = {99, 99};
            for (size_t h = 0; h < n; h++) {
                expected.num_keys += model_least(m, hashes[h]) == 0;
                expected.num_saturated += model_step(m, hashes[h], 1);
            }
            CHECK(add_many(counting, payload, hashes, n, UINT64_MAX, &counted, NULL) == n);
            CHECK(counted.num_keys == expected.num_keys && counted.num_saturated == expected.num_saturated);
            CHECK(is_model(m, payload));
            expected = (mmb_counted){0, 0};
            for (size_t h = 0; h < n / 2; h++) {
                model_step(m, hashes[h], -1);
                expected.num_keys += model_least(m, hashes[h]) == 0;
            }
            CHECK(remove_many(counting, payload, hashes, n / 2, &counted, NULL) == n / 2);
            CHECK(counted.num_keys == expected.num_keys && counted.num_saturated == 0);
            CHECK(is_model(m, payload));
            free(m.counters);
            free(payload);
            free(hashes);
        }
    }
}

static void single_adds_count_what_a_batch_counts(void)
{
    for (size_t i = 0; i < LENGTH(SHAPES); i++) {
        const mmb_shape shape = shape_of(&SHAPES[i]);
        model m = empty_model(&SHAPES[i]);
        uint8_t *payload = exactly(size_of(&SHAPES[i]));
        mmb_hash *hashes = some_hashes(100, i);
        for (size_t h = 0; h < 200; h++) {
            const unsigned is_new = model_least(m, hashes[h / 2]) == 0;
            const uint64_t filled = model_step(m, hashes[h / 2], 1);
            mmb_counted counted = {99, 99};
            CHECK(table()->add(&shape, payload, hashes[h / 2], &counted) == is_new);
            CHECK(counted.num_keys == is_new && counted.num_saturated == filled);
        }
        CHECK(is_model(m, payload));
        free(m.counters);
        free(payload);
        free(hashes);
    }
}

static void a_filter_of_which_every_key_was_removed_is_empty(void)
{
    const mmb_counting counting = {6, 12800};
    uint8_t *payload = exactly(6400);
    mmb_hash *hashes = random_hashes(1000, 3);
    mmb_counted counted;

    CHECK(add_many(&counting, payload, hashes, 1000, UINT64_MAX, &counted, NULL) == 1000);
    CHECK(counted.num_keys > 900 && counted.num_saturated == 0);
    CHECK(remove_many(&counting, payload, hashes, 1000, &counted, NULL) == 1000);
    for (size_t i = 0; i < 6400; i++) {
        CHECK(payload[i] == 0);
    }
    free(payload);
    free(hashes);
}

static void answers_in_noise_are_those_of_the_rule(void)
{
    for (size_t i = 0; i < LENGTH(SHAPES); i++) {
        const mmb_counting *counting = &SHAPES[i];
        model m = empty_model(counting);
        uint8_t *payload = exactly(size_of(counting));
        mmb_hash *hashes = random_hashes(300, i);
        uint8_t *maybe = exactly(300);
        uint64_t state = i;
        for (uint64_t c = 0; c < counting->num_counters; c++) {
            m.counters[c] = (uint8_t)(next_random(&state) & next_random(&state) & 15);
            m.counters[c] = (uint8_t)(next_random(&state) % 8 == 0 ? 0 : m.counters[c] | 1 << (c % 4));
            payload[c / 2] = (uint8_t)(payload[c / 2] | m.counters[c] << (c % 2 == 0 ? 0 : 4));
        }
        contains_many(counting, payload, hashes, 300, maybe);
        for (size_t h = 0; h < 300; h++) {
            const unsigned least = model_least(m, hashes[h]);
            CHECK(maybe[h] == (least != 0));
            CHECK(contains(counting, payload, hashes[h]) == maybe[h]);
            CHECK(count_of(counting, payload, hashes[h]) == least);
        }
        free(m.counters);
        free(payload);
        free(hashes);
        free(maybe);
    }
}

static void counters_of_more_than_the_caches_hold_answer_alike(void)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 127, 128, 129, 300}; /* from 64 MiB on: groups of 64 keys */
    const mmb_counting counting = {9, UINT64_C(1) << 27};
    uint8_t *payload = exactly(size_of(&counting));

    for (size_t j = 0; j < LENGTH(sizes); j++) {
        const size_t n = sizes[j];
        mmb_hash *hashes = random_hashes(n, j);
        uint8_t *maybe = exactly(n);
        mmb_counted counted;
        CHECK(add_many(&counting, payload, hashes, n / 2, UINT64_MAX, &counted, NULL) == n / 2);
        contains_many(&counting, payload, hashes, n, maybe);
        for (size_t h = 0; h < n; h++) {
            CHECK(maybe[h] == contains(&counting, payload, hashes[h]));
            CHECK(h >= n / 2 || maybe[h] == 1);
        }
        free(hashes);
        free(maybe);
    }
    free(payload);
}

static void a_counter_that_is_full_stays_full(void)
{
    const mmb_counting counting = {8, 128};
    mmb_hash *hashes = random_hashes(1, 4);
    uint8_t *payload = exactly(64);
    uint8_t *full = exactly(64);
    mmb_counted counted;
    uint64_t num_counters = 0;

    for (uint32_t i = 0; i < 8; i++) {
        num_counters += (uint64_t)!is_repeated(&counting, hashes[0], i);
    }
    for (unsigned times = 1; times <= 20; times++) {
        CHECK(add_many(&counting, payload, hashes, 1, 1, &counted, NULL) == 1);
        CHECK(counted.num_keys == (times == 1) && counted.num_saturated == (times == 15 ? num_counters : 0));
        CHECK(count_of(&counting, payload, hashes[0]) == (times < 15 ? times : 15));
    }
    memcpy(full, payload, 64);
    for (unsigned times = 1; times <= 40; times++) {
        CHECK(remove_many(&counting, payload, hashes, 1, &counted, NULL) == 1 && counted.num_keys == 0);
        CHECK(memcmp(payload, full, 64) == 0);
    }
    free(hashes);
    free(payload);
    free(full);
}

static void a_new_key_without_room_ends_a_batch_and_counts_nothing(void)
{
    for (uint64_t room = 0; room <= 40; room += 13) {
        const mmb_counting counting = {7, 12800};
        mmb_hash *hashes = some_hashes(150, room);
        model m = empty_model(&counting);
        uint8_t *payload = exactly(size_of(&counting));
        mmb_counted counted;
        uint64_t added = 0;
        size_t h = 0;
        for (; h < 150; h++) {
            const int is_new = model_least(m, hashes[h]) == 0;
            if (is_new && added == room) {
                break;
            }
            added += (uint64_t)is_new;
            model_step(m, hashes[h], 1);
        }
        CHECK(h < 150);
        CHECK(add_many(&counting, payload, hashes, 150, room, &counted, NULL) == h);
        CHECK(counted.num_keys == added && is_model(m, payload));
        for (size_t i = 0; i < h; i++) {
            model_step(m, hashes[i], 1);
        }
        CHECK(add_many(&counting, payload, hashes, h, 0, &counted, NULL) == h && counted.num_keys == 0);
        CHECK(is_model(m, payload));
        free(hashes);
        free(m.counters);
        free(payload);
    }
}

static void a_key_that_is_certainly_absent_ends_a_batch_and_changes_nothing(void)
{
    for (size_t at = 0; at <= 100; at += 50) {
        const mmb_counting counting = {7, 12800};
        mmb_hash *hashes = random_hashes(101, at);
        model m = empty_model(&counting);
        uint8_t *payload = exactly(size_of(&counting));
        mmb_counted counted;
        CHECK(add_many(&counting, payload, hashes, at, UINT64_MAX, &counted, NULL) == at);
        CHECK(remove_many(&counting, payload, hashes, 101, &counted, NULL) == at);
        CHECK(is_model(m, payload)); /* all that were added are gone */
        CHECK(remove_many(&counting, payload, hashes, 101, &counted, NULL) == 0 && counted.num_keys == 0);
        CHECK(is_model(m, payload));
        free(hashes);
        free(m.counters);
        free(payload);
    }
}

static void the_pages_that_changed_are_dirty(void)
{
    const mmb_counting counting = {7, 8192 * 40};
    const size_t num_pages = 40;
    mmb_hash *hashes = random_hashes(60, 5);
    uint8_t *payload = exactly(size_of(&counting));
    uint8_t *before = exactly(size_of(&counting));
    mmb_dirty dirty = {exactly(num_pages), exactly(1)};
    mmb_counted counted;

    for (size_t h = 0; h < 120; h++) {
        memcpy(before, payload, size_of(&counting));
        memset(dirty.pages, 0, num_pages);
        if (h < 60) {
            CHECK(add_many(&counting, payload, hashes + h, 1, 1, &counted, &dirty) == 1);
        } else {
            CHECK(remove_many(&counting, payload, hashes + h - 60, 1, &counted, &dirty) == 1);
        }
        for (size_t page = 0; page < num_pages; page++) {
            CHECK(dirty.pages[page] == (memcmp(payload + 4096 * page, before + 4096 * page, 4096) != 0));
        }
        CHECK(dirty.groups[0]);
    }
    free(hashes);
    free(payload);
    free(before);
    free(dirty.pages);
    free(dirty.groups);
}

/* ---- whole payloads --------------------------------------------------------------------------------------------- */

static uint8_t *noise(size_t num_bytes, uint64_t seed)
{
    uint8_t *bytes = exactly(num_bytes);

    for (size_t i = 0; i < num_bytes; i++) {
        bytes[i] = (uint8_t)next_random(&seed);
        bytes[i] = (uint8_t)(next_random(&seed) % 4 == 0 ? bytes[i] : bytes[i] & (i % 2 == 0 ? 0xF0 : 0x0F));
    }
    return bytes;
}

static void united_counters_are_sums_up_to_15(void)
{
    for (size_t n = 0; n <= 256; n += 64) {
        uint8_t *left = noise(n, n);
        uint8_t *right = noise(n, n + 1);
        uint8_t *sum = copy_of(left, n);
        mmb_counting_unite(sum, right, n);
        for (size_t i = 0; i < 2 * n; i++) {
            const int shift = i % 2 == 0 ? 0 : 4;
            const int expected = ((left[i / 2] >> shift) & 15) + ((right[i / 2] >> shift) & 15);
            CHECK(((sum[i / 2] >> shift) & 15) == (expected < 15 ? expected : 15));
        }
        free(left);
        free(right);
        free(sum);
    }
}

static void parts_of_a_payload_are_the_whole_of_it(void)
{
    mmb_hash *hashes = some_hashes(300, 5);

    for (size_t s = 0; s < sizeof SHAPES / sizeof SHAPES[0]; s++) {
        const size_t size = size_of(&SHAPES[s]);
        uint8_t *whole = exactly(size);
        mmb_counted counted;
        CHECK(add_many(&SHAPES[s], whole, hashes, 300, UINT64_MAX, &counted, NULL) == 300);
        for (size_t cut = 0; cut <= size; cut += 64 * (1 + size / 640)) {
            uint8_t *lower = exactly(cut);
            uint8_t *upper = exactly(size - cut);
            add_part(&SHAPES[s], lower, 0, cut, hashes, 300);
            add_part(&SHAPES[s], upper, cut, size - cut, hashes, 300);
            CHECK(memcmp(lower, whole, cut) == 0);
            CHECK(memcmp(upper, whole + cut, size - cut) == 0);
            free(lower);
            free(upper);
        }
        free(whole);
    }
    free(hashes);
}

static void lines_are_counted_and_flattened_counter_by_counter(void)
{
    for (size_t num_lines = 0; num_lines <= 20; num_lines += 5) {
        uint8_t *payload = noise(64 * num_lines, num_lines);
        uint8_t *bits = exactly(16 * num_lines);
        uint64_t histogram[129] = {0};
        uint64_t expected[129] = {0};
        uint64_t narrow[129] = {0};
        uint64_t saturated = 0;
        mmb_counting_flatten(payload, num_lines, bits);
        for (size_t line = 0; line < num_lines; line++) {
            unsigned counted = 0;
            for (size_t i = 128 * line; i < 128 * (line + 1); i++) {
                const int counter = (payload[i / 2] >> (i % 2 == 0 ? 0 : 4)) & 15;
                CHECK(((bits[i / 8] >> (i % 8)) & 1) == (counter != 0));
                counted += counter != 0;
                saturated += counter == 15;
            }
            expected[counted]++;
        }
        CHECK(mmb_counting_histogram(payload, num_lines, histogram) == saturated);
        CHECK(memcmp(histogram, expected, sizeof expected) == 0);
        mmb_narrow_histogram(bits, num_lines, narrow);
        CHECK(memcmp(narrow, expected, sizeof expected) == 0);
        free(payload);
        free(bits);
    }
}

#define TEST(name) {#name, name}
const test COUNTING_TESTS[] = {
    TEST(counters_of_a_key_follow_the_rule),
    TEST(bits_of_the_narrow_layout_are_the_counters_of_a_key),
    TEST(adds_and_removes_count_what_the_rule_says),
    TEST(single_adds_count_what_a_batch_counts),
    TEST(a_filter_of_which_every_key_was_removed_is_empty),
    TEST(answers_in_noise_are_those_of_the_rule),
    TEST(counters_of_more_than_the_caches_hold_answer_alike),
    TEST(a_counter_that_is_full_stays_full),
    TEST(a_new_key_without_room_ends_a_batch_and_counts_nothing),
    TEST(a_key_that_is_certainly_absent_ends_a_batch_and_changes_nothing),
    TEST(the_pages_that_changed_are_dirty),
    TEST(united_counters_are_sums_up_to_15),
    TEST(parts_of_a_payload_are_the_whole_of_it),
    TEST(lines_are_counted_and_flattened_counter_by_counter),
    {NULL, NULL},
};
