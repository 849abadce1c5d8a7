/* Keys on their way to hashes: source.c, canonical.c, hash.c, and pipeline.c that chains them. */
#include "layout.h"
#include "canonical.h"
#include "check.h"
#include "hash.h"
#include "layout.h"
#include "pipeline.h"
#include "source.h"

#define CHUNK 512U /* pipeline.c works on so many keys at a time */

static const size_t AROUND_CHUNKS[] = {0, 1, 2, 31, 32, 33, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1};

/* ---- canonical bytes -------------------------------------------------------------------------------------------- */

static mmb_status canonical(const void *units, size_t num_units, uint32_t encoding, mmb_key_form form, uint8_t *out,
                            size_t *length)
{
    const size_t width = encoding == MMB_BYTES ? 1 : encoding;
    uint8_t *exact = copy_of(units, num_units * width);
    const mmb_view view = {.data = exact, .length = num_units, .encoding = encoding};
    const uint8_t *bytes = NULL;
    mmb_scratch scratch;

    mmb_scratch_init(&scratch);
    const mmb_status status = mmb_canonical(&view, form, &scratch, &bytes, length);
    if (status == MMB_OK && *length > 0) {
        memcpy(out, bytes, *length);
    }
    mmb_scratch_free(&scratch);
    free(exact);
    return status;
}

static int encodes_to(uint32_t code_point, const char *utf8)
{
    uint8_t out[4];
    size_t length = 0;

    return canonical(&code_point, 1, MMB_UCS4, MMB_RAW, out, &length) == MMB_OK && length == strlen(utf8) &&
           memcmp(out, utf8, length) == 0;
}

static void text_becomes_utf8_at_every_border_of_its_length(void)
{
    CHECK(encodes_to(0x01, "\x01") && encodes_to(0x7F, "\x7F"));
    CHECK(encodes_to(0x80, "\xC2\x80") && encodes_to(0x7FF, "\xDF\xBF"));
    CHECK(encodes_to(0x800, "\xE0\xA0\x80") && encodes_to(0xD7FF, "\xED\x9F\xBF"));
    CHECK(encodes_to(0xE000, "\xEE\x80\x80") && encodes_to(0xFFFF, "\xEF\xBF\xBF"));
    CHECK(encodes_to(0x10000, "\xF0\x90\x80\x80") && encodes_to(0x10FFFF, "\xF4\x8F\xBF\xBF"));
}

static void what_has_no_utf8_is_refused_in_both_widths(void)
{
    static const uint32_t wide[] = {0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0x110000, 0x80000041, 0xFFFFFFFF};
    uint8_t out[16];
    size_t length;

    for (size_t i = 0; i < LENGTH(wide); i++) {
        const uint32_t text[3] = {'a', wide[i], 'b'};
        CHECK(canonical(text, 3, MMB_UCS4, MMB_RAW, out, &length) == MMB_SURROGATE);
        if (wide[i] < 0x10000) {
            const uint16_t narrow[2] = {'a', (uint16_t)wide[i]};
            CHECK(canonical(narrow, 2, MMB_UCS2, MMB_RAW, out, &length) == MMB_SURROGATE);
        }
    }
}

static void every_encoding_and_length_fits_its_scratch(void)
{
    /* 1024 bytes of scratch lie in place: 256 code units; more come from the heap. */
    static const size_t lengths[] = {0, 1, 2, 255, 256, 257, 1000, 5000};
    static const uint32_t encodings[] = {MMB_LATIN1, MMB_UCS2, MMB_UCS4};

    for (size_t i = 0; i < LENGTH(lengths); i++) {
        for (size_t j = 0; j < LENGTH(encodings); j++) {
            const size_t n = lengths[i];
            const size_t width = encodings[j];
            uint8_t *units = exactly(n * width);
            uint8_t *out = exactly(4 * n);
            size_t length = 99;
            memset(units, 0xFF, width == 4 ? 0 : n * width); /* U+00FF, U+FFFF; of four bytes U+0000 */
            CHECK(canonical(units, n, encodings[j], MMB_RAW, out, &length) == MMB_OK);
            CHECK(length == n * (width == 1 ? 2 : width == 2 ? 3 : 1));
            free(units);
            free(out);
        }
    }
}

static void one_scratch_serves_keys_of_growing_and_falling_length(void)
{
    static const size_t lengths[] = {3, 300, 10, 4000, 300, 0, 4001};
    mmb_scratch scratch;

    mmb_scratch_init(&scratch);
    for (size_t i = 0; i < LENGTH(lengths); i++) {
        uint8_t *text = exactly(lengths[i]);
        const mmb_view view = {.data = text, .length = lengths[i], .encoding = MMB_LATIN1};
        const uint8_t *bytes;
        size_t length;
        memset(text, 0xE9, lengths[i]);
        CHECK(mmb_canonical(&view, MMB_RAW, &scratch, &bytes, &length) == MMB_OK);
        CHECK(length == 2 * lengths[i]);
        CHECK(length == 0 || (bytes[0] == 0xC3 && bytes[length - 1] == 0xA9));
        free(text);
    }
    mmb_scratch_free(&scratch);
}

