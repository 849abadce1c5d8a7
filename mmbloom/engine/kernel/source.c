/* Where the keys lie in fixed-width rows, Arrow buffers and lines of text. Nothing is copied. */
#include "source.h"

#include <string.h>

#if MMB_HAVE_AVX2
#include <immintrin.h>
#define MMB_AVX2 __attribute__((target("avx2")))
#endif

static size_t trimmed_bytes(const uint8_t *row, size_t width)
{
    while (width > 0 && row[width - 1] == 0) {
        width--;
    }
    return width;
}

static size_t trimmed_code_points(const uint8_t *row, size_t width)
{
    static const uint8_t nul[4] = {0, 0, 0, 0};
    size_t length = width / 4;

    while (length > 0 && memcmp(row + 4 * (length - 1), nul, sizeof nul) == 0) {
        length--;
    }
    return length;
}

static uint64_t offset_at(const mmb_source *source, size_t index)
{
    if (source->layout == MMB_OFFSETS32) {
        uint32_t narrow;
        memcpy(&narrow, (const uint8_t *)source->offsets + sizeof narrow * index, sizeof narrow);
        return narrow;
    }
    uint64_t wide;
    memcpy(&wide, (const uint8_t *)source->offsets + sizeof wide * index, sizeof wide);
    return wide;
}

static mmb_view row_view(const mmb_source *source, size_t index)
{
    const uint8_t *row = source->data + source->width * index;

    switch (source->layout) {
    case MMB_ROWS_TRIMMED:
        return (mmb_view){.data = row, .length = trimmed_bytes(row, source->width), .encoding = MMB_BYTES};
    case MMB_ROWS_UCS4:
        return (mmb_view){.data = row, .length = trimmed_code_points(row, source->width), .encoding = MMB_UCS4};
    default:
        return (mmb_view){.data = row, .length = source->width, .encoding = MMB_BYTES};
    }
}

static mmb_view offset_view(const mmb_source *source, size_t index)
{
    const uint64_t start = offset_at(source, index);
    const uint64_t end = offset_at(source, index + 1);

    return (mmb_view){.data = source->data + start, .length = end - start, .encoding = MMB_BYTES};
}

/* The index of the first `byte` in [start, end), or end; each processor's version of the loop over lines has its own. May
   read on, up to the end of the data. */
typedef size_t (*byte_finder)(const mmb_source *source, size_t start, size_t end, uint8_t byte);

static inline size_t find_byte(const mmb_source *source, size_t start, size_t end, uint8_t byte)
{
    const uint8_t *found = start < end ? memchr(source->data + start, byte, end - start) : NULL;

    return found == NULL ? end : (size_t)(found - source->data);
}

#if MMB_HAVE_AVX2
MMB_AVX2 static inline size_t find_byte_avx2(const mmb_source *source, size_t start, size_t end, uint8_t byte)
{
    const __m256i wanted = _mm256_set1_epi8((char)byte);

    for (; start < end && source->data_bytes - start >= 32; start += 32) {
        const __m256i some = _mm256_loadu_si256((const __m256i *)(const void *)(source->data + start));
        const unsigned equal = (unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(some, wanted));
        if (equal != 0) {
            const size_t found = start + (size_t)__builtin_ctz(equal);
            return found < end ? found : end;
        }
    }
    return find_byte(source, start, end, byte);
}
#endif

/* The end of the line at `start`: the index of its LF, or data_bytes. */
static inline size_t line_end(const mmb_source *source, size_t start)
{
    return find_byte(source, start, source->data_bytes, '\n');
}

/* The byte after the LF at `end`, or the end of the data. */
static inline size_t behind(const mmb_source *source, size_t end)
{
    return end < source->data_bytes ? end + 1 : end;
}

/* The length of the line in [start, end) without the CR of a CR LF. */
static inline size_t text_length(const mmb_source *source, size_t start, size_t end)
{
    return end - start - (end > start && source->data[end - 1] == '\r' ? 1 : 0);
}

/* Whether the line is a key, or a bad line in the place of one. */
static inline int is_wanted(const mmb_source *source, size_t start, size_t length)
{
    if (length == 0) {
        return source->blank != MMB_BLANK_SKIP;
    }
    return source->comment == 0 || source->data[start] != source->comment;
}

/* Narrow [*start, *end) to the wanted field. Returns 0 when the line has too few. */
MMB_INLINE int select_field(byte_finder find, const mmb_source *source, size_t *start, size_t *end)
{
    for (size_t i = 1;; i++) {
        const size_t delimiter = find(source, *start, *end, source->delimiter);
        if (i == source->field) {
            *end = delimiter;
            return 1;
        }
        if (delimiter == *end) {
            return 0;
        }
        *start = delimiter + 1;
    }
}

