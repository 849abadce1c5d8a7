/* Memory in some layout -> views. */
#ifndef MMB_SOURCE_H
#define MMB_SOURCE_H

#include "mmb.h"

typedef enum {
    MMB_ROWS,         /* `width` bytes a key, end to end                                                  */
    MMB_ROWS_TRIMMED, /* the same without trailing NUL bytes: NumPy S                                     */
    MMB_ROWS_UCS4,    /* width / 4 code points without trailing NULs, in this machine's byte order: NumPy U */
    MMB_OFFSETS32,    /* key i is data[offsets[i] .. offsets[i + 1]): Arrow utf8, binary                  */
    MMB_OFFSETS64,    /* the same with 64-bit offsets: Arrow large_utf8, large_binary                     */
    MMB_LINES         /* text: lines that end in LF or CR LF                                              */
} mmb_source_layout;

/* What an empty line is. */
typedef enum { MMB_BLANK_SKIP = 0, MMB_BLANK_KEY = 1, MMB_BLANK_BAD = 2 } mmb_blank;

/* Keys in one stretch of memory, and how far they have been read. Offsets are validated by the caller:
   not decreasing, and within `data_bytes`. */
typedef struct {
    mmb_source_layout layout;
    const uint8_t *data;
    size_t data_bytes;
    const void *offsets;
    size_t width;      /* rows: bytes a key */
    size_t num_keys;   /* rows, offsets     */
    uint8_t delimiter; /* lines: the byte between fields, if field > 0     */
    uint8_t comment;   /* lines: one that begins with this byte is no key; 0: all are  */
    mmb_blank blank;   /* lines: what an empty one is                      */
    size_t field;      /* lines: which field is the key, from 1; 0: the whole line */
    size_t next;       /* the key (lines: byte) to read next               */
} mmb_source;

/* Write up to `max` views of the keys that come next; *count tells how many, 0 at the end. MMB_FIELD_MISSING, MMB_BLANK_LINE:
   the line at byte `next` has too few fields, or is empty; the views before it are written. A line without any delimiter is
   its own field 1. */
mmb_status mmb_source_fill(mmb_source *source, mmb_view *views, size_t max, size_t *count);

/* Pass over the line at byte `next`. */
void mmb_source_skip_line(mmb_source *source);

/* The number of LF bytes. */
size_t mmb_count_lines(const uint8_t *data, size_t data_bytes);

/* n offsets of the given layout do not decrease and stay within data_bytes. */
int mmb_offsets_are_valid(mmb_source_layout layout, const void *offsets, size_t num_keys, size_t data_bytes);

/* Copy to `out` (data_bytes + 1 bytes) every line that is a key of `source`, LF included, whose flag equals `wanted`; flags are
   in the order of mmb_source_fill, and lines that have none are left out. Returns the bytes written. */
size_t mmb_lines_select(const mmb_source *source, const uint8_t *flags, size_t num_flags, uint8_t wanted, uint8_t *out);

#endif