static void hex_is_decoded_in_either_case_and_from_any_text(void)
{
    const uint16_t narrow[4] = {'0', 'a', 'F', 'f'};
    const uint32_t wide[4] = {'0', 'A', 'f', 'F'};
    uint8_t out[8];
    size_t length;

    CHECK(canonical("09afAF", 6, MMB_BYTES, MMB_HEX, out, &length) == MMB_OK);
    CHECK(length == 3 && memcmp(out, "\x09\xAF\xAF", 3) == 0);
    CHECK(canonical(narrow, 4, MMB_UCS2, MMB_HEX, out, &length) == MMB_OK);
    CHECK(length == 2 && memcmp(out, "\x0A\xFF", 2) == 0);
    CHECK(canonical(wide, 4, MMB_UCS4, MMB_HEX, out, &length) == MMB_OK);
    CHECK(length == 2 && memcmp(out, "\x0A\xFF", 2) == 0);
    CHECK(canonical("", 0, MMB_BYTES, MMB_HEX, out, &length) == MMB_OK && length == 0);
    CHECK(canonical("", 0, MMB_LATIN1, MMB_HEX, out, &length) == MMB_OK && length == 0);
}

static void only_the_22_hexadecimal_digits_are_digits(void)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    uint8_t out[2];
    size_t length;

    for (unsigned c = 0; c < 256; c++) {
        const int is_digit = c != 0 && strchr(digits, (int)c) != NULL;
        const uint8_t first[2] = {(uint8_t)c, '0'};
        const uint8_t second[2] = {'0', (uint8_t)c};
        const mmb_status expected = is_digit ? MMB_OK : MMB_HEX_DIGIT;
        CHECK(canonical(first, 2, MMB_BYTES, MMB_HEX, out, &length) == expected);
        CHECK(canonical(second, 2, MMB_BYTES, MMB_HEX, out, &length) == expected);
    }
    CHECK(canonical("0", 1, MMB_BYTES, MMB_HEX, out, &length) == MMB_HEX_ODD);
    CHECK(canonical("zzz", 3, MMB_BYTES, MMB_HEX, out, &length) == MMB_HEX_ODD);
}

/* The value of a hexadecimal digit, or -1: spelt out, unlike the kernel's. */
static int naive_digit(uint8_t c)
{
    static const char digits[] = "00112233445566778899aAbBcCdDeEfF";
    const char *found = c == 0 ? NULL : strchr(digits, (int)c);

    return found == NULL ? -1 : (int)(found - digits) / 2;
}

static void hex_of_every_length_is_decoded_as_digit_by_digit(void)
{
    static const char alphabet[] = "0123456789abcdefABCDEF";
    uint64_t state = 1;

    for (size_t n = 0; n <= 130; n += 2) {
        uint8_t *text = exactly(n);
        uint8_t *out = exactly(n / 2);
        size_t length = 99;
        for (size_t i = 0; i < n; i++) {
            text[i] = (uint8_t)alphabet[next_random(&state) % 22];
        }
        CHECK(canonical(text, n, MMB_BYTES, MMB_HEX, out, &length) == MMB_OK && length == n / 2);
        for (size_t i = 0; i < n / 2; i++) {
            CHECK(out[i] == naive_digit(text[2 * i]) * 16 + naive_digit(text[2 * i + 1]));
        }
        free(text);
        free(out);
    }
}

static void a_bad_digit_is_seen_at_every_place(void)
{
    static const uint8_t bad[] = {0, '/', ':', '@', 'G', '`', 'g', 0x80, 0xB0, 0xE1, 0xFF};

    for (size_t n = 2; n <= 130; n += 2) {
        uint8_t *text = exactly(n);
        uint8_t *out = exactly(n / 2);
        size_t length;
        memset(text, '5', n);
        for (size_t i = 0; i < n; i++) {
            for (size_t j = 0; j < LENGTH(bad); j++) {
                text[i] = bad[j];
                CHECK(canonical(text, n, MMB_BYTES, MMB_HEX, out, &length) == MMB_HEX_DIGIT);
            }
            text[i] = '5';
        }
        CHECK(canonical(text, n - 1, MMB_BYTES, MMB_HEX, out, &length) == MMB_HEX_ODD);
        free(text);
        free(out);
    }
}

