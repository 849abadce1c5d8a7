/* Memory that holds keys -> views: where each key lies. Nothing is copied. */
#ifndef MMB_SOURCE_H
#define MMB_SOURCE_H

#include "mmb.h"

typedef enum {
    MMB_ROWS,         /* rows of `width` bytes, end to end                                                */
    MMB_ROWS_TRIMMED, /* the same without trailing NUL bytes: NumPy S                                     */
    MMB_ROWS_UCS4,    /* width / 4 code points without trailing NULs, in this machine's byte order: NumPy U */
    MMB_OFFSETS32,    /* key i is data[offsets[i] .. offsets[i + 1]): Arrow utf8, binary                  */
    MMB_OFFSETS64,    /* the same with 64-bit offsets: Arrow large_utf8, large_binary                     */
    MMB_LINES         /* text: lines that end in LF or CR LF                                              */
} mmb_source_layout;

/* What an empty text line is: ignored, a key of no bytes, or an error (MMB_BLANK_LINE). */
typedef enum { MMB_BLANK_SKIP = 0, MMB_BLANK_KEY = 1, MMB_BLANK_BAD = 2 } mmb_blank;

/* Keys in one range of memory, and how far they have been read. "Line" means a text line in this file.
   Requires: mmb_offsets_are_valid(), if there are offsets. */
typedef struct {
    mmb_source_layout layout;
    const uint8_t *data;
    size_t data_bytes;
    const void *offsets;
    size_t width;      /* rows: bytes per key                                       */
    size_t num_keys;   /* rows, offsets                                             */
    uint8_t delimiter; /* lines: the byte between fields, if field > 0              */
    uint8_t comment;   /* lines: ignore those that begin with this byte; 0: none    */
    mmb_blank blank;   /* lines: what an empty one is                               */
    uint8_t digests;   /* lines: 1 if a key of no bytes is an error (MMB_EMPTY_DIGEST) */
    size_t field;      /* lines: which field is the key, from 1; 0: the whole line  */
    size_t next;       /* the number of the next key; lines: the byte where it begins */
} mmb_source;

/* Write views of the next keys, up to `max`. Sets *count to how many, 0 at the end. The views stay valid as long as the memory.
   Fails with MMB_FIELD_MISSING, MMB_BLANK_LINE or MMB_EMPTY_DIGEST if the line at byte `next` has too few fields, is empty, or
   has an empty key; the views before it have been written. In a line without a delimiter, field 1 is the whole line. */
mmb_status mmb_source_fill(mmb_source *source, mmb_view *views, size_t max, size_t *count);

/* Skip the line at byte `next`. */
void mmb_source_skip_line(mmb_source *source);

/* The number of LF bytes. */
size_t mmb_count_lines(const uint8_t *data, size_t data_bytes);

/* 1 if the num_keys + 1 offsets of the given layout do not decrease and stay within data_bytes, else 0. */
int mmb_offsets_are_valid(mmb_source_layout layout, const void *offsets, size_t num_keys, size_t data_bytes);

/* Copy to `out` the lines that are keys and whose flag equals `wanted`, each with its LF. The flags are in the order of
   mmb_source_fill(); lines after the last flag are not copied. Returns the number of bytes written, at most data_bytes + 1.
   Requires: data_bytes + 1 bytes at `out`. */
size_t mmb_text_select(const mmb_source *source, const uint8_t *flags, size_t num_flags, uint8_t wanted, uint8_t *out);

#endif
