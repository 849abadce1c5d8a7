# Guard: the kernel's record of a mapped file that may be cut short. See _kernel.pyi for the contract.

cdef class Guard:
    cdef mmb_guard *_record

    def __cinit__(self, const uint8_t[::1] mapped not None, int fd):
        self._record = mmb_guard_watch(&mapped[0], <size_t>mapped.shape[0], fd)
        if self._record == NULL:
            raise OSError(errno.EMFILE, "too many files are open with a guard: close some")

    def forget(self):
        if self._record != NULL:
            mmb_guard_forget(self._record)
            self._record = NULL

    def is_whole(self):
        return self._record != NULL and mmb_guard_is_whole(self._record) == 1


def install_guard():
    cdef int error = mmb_guard_install()
    if error:
        raise OSError(error, os.strerror(error))


def guard_is_installed():
    return mmb_guard_is_installed()