static void long_hex_and_a_bad_last_digit_are_seen(void)
{
    static const size_t lengths[] = {2046, 2048, 2050, 20000}; /* 1024 bytes of scratch: 2048 digits */

    for (size_t i = 0; i < LENGTH(lengths); i++) {
        uint8_t *text = exactly(lengths[i]);
        uint8_t *out = exactly(lengths[i] / 2);
        size_t length;
        memset(text, 'c', lengths[i]);
        CHECK(canonical(text, lengths[i], MMB_BYTES, MMB_HEX, out, &length) == MMB_OK);
        CHECK(length == lengths[i] / 2 && out[length - 1] == 0xCC);
        text[lengths[i] - 1] = 'g';
        CHECK(canonical(text, lengths[i], MMB_BYTES, MMB_HEX, out, &length) == MMB_HEX_DIGIT);
        free(text);
        free(out);
    }
}

static void lengths_that_no_memory_can_hold_are_refused_unread(void)
{
    static const uint64_t lengths[] = {UINT64_MAX, SIZE_MAX / 4 + 1, SIZE_MAX / 4, SIZE_MAX / 8};
    const int is_wide = SIZE_MAX > UINT32_MAX; /* a machine of 32 bits may well have half a gigabyte */
    uint8_t one_byte = 'a';
    mmb_scratch scratch;

    for (size_t i = 0; i < LENGTH(lengths); i++) {
        const mmb_view text = {.data = &one_byte, .length = lengths[i], .encoding = MMB_LATIN1};
        const mmb_view hex = {.data = &one_byte, .length = lengths[i], .encoding = MMB_BYTES};
        const uint8_t *bytes;
        size_t length;
        mmb_scratch_init(&scratch);
        if (is_wide || lengths[i] > SIZE_MAX / 8) {
            CHECK(mmb_canonical(&text, MMB_RAW, &scratch, &bytes, &length) == MMB_NO_MEMORY);
        }
        CHECK(!is_wide || mmb_canonical(&hex, MMB_HEX, &scratch, &bytes, &length) == MMB_NO_MEMORY);
        mmb_scratch_free(&scratch);
    }
}

/* ---- hashes ----------------------------------------------------------------------------------------------------- */

static void the_hash_is_xxh3(void)
{
    /* The values that xxHash publishes for the empty input, seed 0. */
    CHECK(same_hash(mmb_hash_bytes(NULL, 0, 0), (mmb_hash){0x99AA06D3014798D8, 0x6001C324468D497F}));
    CHECK(mmb_checksum64(NULL, 0) == 0x2D06800538D394C2);
    CHECK(!same_hash(mmb_hash_bytes(NULL, 0, 1), mmb_hash_bytes(NULL, 0, 0)));
}

static void every_length_is_hashed_within_its_bytes(void)
{
    for (size_t n = 0; n <= 1100; n++) {
        uint8_t *bytes = exactly(n);
        memset(bytes, 0x5A, n);
        const mmb_hash alone = mmb_hash_bytes(bytes, n, 7);
        const mmb_view view = {.data = bytes, .length = n, .encoding = MMB_BYTES};
        mmb_hash hash;
        size_t count;
        CHECK(mmb_hash_views(&view, 1, 7, MMB_RAW, &hash, &count) == MMB_OK && count == 1);
        CHECK(same_hash(hash, alone));
        (void)mmb_checksum64(bytes, n);
        free(bytes);
    }
}

static void digests_are_hashed_in_groups_as_one_by_one(void)
{
    /* Up to 128 digits are decoded 32 keys at a time; longer ones, and text that may be no ASCII, one by one. */
    enum { KEYS = 150 };
    static const size_t lengths[] = {40, 0, 2, 64, 126, 128, 130, 40, 300, 40, 40};
    uint8_t *texts[KEYS];
    mmb_view views[KEYS];
    mmb_hash expected[KEYS];
    mmb_hash hashes[KEYS];
    size_t count = 99;

    for (size_t i = 0; i < KEYS; i++) {
        const size_t n = i < 70 ? 40 : lengths[i % LENGTH(lengths)];
        uint8_t bytes[150];
        texts[i] = exactly(n);
        for (size_t j = 0; j < n / 2; j++) {
            char pair[3];
            bytes[j] = (uint8_t)(i * 31 + j);
            snprintf(pair, sizeof pair, i % 2 ? "%02x" : "%02X", (unsigned)bytes[j]);
            memcpy(texts[i] + 2 * j, pair, 2);
        }
        views[i] = (mmb_view){.data = texts[i], .length = n, .encoding = i % 13 == 12 ? MMB_LATIN1 : MMB_BYTES};
        expected[i] = mmb_hash_bytes(bytes, n / 2, 3);
    }
    CHECK(mmb_hash_views(views, KEYS, 3, MMB_HEX, hashes, &count) == MMB_OK && count == KEYS);
    CHECK(memcmp(hashes, expected, sizeof hashes) == 0);
    for (size_t bad = 0; bad < KEYS; bad++) {
        if (views[bad].length == 0) {
            continue;
        }
        const uint8_t before = texts[bad][0];
        memset(hashes, 0, sizeof hashes);
        texts[bad][0] = 'g';
        CHECK(mmb_hash_views(views, KEYS, 3, MMB_HEX, hashes, &count) == MMB_HEX_DIGIT && count == bad);
        CHECK(memcmp(hashes, expected, bad * sizeof *hashes) == 0);
        texts[bad][0] = before;
        views[bad].length--;
        CHECK(mmb_hash_views(views, KEYS, 3, MMB_HEX, hashes, &count) == MMB_HEX_ODD && count == bad);
        views[bad].length++;
    }
    for (size_t i = 0; i < KEYS; i++) {
        free(texts[i]);
    }
}

