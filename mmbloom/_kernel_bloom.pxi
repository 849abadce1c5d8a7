# BloomCore: the part of BloomFilter that must not cost a Python frame. See _kernel.pyi for the contract.

cdef enum:
    MAX_CANARIES = 8
    CHUNK_KEYS = 512  # 8 KiB of hashes stay in the L1 cache


cdef class BloomCore:
    """The probes of one filter over one payload. BloomFilter inherits from it, so that `key in f` is a C slot."""

    cdef mmb_bloom _bloom
    cdef Guard _guard              # None, or what knows whether bytes of the payload were made up
    cdef mmb_keying _keying
    cdef uint8_t *_payload         # NULL before _attach and after _detach
    cdef Py_buffer _buffer
    cdef bint _holds_buffer
    cdef bint _writable
    cdef bint _write_through       # every change goes to the file before the call returns
    cdef bint _adding              # a batch is setting bits without the GIL
    cdef bint _detached
    cdef uint64_t _changes         # how often a payload was attached, taken or detached
    cdef int _pins                 # batches that read the payload without the GIL
    cdef uint64_t _keys_added
    cdef uint64_t _limit           # keys_added may not exceed it
    cdef mmb_hash _canaries[MAX_CANARIES]  # hashes of keys that are in
    cdef size_t _num_canaries
    cdef bytearray _dirty_pages
    cdef bytearray _dirty_groups
    cdef mmb_dirty _dirty
    cdef uint64_t _marks            # how often pages were marked as changed,
    cdef uint64_t _published_marks  # and how often when all of them were in the file
    cdef readonly object _mutex

    def __cinit__(self, *args, **kwargs):
        self._mutex = threading.RLock()  # a signal handler may close the filter that the thread adds to
        self._payload = NULL

    def __dealloc__(self):
        if self._holds_buffer:
            PyBuffer_Release(&self._buffer)

    # -- attaching a payload ------------------------------------------------------------------------------------------

    def _attach(self, payload, int layout, uint64_t num_bits, uint32_t num_probes, uint64_t seed, int key_form, *,
                bint writable, bint write_through, uint64_t keys_added, limit):
        cdef uint64_t num_pages
        PyObject_GetBuffer(payload, &self._buffer, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        if self._buffer.len <= 0 or num_bits == 0 or num_bits > 8 * <uint64_t>self._buffer.len:
            size = self._buffer.len
            PyBuffer_Release(&self._buffer)
            raise ValueError(f"num_bits is {num_bits}; the payload holds {8 * size} bits")
        self._bloom.layout = <mmb_layout>layout
        self._bloom.num_bits = num_bits
        self._bloom.num_probes = num_probes
        self._keying.seed = seed
        self._keying.form = <mmb_key_form>key_form
        self._writable = writable
        self._write_through = write_through
        self._keys_added = keys_added
        self._limit = UINT64_MAX if limit is None else limit
        if write_through:
            num_pages = self._num_pages()
            self._dirty_pages = bytearray(num_pages)
            self._dirty_groups = bytearray(num_pages // MMB_DIRTY_GROUP + 1)
            self._dirty.pages = <uint8_t *>PyByteArray_AS_STRING(self._dirty_pages)
            self._dirty.groups = <uint8_t *>PyByteArray_AS_STRING(self._dirty_groups)
        self._holds_buffer = True
        self._detached = False
        self._changes += 1
        self._payload = <uint8_t *>self._buffer.buf

    def _take(self, BloomCore other not None, payload):
        """Nothing here runs Python code or lets go of the GIL between the first change and the last."""
        cdef Py_buffer old
        cdef Py_buffer new
        cdef Guard old_guard = self._guard  # so that it goes at the end, not in between
        if self._payload == NULL or self._writable or self._pins != 0:
            return False
        PyObject_GetBuffer(payload, &new, PyBUF_SIMPLE)
        if self._payload == NULL or self._pins != 0 or new.len < other._buffer.len:  # the buffer may have run Python code
            PyBuffer_Release(&new)
            return False
        old = self._buffer
        self._buffer = new
        self._guard = other._guard
        self._bloom = other._bloom
        self._keying = other._keying
        self._keys_added = other._keys_added
        self._limit = other._limit
        self._canaries = other._canaries
        self._num_canaries = other._num_canaries
        self._changes += 1
        self._payload = <uint8_t *>self._buffer.buf
        PyBuffer_Release(&old)
        return True

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

    cdef uint64_t _num_pages(self):
        return (<uint64_t>self._buffer.len + MMB_PAGE_BYTES - 1) // MMB_PAGE_BYTES

    def _where(self):
        return "the filter"

    def _let_go(self):
        """Hook: the payload is no longer used, so what holds it can be closed."""

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
    def keys_added(self):
        return self._keys_added

    @keys_added.setter
    def keys_added(self, uint64_t number):
        self._keys_added = number

    @property
    def closed(self):
        return self._payload == NULL

    @property
    def _canary_hashes(self):
        return tuple((self._canaries[i].hi, self._canaries[i].lo) for i in range(self._num_canaries))

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

    # -- one key ------------------------------------------------------------------------------------------------------

    def __contains__(self, key):
        return contains_one(self, key)

    def might_contain(self, key, /):
        return key in self

    def add(self, key, /):
        cdef mmb_hash digest
        cdef unsigned is_new
        hash_one(key, &self._keying, &digest)
        if self._payload == NULL or not self._writable:
            self._check_writable()
        if self._adding or self._write_through or self._keys_added >= self._limit:
            with self._mutex:
                return self._add_hash(digest)
        is_new = mmb_bloom_add(&self._bloom, self._payload, digest)
        self._keys_added += is_new
        if self._num_canaries < MAX_CANARIES:
            self._keep_canaries(&digest, 1)
        return is_new == 1

    cdef bint _add_hash(self, mmb_hash digest) except -1:
        cdef uint64_t num_new = 0
        if self._payload == NULL or not self._writable:
            self._check_writable()
        if mmb_bloom_add_many(&self._bloom, self._payload, &digest, 1, self._room(), &num_new,
                              &self._dirty if self._write_through else NULL) == 0:
            raise CapacityError(self._where(), self._limit, 0)
        self._keep_canaries(&digest, 1)
        self._keys_added += num_new
        if self._write_through:
            self._marks += num_new
            if self._marks != self._published_marks:
                self._pin()  # writing gives the GIL away
                try:
                    self._publish()
                finally:
                    self._unpin()
        return num_new == 1

    cdef uint64_t _room(self) noexcept:
        return self._limit - self._keys_added if self._limit > self._keys_added else 0

    def _check_writable(self):
        if self._payload == NULL:
            raise ClosedError(f"{self._where()} is closed")
        if not self._writable:
            raise ReadOnlyError(
                f"{self._where()} is open read-only: open it with mmbloom.open_writable(), or add to a copy()")

    # -- batches ------------------------------------------------------------------------------------------------------

    def _add_hashes(self, const uint8_t[::1] hashes not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        cdef size_t done = 0
        cdef uint64_t num_new = 0
        cdef uint64_t room
        cdef uint8_t *payload
        cdef const mmb_dirty *dirty = &self._dirty if self._write_through else NULL
        with self._mutex:
            self._check_writable()
            if n == 0:
                return 0
            room = self._room()
            payload = self._pin()
            self._adding = True
            try:
                with nogil:
                    done = mmb_bloom_add_many(&self._bloom, payload, <const mmb_hash *>&hashes[0], n, room, &num_new,
                                              dirty)
                self._keep_canaries(<const mmb_hash *>&hashes[0], done)
                self._keys_added += num_new
                if self._write_through:
                    self._marks += num_new
                    self._publish()
            finally:
                self._adding = False
                self._unpin()
        if done < n:
            raise CapacityError(self._where(), self._limit, num_new)
        return num_new

    def _pages_of(self, const uint8_t[::1] hashes not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        cdef size_t count
        cdef uint64_t *pages = <uint64_t *>PyMem_Malloc(max(n, 1) * MMB_MAX_PROBES * sizeof(uint64_t))
        if pages == NULL:
            raise MemoryError
        try:
            count = mmb_bloom_pages(&self._bloom, <const mmb_hash *>&hashes[0], n, pages) if n > 0 else 0
            return sorted({pages[i] for i in range(count)})
        finally:
            PyMem_Free(pages)

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
                mmb_bloom_contains_many(&self._bloom, payload, <const mmb_hash *>&hashes[0], n, &maybe[0])
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
                status = mmb_contains_source(&self._bloom, payload, &self._keying, &source, out, room, &count)
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
                mmb_bloom_contains_many(&self._bloom, payload, hashes, <size_t>some, out + first)
                first += some
            return first
        batch.start()
        while True:
            first = batch.advance()
            if batch.size == 0:
                return first
            if batch.size <= SMALL_PIECE:
                status = mmb_contains_views(
                    &self._bloom, payload, &self._keying, batch.views, batch.size, out + first, &count)
            else:
                with nogil:
                    status = mmb_contains_views(
                        &self._bloom, payload, &self._keying, batch.views, batch.size, out + first, &count)
            if status != MMB_OK:
                raise key_error(status, batch.describe(first + <Py_ssize_t>count))

    # -- whole payloads -----------------------------------------------------------------------------------------------

    def _combine(self, const uint8_t[::1] other, str operation, uint64_t keys_added):
        """Payload |= other, &= other, or zero; every page counts as changed. keys_added becomes what is given."""
        cdef uint8_t *payload
        cdef size_t size
        cdef bint union = operation == "or"
        cdef bint intersection = operation == "and"
        if not (union or intersection or operation == "clear"):
            raise KeyError(operation)
        with self._mutex:
            self._check_writable()
            size = <size_t>self._buffer.len
            if (union or intersection) and <size_t>other.shape[0] != size:
                raise ValueError(f"payloads of {size} and {other.shape[0]} bytes")
            payload = self._pin()
            self._adding = True
            try:
                with nogil:
                    if union:
                        mmb_or(payload, &other[0], size)
                    elif intersection:
                        mmb_and(payload, &other[0], size)
                    else:
                        memset(payload, 0, size)
                self._keys_added = keys_added
                if self._write_through:
                    memset(self._dirty.pages, 1, <size_t>self._num_pages())
                    memset(self._dirty.groups, 1, <size_t>len(self._dirty_groups))
                    self._marks += 1
                    self._publish()
            finally:
                self._adding = False
                self._unpin()


cdef inline bint contains_one(BloomCore core, object key) except -1:
    cdef mmb_hash digest
    cdef uint64_t changes
    cdef bint maybe
    while True:
        changes = core._changes
        if core._payload == NULL:
            raise ClosedError(f"{core._where()} is closed")
        hash_one(key, &core._keying, &digest)
        if core._changes == changes:  # else a key that runs code to become bytes has closed or reloaded the filter
            maybe = mmb_bloom_contains(&core._bloom, core._payload, digest)
            if core._guard is not None and not maybe:  # zero bytes, the system's or the handler's, make no "maybe"
                core._check_guard()
            return maybe


cdef inline double coarse_time() noexcept nogil:
    """Seconds of the system's clock tick, some ms apart: asking costs a tenth of what the exact time does."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now)
    return <double>now.tv_sec + 1e-9 * <double>now.tv_nsec


@cython.auto_pickle(False)  # a filter says itself how it is pickled
cdef class FollowingCore(BloomCore):
    """A BloomCore that calls _look_at_path() before a look-up, once its time has come."""

    cdef double _next_look

    def __contains__(self, key):
        if coarse_time() >= self._next_look:
            self._look_at_path()
        return contains_one(self, key)

    def _is_due(self):
        return coarse_time() >= self._next_look

    def _rest(self, double seconds):
        self._next_look = coarse_time() + seconds

    def _look_at_path(self):
        """Hook: look whether another file has the path."""
