/* Whole payloads and whole sets of hashes: bits.c and sort.c. */
#include "bits.h"
#include "check.h"
#include "sort.h"

/* ---- payloads --------------------------------------------------------------------------------------------------- */

static uint8_t *random_bytes(size_t n, uint64_t seed)
{
    uint8_t *bytes = exactly(n);

    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)next_random(&seed);
    }
    return bytes;
}

static uint64_t slow_count(const uint8_t *bytes, size_t n)
{
    uint64_t count = 0;

    for (size_t i = 0; i < 8 * n; i++) {
        count += (bytes[i / 8] >> (i % 8)) & 1;
    }
    return count;
}

static void bits_are_counted_at_any_length_and_address(void)
{
    for (size_t n = 0; n <= 200; n++) {
        for (size_t start = 0; start < 9 && start <= n; start++) {
            uint8_t *bytes = random_bytes(n, n);
            CHECK(mmb_popcount(bytes + start, n - start) == slow_count(bytes + start, n - start));
            memset(bytes, 0xFF, n);
            CHECK(mmb_popcount(bytes + start, n - start) == 8 * (n - start));
            free(bytes);
        }
    }
}

static void the_histogram_has_every_line_once(void)
{
    uint64_t histogram[513] = {0};
    uint8_t *lines = exactly(4 * 64);

    memset(lines + 64, 0xFF, 64);
    lines[2 * 64] = 0x80;
    mmb_line_histogram(lines, 0, histogram);
    mmb_line_histogram(lines, 4, histogram);
    CHECK(histogram[0] == 2 && histogram[1] == 1 && histogram[512] == 1);
    mmb_line_histogram(lines, 1, histogram);
    CHECK(histogram[0] == 3);
    free(lines);
}

static void the_fill_of_pages_is_the_mean_of_each_half(void)
{
    double lower[513] = {0};
    double upper[513] = {0};
    uint64_t halves[2] = {0, 0};
    uint8_t *pages = exactly(3 * 4096);

    lower[512] = 1.0;
    upper[512] = 1.0;
    memset(pages, 0xFF, 2048 + 64);        /* page 0: all of the lower half, one line of the upper */
    memset(pages + 4096, 0xFF, 4096);      /* page 1: all; page 2: nothing */
    CHECK(mmb_page_fill(pages, 0, lower, upper) == 0.0);
    CHECK(mmb_page_fill(pages, 3, lower, upper) == 1.0 / 32 + 1.0);
    mmb_page_halves(pages, 0, halves);
    mmb_page_halves(pages, 3, halves);
    CHECK(halves[0] == 2 * 2048 * 8 && halves[1] == (64 + 2048) * 8);
    free(pages);
}

/* ---- sorting ---------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const mmb_hash *x = a;
    const mmb_hash *y = b;

    if (x->hi != y->hi) {
        return x->hi < y->hi ? -1 : 1;
    }
    return x->lo == y->lo ? 0 : x->lo < y->lo ? -1 : 1;
}

/* Sort a copy with mmb_sort_unique and another with qsort. */
static int sorts_as_qsort_does(const mmb_hash *hashes, size_t n)
{
    const size_t num_bytes = n * sizeof *hashes;
    mmb_hash *sorted = (mmb_hash *)(void *)copy_of(hashes, num_bytes);
    mmb_hash *expected = (mmb_hash *)(void *)copy_of(hashes, num_bytes);
    mmb_hash *scratch = exactly(num_bytes);
    size_t kept = 0;

    qsort(expected, n, sizeof *expected, by_value);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || by_value(&expected[kept - 1], &expected[i]) != 0) {
            expected[kept++] = expected[i];
        }
    }
    const int same = mmb_sort_unique(sorted, scratch, n) == kept && memcmp(sorted, expected, kept * sizeof *sorted) == 0;
    free(sorted);
    free(expected);
    free(scratch);
    return same;
}

static const size_t SIZES[] = {0, 1, 2, 23, 24, 25, 26, 255, 256, 257, 5000}; /* insertion takes up to 24 */

static void any_number_of_hashes_is_sorted(void)
{
    for (size_t i = 0; i < LENGTH(SIZES); i++) {
        mmb_hash *hashes = random_hashes(SIZES[i], i);
        CHECK(sorts_as_qsort_does(hashes, SIZES[i]));
        free(hashes);
    }
}

static void equal_sorted_and_reversed_hashes_are_sorted(void)
{
    for (size_t i = 0; i < LENGTH(SIZES); i++) {
        const size_t n = SIZES[i];
        mmb_hash *hashes = random_hashes(n, i);
        qsort(hashes, n, sizeof *hashes, by_value);
        CHECK(sorts_as_qsort_does(hashes, n));
        for (size_t j = 0; j < n / 2; j++) {
            const mmb_hash first = hashes[j];
            hashes[j] = hashes[n - 1 - j];
            hashes[n - 1 - j] = first;
        }
        CHECK(sorts_as_qsort_does(hashes, n));
        for (size_t j = 0; j < n; j++) {
            hashes[j] = hashes[j % 7];
        }
        CHECK(sorts_as_qsort_does(hashes, n));
        for (size_t j = 0; j < n; j++) {
            hashes[j] = hashes[0];
        }
        CHECK(sorts_as_qsort_does(hashes, n));
        free(hashes);
    }
}

static void hashes_that_share_all_but_one_byte_are_sorted(void)
{
    for (unsigned byte = 0; byte < 16; byte++) {
        mmb_hash *hashes = exactly(3000 * sizeof *hashes);
        uint64_t state = byte;
        for (size_t i = 0; i < 3000; i++) {
            const uint64_t value = next_random(&state) % 256;
            hashes[i] = (mmb_hash){UINT64_MAX, UINT64_MAX / 3};
            if (byte < 8) {
                hashes[i].hi ^= value << (8 * byte);
            } else {
                hashes[i].lo ^= value << (8 * (byte - 8));
            }
        }
        CHECK(sorts_as_qsort_does(hashes, 3000));
        free(hashes);
    }
}

static void the_sum_carries_into_its_high_half(void)
{
    const mmb_hash hashes[] = {{1, UINT64_MAX}, {2, 1}, {UINT64_MAX, UINT64_MAX}, {0, 5}};

    CHECK(same_hash(mmb_sum_hashes(hashes, 0), (mmb_hash){0, 0}));
    CHECK(same_hash(mmb_sum_hashes(hashes, 1), hashes[0]));
    CHECK(same_hash(mmb_sum_hashes(hashes, 2), (mmb_hash){4, 0}));
    CHECK(same_hash(mmb_sum_hashes(hashes, 3), (mmb_hash){3, UINT64_MAX}));
    CHECK(same_hash(mmb_sum_hashes(hashes, 4), (mmb_hash){4, 4}));
}

#define TEST(name) {#name, name}
const test BIT_TESTS[] = {
    TEST(bits_are_counted_at_any_length_and_address),
    TEST(the_histogram_has_every_line_once),
    TEST(the_fill_of_pages_is_the_mean_of_each_half),
    TEST(any_number_of_hashes_is_sorted),
    TEST(equal_sorted_and_reversed_hashes_are_sorted),
    TEST(hashes_that_share_all_but_one_byte_are_sorted),
    TEST(the_sum_carries_into_its_high_half),
    {NULL, NULL},
};
