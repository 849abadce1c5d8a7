# Hashes in partitions, and payloads built from them in parts.


cdef class Partitions:
    """See _kernel.pyi. Lanes are filled by one thread each; everything else waits until no lane is being filled."""

    cdef mmb_arena _arena
    cdef mmb_lane *_lanes
    cdef size_t _num_lanes
    cdef uint8_t[::1] _memory
    cdef uint32_t[::1] _next
    cdef bytearray _tables  # heads, fills and staged of every lane

    def __cinit__(self, memory not None, unsigned bits, size_t num_lanes):
        cdef size_t count
        cdef size_t i
        cdef size_t stage_bytes
        cdef uint32_t *tables
        if not 1 <= bits <= 16 or num_lanes < 1:
            raise ValueError(f"{bits} bits, {num_lanes} lanes: at least 1, bits at most 16")
        self._memory = memory
        count = <size_t>1 << bits
        stage_bytes = num_lanes * count * MMB_STAGED_HASHES * sizeof(mmb_hash)
        stage_bytes += -stage_bytes % MMB_PAGE_BYTES
        if <size_t>self._memory.shape[0] <= stage_bytes or <size_t>&self._memory[0] % MMB_PAGE_BYTES != 0:
            raise ValueError(f"memory: more than {stage_bytes} bytes, on a page boundary")
        self._arena.bits = bits
        self._arena.chunks = <mmb_hash *>(&self._memory[0] + stage_bytes)
        self._arena.num_chunks = <uint32_t>min(
            (<size_t>self._memory.shape[0] - stage_bytes) // MMB_PAGE_BYTES, <size_t>UINT32_MAX - 1)
        if self._arena.num_chunks == 0:
            raise ValueError("memory: not a page for a chunk")
        self._next = memoryview(bytearray(4 * self._arena.num_chunks)).cast("I")
        self._arena.next = &self._next[0]
        self._tables = bytearray(num_lanes * count * 3 * sizeof(uint32_t))
        tables = <uint32_t *>PyByteArray_AS_STRING(self._tables)
        self._lanes = <mmb_lane *>PyMem_Malloc(num_lanes * sizeof(mmb_lane))
        if self._lanes == NULL:
            raise MemoryError
        self._num_lanes = num_lanes
        for i in range(num_lanes):
            self._lanes[i].arena = &self._arena
            self._lanes[i].heads = tables + 3 * i * count
            self._lanes[i].fills = tables + (3 * i + 1) * count
            self._lanes[i].staged = tables + (3 * i + 2) * count
            self._lanes[i].stage = <mmb_hash *>&self._memory[0] + i * count * MMB_STAGED_HASHES
        mmb_partition_clear(&self._arena, self._lanes, num_lanes)

    def __dealloc__(self):
        PyMem_Free(self._lanes)

    cdef mmb_lane *_lane(self, size_t lane) except NULL:
        if lane >= self._num_lanes:
            raise IndexError(f"lane {lane} of {self._num_lanes}")
        return &self._lanes[lane]

    cdef int _check_partition(self, size_t partition) except -1:
        if partition >= <size_t>1 << self._arena.bits:
            raise IndexError(f"partition {partition} of {<size_t>1 << self._arena.bits}")
        return 0

    cdef int _check_room(self, uint32_t chunks) except -1:
        if chunks > self.chunks_left:
            raise MemoryError(f"no room for {chunks} chunks: spill first")
        return 0

    @property
    def chunks_left(self):
        # Sorting a partition in place may take one more than it had: what waited in two stages.
        return max(0, <Py_ssize_t>self._arena.num_free - (<Py_ssize_t>1 << self._arena.bits))

    def chunks_for(self, size_t num_keys):
        return mmb_partition_chunks_for(&self._arena, num_keys)

    def clear(self):
        mmb_partition_clear(&self._arena, self._lanes, self._num_lanes)

    def add_hashes(self, size_t lane, const uint8_t[::1] hashes not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        cdef mmb_lane *filled = self._lane(lane)
        self._check_room(mmb_partition_chunks_for(&self._arena, n))
        if n > 0:
            with nogil:
                mmb_partition_add(filled, <const mmb_hash *>&hashes[0], n)

    def add_batch(self, size_t lane, MemoryBatch batch not None, uint64_t seed, int key_form, bint skip_bad):
        cdef mmb_lane *filled = self._lane(lane)
        cdef mmb_source source = batch._source  # a copy: other threads may read the batch too
        cdef mmb_keying keying
        cdef mmb_bad_keys bad
        cdef mmb_status status
        cdef size_t count = 0
        cdef size_t most = batch._most_keys()
        keying.seed = seed
        keying.form = <mmb_key_form>key_form
        self._check_room(mmb_partition_chunks_for(&self._arena, most))
        with nogil:
            status = mmb_partition_source(filled, &source, &keying, most, skip_bad, &bad, &count)
        shown = min(bad.count, <size_t>MMB_MOST_BAD)
        if status != MMB_OK:  # the last one noted, or one beyond those that are noted: then memory ran out
            raise key_error(status, batch.place(bad.where[shown - 1]))
        if count == most and source.layout == MMB_LINES and source.next < source.data_bytes:
            raise ValueError(f"the batch has more than the {batch._num_lines} lines that it was said to have")
        return count, bad.count, [key_error(bad.status[i], batch.place(bad.where[i])) for i in range(shown)]

    def count(self, size_t partition):
        cdef size_t total = 0
        cdef size_t i
        self._check_partition(partition)
        for i in range(self._num_lanes):
            total += mmb_partition_count(&self._lanes[i], partition)
        return total

    def copy(self, size_t partition, uint8_t[::1] out not None, size_t skip=0):
        cdef size_t room = <size_t>out.shape[0] // sizeof(mmb_hash)
        cdef size_t done = 0
        cdef size_t count
        cdef size_t i
        self._check_partition(partition)
        if room == 0:
            return 0
        with nogil:
            for i in range(self._num_lanes):
                count = mmb_partition_count(&self._lanes[i], partition)
                if skip < count:
                    done += mmb_partition_copy(
                        &self._lanes[i], partition, skip, <mmb_hash *>&out[0] + done, room - done)
                    skip = 0
                else:
                    skip -= count
        return done

    def take(self, size_t partition, uint8_t[::1] out not None):
        cdef size_t room = <size_t>out.shape[0] // sizeof(mmb_hash)
        cdef size_t done = 0
        cdef size_t i
        self._check_partition(partition)
        if room < MMB_CHUNK_HASHES + MMB_STAGED_HASHES:
            raise ValueError(f"out holds {room} hashes; a chunk has {MMB_CHUNK_HASHES}")
        with nogil:
            for i in range(self._num_lanes):
                if room - done >= MMB_CHUNK_HASHES + MMB_STAGED_HASHES:
                    done += mmb_partition_take(&self._lanes[i], partition, <mmb_hash *>&out[0] + done, room - done)
        return done

    def put_back(self, size_t lane, size_t partition, const uint8_t[::1] hashes not None):
        cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
        cdef const mmb_hash *sorted_hashes
        cdef unsigned shift = 64 - self._arena.bits
        cdef mmb_lane *filled = self._lane(lane)
        self._check_partition(partition)
        if n == 0:
            return
        sorted_hashes = <const mmb_hash *>&hashes[0]
        if sorted_hashes[0].hi >> shift != partition or sorted_hashes[n - 1].hi >> shift != partition:
            raise ValueError(f"not the sorted hashes of partition {partition}")
        if n // MMB_CHUNK_HASHES + 1 > self._arena.num_free:
            raise MemoryError(f"no room for {n} hashes")
        with nogil:
            mmb_partition_add(filled, sorted_hashes, n)