MMB_INLINE mmb_status fill_with(byte_finder find, mmb_source *source, mmb_view *views, size_t max, size_t *count)
{
    while (*count < max && source->next < source->data_bytes) {
        const size_t end = find(source, source->next, source->data_bytes, '\n');
        size_t first = source->next;
        size_t last = first + text_length(source, first, end);

        if (is_wanted(source, first, last - first)) {
            if (first == last && source->blank == MMB_BLANK_BAD) {
                return MMB_BLANK_LINE;
            }
            if (source->field > 0 && !select_field(find, source, &first, &last)) {
                return MMB_FIELD_MISSING;
            }
            if (source->digests && first == last) {
                return MMB_EMPTY_DIGEST;
            }
            views[(*count)++] =
                (mmb_view){.data = source->data + first, .length = last - first, .encoding = MMB_BYTES};
        }
        source->next = behind(source, end);
    }
    return MMB_OK;
}

#if MMB_HAVE_AVX2
MMB_AVX2 static mmb_status fill_avx2(mmb_source *source, mmb_view *views, size_t max, size_t *count)
{
    return fill_with(find_byte_avx2, source, views, max, count);
}
#endif

static mmb_status fill_lines(mmb_source *source, mmb_view *views, size_t max, size_t *count)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        return fill_avx2(source, views, max, count);
    }
#endif
    return fill_with(find_byte, source, views, max, count);
}

void mmb_source_skip_line(mmb_source *source)
{
    source->next = behind(source, line_end(source, source->next));
}

/* Counts up to 255 fit in a byte. With 255 rows of `width` columns the compiler counts a row in one step. */
MMB_INLINE size_t count_with(size_t width, const uint8_t *data, size_t data_bytes)
{
    size_t total = 0;

    while (data_bytes > 0) {
        const size_t some = data_bytes < width * 255 ? data_bytes : width * 255;
        uint8_t counts[32] = {0};
        size_t i = 0;
        for (; i + width <= some; i += width) {
            for (size_t j = 0; j < width; j++) {
                counts[j] = (uint8_t)(counts[j] + (data[i + j] == '\n'));
            }
        }
        for (; i < some; i++) {
            total += data[i] == '\n';
        }
        for (size_t j = 0; j < width; j++) {
            total += counts[j];
        }
        data += some;
        data_bytes -= some;
    }
    return total;
}

#if MMB_HAVE_AVX2
MMB_AVX2 static size_t count_lines_avx2(const uint8_t *data, size_t data_bytes)
{
    return count_with(32, data, data_bytes);
}
#endif

size_t mmb_count_lines(const uint8_t *data, size_t data_bytes)
{
#if MMB_HAVE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        return count_lines_avx2(data, data_bytes);
    }
#endif
    return count_with(16, data, data_bytes);
}

mmb_status mmb_source_fill(mmb_source *source, mmb_view *views, size_t max, size_t *count)
{
    *count = 0;
    if (source->layout == MMB_LINES) {
        return fill_lines(source, views, max, count);
    }
    const int has_offsets = source->layout == MMB_OFFSETS32 || source->layout == MMB_OFFSETS64;
    while (*count < max && source->next < source->num_keys) {
        views[(*count)++] = has_offsets ? offset_view(source, source->next) : row_view(source, source->next);
        source->next++;
    }
    return MMB_OK;
}

int mmb_offsets_are_valid(mmb_source_layout layout, const void *offsets, size_t num_keys, size_t data_bytes)
{
    const mmb_source source = {.layout = layout, .offsets = offsets};
    uint64_t last = offset_at(&source, 0);
    int valid = 1;

    for (size_t i = 1; i <= num_keys; i++) {
        const uint64_t offset = offset_at(&source, i);
        valid &= offset >= last;
        last = offset;
    }
    return valid && last <= data_bytes;
}

size_t mmb_text_select(const mmb_source *source, const uint8_t *flags, size_t num_flags, uint8_t wanted, uint8_t *out)
{
    size_t written = 0;
    size_t key = 0;

    for (size_t start = 0; start < source->data_bytes && key < num_flags;) {
        const size_t end = line_end(source, start);
        if (is_wanted(source, start, text_length(source, start, end)) && flags[key++] == wanted) {
            memcpy(out + written, source->data + start, end - start);
            written += end - start;
            out[written++] = '\n';
        }
        start = end + 1;
    }
    return written;
}
