# What every kind's core shares. FilterCore looks up; ChangingCore is one that keys can be added to. _kernel.pyi has the contract.

cdef enum:
    MAX_CANARIES = 8
    CHUNK_KEYS = 512  # 8 KiB of hashes stay in the L1 cache


cdef inline double coarse_time() noexcept nogil:
    """Seconds of the system's clock tick, some ms apart: asking costs a tenth of what the exact time does."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now)
    return <double>now.tv_sec + 1e-9 * <double>now.tv_nsec


cdef class FilterCore:
    """Look-ups of one filter over one payload. A kind's core fills `_lookup` and has `in` of its own, a C slot."""

    cdef mmb_lookup _lookup
    cdef Guard _guard              # None, or what knows whether bytes of the payload were made up
    cdef mmb_keying _keying
    cdef double _next_look         # when to look for a successor of the file; 0: never
    cdef uint8_t *_payload         # NULL before _attach and after _detach
    cdef Py_buffer _buffer
    cdef bint _holds_buffer
    cdef bint _detached
    cdef uint64_t _changes         # how often a payload was attached, taken or detached
    cdef int _pins                 # batches that read the payload without the GIL
    cdef uint64_t _keys_added
    cdef readonly object _mutex

    def __cinit__(self, *args, **kwargs):
        self._mutex = threading.RLock()  # a signal handler may close the filter that the thread adds to
        self._payload = NULL

    def __dealloc__(self):
        if self._holds_buffer:
            PyBuffer_Release(&self._buffer)

    # -- attaching a payload ------------------------------------------------------------------------------------------

    cdef int _hold(self, payload, uint64_t num_bits, bint writable, uint64_t seed, int key_form,
                   uint64_t keys_added) except -1:
        """Take the payload, which must have num_bits bits: from now on the filter answers."""
        PyObject_GetBuffer(payload, &self._buffer, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        if self._buffer.len <= 0 or num_bits == 0 or num_bits > 8 * <uint64_t>self._buffer.len:
            size = self._buffer.len
            PyBuffer_Release(&self._buffer)
            raise ValueError(f"num_bits is {num_bits}; the payload holds {8 * size} bits")
        self._keying.seed = seed
        self._keying.form = <mmb_key_form>key_form
        self._keys_added = keys_added
        self._holds_buffer = True
        self._detached = False
        self._changes += 1
        self._payload = <uint8_t *>self._buffer.buf
        return 0

    def _take(self, FilterCore other not None, payload):
        """Nothing here runs Python code or lets go of the GIL between the first change and the last."""
        cdef Py_buffer old
        cdef Py_buffer new
        cdef Guard old_guard = self._guard  # so that it goes at the end, not in between
        if self._payload == NULL or self._can_change() or self._pins != 0:
            return False
        PyObject_GetBuffer(payload, &new, PyBUF_SIMPLE)
        if self._payload == NULL or self._pins != 0 or new.len < other._buffer.len:  # the buffer may have run Python code
            PyBuffer_Release(&new)
            return False
        try:
            self._take_shape(other)
        except BaseException:
            PyBuffer_Release(&new)
            raise
        old = self._buffer
        self._buffer = new
        self._guard = other._guard
        self._keying = other._keying
        self._keys_added = other._keys_added
        self._changes += 1
        self._payload = <uint8_t *>self._buffer.buf
        PyBuffer_Release(&old)
        return True

    cdef bint _can_change(self) noexcept:
        return False

    cdef int _take_shape(self, FilterCore other) except -1:
        """Become of the shape of *other*: the kind's own. TypeError, and nothing is changed, if it is of another kind."""
        raise NotImplementedError

    def _detach(self):
        self._changes += 1
        self._payload = NULL
        self._detached = True
        self._release_if_idle()

    cdef int _release_if_idle(self) except -1:
        """Give the payload back once nobody reads it any more: batches that run without the GIL finish first."""
        if self._detached and self._pins == 0 and self._holds_buffer:
            self._holds_buffer = False
            self._guard = None
            PyBuffer_Release(&self._buffer)
            self._let_go()
        return 0

    cdef uint8_t *_pin(self) except NULL:
        if self._payload == NULL:
            raise ClosedError(f"{self._where()} is closed")
        self._pins += 1
        return self._payload

    def _watch(self, Guard guard):
        self._guard = guard

    cdef int _check_guard(self) except -1:
        """After reading, before anybody is answered: raise if what was read was not in the file."""
        if self._guard is not None and not self._guard.is_whole():
            self._report_cut()
        return 0

    def _report_cut(self):
        """Hook: raise, for the file is not what was mapped."""

    cdef int _unpin(self) except -1:
        self._pins -= 1
        return self._release_if_idle()

    def _where(self):
        return "the filter"

    def _let_go(self):
        """Hook: the payload is no longer used, so what holds it can be closed."""

    @property
    def keys_added(self):
        return self._keys_added

    @keys_added.setter
    def keys_added(self, uint64_t number):
        self._keys_added = number

    @property
    def closed(self):
        return self._payload == NULL

    # -- following a path ---------------------------------------------------------------------------------------------

    def _is_due(self):
        return self._next_look > 0 and coarse_time() >= self._next_look

    def _rest(self, double seconds):
        self._next_look = coarse_time() + seconds

    def _look_at_path(self):
        """Hook: look whether another file has the path."""

    # -- one key ------------------------------------------------------------------------------------------------------

    cdef int _hash_while_open(self, key, mmb_hash *digest) except -1:
        cdef uint64_t changes
        if self._next_look > 0 and coarse_time() >= self._next_look:
            self._look_at_path()
        while True:
            changes = self._changes
            if self._payload == NULL:
                raise ClosedError(f"{self._where()} is closed")
            hash_one(key, &self._keying, digest)
            if self._changes == changes:  # else a key that runs code to become bytes has closed or reloaded the filter
                return 0

    cdef inline bint _answer(self, bint maybe) except -1:
        """Return an answer that was read from the payload, if that was there: zero bytes in its place are no keys."""
        if self._guard is not None and not maybe:
            self._check_guard()
        return maybe

    def __contains__(self, key):
        cdef mmb_hash digest
        cdef uint8_t maybe = 0
        self._hash_while_open(key, &digest)
        self._lookup.contains_many(self._lookup.shape, self._payload, &digest, 1, &maybe)
        return self._answer(maybe)

    def might_contain(self, key, /):
        return key in self

    # -- batches ------------------------------------------------------------------------------------------------------

    def _contains_hashes(self, const uint8_t[::1] hashes not None, uint8_t[::1] maybe not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        cdef uint8_t *payload
        if n > <size_t>maybe.shape[0]:
            raise ValueError(f"maybe holds {maybe.shape[0]} answers for {n} hashes")
        if n == 0:
            return
        payload = self._pin()
        try:
            with nogil:
                self._lookup.contains_many(self._lookup.shape, payload, <const mmb_hash *>&hashes[0], n, &maybe[0])
            self._check_guard()
        finally:
            self._unpin()

    def _contains_batch(self, batch, uint8_t[::1] maybe not None):
        cdef mmb_status status
        cdef size_t count = 0
        cdef size_t room = <size_t>maybe.shape[0]
        cdef uint8_t *out
        cdef uint8_t *payload
        cdef mmb_source source
        if self._payload == NULL:
            raise ClosedError(f"{self._where()} is closed")
        if len(batch) > maybe.shape[0]:
            raise ValueError(f"out holds {maybe.shape[0]} answers; the batch may have {len(batch)} keys")
        if room == 0:
            return 0
        out = &maybe[0]
        payload = self._pin()
        try:
            if isinstance(batch, ObjectBatch):
                count = self._contains_objects(batch, payload, out)
                self._check_guard()
                return count
            source = (<MemoryBatch?>batch)._source  # a copy: other threads may read the batch too
            with nogil:
                status = mmb_contains_source(&self._lookup, payload, &self._keying, &source, out, room, &count)
            if status != MMB_OK:
                raise key_error(status, batch.describe(count))
            self._check_guard()
            return count
        finally:
            self._unpin()

    cdef Py_ssize_t _contains_objects(self, ObjectBatch batch, const uint8_t *payload, uint8_t *out) except -1:
        cdef Py_ssize_t first = 0
        cdef Py_ssize_t some = 1
        cdef size_t count = 0
        cdef mmb_status status
        cdef mmb_hash hashes[CHUNK_KEYS]
        if not gil_is_wanted():
            while some > 0:
                some = batch.hash_some(first, CHUNK_KEYS, &self._keying, hashes)
                self._lookup.contains_many(self._lookup.shape, payload, hashes, <size_t>some, out + first)
                first += some
            return first
        batch.start()
        while True:
            first = batch.advance()
            if batch.size == 0:
                return first
            if batch.size <= SMALL_PIECE:
                status = mmb_contains_views(
                    &self._lookup, payload, &self._keying, batch.views, batch.size, out + first, &count)
            else:
                with nogil:
                    status = mmb_contains_views(
                        &self._lookup, payload, &self._keying, batch.views, batch.size, out + first, &count)
            if status != MMB_OK:
                raise key_error(status, batch.describe(first + <Py_ssize_t>count))

    def _pages_of(self, const uint8_t[::1] hashes not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        cdef size_t count = 0
        cdef uint8_t *payload
        cdef uint64_t *pages = <uint64_t *>PyMem_Malloc(max(n, 1) * self._lookup.pages_per_key * sizeof(uint64_t))
        if pages == NULL:
            raise MemoryError
        try:
            if n > 0:
                payload = self._pin()
                try:
                    count = self._lookup.pages_of(
                        self._lookup.shape, payload, <const mmb_hash *>&hashes[0], n, pages)
                finally:
                    self._unpin()
            return sorted({pages[i] for i in range(count)})
        finally:
            PyMem_Free(pages)


cdef class ChangingCore(FilterCore):
    """A core that keys are added to: the count and its limit, canaries, and which pages of the payload have changed."""

    cdef bint _writable
    cdef bint _write_through       # every change goes to the file before the call returns
    cdef bint _adding              # a batch is changing the payload without the GIL
    cdef uint64_t _limit           # keys_added may not exceed it
    cdef mmb_hash _canaries[MAX_CANARIES]  # hashes of keys that are in
    cdef size_t _num_canaries
    cdef bytearray _dirty_pages
    cdef bytearray _dirty_groups
    cdef mmb_dirty _dirty
    cdef uint64_t _marks            # how often pages were marked as changed,
    cdef uint64_t _published_marks  # and how often when all of them were in the file

    cdef int _hold_changing(self, payload, uint64_t num_bits, bint writable, bint write_through, uint64_t seed,
                            int key_form, uint64_t keys_added, limit) except -1:
        """_hold(), for a core that adds if *writable*."""
        cdef uint64_t num_pages
        self._writable = writable
        self._write_through = write_through
        self._limit = UINT64_MAX if limit is None else limit
        self._hold(payload, num_bits, writable, seed, key_form, keys_added)
        if write_through:
            num_pages = self._num_pages()
            self._dirty_pages = bytearray(num_pages)
            self._dirty_groups = bytearray(num_pages // MMB_DIRTY_GROUP + 1)
            self._dirty.pages = <uint8_t *>PyByteArray_AS_STRING(self._dirty_pages)
            self._dirty.groups = <uint8_t *>PyByteArray_AS_STRING(self._dirty_groups)
        return 0

    cdef bint _can_change(self) noexcept:
        return self._writable

    cdef int _take_shape(self, FilterCore other) except -1:
        cdef ChangingCore its = <ChangingCore?>other
        self._limit = its._limit
        self._canaries = its._canaries
        self._num_canaries = its._num_canaries
        return 0

    cdef const mmb_dirty *_marked(self) noexcept:
        """Where changed pages are noted; NULL if nobody asks for them."""
        return &self._dirty if self._write_through else NULL

    cdef uint64_t _num_pages(self) noexcept:
        return (<uint64_t>self._buffer.len + MMB_PAGE_BYTES - 1) // MMB_PAGE_BYTES

    cdef uint64_t _room(self) noexcept:
        return self._limit - self._keys_added if self._limit > self._keys_added else 0

    def _check_writable(self):
        if self._payload == NULL:
            raise ClosedError(f"{self._where()} is closed")
        if not self._writable:
            raise ReadOnlyError(
                f"{self._where()} is open read-only: open it with mmbloom.open_writable(), or add to a copy()")

    def _publish_changes(self, runs):
        """Hook: write these runs of changed pages to the file. Called with the mutex held, if write_through is set."""

    def _publish(self):
        """Write what has changed to the file. The mutex is held.

        Pages are forgotten only once they are in the file: writing may fail, a signal may interrupt it, and its handler may
        come here again, to flush or to close. Whatever is marked meanwhile starts another round.
        """
        cdef uint64_t goal
        while self._marks != self._published_marks:
            goal = self._marks
            runs = self._dirty_runs()
            self._publish_changes(runs)
            if self._marks == goal:
                for first, count in runs:
                    memset(self._dirty.pages + <uint64_t>first, 0, <size_t>count)
                memset(self._dirty.groups, 0, <size_t>len(self._dirty_groups))
                self._published_marks = goal

    cdef int _publish_marks(self, uint64_t num_new) except -1:
        """Count the marks of *num_new* changes, and write them if they go to the file at once. The mutex is held."""
        if self._write_through:
            self._marks += num_new
            if self._marks != self._published_marks:
                self._pin()  # writing gives the GIL away
                try:
                    self._publish()
                finally:
                    self._unpin()
        return 0

    cdef int _mark_everything(self) except -1:
        """Every page has changed. The mutex is held."""
        if self._write_through:
            memset(self._dirty.pages, 1, <size_t>self._num_pages())
            memset(self._dirty.groups, 1, <size_t>len(self._dirty_groups))
            self._publish_marks(1)
        return 0

    def _add_hashes(self, hashes):
        raise NotImplementedError  # the kind's own

    def _combine(self, other, str operation, uint64_t keys_added):
        raise NotImplementedError  # the kind's own

    def _load(self, const uint8_t[::1] other not None, uint64_t keys_added):
        """The payload becomes a copy of *other*."""
        cdef uint8_t *payload
        with self._mutex:
            self._check_writable()
            if other.shape[0] != self._buffer.len:
                raise ValueError(f"payloads of {self._buffer.len} and {other.shape[0]} bytes")
            payload = self._pin()
            self._adding = True
            try:
                with nogil:
                    memcpy(payload, &other[0], <size_t>other.shape[0])
                self._keys_added = keys_added
                self._mark_everything()
            finally:
                self._adding = False
                self._unpin()

    cdef list _dirty_runs(self):
        """(first, count) of the changed pages, ascending."""
        cdef uint64_t first = 0
        cdef uint64_t count = 0
        cdef list runs = []
        while mmb_dirty_next(&self._dirty, self._num_pages(), &first, &count):
            runs.append((first, count))
            first += count
        return runs

    @property
    def _canary_hashes(self):
        # A list, for each generator of Cython 3.3 keeps a reference to its class when it is gone.
        return tuple([(self._canaries[i].hi, self._canaries[i].lo) for i in range(self._num_canaries)])

    @_canary_hashes.setter
    def _canary_hashes(self, hashes):
        self._num_canaries = 0
        for hi, lo in hashes[:MAX_CANARIES]:
            self._canaries[self._num_canaries].hi = hi
            self._canaries[self._num_canaries].lo = lo
            self._num_canaries += 1

    cdef void _keep_canaries(self, const mmb_hash *hashes, size_t n) noexcept:
        """The first distinct keys added are the canaries, new ones or not: hashes are uniform, so any keys are spread over
        the payload."""
        cdef size_t i
        cdef size_t j
        for i in range(n):
            if self._num_canaries == MAX_CANARIES:
                break
            j = 0
            while j < self._num_canaries and (
                    self._canaries[j].hi != hashes[i].hi or self._canaries[j].lo != hashes[i].lo):
                j += 1
            if j == self._num_canaries:
                self._canaries[j] = hashes[i]
                self._num_canaries += 1
