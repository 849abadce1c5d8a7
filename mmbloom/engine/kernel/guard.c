#define _GNU_SOURCE /* sigaction, MAP_ANONYMOUS, MAP_NORESERVE: beyond C11 */
#include "guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_GUARDS 4096 /* a table of fixed place and size: a handler may not wait for a lock, nor meet a table that moves */

struct mmb_guard {
    atomic_uintptr_t start; /* 0: the record is not in use, or is being filled in */
    atomic_size_t length;
    atomic_int broken;
    atomic_int taken;
    int fd;
};

static struct mmb_guard guards[MAX_GUARDS];
static atomic_size_t num_used; /* records beyond were never in use */
static struct sigaction previous;
static uintptr_t page_bytes;
static int is_installed;
static atomic_int times_passed_on;

static mmb_guard *guard_of(uintptr_t address)
{
    const size_t used = atomic_load(&num_used);

    for (size_t i = 0; i < used; i++) {
        const uintptr_t start = atomic_load(&guards[i].start);
        if (start != 0 && address >= start && address - start < atomic_load(&guards[i].length)) {
            return &guards[i];
        }
    }
    return NULL;
}

/* Put zero bytes from the page of `address` to the end of the map: what follows in a file that was cut is gone too, and
   page by page a large map would fall into more pieces than a process may have. */
static int replace_rest(mmb_guard *guard, uintptr_t address)
{
    const uintptr_t first = address & ~(page_bytes - 1);
    const uintptr_t end = atomic_load(&guard->start) + atomic_load(&guard->length);
    const size_t rest = (size_t)(((end - first) + page_bytes - 1) & ~(page_bytes - 1));

    /* Before the bytes are there: a thread that reads them finds the note. */
    atomic_store(&guard->broken, 1);
    return mmap((void *)first, rest, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

/* What would have happened without this file. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    const int has_default = !(previous.sa_flags & SA_SIGINFO) &&
                            (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN);
    /* A handler such as faulthandler's raises the signal again when it is done. If it puts this handler back first, they
       would call each other without end. So a signal that a program sent, and not the processor, is passed on once. */
    const int is_again = info->si_code <= 0 && atomic_fetch_add(&times_passed_on, 1) > 0;

    if (has_default || is_again) {
        struct sigaction fatal = {0};
        fatal.sa_handler = SIG_DFL;
        sigaction(number, &fatal, NULL);
        if (info->si_code <= 0) {
            raise(number); /* pending until this handler returns; a faulting access comes again by itself */
        }
    } else if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(number, info, context);
    } else {
        previous.sa_handler(number);
    }
}

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    const int error = errno;
    const uintptr_t address = (uintptr_t)info->si_addr;
    /* BUS_ADRERR: no such byte in the file, or the disk could not read it. Not, for instance, broken memory. */
    mmb_guard *const guard = info->si_code == BUS_ADRERR ? guard_of(address) : NULL;

    if (guard == NULL || !replace_rest(guard, address)) {
        pass_on(number, info, context);
    }
    errno = error;
}

int mmb_guard_install(void)
{
    struct sigaction action = {0};

    if (is_installed) {
        return 0;
    }
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    action.sa_sigaction = on_sigbus;
    /* On the alternative stack, where a thread has one: its own may be the reason for a signal that is not ours. */
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, NULL, &previous) != 0 || sigaction(SIGBUS, &action, NULL) != 0) {
        return errno;
    }
    is_installed = 1;
    return 0;
}

int mmb_guard_is_installed(void)
{
    return is_installed;
}

mmb_guard *mmb_guard_watch(const void *start, size_t length, int fd)
{
    for (size_t i = 0; i < MAX_GUARDS; i++) {
        mmb_guard *const guard = &guards[i];
        if (atomic_exchange(&guard->taken, 1) == 0) {
            size_t used = atomic_load(&num_used);
            while (used <= i && !atomic_compare_exchange_weak(&num_used, &used, i + 1)) {
            }
            guard->fd = fd;
            atomic_store(&guard->broken, 0);
            atomic_store(&guard->length, length);
            atomic_store(&guard->start, (uintptr_t)start);
            return guard;
        }
    }
    return NULL;
}

void mmb_guard_forget(mmb_guard *guard)
{
    atomic_store(&guard->start, 0);
    atomic_store(&guard->taken, 0);
}

int mmb_guard_is_whole(mmb_guard *guard)
{
    struct stat found;

    /* The bytes were read before the note is, also on processors that would do it the other way round. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&guard->broken) || fstat(guard->fd, &found) != 0) {
        return 0;
    }
    return (uint64_t)found.st_size == (uint64_t)atomic_load(&guard->length);
}