static void views_are_hashed_up_to_the_first_bad_one(void)
{
    const uint16_t surrogate = 0xD800;

    for (size_t i = 0; i < LENGTH(AROUND_CHUNKS); i++) {
        const size_t n = AROUND_CHUNKS[i];
        mmb_view *views = exactly((n + 1) * sizeof *views);
        mmb_hash *hashes = exactly(n * sizeof *hashes);
        size_t count = 99;
        for (size_t j = 0; j < n; j++) {
            views[j] = (mmb_view){.data = (const uint8_t *)"key", .length = j % 4, .encoding = MMB_BYTES};
        }
        views[n] = (mmb_view){.data = (const uint8_t *)&surrogate, .length = 1, .encoding = MMB_UCS2};
        CHECK(mmb_hash_views(views, n, 0, MMB_RAW, hashes, &count) == MMB_OK && count == n);
        CHECK(n < 4 || same_hash(hashes[3], mmb_hash_bytes((const uint8_t *)"key", 3, 0)));
        CHECK(mmb_hash_views(views, n + 1, 0, MMB_RAW, hashes, &count) == MMB_SURROGATE && count == n);
        free(views);
        free(hashes);
    }
}

/* ---- sources ---------------------------------------------------------------------------------------------------- */

/* The keys of a source, each followed by '|'. */
static const char *keys_of(mmb_source *source, size_t most_at_once, mmb_status *status)
{
    static char text[256];
    size_t used = 0;
    size_t count;
    mmb_view *views = exactly(most_at_once * sizeof *views);

    do {
        *status = mmb_source_fill(source, views, most_at_once, &count);
        for (size_t i = 0; i < count; i++) {
            memcpy(text + used, views[i].data, (size_t)views[i].length);
            used += (size_t)views[i].length;
            text[used++] = '|';
        }
    } while (*status == MMB_OK && count > 0);
    text[used] = 0;
    free(views);
    return text;
}

static int lines_are(const char *text, uint8_t delimiter, size_t field, mmb_status expected, const char *keys)
{
    int same = 1;

    for (size_t most = 1; most <= 4; most++) {
        uint8_t *data = copy_of(text, strlen(text));
        mmb_source source = {.layout = MMB_LINES, .data = data, .data_bytes = strlen(text), .delimiter = delimiter,
                             .field = field};
        mmb_status status;
        same &= strcmp(keys_of(&source, most, &status), keys) == 0 && status == expected;
        free(data);
    }
    return same;
}

static void lines_are_cut_at_lf_and_cr_lf(void)
{
    CHECK(lines_are("", 0, 0, MMB_OK, ""));
    CHECK(lines_are("\n", 0, 0, MMB_OK, ""));
    CHECK(lines_are("\r\n\n\r\n\r", 0, 0, MMB_OK, ""));
    CHECK(lines_are("a", 0, 0, MMB_OK, "a|"));
    CHECK(lines_are("a\n", 0, 0, MMB_OK, "a|"));
    CHECK(lines_are("a\r", 0, 0, MMB_OK, "a|"));
    CHECK(lines_are("a\r\nb\nc", 0, 0, MMB_OK, "a|b|c|"));
    CHECK(lines_are("\n\na\n\nb\n\n", 0, 0, MMB_OK, "a|b|"));
    CHECK(lines_are("a\rb\n\r\r\n", 0, 0, MMB_OK, "a\rb|\r|"));
}

static int kinds_are(const char *text, uint8_t comment, mmb_blank blank, mmb_status expected, const char *keys)
{
    int same = 1;

    for (size_t most = 1; most <= 4; most++) {
        uint8_t *data = copy_of(text, strlen(text));
        mmb_source source = {.layout = MMB_LINES, .data = data, .data_bytes = strlen(text), .comment = comment,
                             .blank = blank};
        mmb_status status;
        same &= strcmp(keys_of(&source, most, &status), keys) == 0 && status == expected;
        free(data);
    }
    return same;
}

