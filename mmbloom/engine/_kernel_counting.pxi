# CountingCore: the part of CountingBloomFilter that must not cost a Python frame. See _kernel.pyi for the contract.


cdef class CountingCore(ChangingCore):
    """The counters of one filter over one payload. CountingBloomFilter inherits from it."""

    cdef mmb_counting _counting
    cdef uint64_t _saturated   # counters that are at the most, and stay there
    cdef bint _has_removed     # since the count was last compared with the counters: it may have drifted
    cdef uint64_t _drift       # by so much, at most, the count was too high when it was compared
    cdef mmb_hash _recent[MAX_CANARIES]  # the latest keys added, in a ring: the first may be removed first
    cdef size_t _num_recent    # ever; the ring holds the last MAX_CANARIES of them

    def _attach(self, payload, uint64_t num_counters, uint32_t num_probes, uint64_t seed, int key_form, *, bint writable,
                bint write_through, uint64_t keys_added, limit, uint64_t num_saturated):
        if num_counters == 0 or num_counters % MMB_LINE_COUNTERS != 0 or num_counters > 1 << 53:
            raise ValueError(f"num_counters is {num_counters}; not a multiple of {MMB_LINE_COUNTERS}")
        self._counting.num_counters = num_counters
        self._counting.num_probes = num_probes
        self._saturated = num_saturated
        self._has_removed = keys_added > 0
        self._drift = 0
        self._lookup.shape = &self._counting
        self._lookup.contains_many = mmb_counting_look_up
        self._lookup.pages_of = mmb_counting_pages_of
        self._lookup.pages_per_key = 1
        self._hold_changing(
            payload, 4 * num_counters, writable, write_through, seed, key_form, keys_added, limit)

    cdef int _take_shape(self, FilterCore other) except -1:
        cdef CountingCore its = <CountingCore?>other
        ChangingCore._take_shape(self, other)
        self._counting = its._counting
        self._saturated = its._saturated
        self._has_removed = its._has_removed
        self._drift = its._drift
        self._recent = its._recent
        self._num_recent = its._num_recent
        return 0

    @property
    def num_saturated(self):
        return self._saturated

    @num_saturated.setter
    def num_saturated(self, uint64_t number):
        self._saturated = number

    def _keys_by_estimate(self):
        """Hook: a count of the keys that is not too high. Called with the mutex held."""
        return self._keys_added

    cdef uint64_t _room(self) noexcept:
        cdef uint64_t fewest = self._keys_added - min(self._keys_added, self._drift)
        return self._limit - fewest if self._limit > fewest else 0

    cdef uint64_t _room_after_removals(self, uint64_t wanted=1) except? 0:
        """The room; if less than is wanted and the count may have drifted, as the counters tell. The mutex is held."""
        cdef uint64_t fewest
        if self._room() < wanted and self._has_removed:
            self._has_removed = False
            fewest = self._keys_by_estimate()
            self._drift = self._keys_added - min(self._keys_added, fewest)
        return self._room()

    def _has_room_for(self, uint64_t num_keys):
        with self._mutex:
            return self._room_after_removals(num_keys) >= num_keys

    cdef void _keep_added(self, const mmb_hash *hashes, size_t n) noexcept:
        """Any of the first keys and of the latest may be a canary, as long as it is in."""
        cdef size_t i
        self._keep_canaries(hashes, n)
        for i in range(n - min(n, <size_t>MAX_CANARIES), n):
            self._recent[self._num_recent % MAX_CANARIES] = hashes[i]
            self._num_recent += 1

    cdef void _drop_lost_canaries(self, const mmb_hash *removed) noexcept:
        """A key that is gone is no canary, and makes room for another. One key was removed; NULL: any may have been."""
        cdef size_t i
        cdef size_t kept = 0
        for i in range(self._num_canaries):
            if (removed != NULL and not mmb_counting_meet(&self._counting, self._canaries[i], removed[0])
                    or mmb_counting_contains(&self._counting, self._payload, self._canaries[i])):
                self._canaries[kept] = self._canaries[i]
                kept += 1
        self._num_canaries = kept

    @property
    def _canary_hashes(self):
        cdef size_t i
        first = [(self._canaries[i].hi, self._canaries[i].lo) for i in range(self._num_canaries)]
        start = self._num_recent - min(self._num_recent, <size_t>MAX_CANARIES)
        ring = [i % MAX_CANARIES for i in range(start, self._num_recent)]
        latest = [(self._recent[i].hi, self._recent[i].lo) for i in ring]
        return tuple(dict.fromkeys(first + latest))

    @_canary_hashes.setter
    def _canary_hashes(self, hashes):
        self._num_canaries = self._num_recent = 0
        for hi, lo in hashes[:MAX_CANARIES]:
            self._canaries[self._num_canaries].hi = hi
            self._canaries[self._num_canaries].lo = lo
            self._num_canaries += 1

    # -- one key ------------------------------------------------------------------------------------------------------

    def __contains__(self, key):
        cdef mmb_hash digest
        self._hash_while_open(key, &digest)
        return self._answer(mmb_counting_contains(&self._counting, self._payload, digest))

    def count_estimate(self, key, /):
        cdef mmb_hash digest
        cdef uint32_t least
        self._hash_while_open(key, &digest)
        least = mmb_counting_least(&self._counting, self._payload, digest)
        self._check_guard()
        return least

    def add(self, key, /):
        cdef mmb_hash digest
        cdef mmb_counted counted
        hash_one(key, &self._keying, &digest)
        if self._payload == NULL or not self._writable:
            self._check_writable()
        if self._adding or self._write_through or self._keys_added >= self._limit:
            with self._mutex:
                return self._add_some(&digest, 1) == 1
        mmb_counting_add_many(&self._counting, self._payload, &digest, 1, 1, &counted, NULL)
        self._keys_added += counted.num_keys
        self._saturated += counted.num_saturated
        self._keep_added(&digest, 1)
        return counted.num_keys == 1

    def remove(self, key, /):
        cdef mmb_hash digest
        cdef mmb_counted counted
        hash_one(key, &self._keying, &digest)
        if self._payload == NULL or not self._writable:
            self._check_writable()
        if self._adding or self._write_through:
            with self._mutex:
                return self._remove_some(&digest, 1) == 1
        if mmb_counting_remove_many(&self._counting, self._payload, &digest, 1, &counted, NULL) == 0:
            raise AbsentKeyError(self._where(), 0)
        self._count_removed(&digest, counted.num_keys)
        return counted.num_keys == 1

    # -- batches ------------------------------------------------------------------------------------------------------

    def _add_hashes(self, const uint8_t[::1] hashes not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        with self._mutex:
            self._check_writable()
            return self._add_some(<const mmb_hash *>&hashes[0], n) if n > 0 else 0

    def _remove_hashes(self, const uint8_t[::1] hashes not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        with self._mutex:
            self._check_writable()
            return self._remove_some(<const mmb_hash *>&hashes[0], n) if n > 0 else 0

    cdef uint64_t _add_some(self, const mmb_hash *hashes, size_t n) except? 0:
        """Add in order, return how many were new. The mutex is held."""
        cdef size_t done = 0
        cdef size_t now = 0
        cdef uint64_t num_new = 0
        cdef uint64_t room
        cdef mmb_counted counted
        cdef uint8_t *payload
        cdef const mmb_dirty *dirty = self._marked()
        self._check_writable()
        payload = self._pin()
        self._adding = True
        try:
            while True:
                room = self._room()
                with nogil:
                    now = mmb_counting_add_many(
                        &self._counting, payload, hashes + done, n - done, room, &counted, dirty)
                self._keep_added(hashes + done, now)
                self._keys_added += counted.num_keys
                self._saturated += counted.num_saturated
                num_new += counted.num_keys
                done += now
                if done == n or self._room_after_removals() == 0:
                    break
            self._publish_marks(done)
        finally:
            self._adding = False
            self._unpin()
        if done < n:
            raise CapacityError(self._where(), self._limit, num_new)
        return num_new

    cdef uint64_t _remove_some(self, const mmb_hash *hashes, size_t n) except? 0:
        """Remove in order, return how many are certainly absent now. The mutex is held."""
        cdef size_t done = 0
        cdef mmb_counted counted
        cdef uint8_t *payload
        cdef const mmb_dirty *dirty = self._marked()
        self._check_writable()
        payload = self._pin()
        self._adding = True
        try:
            with nogil:
                done = mmb_counting_remove_many(&self._counting, payload, hashes, n, &counted, dirty)
            if done > 0:
                self._count_removed(hashes if n == 1 else NULL, counted.num_keys)
                self._publish_marks(done)
        finally:
            self._adding = False
            self._unpin()
        if done < n:
            raise AbsentKeyError(self._where(), done)
        return counted.num_keys

    cdef void _count_removed(self, const mmb_hash *removed, uint64_t num_gone) noexcept:
        self._has_removed = True
        self._keys_added -= min(self._keys_added, num_gone)
        self._drop_lost_canaries(removed)

    # -- whole payloads -----------------------------------------------------------------------------------------------

    def _load(self, other, uint64_t keys_added):
        with self._mutex:
            ChangingCore._load(self, other, keys_added)
            self._count_saturated()
            self._has_removed = True

    cdef void _count_saturated(self) noexcept:
        """Count the full counters anew. The mutex is held."""
        cdef uint64_t histogram[129]
        cdef const uint8_t *payload = self._payload
        cdef size_t num_lines = <size_t>self._buffer.len // MMB_LINE_BYTES
        with nogil:
            self._saturated = mmb_counting_histogram(payload, num_lines, histogram)

    def _combine(self, const uint8_t[::1] other, str operation, uint64_t keys_added):
        """Counters += those of *other* ("or"), or all zero ("clear"). keys_added becomes what is given."""
        cdef uint8_t *payload
        cdef size_t size
        cdef bint union = operation == "or"
        if not union and operation != "clear":
            raise KeyError(operation)
        with self._mutex:
            self._check_writable()
            size = <size_t>self._buffer.len
            if union and <size_t>other.shape[0] != size:
                raise ValueError(f"payloads of {size} and {other.shape[0]} bytes")
            payload = self._pin()
            self._adding = True
            try:
                with nogil:
                    if union:
                        mmb_counting_unite(payload, &other[0], size)
                    else:
                        memset(payload, 0, size)
                self._count_saturated()
                self._keys_added = keys_added
                self._has_removed = True
                self._drop_lost_canaries(NULL)
                self._mark_everything()
            finally:
                self._adding = False
                self._unpin()


# -- whole payloads of counters -------------------------------------------------------------------------------------------

def counter_histogram(const uint8_t[::1] payload not None):
    cdef uint64_t histogram[129]
    cdef uint64_t saturated = 0
    memset(histogram, 0, sizeof(histogram))
    if payload.shape[0] > 0:
        with nogil:
            saturated = mmb_counting_histogram(&payload[0], <size_t>payload.shape[0] // MMB_LINE_BYTES, histogram)
    return [histogram[i] for i in range(129)], saturated


def count_part(uint8_t[::1] target not None, uint64_t first, uint64_t num_bits, uint32_t num_probes,
               const uint8_t[::1] hashes not None):
    cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
    cdef mmb_counting counting
    counting.num_counters, counting.num_probes = num_bits // 4, num_probes
    if first % MMB_LINE_BYTES or target.shape[0] % MMB_LINE_BYTES:
        raise ValueError(f"bytes {first} to {first + target.shape[0]}: not whole blocks of {MMB_LINE_BYTES}")
    if n > 0 and target.shape[0] > 0:
        with nogil:
            mmb_counting_add_part(
                &counting, &target[0], first, <uint64_t>target.shape[0], <const mmb_hash *>&hashes[0], n)


def unite_counters(uint8_t[::1] target not None, const uint8_t[::1] other not None):
    cdef size_t size = <size_t>target.shape[0]
    if <size_t>other.shape[0] != size:
        raise ValueError(f"payloads of {size} and {other.shape[0]} bytes")
    if size > 0:
        with nogil:
            mmb_counting_unite(&target[0], &other[0], size)


def flatten_counters(const uint8_t[::1] payload not None, uint8_t[::1] bits not None):
    cdef size_t num_lines = <size_t>payload.shape[0] // MMB_LINE_BYTES
    if <size_t>bits.shape[0] < num_lines * MMB_NARROW_BYTES:
        raise ValueError(f"bits of {bits.shape[0]} bytes for {num_lines} lines of counters")
    if num_lines > 0:
        with nogil:
            mmb_counting_flatten(&payload[0], num_lines, &bits[0])


def narrow_histogram(const uint8_t[::1] data not None):
    cdef uint64_t histogram[129]
    memset(histogram, 0, sizeof(histogram))
    if data.shape[0] > 0:
        with nogil:
            mmb_narrow_histogram(&data[0], <size_t>data.shape[0] // MMB_NARROW_BYTES, histogram)
    return [histogram[i] for i in range(129)]
