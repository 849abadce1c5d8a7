# The C kernel as Cython sees it. kernel/*.h say what each function requires and promises.

from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef extern from "mmb.h" nogil:
    ctypedef enum mmb_status:
        MMB_OK
        MMB_NO_MEMORY
        MMB_SURROGATE
        MMB_HEX_ODD
        MMB_HEX_DIGIT
        MMB_FIELD_MISSING
        MMB_UNSOLVABLE
        MMB_UNORDERED
        MMB_BLANK_LINE
        MMB_EMPTY_DIGEST

    ctypedef enum mmb_encoding:
        MMB_BYTES
        MMB_LATIN1
        MMB_UCS2
        MMB_UCS4

    ctypedef enum mmb_key_form:
        MMB_RAW
        MMB_HEX

    ctypedef struct mmb_view:
        const uint8_t *data
        uint64_t length
        uint32_t encoding

    ctypedef struct mmb_hash:
        uint64_t hi
        uint64_t lo


cdef extern from "hash.h" nogil:
    mmb_status mmb_hash_views(const mmb_view *views, size_t n, uint64_t seed, mmb_key_form form, mmb_hash *hashes,
                              size_t *count)
    mmb_hash mmb_hash_bytes(const uint8_t *data, size_t length, uint64_t seed)
    uint64_t mmb_checksum64(const uint8_t *data, size_t length)


cdef extern from "source.h" nogil:
    ctypedef enum mmb_source_layout:
        MMB_ROWS
        MMB_ROWS_TRIMMED
        MMB_ROWS_UCS4
        MMB_OFFSETS32
        MMB_OFFSETS64
        MMB_LINES

    ctypedef enum mmb_blank:
        MMB_BLANK_SKIP
        MMB_BLANK_KEY
        MMB_BLANK_BAD

    ctypedef struct mmb_source:
        mmb_source_layout layout
        const uint8_t *data
        size_t data_bytes
        const void *offsets
        size_t width
        size_t num_keys
        uint8_t delimiter
        uint8_t comment
        mmb_blank blank
        uint8_t digests
        size_t field
        size_t next

    bint mmb_offsets_are_valid(mmb_source_layout layout, const void *offsets, size_t num_keys, size_t data_bytes)
    mmb_status mmb_source_fill(mmb_source *source, mmb_view *views, size_t max, size_t *count)
    size_t mmb_count_lines(const uint8_t *data, size_t data_bytes)
    size_t mmb_text_select(const mmb_source *source, const uint8_t *flags, size_t num_flags, uint8_t wanted,
                            uint8_t *out)


cdef extern from "dirty.h" nogil:
    enum:
        MMB_PAGE_BYTES
        MMB_DIRTY_GROUP

    ctypedef struct mmb_dirty:
        uint8_t *pages
        uint8_t *groups


cdef extern from "fuse.h" nogil:
    enum:
        MMB_FUSE_MAX_KEYS

    ctypedef struct mmb_fuse:
        uint64_t shard_bytes

    mmb_fuse mmb_fuse_of(uint32_t arity, uint32_t fingerprint_bits, uint32_t segment_slots, uint32_t num_segments,
                         uint32_t num_shards)
    uint64_t mmb_fuse_scratch_bytes(const mmb_fuse *fuse)
    mmb_status mmb_fuse_construct(const mmb_fuse *fuse, const mmb_hash *hashes, size_t n, uint32_t max_seeds,
                                  uint32_t *scratch, uint8_t *shard, uint64_t *seed)


cdef extern from "layout.h" nogil:
    enum:
        MMB_LINE_BYTES
        MMB_NARROW_BYTES
        MMB_MAX_PROBES
        MMB_FUSE3
        MMB_FUSE4
        MMB_COUNTERS

    ctypedef struct mmb_bloom:
        uint32_t num_probes
        uint64_t num_bits

    ctypedef struct mmb_counting:
        uint32_t num_probes
        uint64_t num_counters

    ctypedef union mmb_shape:
        mmb_bloom bloom
        mmb_counting counting
        mmb_fuse fuse

    ctypedef struct mmb_counted:
        uint64_t num_keys
        uint64_t num_saturated

    ctypedef struct mmb_layout:
        uint64_t (*payload_bytes)(const mmb_shape *shape) noexcept nogil
        uint8_t (*contains)(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash) noexcept nogil
        void (*contains_many)(const mmb_shape *shape, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                              uint8_t *maybe) noexcept nogil
        size_t (*pages_of)(const mmb_shape *shape, const uint8_t *payload, const mmb_hash *hashes, size_t n,
                           uint64_t *pages) noexcept nogil
        void (*probes)(const mmb_shape *shape, mmb_hash hash, uint64_t *numbers) noexcept nogil
        unsigned (*add)(const mmb_shape *shape, uint8_t *payload, mmb_hash hash, mmb_counted *counted) noexcept nogil
        size_t (*add_many)(const mmb_shape *shape, uint8_t *payload, const mmb_hash *hashes, size_t n, uint64_t room,
                           mmb_counted *counted, const mmb_dirty *dirty) noexcept nogil
        size_t (*remove_many)(const mmb_shape *shape, uint8_t *payload, const mmb_hash *hashes, size_t n,
                              mmb_counted *counted, const mmb_dirty *dirty) noexcept nogil
        unsigned (*count_of)(const mmb_shape *shape, const uint8_t *payload, mmb_hash hash) noexcept nogil
        void (*add_part)(const mmb_shape *shape, uint8_t *target, uint64_t first, uint64_t num_bytes,
                         const mmb_hash *hashes, size_t n) noexcept nogil
        uint64_t block_bytes
        uint32_t max_probes
        uint32_t max_pages_per_key

    const mmb_layout *mmb_layout_of(uint32_t layout, uint32_t probe_scheme)
    void mmb_layout_span(const mmb_layout *layout, const mmb_shape *shape, uint64_t lowest, uint64_t highest,
                         uint64_t *first, uint64_t *end)


