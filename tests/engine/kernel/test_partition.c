/* Hashes kept apart and sorted: partition.c and sort.c. */
#include "check.h"
#include "hash.h"
#include "partition.h"
#include "sort.h"

/* ---- sorting ---------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const mmb_hash *left = a;
    const mmb_hash *right = b;

    if (left->hi != right->hi) {
        return left->hi < right->hi ? -1 : 1;
    }
    return left->lo < right->lo ? -1 : left->lo > right->lo;
}

/* Sorts a copy, in memory of exactly its size, and holds it against the C library. */
static void check_sorted(const mmb_hash *given, size_t n)
{
    mmb_hash *hashes = (mmb_hash *)(void *)copy_of(given, n * sizeof *hashes);
    mmb_hash *expected = (mmb_hash *)(void *)copy_of(given, n * sizeof *expected);
    mmb_hash *scratch = exactly(n * sizeof *scratch);
    size_t distinct = 0;

    qsort(expected, n, sizeof *expected, by_value);
    for (size_t i = 0; i < n; i++) {
        if (distinct == 0 || !same_hash(expected[distinct - 1], expected[i])) {
            expected[distinct++] = expected[i];
        }
    }
    CHECK(mmb_sort_unique(hashes, scratch, n) == distinct);
    for (size_t i = 0; i < distinct; i++) {
        CHECK(same_hash(hashes[i], expected[i]));
    }
    free(hashes);
    free(expected);
    free(scratch);
}

static const size_t AROUND_GROUPS[] = {0, 1, 2, 3, 31, 32, 33, 34, 64, 65, 127, 128, 129, 1000, 70000};

static void hashes_are_sorted_and_each_is_there_once(void)
{
    for (size_t i = 0; i < LENGTH(AROUND_GROUPS); i++) {
        const size_t n = AROUND_GROUPS[i];
        mmb_hash *hashes = random_hashes(n, i);
        check_sorted(hashes, n);
        for (size_t j = 0; j < n; j++) {
            hashes[j] = hashes[j % (n / 3 + 1)];
        }
        check_sorted(hashes, n);
        free(hashes);
    }
}

static void a_few_hashes_repeated_are_a_few(void)
{
    for (size_t i = 0; i < LENGTH(AROUND_GROUPS); i++) {
        const size_t n = AROUND_GROUPS[i];
        for (size_t few = 1; few <= 3; few++) {
            mmb_hash *hashes = random_hashes(n + few, few);
            uint64_t state = n;
            for (size_t j = few; j < n; j++) {
                hashes[j] = hashes[next_random(&state) % few];
            }
            check_sorted(hashes, n);
            free(hashes);
        }
    }
}

/* `bits` top bits are those of one hash, the others are random. */
static mmb_hash with_prefix(mmb_hash hash, mmb_hash prefix, unsigned bits)
{
    const uint64_t low_hi = bits >= 64 ? 0 : UINT64_MAX >> bits;
    const uint64_t low_lo = bits >= 128 ? 0 : bits <= 64 ? UINT64_MAX : UINT64_MAX >> (bits - 64);

    return (mmb_hash){(hash.hi & low_hi) | (prefix.hi & ~low_hi), (hash.lo & low_lo) | (prefix.lo & ~low_lo)};
}

static void hashes_with_a_common_prefix_of_any_length_are_sorted(void)
{
    static const size_t sizes[] = {33, 300, 5000};

    for (size_t i = 0; i < LENGTH(sizes); i++) {
        for (unsigned bits = 0; bits <= 128; bits++) {
            mmb_hash *hashes = random_hashes(sizes[i], bits);
            for (size_t j = 1; j < sizes[i]; j++) {
                hashes[j] = with_prefix(hashes[j], hashes[0], bits);
            }
            check_sorted(hashes, sizes[i]);
            free(hashes);
        }
    }
}

static void groups_within_groups_are_sorted(void)
{
    /* Each half shares one bit more than what it came from, down to the last: the deepest nesting there is. */
    enum { EACH = 40 };
    mmb_hash *hashes = random_hashes(129 * EACH, 7);

    for (size_t i = 1; i < 129 * EACH; i++) {
        hashes[i] = with_prefix(hashes[i], hashes[0], (unsigned)(i / EACH));
    }
    check_sorted(hashes, 129 * EACH);
    free(hashes);
}

static void the_extremes_are_sorted_too(void)
{
    mmb_hash *hashes = random_hashes(100, 1);

    for (size_t i = 0; i < 100; i++) {
        hashes[i].hi = i % 2 ? UINT64_MAX : 0;
        hashes[i].lo = i % 3 ? UINT64_MAX : 0;
    }
    check_sorted(hashes, 100);
    check_sorted(hashes, 20);
    free(hashes);
}

