/* The types that all of the kernel shares.

   Data flows one way, and so do the files:
     source.c     memory that holds keys     -> views   (where each key lies)
     canonical.c  a view                     -> canonical bytes (UTF-8, decoded hex)
     hash.c       canonical bytes            -> 128-bit hashes
     layout.c     hashes                     -> a payload, by the table of its layout: bits in classic.c and blocked.c, counters in
                                                counting.c, fingerprints in fuse.c (built by fuse_build.c)
     bits.c       whole payloads: counts, unions, fill
     partition.c  hashes                     -> partitions by the top bits of hi
     sort.c       hashes                     -> sorted distinct hashes
     pipeline.c   the stages chained, a chunk of keys at a time
     guard.c      maps of files that another process truncates: the only exception to the next line
   No Python, no I/O, no global state. Memory is allocated only where a status can report the failure.
   MMB_PORTABLE leaves out what only some processors have; tests/engine/kernel compiles both versions. */
#ifndef MMB_H
#define MMB_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MMB_PREFETCH(address) __builtin_prefetch((address), 0, 3)
#define MMB_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define MMB_INLINE static inline __attribute__((always_inline))
#else
#define MMB_PREFETCH(address) ((void)(address))
#define MMB_LIKELY(condition) (condition)
#define MMB_INLINE static inline
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(MMB_PORTABLE)
#define MMB_HAVE_SSE2 1 /* every x86-64 processor has it                               */
#define MMB_HAVE_AVX2 1 /* the compiler has it; the processor must be asked before use */
#endif

typedef enum {
    MMB_OK = 0,
    MMB_NO_MEMORY,     /* a scratch allocation failed; nothing was written                   */
    MMB_SURROGATE,     /* a lone surrogate, or no code point: there is no UTF-8 for it       */
    MMB_HEX_ODD,       /* key form hex: an odd number of digits                              */
    MMB_HEX_DIGIT,     /* key form hex: a character that is not a hexadecimal digit          */
    MMB_FIELD_MISSING, /* a text line has fewer fields than requested                        */
    MMB_BLANK_LINE,    /* an empty text line, where MMB_BLANK_BAD forbids it                 */
    MMB_EMPTY_DIGEST,  /* a text line without a key, in a list of digests                    */
    MMB_UNSOLVABLE,    /* no allowed seed gives a fuse filter of these hashes                */
    MMB_UNORDERED      /* the hashes of a shard are not sorted; nothing was written          */
} mmb_status;

/* How the code units of a view become canonical bytes. The three text encodings are CPython's own. */
typedef enum { MMB_BYTES = 0, MMB_LATIN1 = 1, MMB_UCS2 = 2, MMB_UCS4 = 4 } mmb_encoding;

/* Numbers as in FORMAT.md, field key_form. */
typedef enum { MMB_RAW = 0, MMB_HEX = 1 } mmb_key_form;

/* Where one key lies: `length` code units of `encoding` at `data`. */
typedef struct {
    const uint8_t *data;
    uint64_t length;
    uint32_t encoding;
} mmb_view;

/* hi selects the place, lo the bits in it (FORMAT.md, "Hash"). */
typedef struct {
    uint64_t hi;
    uint64_t lo;
} mmb_hash;

#endif
