# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, binding=False, embedsignature=True
"""The native engine: Python objects in front of the C kernel.

Checks what it is given, releases the GIL, calls C and turns a status into an exception. The one loop over keys that is
not in C walks Python objects, which C may not know about here. mmbloom.engine.reference has the same names in plain Python and is
their specification; _kernel.pyi documents them.

What may run without the GIL: anything that reads exported buffers, or immutable keys to which a piece holds references.
The parts: _kernel_keys.pxi (keys and batches), _kernel_guard.pxi (files that are cut), _kernel_view.pxi (a payload looked up
and changed), _kernel_core.pxi (what a filter answers from), _kernel_fuse.pxi (building fuse filters), _kernel_payloads.pxi
(whole payloads), _kernel_partition.pxi (hashes by the million, for building); here are hashes and counts.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_Check, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE)
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport UINT32_MAX
from libc.string cimport memcmp, memset
from posix.time cimport clock_gettime, timespec

import errno
import os
import threading

from mmbloom.errors import ClosedError, KeyTypeError, KeyValueError, MmbloomError, SourceError

cdef extern from "Python.h":
    bint PyUnicode_Check(object text)
    bint PyUnicode_CheckExact(object text)
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    int PyUnicode_KIND(object text)
    void *PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    PyObject **PySequence_Fast_ITEMS(object keys)
    Py_ssize_t PySequence_Fast_GET_SIZE(object keys)

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030C0000
    #define mmb_text_is_ready(text) PyUnicode_READY(text)
    #else /* every str is ready: PEP 623 */
    #define mmb_text_is_ready(text) 0
    #endif
    #if defined(__GNUC__)
    #define mmb_prefetch(address) __builtin_prefetch((address), 0, 3)
    #else
    #define mmb_prefetch(address) ((void)(address))
    #endif
    """
    void mmb_prefetch(const void *address) nogil
    int mmb_text_is_ready(object text) except -1

cdef extern from "<time.h>" nogil:
    int CLOCK_MONOTONIC_COARSE

ENGINE = "kernel"

# Python objects are gathered under the GIL in pieces of this many keys; the rest of the work on a piece needs no GIL. Large
# enough that a thread which has to wait for the GIL waits seldom, small enough that a piece stays in the L2 cache.
cdef Py_ssize_t PIECE_KEYS = 16384
cdef Py_ssize_t OBJECTS_AHEAD = 16  # shuffled keys: 118 ns each without this, 40 with
cdef Py_ssize_t SMALL_PIECE = 256   # below this a piece takes less time than giving the GIL back


include "_kernel_keys.pxi"
include "_kernel_guard.pxi"
include "_kernel_view.pxi"
include "_kernel_core.pxi"
include "_kernel_fuse.pxi"
include "_kernel_payloads.pxi"
include "_kernel_partition.pxi"


# ---- hashes ------------------------------------------------------------------------------------------------------------

def hash_key(key, uint64_t seed, int key_form):
    cdef mmb_hash digest
    cdef mmb_keying keying
    keying.seed = seed
    keying.form = <mmb_key_form>key_form
    hash_one(key, &keying, &digest)
    return digest.hi, digest.lo


def hash_batch(batch, uint64_t seed, int key_form):
    cdef mmb_keying keying
    cdef mmb_status status
    cdef size_t count = 0
    cdef Py_ssize_t capacity = len(batch)
    cdef bytearray hashes = PyByteArray_FromStringAndSize(NULL, sizeof(mmb_hash) * capacity)
    cdef mmb_hash *out = <mmb_hash *>PyByteArray_AS_STRING(hashes)
    cdef mmb_source source
    keying.seed = seed
    keying.form = <mmb_key_form>key_form
    if isinstance(batch, ObjectBatch):
        hash_objects(batch, &keying, out)
        return hashes
    source = (<MemoryBatch?>batch)._source  # a copy: other threads may read the batch too
    with nogil:
        status = mmb_hash_source(&source, &keying, out, <size_t>capacity, &count)
    if status != MMB_OK:
        raise key_error(status, batch.describe(count))
    if count < <size_t>capacity:
        PyByteArray_Resize(hashes, <Py_ssize_t>(count * sizeof(mmb_hash)))
    return hashes


