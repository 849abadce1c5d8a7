# Core: what holds the current view of a filter. Filter inherits from it, so that `key in f` and `add` cost no Python frame.


cdef inline double coarse_time() noexcept nogil:
    """Return seconds, to the tick of the system's clock: a few ms, at a tenth of the cost of the exact time."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now)
    return <double>now.tv_sec + 1e-9 * <double>now.tv_nsec


cdef class Core:
    cdef View _view        # what answers now; None: closed
    cdef double _next_look  # when to look for a successor of the file; 0: never
    cdef public bint _is_quick
    cdef public bint _has_removed
    cdef public uint64_t _num_keys
    cdef public uint64_t _limit
    cdef public uint64_t _num_saturated
    cdef mmb_hash _ring[NUM_LATEST]
    cdef size_t _num_noted

    def _use(self, View view):
        self._view = view

    @property
    def closed(self):
        return self._view is None

    # -- following a path ---------------------------------------------------------------------------------------------

    def _is_due(self):
        return self._next_look > 0 and coarse_time() >= self._next_look

    def _rest(self, double seconds):
        self._next_look = coarse_time() + seconds

    # -- one key ------------------------------------------------------------------------------------------------------

    def __contains__(self, key):
        cdef mmb_hash digest
        cdef View view
        if self._next_look > 0 and coarse_time() >= self._next_look:
            self._look_at_path()
        view = hash_for(self, key, &digest)
        if view.load_pages is not None:
            with view.load_pages(view.pages_of(packed(&digest))):
                return view._answer(digest)
        return view._answer(digest)

    def might_contain(self, key, /):
        return key in self

    def add(self, key, /):
        cdef mmb_hash digest
        cdef mmb_counted counted
        cdef View view = hash_for(self, key, &digest)
        if not self._is_quick or self._num_keys >= self._limit:
            return self._add_one(packed(&digest))
        if view._marks == NULL:
            view._layout.add(&view._shape, view._payload, digest, &counted)
        else:
            view._layout.add_many(&view._shape, view._payload, &digest, 1, 1, &counted, view._marks)
        self._num_keys += counted.num_keys
        if view._layout.remove_many != NULL:
            self._num_saturated += counted.num_saturated
            self._note_one(digest)
        if view._marks != NULL and (counted.num_keys != 0 or view._layout.remove_many != NULL):
            self._write_marks()
        return counted.num_keys == 1

    def _remove(self, key, /):
        cdef mmb_hash digest
        cdef mmb_counted counted
        cdef View view = hash_for(self, key, &digest)
        if not self._is_quick or view._layout.remove_many == NULL or view._layout.remove_many(
                &view._shape, view._payload, &digest, 1, &counted, view._marks) == 0:
            return self._remove_one(packed(&digest))
        self._has_removed = True
        self._num_keys -= min(self._num_keys, counted.num_keys)
        if view._marks != NULL:
            self._write_marks()
        return counted.num_keys == 1

    # -- hooks: see _kernel.pyi ----------------------------------------------------------------------------------------

    def _check_open(self):
        if self._view is None:
            raise ClosedError("the filter is closed")

    def _look_at_path(self):
        pass

    def _add_one(self, digest):
        raise NotImplementedError

    def _remove_one(self, digest):
        raise NotImplementedError

    def _write_marks(self):
        pass

    # -- the latest keys ----------------------------------------------------------------------------------------------

    cdef inline void _note_one(self, mmb_hash digest) noexcept:
        self._ring[self._num_noted % NUM_LATEST] = digest
        self._num_noted += 1

    def _note(self, const uint8_t[::1] hashes not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        cdef size_t i
        for i in range(n - min(n, <size_t>NUM_LATEST), n):
            self._note_one((<const mmb_hash *>&hashes[0])[i])

    @property
    def _latest(self):
        cdef size_t first = self._num_noted - min(self._num_noted, <size_t>NUM_LATEST)
        ring = [i % NUM_LATEST for i in range(first, self._num_noted)]
        return [(self._ring[i].hi, self._ring[i].lo) for i in ring]


cdef inline bytes packed(const mmb_hash *digest):
    return PyBytes_FromStringAndSize(<const char *>digest, sizeof(mmb_hash))


cdef inline View hash_for(Core core, key, mmb_hash *digest):
    """Hash *key* for the current view, and return that view.

    A key may run Python code while it is converted to bytes, and that code may close the filter or replace its view. Then the
    key is hashed again. No other thread runs between the last check and the look-up.
    """
    cdef View view
    while True:
        view = core._view
        if view is None:
            core._check_open()  # raises, unless the filter has a view again
            continue
        hash_one(key, &view._keying, digest)
        if core._view is view:
            return view
