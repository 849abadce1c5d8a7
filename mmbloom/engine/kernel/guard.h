/* Mapped files that another process truncates: an error instead of a crash.

   An access beyond the end of a file raises SIGBUS. The handler here puts zero bytes in place of the missing ones and notes that
   in the record of the map. A reader checks the record before it trusts what it has read: zero bytes alone would give wrong
   answers, "definitely not" for a key that is in the filter.

   This is the only part of the kernel with global state, because a process has one handler per signal. Nothing happens before
   mmb_guard_install(). Only maps given to mmb_guard_watch() are affected; any other SIGBUS goes to the previous handler, or kills
   the process as it would without this file. Linux only: relies on a faulting access being repeated after the handler, and on
   mmap() being a plain system call that a handler may make. */
#ifndef MMB_GUARD_H
#define MMB_GUARD_H

#include <stddef.h>

/* The record of one map. */
typedef struct mmb_guard mmb_guard;

/* Install the handler; a second call does nothing. Returns 0 or an errno. Requires: no two threads call this at once. */
int mmb_guard_install(void);

/* 1 if the handler is installed, else 0. */
int mmb_guard_is_installed(void);

/* Watch the `length` bytes of the file `fd` that are mapped at `start`. Returns NULL if too many maps are watched already.
   Requires: the caller keeps `fd` open until mmb_guard_forget(). */
mmb_guard *mmb_guard_watch(const void *start, size_t length, int fd);

/* Stop watching. Requires: the map still exists, so that no other map can have taken its address. */
void mmb_guard_forget(mmb_guard *guard);

/* 1 if everything read from the map before this call came from the file, else 0: the handler has put in zero bytes, or the file
   was truncated within its last page, which the system fills with zero bytes. Cost: one fstat(). */
int mmb_guard_is_whole(mmb_guard *guard);

#endif
