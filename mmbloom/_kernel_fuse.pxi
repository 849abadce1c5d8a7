# FuseCore: look-ups of a FuseFilter without a Python frame; and the construction of one shard. See _kernel.pyi.


cdef class FuseCore(FilterCore):
    """The fingerprints of one fuse filter over one payload."""

    cdef mmb_fuse _fuse

    def _attach(self, payload, uint32_t arity, uint32_t fingerprint_bits, uint32_t segment_slots, uint32_t num_segments,
                uint32_t num_shards, uint64_t seed, int key_form, *, uint64_t keys_added):
        self._fuse = mmb_fuse_of(arity, fingerprint_bits, segment_slots, num_segments, num_shards)
        self._lookup.shape = &self._fuse
        self._lookup.contains_many = mmb_fuse_look_up
        self._lookup.pages_of = mmb_fuse_pages_of
        self._lookup.pages_per_key = 2 * MMB_FUSE_MAX_ARITY + 1
        self._hold(payload, 8 * mmb_fuse_bytes(&self._fuse), False, seed, key_form, keys_added)

    def __contains__(self, key):
        cdef mmb_hash digest
        self._hash_while_open(key, &digest)
        return mmb_fuse_contains(&self._fuse, self._payload, digest)


def fuse_shard(const uint8_t[::1] hashes not None, uint32_t arity, uint32_t fingerprint_bits, uint32_t segment_slots,
               uint32_t num_segments, uint32_t num_shards, uint32_t max_seeds):
    cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
    cdef mmb_fuse fuse = mmb_fuse_of(arity, fingerprint_bits, segment_slots, num_segments, num_shards)
    cdef bytearray shard
    cdef uint8_t *target
    cdef uint64_t seed = 0
    cdef mmb_status status
    if n > MMB_FUSE_MAX_KEYS:
        raise ValueError(f"{n} hashes in a shard, at most {MMB_FUSE_MAX_KEYS}")
    shard = bytearray(fuse.shard_bytes)
    target = <uint8_t *>PyByteArray_AS_STRING(shard)
    with nogil:
        status = mmb_fuse_construct(
            &fuse, <const mmb_hash *>&hashes[0] if n > 0 else NULL, n, max_seeds, target, &seed)
    if status == MMB_NO_MEMORY:
        raise MemoryError
    return None if status == MMB_UNSOLVABLE else (seed, shard)
