# Fuse filters: the construction of one shard. See _kernel.pyi for the contract.


def fuse_scratch_bytes(uint32_t arity, uint32_t segment_slots, uint32_t num_segments):
    cdef mmb_fuse fuse = mmb_fuse_of(arity, 1, segment_slots, num_segments, 1)
    return mmb_fuse_scratch_bytes(&fuse)


def fuse_shard(const uint8_t[::1] hashes not None, uint32_t arity, uint32_t fingerprint_bits, uint32_t segment_slots,
               uint32_t num_segments, uint32_t num_shards, uint32_t max_seeds, uint8_t[::1] scratch not None):
    cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
    cdef mmb_fuse fuse = mmb_fuse_of(arity, fingerprint_bits, segment_slots, num_segments, num_shards)
    cdef uint64_t needed = mmb_fuse_scratch_bytes(&fuse)
    cdef bytearray shard
    cdef uint8_t *target
    cdef uint64_t seed = 0
    cdef mmb_status status
    if n > MMB_FUSE_MAX_KEYS:
        raise ValueError(f"{n} hashes in a shard, at most {MMB_FUSE_MAX_KEYS}")
    if <uint64_t>scratch.shape[0] < needed or <size_t>&scratch[0] % sizeof(uint32_t) != 0:
        raise ValueError(f"scratch holds {scratch.shape[0]} bytes; {needed} are needed, on a 4-byte boundary")
    shard = bytearray(fuse.shard_bytes)
    target = <uint8_t *>PyByteArray_AS_STRING(shard)
    with nogil:
        status = mmb_fuse_construct(
            &fuse, <const mmb_hash *>&hashes[0] if n > 0 else NULL, n, max_seeds, <uint32_t *>&scratch[0], target, &seed)
    if status == MMB_UNORDERED:
        raise ValueError("the hashes of a shard are not in order")
    return (seed, shard) if status == MMB_OK else None
