/* Mapped files that somebody cuts short: an error instead of the end of the process.

   A touch behind the end of a file is a SIGBUS. The handler here gives the process zero bytes in place of what is gone, and
   notes it in the record of the map; whoever has read the map asks the record before it believes what it read. Zero bytes
   alone would be answers, and wrong ones: a key that is in would be "definitely not" in.

   The one part of the kernel with a global state, since a process has one handler of a signal: nothing of it runs before
   mmb_guard_install(). Only maps that were given to mmb_guard_watch() are touched; every other SIGBUS goes to the handler
   that was there before, or kills the process as ever. Linux: relies on a faulting access being tried again after the
   handler, and on mmap() in a handler, which is a bare system call. */
#ifndef MMB_GUARD_H
#define MMB_GUARD_H

#include <stddef.h>

/* The record of one map. */
typedef struct mmb_guard mmb_guard;

/* Take SIGBUS over; again: do nothing. Returns 0 or an errno. The caller lets no two threads in at once. */
int mmb_guard_install(void);

/* 1 after that. */
int mmb_guard_is_installed(void);

/* Watch the `length` bytes mapped at `start` of the file `fd`, which stays the caller's and open until mmb_guard_forget().
   NULL: too many maps are watched already. */
mmb_guard *mmb_guard_watch(const void *start, size_t length, int fd);

/* Stop; before the map is unmapped, so that no other map at its place is taken for it. */
void mmb_guard_forget(mmb_guard *guard);

/* 1 if nothing that was read of the map before this call was made up: neither by the handler, nor by the system, which fills
   the last page of a file that was cut with zero bytes. Cost: one fstat(). */
int mmb_guard_is_whole(mmb_guard *guard);

#endif