static void comments_and_blank_lines_are_what_they_are_said_to_be(void)
{
    CHECK(kinds_are("#a\nb\n #c\n#", '#', MMB_BLANK_SKIP, MMB_OK, "b| #c|"));
    CHECK(kinds_are("#a\nb\n", 0, MMB_BLANK_SKIP, MMB_OK, "#a|b|"));
    CHECK(kinds_are("#\r\n\nb", '#', MMB_BLANK_KEY, MMB_OK, "|b|"));
    CHECK(kinds_are("\n\r\n", 0, MMB_BLANK_KEY, MMB_OK, "||"));
    CHECK(kinds_are("", 0, MMB_BLANK_KEY, MMB_OK, ""));
    CHECK(kinds_are("a\n\r\nb\n", 0, MMB_BLANK_BAD, MMB_BLANK_LINE, "a|"));
    CHECK(kinds_are("a\n#\nb", '#', MMB_BLANK_BAD, MMB_OK, "a|b|"));
}

static void a_line_is_passed_over_whole(void)
{
    static const char text[] = "ab\n\r\nc\nlast";
    static const size_t starts[] = {0, 3, 5, 7, 11};
    uint8_t *data = copy_of(text, strlen(text));
    mmb_source source = {.layout = MMB_LINES, .data = data, .data_bytes = strlen(text)};

    for (size_t i = 1; i < LENGTH(starts); i++) {
        mmb_source_skip_line(&source);
        CHECK(source.next == starts[i]);
    }
    mmb_source_skip_line(&source);
    CHECK(source.next == strlen(text));
    free(data);
}

static void lines_are_counted_at_every_length_and_address(void)
{
    static const size_t sizes[] = {4079, 4080, 4081, 4096, 8160, 8161, 100000};

    for (size_t n = 0; n < 300; n++) {
        for (size_t shift = 0; shift < 17; shift += 4) {
            uint8_t *data = exactly(n + shift);
            size_t expected = 0;
            uint64_t state = n;
            for (size_t i = shift; i < n + shift; i++) {
                data[i] = next_random(&state) % 3 == 0 ? '\n' : 'x';
                expected += data[i] == '\n';
            }
            memset(data, '\n', shift);
            CHECK(mmb_count_lines(data + shift, n) == expected);
            free(data);
        }
    }
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        uint8_t *data = exactly(sizes[i]);
        CHECK(mmb_count_lines(data, sizes[i]) == 0);
        memset(data, '\n', sizes[i]); /* the most that the counters of a step have to hold */
        CHECK(mmb_count_lines(data, sizes[i]) == sizes[i]);
        free(data);
    }
}

static void ends_of_lines_and_fields_are_found_up_to_the_last_byte(void)
{
    /* 16 bytes are looked at in a step where there are as many; the LF or the delimiter is anywhere, or nowhere. */
    for (size_t n = 1; n <= 70; n++) {
        uint8_t *data = exactly(n);
        for (size_t at = 0; at <= n; at++) {
            mmb_source source = {.layout = MMB_LINES, .data = data, .data_bytes = n};
            mmb_view views[2];
            size_t count;
            memset(data, 'x', n);
            if (at < n) {
                data[at] = '\n';
            }
            CHECK(mmb_source_fill(&source, views, 2, &count) == MMB_OK);
            CHECK(count == (size_t)(at > 0) + (size_t)(at + 1 < n));
            CHECK(count == 0 || views[0].length == (at > 0 ? at : n - 1));
            source = (mmb_source){.layout = MMB_LINES, .data = data, .data_bytes = n, .delimiter = ':', .field = 1};
            if (at < n) {
                data[at] = ':';
            }
            CHECK(mmb_source_fill(&source, views, 2, &count) == MMB_OK && count == 1 && views[0].length == at);
            source.next = 0;
            source.field = 2;
            CHECK(mmb_source_fill(&source, views, 2, &count) == (at < n ? MMB_OK : MMB_FIELD_MISSING));
            CHECK(at == n || (count == 1 && views[0].length == n - at - 1));
        }
        free(data);
    }
}

static void a_delimiter_behind_the_line_is_not_its_own(void)
{
    /* Within the 16 bytes that are read in a step. */
    uint8_t *data = copy_of("abc\nd:e:f\ng:h:iiiiiiiiiii\n", 26);
    mmb_source source = {.layout = MMB_LINES, .data = data, .data_bytes = 26, .delimiter = ':', .field = 1};
    mmb_view views[4];
    size_t count;

    CHECK(mmb_source_fill(&source, views, 4, &count) == MMB_OK && count == 3);
    CHECK(views[0].length == 3 && views[1].length == 1 && views[2].length == 1);
    source.next = 0;
    source.field = 2;
    CHECK(mmb_source_fill(&source, views, 4, &count) == MMB_FIELD_MISSING && count == 0);
    free(data);
}