/* ---- partitions ------------------------------------------------------------------------------------------------- */

enum { MOST_LANES = 3 };

typedef struct {
    mmb_arena arena;
    mmb_lane lanes[MOST_LANES];
    size_t num_lanes;
} store;

/* The chunks lie on a 4096-byte boundary, in memory of exactly their size. */
static void open_store(store *all, unsigned bits, uint32_t num_chunks, size_t num_lanes)
{
    const size_t count = (size_t)1 << bits;

    all->num_lanes = num_lanes;
    all->arena = (mmb_arena){.num_chunks = num_chunks, .bits = bits};
    all->arena.chunks = aligned_alloc(4096, (size_t)num_chunks * 4096);
    all->arena.next = exactly(num_chunks * sizeof *all->arena.next);
    CHECK(all->arena.chunks != NULL);
    for (size_t i = 0; i < num_lanes; i++) {
        all->lanes[i].arena = &all->arena;
        all->lanes[i].heads = exactly(count * sizeof(uint32_t));
        all->lanes[i].fills = exactly(count * sizeof(uint32_t));
        all->lanes[i].staged = exactly(count * sizeof(uint32_t));
        all->lanes[i].stage = exactly(count * MMB_STAGED_HASHES * sizeof(mmb_hash));
    }
    mmb_partition_clear(&all->arena, all->lanes, num_lanes);
}

static void close_store(store *all)
{
    for (size_t i = 0; i < all->num_lanes; i++) {
        free(all->lanes[i].heads);
        free(all->lanes[i].fills);
        free(all->lanes[i].staged);
        free(all->lanes[i].stage);
    }
    free(all->arena.chunks);
    free(all->arena.next);
}

/* The hashes of a partition in `given`, sorted. */
static size_t select_partition(const mmb_hash *given, size_t n, unsigned bits, size_t partition, mmb_hash *out)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (given[i].hi >> (64 - bits) == partition) {
            out[count++] = given[i];
        }
    }
    qsort(out, count, sizeof *out, by_value);
    return count;
}

static int lane_holds(const mmb_lane *lane, size_t partition, const mmb_hash *expected, size_t count)
{
    mmb_hash *copied = exactly(count * sizeof *copied);
    int same = mmb_partition_count(lane, partition) == count;

    same = same && mmb_partition_copy(lane, partition, 0, copied, count) == count;
    if (same && count > 0) {
        qsort(copied, count, sizeof *copied, by_value);
        same = memcmp(copied, expected, count * sizeof *copied) == 0;
    }
    free(copied);
    return same;
}

static const size_t AROUND_CHUNKS[] = {0, 1, 15, 16, 17, 255, 256, 257, 271, 272, 273, 4096, 9000};

static void every_lane_holds_what_was_added_to_it(void)
{
    static const unsigned widths[] = {1, 3, 8};

    for (size_t w = 0; w < LENGTH(widths); w++) {
        for (size_t i = 0; i < LENGTH(AROUND_CHUNKS); i++) {
            const unsigned bits = widths[w];
            const size_t n = AROUND_CHUNKS[i];
            mmb_hash *given = random_hashes(n * MOST_LANES, n);
            mmb_hash *expected = exactly(n * sizeof *expected);
            store all;
            open_store(&all, bits, 3000, MOST_LANES);
            const uint32_t free_before = all.arena.num_free;
            for (size_t part = 0; part < 4; part++) { /* the lanes in turn, in portions of any size */
                for (size_t lane = 0; lane < MOST_LANES; lane++) {
                    const size_t start = n * part / 4;
                    mmb_partition_add(&all.lanes[lane], given + lane * n + start, n * (part + 1) / 4 - start);
                }
            }
            CHECK(free_before - all.arena.num_free <= MOST_LANES * mmb_partition_chunks_for(&all.arena, n));
            for (size_t lane = 0; lane < MOST_LANES; lane++) {
                for (size_t partition = 0; partition < (size_t)1 << bits; partition++) {
                    const size_t count = select_partition(given + lane * n, n, bits, partition, expected);
                    CHECK(lane_holds(&all.lanes[lane], partition, expected, count));
                }
            }
            mmb_partition_clear(&all.arena, all.lanes, MOST_LANES);
            CHECK(all.arena.num_free == free_before && mmb_partition_count(&all.lanes[0], 0) == 0);
            close_store(&all);
            free(given);
            free(expected);
        }
    }
}

