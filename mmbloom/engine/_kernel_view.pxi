# View: one payload, and how it is looked up and changed. See _kernel.pyi for the contract.

cdef enum:
    CHUNK_KEYS = 512  # 8 KiB of hashes stay in the L1 cache
    NUM_LATEST = 8


# The payload is released by __dealloc__ only: clearing the reference to it, as Cython does for the garbage collector, would let
# go of memory that is still in use, without releasing the buffer.
@cython.no_gc_clear
cdef class View:
    cdef const mmb_layout *_layout
    cdef mmb_shape _shape
    cdef mmb_keying _keying
    cdef Py_buffer _buffer
    cdef uint64_t _num_bytes
    cdef uint8_t *_payload
    cdef bint _writable
    cdef Guard _guard       # None, or what knows whether bytes that were read are in the file
    cdef object _report_cut
    cdef public object load_pages
    cdef uint8_t[::1] _pages
    cdef uint8_t[::1] _groups
    cdef mmb_dirty _dirty
    cdef const mmb_dirty *_marks  # where changed pages are marked: _dirty, which points into _pages and _groups; or NULL

    def __cinit__(self, payload, uint32_t layout, uint32_t probe_scheme, tuple shape, uint64_t seed, int key_form,
                  bint writable=False):
        cdef uint64_t needed
        self._layout = mmb_layout_of(layout, probe_scheme)
        if self._layout == NULL:
            raise ValueError(f"layout {layout} with probe scheme {probe_scheme} is unknown")
        take_shape(self._layout, layout, shape, &self._shape)
        needed = self._layout.payload_bytes(&self._shape)
        if self._layout.block_bytes > 0 and needed % self._layout.block_bytes:
            raise ValueError(f"the payload needs {needed} bytes: not whole blocks of {self._layout.block_bytes}")
        self._take(payload, PyBUF_WRITABLE if writable else PyBUF_SIMPLE, needed)
        self._keying.seed = seed
        self._keying.form = <mmb_key_form>key_form
        self._writable = writable

    cdef int _take(self, payload, int flags, uint64_t needed) except -1:
        """Hold the memory of *payload*.

        If it is a memoryview, hold the object behind it instead. CPython 3.11 crashes when the garbage collector clears a
        memoryview while something holds its buffer.
        """
        cdef Py_buffer given
        cdef char *start
        PyObject_GetBuffer(payload, &given, flags)
        try:
            if given.len <= 0 or needed == 0 or needed > <uint64_t>given.len:
                raise ValueError(f"the payload needs {needed} bytes; the buffer has {given.len}")
            PyObject_GetBuffer(payload.obj if isinstance(payload, memoryview) else payload, &self._buffer, PyBUF_SIMPLE)
            # An object may give out another buffer each time. Then the first one is about to be released.
            start = <char *>self._buffer.buf
            if <char *>given.buf < start or <char *>given.buf + given.len > start + self._buffer.len:
                raise BufferError("the payload is not part of the memory of its object")
            self._payload = <uint8_t *>given.buf
            self._num_bytes = <uint64_t>given.len
        finally:
            PyBuffer_Release(&given)
        return 0

    def __dealloc__(self):
        PyBuffer_Release(&self._buffer)  # does nothing if none is held

    @property
    def seed(self):
        return self._keying.seed

    @property
    def key_form(self):
        return <int>self._keying.form

    @property
    def pages_per_key(self):
        return self._layout.max_pages_per_key

    # -- looking up ---------------------------------------------------------------------------------------------------

    def watch(self, Guard guard not None, report_cut):
        self._guard = guard
        self._report_cut = report_cut

    cdef int _check_guard(self) except -1:
        """Raise if bytes that were read were not in the file. Called after reading, before the answer is given."""
        if self._guard is not None and not self._guard.is_whole():
            self._report_cut()
        return 0

    cdef inline bint _answer(self, mmb_hash digest) except -1:
        cdef bint maybe = self._layout.contains(&self._shape, self._payload, digest)
        if self._guard is not None and not maybe:  # a "no" may come from zero bytes that replaced lost ones
            self._check_guard()
        return maybe

    def contains_hashes(self, const uint8_t[::1] hashes not None, uint8_t[::1] maybe not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        if n > <size_t>maybe.shape[0]:
            raise ValueError(f"maybe holds {maybe.shape[0]} answers for {n} hashes")
        if n > 0:
            with nogil:
                self._layout.contains_many(&self._shape, self._payload, <const mmb_hash *>&hashes[0], n, &maybe[0])
            self._check_guard()

    def contains_batch(self, batch, uint8_t[::1] maybe not None):
        cdef mmb_status status
        cdef size_t count = 0
        cdef size_t room = <size_t>maybe.shape[0]
        cdef uint8_t *out
        cdef mmb_source source
        if len(batch) > maybe.shape[0]:
            raise ValueError(f"out holds {maybe.shape[0]} answers; the batch may have {len(batch)} keys")
        if room == 0:
            return 0
        out = &maybe[0]
        if isinstance(batch, ObjectBatch):
            count = self._contains_objects(batch, out)
        else:
            source = (<MemoryBatch?>batch)._source  # a copy: other threads may read the batch too
            with nogil:
                status = mmb_contains_source(
                    self._layout, &self._shape, self._payload, &self._keying, &source, out, room, &count)
            if status != MMB_OK:
                raise key_error(status, batch.describe(count))
        self._check_guard()
        return count

    cdef Py_ssize_t _contains_objects(self, ObjectBatch batch, uint8_t *out) except -1:
        cdef Py_ssize_t first = 0
        cdef Py_ssize_t some = 1
        cdef size_t count = 0
        cdef mmb_status status
        cdef mmb_hash hashes[CHUNK_KEYS]
        if not gil_is_wanted():
            while some > 0:
                some = batch.hash_some(first, CHUNK_KEYS, &self._keying, hashes)
                self._layout.contains_many(&self._shape, self._payload, hashes, <size_t>some, out + first)
                first += some
            return first
        batch.start()
        while True:
            first = batch.advance()
            if batch.size == 0:
                return first
            if batch.size <= SMALL_PIECE:
                status = mmb_contains_views(self._layout, &self._shape, self._payload, &self._keying, batch.views,
                                            batch.size, out + first, &count)
            else:
                with nogil:
                    status = mmb_contains_views(self._layout, &self._shape, self._payload, &self._keying, batch.views,
                                                batch.size, out + first, &count)
            if status != MMB_OK:
                raise key_error(status, batch.describe(first + <Py_ssize_t>count))

    def pages_of(self, const uint8_t[::1] hashes not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        cdef size_t count
        cdef size_t size = max(n, 1) * self._layout.max_pages_per_key * sizeof(uint64_t)
        cdef uint64_t *pages = <uint64_t *>PyMem_Malloc(size)
        if pages == NULL:
            raise MemoryError
        try:
            count = 0
            if n > 0:
                count = self._layout.pages_of(&self._shape, self._payload, <const mmb_hash *>&hashes[0], n, pages)
            return sorted({pages[i] for i in range(count)})
        finally:
            PyMem_Free(pages)

    def count_of(self, const uint8_t[::1] digest not None):
        if self._layout.count_of == NULL:
            raise ValueError("this layout has no counters")
        if <size_t>digest.shape[0] != sizeof(mmb_hash):
            raise ValueError(f"a hash has {sizeof(mmb_hash)} bytes, not {digest.shape[0]}")
        least = self._layout.count_of(&self._shape, self._payload, (<const mmb_hash *>&digest[0])[0])
        self._check_guard()
        return least

    # -- changing -----------------------------------------------------------------------------------------------------

    def mark(self, uint8_t[::1] pages not None, uint8_t[::1] groups not None):
        cdef uint64_t num_pages = (self._num_bytes + MMB_PAGE_BYTES - 1) // MMB_PAGE_BYTES
        if <uint64_t>pages.shape[0] < num_pages or <uint64_t>groups.shape[0] * MMB_DIRTY_GROUP < num_pages:
            raise ValueError(f"{pages.shape[0]} pages and {groups.shape[0]} groups; the payload has {num_pages} pages")
        self._pages, self._groups = pages, groups  # held, so that their memory stays where it is
        self._dirty.pages, self._dirty.groups = &pages[0], &groups[0]
        self._marks = &self._dirty

    def add_many(self, const uint8_t[::1] hashes not None, uint64_t room):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        cdef size_t done = 0
        cdef mmb_counted counted
        if not self._writable or self._layout.add_many == NULL:
            raise ValueError("no key can be added to this payload")
        counted.num_keys = counted.num_saturated = 0
        if n > 0:
            with nogil:
                done = self._layout.add_many(
                    &self._shape, self._payload, <const mmb_hash *>&hashes[0], n, room, &counted, self._marks)
        return done, counted.num_keys, counted.num_saturated

    def remove_many(self, const uint8_t[::1] hashes not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        cdef size_t done = 0
        cdef mmb_counted counted
        if not self._writable or self._layout.remove_many == NULL:
            raise ValueError("no key can be removed from this payload")
        counted.num_keys = counted.num_saturated = 0
        if n > 0:
            with nogil:
                done = self._layout.remove_many(
                    &self._shape, self._payload, <const mmb_hash *>&hashes[0], n, &counted, self._marks)
        return done, counted.num_keys


cdef int take_shape(const mmb_layout *layout, uint32_t number, tuple numbers, mmb_shape *shape) except -1:
    """Fill in the shape of a payload in layout *number*. _kernel.pyi says what the numbers of each layout are."""
    cdef bint is_fuse = number == MMB_FUSE3 or number == MMB_FUSE4
    cdef uint32_t num_probes = numbers[0] if is_fuse else numbers[1]
    if num_probes < 1 or num_probes > layout.max_probes:  # the kernel has room for this many
        raise ValueError(f"num_probes is {num_probes}, not 1 to {layout.max_probes}")
    if is_fuse:
        shape.fuse = mmb_fuse_of(num_probes, numbers[1], numbers[2], numbers[3], numbers[4])
    elif number == MMB_COUNTERS:
        shape.counting.num_counters, shape.counting.num_probes = numbers[0], num_probes
    else:
        shape.bloom.num_bits, shape.bloom.num_probes = numbers[0], num_probes
    return 0
