/* Which layouts and probe schemes this release knows, and which version of each runs on this processor. */
#include "layout.h"

#include "layout_rows.h"
#include "multiply.h"

#if MMB_HAVE_AVX2
#define AVX2(row) (&(row))
#else
#define AVX2(row) NULL
#endif

static const struct {
    uint32_t layout;
    uint32_t probe_scheme;
    const mmb_layout *portable;
    const mmb_layout *avx2; /* NULL: not compiled, or no faster */
} ROWS[] = {
    {MMB_CLASSIC, 1, &mmb_classic, NULL},
    {MMB_LINE, 2, &mmb_line, AVX2(mmb_line_avx2)},
    {MMB_PAGE, 3, &mmb_page, AVX2(mmb_page_avx2)},
    {MMB_NARROW, 4, &mmb_narrow, AVX2(mmb_narrow_avx2)},
    {MMB_FUSE3, 5, &mmb_fuse3, NULL},
    {MMB_FUSE4, 6, &mmb_fuse4, NULL},
    {MMB_COUNTERS, 4, &mmb_counters, AVX2(mmb_counters_avx2)},
};

static int processor_has_avx2(void)
{
#if MMB_HAVE_AVX2
    return __builtin_cpu_supports("avx2") != 0;
#else
    return 0;
#endif
}

const mmb_layout *mmb_layout_of(uint32_t layout, uint32_t probe_scheme)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        if (ROWS[i].layout == layout && ROWS[i].probe_scheme == probe_scheme) {
            return ROWS[i].avx2 != NULL && processor_has_avx2() ? ROWS[i].avx2 : ROWS[i].portable;
        }
    }
    return NULL;
}

void mmb_layout_span(const mmb_layout *layout, const mmb_shape *shape, uint64_t lowest, uint64_t highest, uint64_t *first,
                     uint64_t *end)
{
    const uint64_t num_bytes = layout->payload_bytes(shape);
    const uint64_t block_bytes = layout->block_bytes;
    uint64_t unused;

    if (block_bytes == 0) {
        *first = 0;
        *end = (num_bytes + MMB_LINE_BYTES - 1) / MMB_LINE_BYTES * MMB_LINE_BYTES; /* a payload in a file has whole lines */
    } else {
        *first = multiply_high(lowest, num_bytes / block_bytes, &unused) * block_bytes;
        *end = (multiply_high(highest, num_bytes / block_bytes, &unused) + 1) * block_bytes;
    }
}