static void fields_are_counted_from_one(void)
{
    CHECK(lines_are("a:b:c\nd:e:f\r\n", ':', 1, MMB_OK, "a|d|"));
    CHECK(lines_are("a:b:c\nd:e:f\r\n", ':', 2, MMB_OK, "b|e|"));
    CHECK(lines_are("a:b:c\nd:e:f\r\n", ':', 3, MMB_OK, "c|f|"));
    CHECK(lines_are("::\n", ':', 3, MMB_OK, "|"));
    CHECK(lines_are("alone", ':', 1, MMB_OK, "alone|"));
    CHECK(lines_are("a:b\nalone\nc:d", ':', 2, MMB_FIELD_MISSING, "b|"));
    CHECK(lines_are("a:b:", ':', 4, MMB_FIELD_MISSING, ""));
    CHECK(lines_are("a:b", ':', SIZE_MAX, MMB_FIELD_MISSING, ""));
}

static void rows_are_whole_or_trimmed(void)
{
    uint8_t *data = copy_of("a\0b\0\0\0\0\0\0abc", 12);
    mmb_source source = {.layout = MMB_ROWS, .data = data, .data_bytes = 12, .width = 3, .num_keys = 4};
    mmb_view views[8];
    size_t count;

    CHECK(mmb_source_fill(&source, views, 8, &count) == MMB_OK && count == 4);
    CHECK(views[1].length == 3 && views[3].data == data + 9);
    CHECK(mmb_source_fill(&source, views, 8, &count) == MMB_OK && count == 0);
    source.layout = MMB_ROWS_TRIMMED;
    source.next = 0;
    CHECK(mmb_source_fill(&source, views, 3, &count) == MMB_OK && count == 3);
    CHECK(views[0].length == 3 && views[1].length == 0 && views[2].length == 0);
    CHECK(mmb_source_fill(&source, views, 3, &count) == MMB_OK && count == 1 && views[0].length == 3);
    source = (mmb_source){.layout = MMB_ROWS_UCS4, .data = data, .data_bytes = 12, .width = 12, .num_keys = 1};
    CHECK(mmb_source_fill(&source, views, 8, &count) == MMB_OK && count == 1);
    CHECK(views[0].length == 3 && views[0].encoding == MMB_UCS4);
    source = (mmb_source){.layout = MMB_ROWS, .data = NULL, .width = 0, .num_keys = 3};
    CHECK(mmb_source_fill(&source, views, 8, &count) == MMB_OK && count == 3 && views[2].length == 0);
    free(data);
}

static void offsets_are_read_at_any_address_in_both_widths(void)
{
    static const uint32_t narrow[] = {0, 2, 2, 5};
    static const uint64_t wide[] = {0, 2, 2, 5};
    uint8_t *bytes = exactly(1 + sizeof wide);
    mmb_source source = {.data = (const uint8_t *)"abcde", .data_bytes = 5, .offsets = bytes + 1, .num_keys = 3};
    mmb_status status;

    memcpy(bytes + 1, narrow, sizeof narrow);
    source.layout = MMB_OFFSETS32;
    CHECK(mmb_offsets_are_valid(MMB_OFFSETS32, source.offsets, 3, 5));
    CHECK(!mmb_offsets_are_valid(MMB_OFFSETS32, source.offsets, 3, 4));
    CHECK(strcmp(keys_of(&source, 2, &status), "ab||cde|") == 0);
    memcpy(bytes + 1, wide, sizeof wide);
    source.layout = MMB_OFFSETS64;
    source.next = 0;
    CHECK(mmb_offsets_are_valid(MMB_OFFSETS64, source.offsets, 3, 5));
    CHECK(strcmp(keys_of(&source, 9, &status), "ab||cde|") == 0);
    CHECK(mmb_offsets_are_valid(MMB_OFFSETS64, source.offsets, 0, 0));
    free(bytes);
}

static void offsets_that_fall_or_leave_the_data_are_not_valid(void)
{
    static const uint64_t falling[] = {0, 5, 4, 6};
    static const uint64_t falling_first[] = {7, 0, 0, 0};
    static const uint64_t far[] = {0, 0, 0, UINT64_MAX};
    static const uint32_t negative[] = {0, UINT32_MAX};

    CHECK(!mmb_offsets_are_valid(MMB_OFFSETS64, falling, 3, 10));
    CHECK(!mmb_offsets_are_valid(MMB_OFFSETS64, falling_first, 3, 10));
    CHECK(!mmb_offsets_are_valid(MMB_OFFSETS64, falling_first, 0, 6));
    CHECK(!mmb_offsets_are_valid(MMB_OFFSETS64, far, 3, SIZE_MAX - 1));
    CHECK(!mmb_offsets_are_valid(MMB_OFFSETS32, negative, 1, 10));
}

