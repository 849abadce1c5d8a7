/* The kernel's types: what a key, a hash and a Bloom filter are on this side of Python.

   Data flows one way, and so do the files:
     source.c     memory in some layout      -> views   (where each key lies)
     canonical.c  a view                     -> canonical bytes (UTF-8, decoded hex)
     hash.c       canonical bytes            -> 128-bit hashes
     bloom.c      hashes                     -> bits of a payload; layouts in classic.c, lines.c and narrow.c
     counting.c   hashes                     -> counters of a payload
     fuse.c       hashes                     -> fingerprints of a payload; built by fuse_build.c
     bits.c       whole payloads: counts, unions, fill
     partition.c  hashes                     -> partitions by the top bits of hi
     sort.c       hashes                     -> sorted distinct hashes
     pipeline.c   the stages chained, a chunk of keys at a time
     guard.c      maps of files that are cut short meanwhile: the one exception to the next line
   No Python, no I/O, no globals. Allocation only where a status can report that it failed.
   MMB_PORTABLE leaves out what only some processors have: tests/engine/kernel compiles both. */
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
#define MMB_HAVE_SSE2 1 /* every such processor has it                              */
#define MMB_HAVE_AVX2 1 /* the compiler has it: ask the processor before it is used */
#endif

typedef enum {
    MMB_OK = 0,
    MMB_NO_MEMORY,     /* scratch allocation failed; nothing was written                     */
    MMB_SURROGATE,     /* text holds a lone surrogate or no code point: neither has UTF-8    */
    MMB_HEX_ODD,       /* key form hex: an odd number of digits                              */
    MMB_HEX_DIGIT,     /* key form hex: a character that is no hexadecimal digit             */
    MMB_FIELD_MISSING, /* a line has fewer fields than the one that was asked for            */
    MMB_BLANK_LINE,    /* an empty line where none may be                                    */
    MMB_UNSOLVABLE,    /* no seed in the number allowed gives a fuse filter of these hashes  */
    MMB_UNORDERED      /* the hashes of a shard do not come in order; nothing was written    */
} mmb_status;

/* How the code units of a view become canonical bytes. The three text encodings are CPython's own. */
typedef enum { MMB_BYTES = 0, MMB_LATIN1 = 1, MMB_UCS2 = 2, MMB_UCS4 = 4 } mmb_encoding;

/* Numbers as in FORMAT.md, field key_form. */
typedef enum { MMB_RAW = 0, MMB_HEX = 1 } mmb_key_form;

/* Numbers as in FORMAT.md, field layout. */
typedef enum { MMB_CLASSIC = 1, MMB_LINE = 2, MMB_PAGE = 3, MMB_NARROW = 4 } mmb_layout;

/* Where one key lies: `length` code units of `encoding` at `data`. */
typedef struct {
    const uint8_t *data;
    uint64_t length;
    uint32_t encoding;
} mmb_view;

/* hi says where, lo says which bits (FORMAT.md, "Hash"). */
typedef struct {
    uint64_t hi;
    uint64_t lo;
} mmb_hash;

#endif
