/* Which 4 KiB pages of a payload have changed since they were last written to the file. */
#ifndef MMB_DIRTY_H
#define MMB_DIRTY_H

#include "mmb.h"

#define MMB_PAGE_BYTES 4096U
#define MMB_DIRTY_GROUP 512U

/* One flag per page, and one per MMB_DIRTY_GROUP pages, so that the few changed pages of a huge payload are found without a scan
   of all flags. The owner clears both after the pages have been written to the file, not before: writing may fail. */
typedef struct {
    uint8_t *pages;
    uint8_t *groups;
} mmb_dirty;

/* Mark the page of the byte at `offset` as changed. Does nothing if `dirty` is NULL. */
static inline void mmb_dirty_mark(const mmb_dirty *dirty, uint64_t offset)
{
    if (dirty != NULL) {
        const uint64_t page = offset / MMB_PAGE_BYTES;
        dirty->pages[page] = 1;
        dirty->groups[page / MMB_DIRTY_GROUP] = 1;
    }
}

#endif
