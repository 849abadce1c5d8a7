# BloomCore: the part of BloomFilter that must not cost a Python frame. See _kernel.pyi for the contract.


cdef class BloomCore(ChangingCore):
    """The probes of one filter over one payload. BloomFilter inherits from it, so that `key in f` is a C slot."""

    cdef mmb_bloom _bloom

    def _attach(self, payload, int layout, uint64_t num_bits, uint32_t num_probes, uint64_t seed, int key_form, *,
                bint writable, bint write_through, uint64_t keys_added, limit):
        self._bloom.layout = <mmb_layout>layout
        self._bloom.num_bits = num_bits
        self._bloom.num_probes = num_probes
        self._lookup.shape = &self._bloom
        self._lookup.contains_many = mmb_bloom_look_up
        self._lookup.pages_of = mmb_bloom_pages_of
        self._lookup.pages_per_key = MMB_MAX_PROBES
        self._hold_changing(payload, num_bits, writable, write_through, seed, key_form, keys_added, limit)

    cdef int _take_shape(self, FilterCore other) except -1:
        cdef BloomCore its = <BloomCore?>other
        ChangingCore._take_shape(self, other)
        self._bloom = its._bloom
        return 0

    # -- one key ------------------------------------------------------------------------------------------------------

    def __contains__(self, key):
        cdef mmb_hash digest
        self._hash_while_open(key, &digest)
        return self._answer(mmb_bloom_contains(&self._bloom, self._payload, digest))

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
        if mmb_bloom_add_many(
                &self._bloom, self._payload, &digest, 1, self._room(), &num_new, self._marked()) == 0:
            raise CapacityError(self._where(), self._limit, 0)
        self._keep_canaries(&digest, 1)
        self._keys_added += num_new
        self._publish_marks(num_new)
        return num_new == 1

    # -- batches ------------------------------------------------------------------------------------------------------

    def _add_hashes(self, const uint8_t[::1] hashes not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        cdef size_t done = 0
        cdef uint64_t num_new = 0
        cdef uint64_t room
        cdef uint8_t *payload
        cdef const mmb_dirty *dirty = self._marked()
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
                self._publish_marks(num_new)
            finally:
                self._adding = False
                self._unpin()
        if done < n:
            raise CapacityError(self._where(), self._limit, num_new)
        return num_new

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
                self._mark_everything()
            finally:
                self._adding = False
                self._unpin()