cdef int hash_objects(ObjectBatch batch, const mmb_keying *keying, mmb_hash *out) except -1:
    cdef Py_ssize_t first
    cdef size_t count = 0
    cdef mmb_status status
    if not gil_is_wanted():
        batch.hash_some(0, batch._total, keying, out)
        return 0
    batch.start()
    while True:
        first = batch.advance()
        if batch.size == 0:
            return 0
        if batch.size <= SMALL_PIECE:
            status = mmb_hash_views(batch.views, batch.size, keying.seed, keying.form, out + first, &count)
        else:
            with nogil:
                status = mmb_hash_views(batch.views, batch.size, keying.seed, keying.form, out + first, &count)
        if status != MMB_OK:
            raise key_error(status, batch.describe(first + <Py_ssize_t>count))


def sort_unique(uint8_t[::1] hashes not None, uint8_t[::1] scratch not None):
    cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
    cdef size_t distinct
    if scratch.shape[0] < hashes.shape[0]:
        raise ValueError(f"scratch holds {scratch.shape[0]} bytes, hashes {hashes.shape[0]}")
    if n >= UINT32_MAX:
        raise ValueError(f"{n} hashes: sort them in parts of less than 2^32")
    if n == 0:
        return 0
    with nogil:
        distinct = mmb_sort_unique(<mmb_hash *>&hashes[0], <mmb_hash *>&scratch[0], n)
    return distinct


def order_by_part(const uint8_t[::1] hashes not None, uint64_t num_parts, uint8_t[::1] out not None):
    cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
    if out.shape[0] < hashes.shape[0]:
        raise ValueError(f"out holds {out.shape[0]} bytes, hashes {hashes.shape[0]}")
    if n >= UINT32_MAX or num_parts == 0:
        raise ValueError(f"{n} hashes in {num_parts} parts: less than 2^32, in at least one")
    if n > 0:
        with nogil:
            mmb_order_by_part(<const mmb_hash *>&hashes[0], n, num_parts, <mmb_hash *>&out[0])


def sum_hashes(const uint8_t[::1] hashes not None):
    cdef size_t n = <size_t>hashes.shape[0] // sizeof(mmb_hash)
    cdef mmb_hash total
    total.hi = total.lo = 0
    if n > 0:
        with nogil:
            total = mmb_sum_hashes(<const mmb_hash *>&hashes[0], n)
    return (<object>total.hi << 64) | <object>total.lo


def count_lines(const uint8_t[::1] data not None):
    cdef size_t count = 0
    if data.shape[0] > 0:
        with nogil:
            count = mmb_count_lines(&data[0], <size_t>data.shape[0])
    return count


# ---- payloads ----------------------------------------------------------------------------------------------------------

def checksum64(const uint8_t[::1] data not None):
    cdef uint64_t digest
    cdef size_t length = <size_t>data.shape[0]
    with nogil:
        digest = mmb_checksum64(&data[0] if length > 0 else NULL, length)
    return digest


def popcount(const uint8_t[::1] data not None):
    cdef uint64_t count = 0
    if data.shape[0] > 0:
        with nogil:
            count = mmb_popcount(&data[0], <size_t>data.shape[0])
    return count


def line_histogram(const uint8_t[::1] data not None):
    cdef uint64_t histogram[513]
    memset(histogram, 0, sizeof(histogram))
    if data.shape[0] > 0:
        with nogil:
            mmb_line_histogram(&data[0], <size_t>data.shape[0] // 64, histogram)
    return [histogram[i] for i in range(513)]


def page_fill(const uint8_t[::1] data not None, lower, upper):
    cdef double powers[2][513]
    cdef double total = 0.0
    for i in range(513):
        powers[0][i] = lower[i]
        powers[1][i] = upper[i]
    if data.shape[0] > 0:
        with nogil:
            total = mmb_page_fill(&data[0], <size_t>data.shape[0] // MMB_PAGE_BYTES, powers[0], powers[1])
    return total


def page_halves(const uint8_t[::1] data not None):
    cdef uint64_t set_bits[2]
    set_bits[0] = set_bits[1] = 0
    if data.shape[0] > 0:
        with nogil:
            mmb_page_halves(&data[0], <size_t>data.shape[0] // MMB_PAGE_BYTES, set_bits)
    return set_bits[0], set_bits[1]


def payloads_equal(const uint8_t[::1] left not None, const uint8_t[::1] right not None):
    cdef int difference = 0
    if left.shape[0] != right.shape[0]:
        return False
    if left.shape[0] > 0:
        with nogil:
            difference = memcmp(&left[0], &right[0], <size_t>left.shape[0])
    return difference == 0