static void selected_lines_fill_their_room_and_no_more(void)
{
    static const char text[] = "a\r\n\nb\n\r\nc";
    uint8_t *data = copy_of(text, strlen(text));
    uint8_t *out = exactly(strlen(text) + 1);
    uint8_t *flags = copy_of("\1\0\1", 3);
    mmb_source source = {.layout = MMB_LINES, .data = data, .data_bytes = strlen(text)};

    CHECK(mmb_text_select(&source, flags, 3, 1, out) == 5 && memcmp(out, "a\r\nc\n", 5) == 0);
    CHECK(mmb_text_select(&source, flags, 3, 0, out) == 2 && memcmp(out, "b\n", 2) == 0);
    CHECK(mmb_text_select(&source, flags, 1, 1, out) == 3);
    CHECK(mmb_text_select(&source, flags, 0, 1, out) == 0);
    memset(flags, 1, 3);
    CHECK(mmb_text_select(&source, flags, 3, 1, out) == 7);
    source.data_bytes = 1;
    CHECK(mmb_text_select(&source, flags, 1, 1, out) == 2 && memcmp(out, "a\n", 2) == 0);
    free(data);
    free(out);
    free(flags);
}

/* ---- the pipeline ----------------------------------------------------------------------------------------------- */

/* n lines "00" to "ff" and, at the end, one that is no hexadecimal number. Returns the bytes. */
static size_t hex_lines(size_t n, uint8_t **data)
{
    char *text = exactly(3 * n + 3 + 1);

    for (size_t i = 0; i < n; i++) {
        snprintf(text + 3 * i, 4, "%02x\n", (unsigned)(i % 256));
    }
    memcpy(text + 3 * n, "xy\n", 3);
    *data = (uint8_t *)text;
    return 3 * n + 3;
}

static void a_source_is_hashed_across_chunks_up_to_its_bad_key(void)
{
    const mmb_keying keying = {.seed = 3, .form = MMB_HEX};

    for (size_t i = 0; i < LENGTH(AROUND_CHUNKS); i++) {
        const size_t n = AROUND_CHUNKS[i];
        uint8_t *data;
        const size_t num_bytes = hex_lines(n, &data);
        mmb_hash *hashes = exactly(n * sizeof *hashes);
        mmb_hash *room = exactly((n + 5) * sizeof *room);
        mmb_source source = {.layout = MMB_LINES, .data = data, .data_bytes = num_bytes - 3};
        size_t count = 99;
        CHECK(mmb_hash_source(&source, &keying, hashes, n, &count) == MMB_OK && count == n);
        for (size_t j = 0; j < n; j++) {
            const uint8_t byte = (uint8_t)j;
            CHECK(same_hash(hashes[j], mmb_hash_bytes(&byte, 1, 3)));
        }
        source.next = 0;
        CHECK(mmb_hash_source(&source, &keying, room, n + 5, &count) == MMB_OK && count == n);
        source.next = 0;
        CHECK(mmb_hash_source(&source, &keying, hashes, n / 2, &count) == MMB_OK && count == n / 2);
        source.next = 0;
        source.data_bytes = num_bytes;
        CHECK(mmb_hash_source(&source, &keying, room, n + 5, &count) == MMB_HEX_DIGIT && count == n);
        free(data);
        free(hashes);
        free(room);
    }
}

static void a_source_is_looked_up_across_chunks_up_to_its_bad_key(void)
{
    const mmb_keying keying = {.seed = 3, .form = MMB_HEX};
    const mmb_shape shape = {.bloom = {7, 512}};
    const mmb_layout *layout = mmb_layout_of(MMB_LINE, 2);
    uint8_t *full = exactly(64);
    memset(full, 0xFF, 64);

    for (size_t i = 0; i < LENGTH(AROUND_CHUNKS); i++) {
        const size_t n = AROUND_CHUNKS[i];
        uint8_t *data;
        const size_t num_bytes = hex_lines(n, &data);
        uint8_t *maybe = exactly(n);
        uint8_t *room = exactly(n + 1);
        mmb_source source = {.layout = MMB_LINES, .data = data, .data_bytes = num_bytes - 3};
        size_t count = 99;
        CHECK(mmb_contains_source(layout, &shape, full, &keying, &source, maybe, n, &count) == MMB_OK && count == n);
        CHECK(n == 0 || (maybe[0] == 1 && maybe[n - 1] == 1));
        source.next = 0;
        source.data_bytes = num_bytes;
        CHECK(mmb_contains_source(layout, &shape, full, &keying, &source, room, n + 1, &count) == MMB_HEX_DIGIT);
        CHECK(count == n);
        free(data);
        free(maybe);
        free(room);
    }
    free(full);
}