static void copies_in_portions_of_any_size_are_the_whole(void)
{
    static const size_t portions[] = {1, 7, 16, 100, 256, 300, 5000};

    for (size_t i = 0; i < LENGTH(AROUND_CHUNKS); i++) {
        const size_t n = AROUND_CHUNKS[i];
        mmb_hash *given = random_hashes(n, n);
        store all;
        open_store(&all, 1, 200, 1);
        mmb_partition_add(&all.lanes[0], given, n);
        const size_t count = mmb_partition_count(&all.lanes[0], 1);
        mmb_hash *whole = exactly(count * sizeof *whole);
        mmb_hash *pieces = exactly(count * sizeof *pieces);
        CHECK(mmb_partition_copy(&all.lanes[0], 1, 0, whole, count) == count);
        for (size_t j = 0; j < LENGTH(portions); j++) {
            size_t done = 0;
            size_t copied = 0;
            do {
                const size_t room = portions[j] < count - done ? portions[j] : count - done;
                copied = mmb_partition_copy(&all.lanes[0], 1, done, pieces + done, room);
                CHECK(copied == room);
                done += copied;
            } while (copied > 0);
            CHECK(done == count && (count == 0 || memcmp(pieces, whole, count * sizeof *whole) == 0));
        }
        CHECK(mmb_partition_copy(&all.lanes[0], 1, count, pieces, 0) == 0);
        close_store(&all);
        free(given);
        free(whole);
        free(pieces);
    }
}

static void what_is_taken_is_gone_and_its_chunks_are_used_again(void)
{
    static const size_t rooms[] = {MMB_CHUNK_HASHES + MMB_STAGED_HASHES, 300, 1000, 20000};

    for (size_t i = 0; i < LENGTH(rooms); i++) {
        for (size_t j = 0; j < LENGTH(AROUND_CHUNKS); j++) {
            const size_t n = AROUND_CHUNKS[j];
            mmb_hash *given = random_hashes(n, j);
            mmb_hash *expected = exactly(n * sizeof *expected);
            mmb_hash *taken = exactly((n + rooms[i]) * sizeof *taken);
            store all;
            open_store(&all, 1, 50, 1);
            const uint32_t free_before = all.arena.num_free;
            const size_t count = select_partition(given, n, 1, 1, expected);
            for (int round = 0; round < 5; round++) { /* only what was given back makes room for all */
                size_t done = 0;
                size_t some = 0;
                mmb_partition_add(&all.lanes[0], given, n);
                do {
                    some = mmb_partition_take(&all.lanes[0], 1, taken + done, rooms[i]);
                    CHECK(some <= rooms[i]);
                    done += some;
                } while (some > 0);
                CHECK(done == count && mmb_partition_count(&all.lanes[0], 1) == 0);
                qsort(taken, done, sizeof *taken, by_value);
                CHECK(count == 0 || memcmp(taken, expected, count * sizeof *taken) == 0);
                while (mmb_partition_take(&all.lanes[0], 0, taken, rooms[i]) > 0) {
                }
                CHECK(all.arena.num_free == free_before);
            }
            close_store(&all);
            free(given);
            free(expected);
            free(taken);
        }
    }
}

/* ---- from sources ----------------------------------------------------------------------------------------------- */

static void bad_keys_of_a_source_are_passed_over_or_end_it(void)
{
    static const size_t places[] = {0, 1, 510, 511, 512, 513, 1023, 1024, 1099};
    const mmb_keying keying = {.seed = 5, .form = MMB_HEX};

    for (size_t i = 0; i < LENGTH(places); i++) {
        for (size_t j = i; j < LENGTH(places); j++) {
            char *text = exactly(1100 * 3);
            for (size_t line = 0; line < 1100; line++) {
                const int is_bad = line == places[i] || line == places[j];
                char digits[4];
                snprintf(digits, sizeof digits, "%02x", (unsigned)(line % 256));
                memcpy(text + 3 * line, is_bad ? "xy" : digits, 2);
                text[3 * line + 2] = '\n';
            }
            const size_t num_bad = i == j ? 1 : 2;
            mmb_source source = {.layout = MMB_LINES, .data = (const uint8_t *)text, .data_bytes = 3300};
            mmb_bad_keys bad;
            store all;
            size_t count = 99;
            open_store(&all, 1, 50, 1);
            CHECK(mmb_partition_source(&all.lanes[0], &source, &keying, 2000, 1, &bad, &count) == MMB_OK);
            CHECK(count == 1100 - num_bad && bad.count == num_bad);
            CHECK(bad.where[0] == 3 * places[i] && bad.status[0] == MMB_HEX_DIGIT);
            CHECK(num_bad == 1 || bad.where[1] == 3 * places[j]);
            CHECK(mmb_partition_count(&all.lanes[0], 0) + mmb_partition_count(&all.lanes[0], 1) == count);
            source.next = 0;
            CHECK(mmb_partition_source(&all.lanes[0], &source, &keying, 2000, 0, &bad, &count) == MMB_HEX_DIGIT);
            CHECK(count == places[i] && bad.count == 1 && bad.where[0] == 3 * places[i]);
            close_store(&all);
            free(text);
        }
    }
}

