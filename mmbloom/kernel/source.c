/* Where the keys lie in fixed-width rows, Arrow buffers and lines of text. Nothing is copied. */
#include "source.h"

#include <string.h>

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

/* The end of the line that starts at `start`: the index of its LF, or data_bytes. */
static size_t line_end(const uint8_t *data, size_t data_bytes, size_t start)
{
    const uint8_t *newline = memchr(data + start, '\n', data_bytes - start);

    return newline == NULL ? data_bytes : (size_t)(newline - data);
}

/* The length of the line in [start, end) without the CR of a CR LF. */
static size_t text_length(const uint8_t *data, size_t start, size_t end)
{
    return end - start - (end > start && data[end - 1] == '\r' ? 1 : 0);
}

/* Narrow *text, *length to the wanted field. Returns 0 when the line has too few. */
static int select_field(const mmb_source *source, const uint8_t **text, size_t *length)
{
    const uint8_t *field = *text;
    size_t rest = *length;

    for (size_t i = 1;; i++) {
        const uint8_t *delimiter = memchr(field, source->delimiter, rest);
        const size_t field_length = delimiter == NULL ? rest : (size_t)(delimiter - field);
        if (i == source->field) {
            *text = field;
            *length = field_length;
            return 1;
        }
        if (delimiter == NULL) {
            return 0;
        }
        field = delimiter + 1;
        rest -= field_length + 1;
    }
}

static mmb_status fill_lines(mmb_source *source, mmb_view *views, size_t max, size_t *count)
{
    while (*count < max && source->next < source->data_bytes) {
        const size_t end = line_end(source->data, source->data_bytes, source->next);
        const uint8_t *text = source->data + source->next;
        size_t length = text_length(source->data, source->next, end);

        if (length > 0) {
            if (source->field > 0 && !select_field(source, &text, &length)) {
                return MMB_FIELD_MISSING;
            }
            views[(*count)++] = (mmb_view){.data = text, .length = length, .encoding = MMB_BYTES};
        }
        source->next = end < source->data_bytes ? end + 1 : end;
    }
    return MMB_OK;
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

size_t mmb_lines_select(const uint8_t *data, size_t data_bytes, const uint8_t *flags, size_t num_flags, uint8_t wanted,
                        uint8_t *out)
{
    size_t written = 0;
    size_t key = 0;

    for (size_t start = 0; start < data_bytes && key < num_flags;) {
        const size_t end = line_end(data, data_bytes, start);
        const size_t length = text_length(data, start, end);
        if (length > 0 && flags[key++] == wanted) {
            memcpy(out + written, data + start, end - start);
            written += end - start;
            out[written++] = '\n';
        }
        start = end + 1;
    }
    return written;
}