static void a_missing_field_ends_a_look_up_behind_the_keys_before_it(void)
{
    static const char text[] = "a:1\nb:2\nnone\nc:3\n";
    const mmb_keying keying = {.seed = 0, .form = MMB_RAW};
    const mmb_shape shape = {.bloom = {3, 8}};
    const mmb_layout *layout = mmb_layout_of(MMB_CLASSIC, 1);
    const uint8_t empty = 0;
    mmb_source source = {.layout = MMB_LINES, .data = (const uint8_t *)text, .data_bytes = sizeof text - 1,
                         .delimiter = ':', .field = 2};
    uint8_t maybe[2] = {9, 9};
    mmb_hash hashes[2];
    size_t count;

    CHECK(mmb_contains_source(layout, &shape, &empty, &keying, &source, maybe, 4, &count) == MMB_FIELD_MISSING);
    CHECK(count == 2 && maybe[0] == 0 && maybe[1] == 0);
    source.next = 0;
    CHECK(mmb_hash_source(&source, &keying, hashes, 4, &count) == MMB_FIELD_MISSING && count == 2);
    CHECK(same_hash(hashes[1], mmb_hash_bytes((const uint8_t *)"2", 1, 0)));
}

static void views_are_looked_up_across_chunks_up_to_the_bad_one(void)
{
    const mmb_keying keying = {.seed = 0, .form = MMB_HEX};
    const mmb_shape shape = {.bloom = {9, 32768}};
    const mmb_layout *layout = mmb_layout_of(MMB_PAGE, 3);
    uint8_t *empty = exactly(4096);

    for (size_t i = 0; i < LENGTH(AROUND_CHUNKS); i++) {
        const size_t n = AROUND_CHUNKS[i];
        mmb_view *views = exactly((n + 1) * sizeof *views);
        uint8_t *maybe = exactly(n + 1);
        size_t count = 99;
        memset(maybe, 9, n + 1);
        for (size_t j = 0; j <= n; j++) {
            views[j] = (mmb_view){.data = (const uint8_t *)"abc", .length = j < n ? 2 : 3, .encoding = MMB_BYTES};
        }
        CHECK(mmb_contains_views(layout, &shape, empty, &keying, views, n, maybe, &count) == MMB_OK && count == n);
        CHECK(maybe[n] == 9 && (n == 0 || maybe[n - 1] == 0));
        CHECK(mmb_contains_views(layout, &shape, empty, &keying, views, n + 1, maybe, &count) == MMB_HEX_ODD);
        CHECK(count == n);
        free(views);
        free(maybe);
    }
    free(empty);
}

#define TEST(name) {#name, name}
const test KEY_TESTS[] = {
    TEST(text_becomes_utf8_at_every_border_of_its_length),
    TEST(what_has_no_utf8_is_refused_in_both_widths),
    TEST(every_encoding_and_length_fits_its_scratch),
    TEST(one_scratch_serves_keys_of_growing_and_falling_length),
    TEST(hex_is_decoded_in_either_case_and_from_any_text),
    TEST(only_the_22_hexadecimal_digits_are_digits),
    TEST(hex_of_every_length_is_decoded_as_digit_by_digit),
    TEST(a_bad_digit_is_seen_at_every_place),
    TEST(long_hex_and_a_bad_last_digit_are_seen),
    TEST(lengths_that_no_memory_can_hold_are_refused_unread),
    TEST(the_hash_is_xxh3),
    TEST(every_length_is_hashed_within_its_bytes),
    TEST(digests_are_hashed_in_groups_as_one_by_one),
    TEST(views_are_hashed_up_to_the_first_bad_one),
    TEST(lines_are_cut_at_lf_and_cr_lf),
    TEST(comments_and_blank_lines_are_what_they_are_said_to_be),
    TEST(a_line_is_passed_over_whole),
    TEST(lines_are_counted_at_every_length_and_address),
    TEST(ends_of_lines_and_fields_are_found_up_to_the_last_byte),
    TEST(a_delimiter_behind_the_line_is_not_its_own),
    TEST(fields_are_counted_from_one),
    TEST(rows_are_whole_or_trimmed),
    TEST(offsets_are_read_at_any_address_in_both_widths),
    TEST(offsets_that_fall_or_leave_the_data_are_not_valid),
    TEST(selected_lines_fill_their_room_and_no_more),
    TEST(a_source_is_hashed_across_chunks_up_to_its_bad_key),
    TEST(a_source_is_looked_up_across_chunks_up_to_its_bad_key),
    TEST(a_missing_field_ends_a_look_up_behind_the_keys_before_it),
    TEST(views_are_looked_up_across_chunks_up_to_the_bad_one),
    {NULL, NULL},
};
