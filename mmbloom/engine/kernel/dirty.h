/* Which 4 KiB pages of a payload have changed since they were last written to the file. */
#ifndef MMB_DIRTY_H
#define MMB_DIRTY_H

#include "mmb.h"

#define MMB_PAGE_BYTES 4096U
#define MMB_DIRTY_GROUP 512U

/* One flag a page, and one for each MMB_DIRTY_GROUP pages: finding the few changed pages of a huge payload does not scan
   them all. The owner clears both once the pages are in the file, not before: writing them may fail. */
typedef struct {
    uint8_t *pages;
    uint8_t *groups;
} mmb_dirty;

/* The page of the byte at `offset` has changed. `dirty` may be NULL: nobody wants to know. */
static inline void mmb_dirty_mark(const mmb_dirty *dirty, uint64_t offset)
{
    if (dirty != NULL) {
        const uint64_t page = offset / MMB_PAGE_BYTES;
        dirty->pages[page] = 1;
        dirty->groups[page / MMB_DIRTY_GROUP] = 1;
    }
}

/* The next run of changed pages at or after page *first: sets *first and *count. 0 when there is none. */
static inline int mmb_dirty_next(const mmb_dirty *dirty, uint64_t num_pages, uint64_t *first, uint64_t *count)
{
    uint64_t page = *first;

    while (page < num_pages && !dirty->pages[page]) {
        const uint64_t group = page / MMB_DIRTY_GROUP;
        page = page % MMB_DIRTY_GROUP == 0 && !dirty->groups[group] ? page + MMB_DIRTY_GROUP : page + 1;
    }
    if (page >= num_pages) {
        return 0;
    }
    *first = page;
    while (page < num_pages && dirty->pages[page]) {
        page++;
    }
    *count = page - *first;
    return 1;
}

#endif
