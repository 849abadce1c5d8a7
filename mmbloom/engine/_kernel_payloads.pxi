# Whole payloads, and payloads built in parts. See _kernel.pyi for the contract.

# The probe scheme of each layout, by its number.
cdef tuple SCHEMES = (0, 1, 2, 3, 4, 5, 6, 4)


cdef const mmb_layout *layout_of(uint32_t layout) except NULL:
    cdef const mmb_layout *found = NULL
    if layout < <uint32_t>len(SCHEMES):
        found = mmb_layout_of(layout, SCHEMES[layout])
    if found == NULL:
        raise ValueError(f"layout {layout} is unknown")
    return found


cdef int add_to_part(uint32_t number, tuple numbers, uint8_t[::1] target, uint64_t first, const uint8_t[::1] hashes) except -1:
    cdef const mmb_layout *layout = layout_of(number)
    cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
    cdef uint64_t block_bytes = max(layout.block_bytes, <uint64_t>1)
    cdef mmb_shape shape
    take_shape(layout, number, numbers, &shape)
    if first % block_bytes or <uint64_t>target.shape[0] % block_bytes:
        raise ValueError(f"bytes {first} to {first + target.shape[0]}: not whole blocks of {block_bytes}")
    if n > 0 and target.shape[0] > 0:
        with nogil:
            layout.add_part(&shape, &target[0], first, <uint64_t>target.shape[0], <const mmb_hash *>&hashes[0], n)
    return 0


def probes(int layout, uint64_t num_bits, uint32_t num_probes, uint64_t hi, uint64_t lo):
    cdef const mmb_layout *found = layout_of(layout)
    cdef mmb_shape shape
    cdef mmb_hash digest
    cdef uint64_t bits[MMB_MAX_PROBES]
    if num_probes > found.max_probes:
        raise ValueError(f"num_probes is {num_probes}, at most {found.max_probes}")
    shape.bloom.num_bits, shape.bloom.num_probes = num_bits, num_probes
    digest.hi, digest.lo = hi, lo
    found.probes(&shape, digest, bits)
    return [bits[i] for i in range(num_probes)]


def add_part(uint8_t[::1] target not None, uint64_t first, int layout, uint64_t num_bits, uint32_t num_probes,
             const uint8_t[::1] hashes not None):
    add_to_part(layout, (num_bits, num_probes), target, first, hashes)


def span(int layout, uint64_t num_bits, uint64_t lowest, uint64_t highest):
    cdef mmb_shape shape
    cdef uint64_t first = 0
    cdef uint64_t end = 0
    shape.bloom.num_bits, shape.bloom.num_probes = num_bits, 1
    mmb_layout_span(layout_of(layout), &shape, lowest, highest, &first, &end)
    return first, end


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
    add_to_part(MMB_COUNTERS, (num_bits // 4, num_probes), target, first, hashes)


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