cdef extern from "counting.h" nogil:
    uint64_t mmb_counting_histogram(const uint8_t *payload, size_t num_lines, uint64_t *histogram)
    void mmb_counting_unite(uint8_t *target, const uint8_t *other, size_t num_bytes)
    void mmb_counting_flatten(const uint8_t *payload, size_t num_lines, uint8_t *bits)


cdef extern from "pipeline.h" nogil:
    ctypedef struct mmb_keying:
        uint64_t seed
        mmb_key_form form

    mmb_status mmb_hash_source(mmb_source *source, const mmb_keying *keying, mmb_hash *hashes, size_t max,
                               size_t *count)
    mmb_status mmb_contains_views(const mmb_layout *layout, const mmb_shape *shape, const uint8_t *payload,
                                  const mmb_keying *keying, const mmb_view *views, size_t n, uint8_t *maybe,
                                  size_t *count)
    mmb_status mmb_contains_source(const mmb_layout *layout, const mmb_shape *shape, const uint8_t *payload,
                                   const mmb_keying *keying, mmb_source *source, uint8_t *maybe, size_t max,
                                   size_t *count)


cdef extern from "bits.h" nogil:
    uint64_t mmb_popcount(const uint8_t *data, size_t num_bytes)
    void mmb_line_histogram(const uint8_t *data, size_t num_lines, uint64_t *histogram)
    void mmb_narrow_histogram(const uint8_t *data, size_t num_lines, uint64_t *histogram)
    double mmb_page_fill(const uint8_t *data, size_t num_pages, const double *lower, const double *upper)
    void mmb_page_halves(const uint8_t *data, size_t num_pages, uint64_t *set_bits)


cdef extern from "sort.h" nogil:
    size_t mmb_sort_unique(mmb_hash *hashes, mmb_hash *scratch, size_t n)
    void mmb_order_by_part(const mmb_hash *hashes, size_t n, uint64_t num_parts, mmb_hash *out)
    mmb_hash mmb_sum_hashes(const mmb_hash *hashes, size_t n)


cdef extern from "guard.h" nogil:
    ctypedef struct mmb_guard:
        pass

    int mmb_guard_install()
    bint mmb_guard_is_installed()
    mmb_guard *mmb_guard_watch(const void *start, size_t length, int fd)
    void mmb_guard_forget(mmb_guard *guard)
    int mmb_guard_is_whole(mmb_guard *guard)

cdef extern from "partition.h" nogil:
    enum:
        MMB_CHUNK_HASHES
        MMB_STAGED_HASHES
        MMB_MOST_BAD

    ctypedef struct mmb_arena:
        mmb_hash *chunks
        uint32_t *next
        uint32_t num_chunks
        unsigned bits
        uint32_t num_free

    ctypedef struct mmb_lane:
        mmb_arena *arena
        uint32_t *heads
        uint32_t *fills
        uint32_t *staged
        mmb_hash *stage

    ctypedef struct mmb_bad_keys:
        uint64_t where[8]
        mmb_status status[8]
        size_t count

    void mmb_partition_clear(mmb_arena *arena, mmb_lane *lanes, size_t num_lanes)
    uint32_t mmb_partition_chunks_for(const mmb_arena *arena, size_t n)
    void mmb_partition_add(mmb_lane *lane, const mmb_hash *hashes, size_t n)
    mmb_status mmb_partition_source(mmb_lane *lane, mmb_source *source, const mmb_keying *keying, size_t most, bint skip,
                                    mmb_bad_keys *bad, size_t *count)
    size_t mmb_partition_count(const mmb_lane *lane, size_t partition)
    size_t mmb_partition_copy(const mmb_lane *lane, size_t partition, size_t skip, mmb_hash *out, size_t max)
    size_t mmb_partition_take(mmb_lane *lane, size_t partition, mmb_hash *out, size_t max)