static void missing_fields_and_blank_lines_are_bad_keys_too(void)
{
    static const char text[] = "a:1\nnone\n\nb:2\r\n\r\nc:3\nd";
    static const uint64_t where[] = {4, 9, 15, 21};
    static const mmb_status status[] = {MMB_FIELD_MISSING, MMB_BLANK_LINE, MMB_BLANK_LINE, MMB_FIELD_MISSING};
    const mmb_keying keying = {.seed = 0, .form = MMB_RAW};
    uint8_t *data = copy_of(text, strlen(text));
    mmb_source source = {.layout = MMB_LINES, .data = data, .data_bytes = strlen(text), .delimiter = ':', .field = 2,
                         .blank = MMB_BLANK_BAD};
    mmb_hash hashes[3];
    mmb_hash expected[3];
    mmb_bad_keys bad;
    store all;
    size_t count;

    open_store(&all, 1, 50, 1);
    CHECK(mmb_partition_source(&all.lanes[0], &source, &keying, 2000, 1, &bad, &count) == MMB_OK && count == 3);
    CHECK(bad.count == 4);
    for (size_t i = 0; i < 4; i++) {
        CHECK(bad.where[i] == where[i] && bad.status[i] == status[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        expected[i] = mmb_hash_bytes((const uint8_t *)"123" + i, 1, 0);
    }
    qsort(expected, 3, sizeof *expected, by_value);
    size_t found = mmb_partition_copy(&all.lanes[0], 0, 0, hashes, 3);
    found += mmb_partition_copy(&all.lanes[0], 1, 0, hashes + found, 3 - found);
    qsort(hashes, found, sizeof *hashes, by_value);
    CHECK(found == 3 && memcmp(hashes, expected, sizeof hashes) == 0);
    close_store(&all);
    free(data);
}

static void no_more_keys_are_added_than_there_is_room_for(void)
{
    static const size_t most[] = {0, 1, 511, 512, 513, 1099, 1100, 1101};
    const mmb_keying keying = {.seed = 0, .form = MMB_RAW};

    for (size_t i = 0; i < LENGTH(most); i++) {
        uint8_t *data = exactly(2200);
        mmb_source source = {.layout = MMB_ROWS, .data = data, .data_bytes = 2200, .width = 2, .num_keys = 1100};
        mmb_bad_keys bad;
        store all;
        size_t count = 99;
        open_store(&all, 1, 8, 1);
        CHECK(mmb_partition_source(&all.lanes[0], &source, &keying, most[i], 0, &bad, &count) == MMB_OK);
        CHECK(count == (most[i] < 1100 ? most[i] : 1100) && bad.count == 0);
        CHECK(mmb_partition_count(&all.lanes[0], 0) + mmb_partition_count(&all.lanes[0], 1) == count);
        close_store(&all);
        free(data);
    }
}

static void only_the_first_bad_keys_are_noted_and_all_are_counted(void)
{
    const mmb_keying keying = {.seed = 0, .form = MMB_HEX};
    uint8_t *data = exactly(2 * 700);
    mmb_source source = {.layout = MMB_ROWS, .data = data, .data_bytes = 1400, .width = 2, .num_keys = 700};
    mmb_bad_keys bad;
    store all;
    size_t count = 99;

    memset(data, 'z', 1400);
    open_store(&all, 1, 8, 1);
    CHECK(mmb_partition_source(&all.lanes[0], &source, &keying, 2000, 1, &bad, &count) == MMB_OK);
    CHECK(count == 0 && bad.count == 700);
    for (size_t i = 0; i < MMB_MOST_BAD; i++) {
        CHECK(bad.where[i] == i && bad.status[i] == MMB_HEX_DIGIT);
    }
    close_store(&all);
    free(data);
}

#define TEST(name) {#name, name}
const test PARTITION_TESTS[] = {
    TEST(hashes_are_sorted_and_each_is_there_once),
    TEST(a_few_hashes_repeated_are_a_few),
    TEST(hashes_with_a_common_prefix_of_any_length_are_sorted),
    TEST(groups_within_groups_are_sorted),
    TEST(the_extremes_are_sorted_too),
    TEST(every_lane_holds_what_was_added_to_it),
    TEST(copies_in_portions_of_any_size_are_the_whole),
    TEST(what_is_taken_is_gone_and_its_chunks_are_used_again),
    TEST(bad_keys_of_a_source_are_passed_over_or_end_it),
    TEST(missing_fields_and_blank_lines_are_bad_keys_too),
    TEST(no_more_keys_are_added_than_there_is_room_for),
    TEST(only_the_first_bad_keys_are_noted_and_all_are_counted),
    {NULL, NULL},
};
