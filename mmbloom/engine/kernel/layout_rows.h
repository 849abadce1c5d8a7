/* The tables that the files of the layouts define and layout.c chooses from. */
#ifndef MMB_LAYOUT_ROWS_H
#define MMB_LAYOUT_ROWS_H

#include "layout.h"

extern const mmb_layout mmb_classic;                                         /* classic.c  */
extern const mmb_layout mmb_line, mmb_page, mmb_narrow;                      /* blocked.c  */
extern const mmb_layout mmb_fuse3, mmb_fuse4;                                /* fuse.c     */
extern const mmb_layout mmb_counters;                                        /* counting.c */
#if MMB_HAVE_AVX2
extern const mmb_layout mmb_line_avx2, mmb_page_avx2, mmb_narrow_avx2;       /* blocked.c  */
extern const mmb_layout mmb_counters_avx2;                                   /* counting.c */
#endif

#endif
