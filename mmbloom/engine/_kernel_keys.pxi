# Keys and batches of keys: where their bytes lie, and their hashes.


cdef int view_key(object key, mmb_view *view) except -1:
    """Point *view* at the characters of a str or the bytes of a bytes object, which must outlive it."""
    if PyUnicode_Check(key):
        mmb_text_is_ready(key)
        view.data = <const uint8_t *>PyUnicode_DATA(key)
        view.length = <uint64_t>PyUnicode_GET_LENGTH(key)
        if PyUnicode_IS_COMPACT_ASCII(key):
            view.encoding = MMB_BYTES
        else:  # KIND is 1, 2 or 4: the very numbers of mmb_encoding
            view.encoding = <uint32_t>PyUnicode_KIND(key)
        return 0
    view.data = <const uint8_t *>PyBytes_AS_STRING(key)
    view.length = <uint64_t>PyBytes_GET_SIZE(key)
    view.encoding = MMB_BYTES
    return 0


cdef object plain_key(object key, object where):
    """*key* itself if it is str or bytes, its bytes if it is bytearray or memoryview; else KeyTypeError."""
    if PyUnicode_Check(key) or PyBytes_Check(key):
        return key
    if isinstance(key, (bytearray, memoryview)):
        return bytes(key)
    name = type(key).__name__
    if isinstance(key, int) and not isinstance(key, bool):
        hint = "encode it with mmbloom.int_key(), or pass an integer array"
    else:
        hint = "encode it to str or bytes first"
    raise KeyTypeError(f"{where}: a key is str or bytes-like, not {name}: {hint}")


cdef object key_error(mmb_status status, object where):
    if status == MMB_NO_MEMORY:
        return MemoryError(f"{where}: no memory to encode it")
    if status == MMB_SURROGATE:
        return KeyValueError(
            f"{where}: a lone surrogate or a number beyond U+10FFFF has no UTF-8: decode the text properly, or pass bytes")
    if status == MMB_HEX_ODD:
        return KeyValueError(f"{where}: key form hex: an odd number of hexadecimal digits")
    if status == MMB_HEX_DIGIT:
        return KeyValueError(f"{where}: key form hex: a character that is not 0-9, a-f or A-F")
    if status == MMB_FIELD_MISSING:
        return SourceError(f"{where}: the line has fewer fields than the one asked for")
    if status == MMB_BLANK_LINE:
        return SourceError(f"{where}: an empty line")
    if status == MMB_EMPTY_DIGEST:
        return SourceError(f"{where}: an empty digest")
    return MmbloomError(f"{where}: status {status}")


cdef inline bint hash_plain(object key, const mmb_keying *keying, mmb_hash *digest) noexcept:
    """Hash an ordinary key, ASCII text or bytes in raw form; False for any other, which hash_any() takes."""
    if keying.form != MMB_RAW:
        return False
    if PyUnicode_CheckExact(key) and PyUnicode_IS_COMPACT_ASCII(key):
        digest[0] = mmb_hash_bytes(
            <const uint8_t *>PyUnicode_DATA(key), <size_t>PyUnicode_GET_LENGTH(key), keying.seed)
        return True
    if PyBytes_CheckExact(key):
        digest[0] = mmb_hash_bytes(
            <const uint8_t *>PyBytes_AS_STRING(key), <size_t>PyBytes_GET_SIZE(key), keying.seed)
        return True
    return False


cdef int hash_any(object key, const mmb_keying *keying, object batch, Py_ssize_t index, mmb_hash *digest) except -1:
    """Hash one key of any type; in an error it is key *index* of *batch*, if that is not None."""
    cdef mmb_view view
    cdef mmb_status status
    cdef size_t count
    where = "key" if batch is None else batch.describe(index)
    key = plain_key(key, where)
    view_key(key, &view)
    status = mmb_hash_views(&view, 1, keying.seed, keying.form, digest, &count)
    if status != MMB_OK:
        raise key_error(status, where)
    return 0


cdef inline int hash_one(object key, const mmb_keying *keying, mmb_hash *digest) except -1:
    if not hash_plain(key, keying, digest):
        hash_any(key, keying, None, 0, digest)
    return 0


cdef bint gil_is_wanted() except -1:
    """Whether another thread could use the GIL. One that is alone saves the references and the views."""
    return threading.active_count() > 1


cdef class ObjectBatch:
    """A list or tuple of keys, walked in pieces. A piece holds references to its keys, so that they stay alive (they are
    immutable) while the GIL is released and other threads change the list."""

    cdef object _keys
    cdef list _copies     # bytes of bytearray and memoryview keys, alive as long as the batch
    cdef mmb_view *views  # of the piece at hand
    cdef Py_ssize_t size  # keys in the piece at hand
    cdef Py_ssize_t _total
    cdef Py_ssize_t _done
    cdef Py_ssize_t _first
    cdef PyObject **_held

    def __cinit__(self, keys not None, Py_ssize_t first=0):
        cdef size_t room
        self._first = first
        self._keys = keys if isinstance(keys, (list, tuple)) else tuple(keys)
        self._total = PySequence_Fast_GET_SIZE(self._keys)  # len() may be overridden
        self._copies = []
        room = <size_t>min(max(self._total, 1), PIECE_KEYS)
        self.views = <mmb_view *>PyMem_Malloc(sizeof(mmb_view) * room)
        self._held = <PyObject **>PyMem_Malloc(sizeof(PyObject *) * room)
        if self.views == NULL or self._held == NULL:
            raise MemoryError

    def __dealloc__(self):
        self._release()
        PyMem_Free(self.views)
        PyMem_Free(self._held)

    def __len__(self):
        return self._total

    def describe(self, Py_ssize_t index):
        return f"key {self._first + index} of the batch"

    cdef int start(self) except -1:
        """Go back to the first key."""
        self._release()
        self._done = 0
        return 0

    cdef PyObject **items(self) except? NULL:
        """The keys, until the next call of anything that may run Python code. An empty list has NULL."""
        if PySequence_Fast_GET_SIZE(self._keys) != self._total:
            raise RuntimeError("the list of keys changed its size during the call")
        return PySequence_Fast_ITEMS(self._keys)

    cdef Py_ssize_t advance(self) except -1:
        """Gather the next piece and return the index of its first key; `size` is 0 after the last."""
        cdef Py_ssize_t first = self._done
        cdef PyObject **items
        cdef Py_ssize_t i
        cdef object key
        self._release()
        items = self.items()
        while self.size < PIECE_KEYS and self._done < self._total:
            i = self._done
            if i + OBJECTS_AHEAD < self._total:
                mmb_prefetch(items[i + OBJECTS_AHEAD])
            key = <object>items[i]
            if not (PyUnicode_Check(key) or PyBytes_Check(key)):
                try:
                    key = plain_key(key, self.describe(i))
                except KeyTypeError:
                    if self.size == 0:
                        raise
                    break  # a piece of its own: of two bad keys the first is reported
                self._copies.append(key)
                items = self.items()
            view_key(key, &self.views[self.size])
            Py_INCREF(key)
            self._held[self.size] = <PyObject *>key
            self.size += 1
            self._done += 1
        return first

    cdef Py_ssize_t hash_some(self, Py_ssize_t first, Py_ssize_t most, const mmb_keying *keying,
                              mmb_hash *out) except -1:
        """Hash up to *most* keys under the GIL, without views and references; return how many."""
        cdef Py_ssize_t end = min(first + most, self._total)
        cdef PyObject **items = self.items()
        cdef Py_ssize_t i
        cdef object key
        for i in range(first, end):
            if i + OBJECTS_AHEAD < self._total:
                mmb_prefetch(items[i + OBJECTS_AHEAD])
            if not hash_plain(<object>items[i], keying, &out[i - first]):
                key = <object>items[i]
                hash_any(key, keying, self, i, &out[i - first])
                items = self.items()
        return end - first

    cdef void _release(self) noexcept:
        while self.size > 0:
            self.size -= 1
            Py_DECREF(<object>self._held[self.size])


cdef class MemoryBatch:
    """Keys in one stretch of memory; the subclasses say in which layout."""

    cdef mmb_source _source
    cdef const uint8_t[::1] _data
    cdef const uint8_t[::1] _offsets
    cdef Py_ssize_t _first

    def __len__(self):
        return self._source.num_keys

    def describe(self, Py_ssize_t index):
        return f"key {self._first + index} of the batch"

    cdef object place(self, uint64_t where):
        """Name the key at a place, as the kernel tells it: the number of the key."""
        return self.describe(<Py_ssize_t>where)

    @property
    def most_keys(self):
        return self._most_keys()

    cdef size_t _most_keys(self):
        return self._source.num_keys


cdef class RowsBatch(MemoryBatch):
    def __init__(self, const uint8_t[::1] data not None, Py_ssize_t width, Py_ssize_t num_keys, str kind,
                 Py_ssize_t first=0):
        if width < 0 or num_keys < 0 or (width > 0 and num_keys > data.shape[0] // width):
            raise ValueError(f"{num_keys} rows of {width} bytes do not fit into {data.shape[0]} bytes")
        self._data = data
        self._first = first
        self._source.layout = {"bytes": MMB_ROWS, "trimmed": MMB_ROWS_TRIMMED, "ucs4": MMB_ROWS_UCS4}[kind]
        self._source.data = &data[0] if data.shape[0] > 0 else NULL
        self._source.data_bytes = <size_t>data.shape[0]
        self._source.width = <size_t>width
        self._source.num_keys = <size_t>num_keys


cdef class OffsetsBatch(MemoryBatch):
    cdef str _name
    cdef object _lines

    def __init__(self, const uint8_t[::1] data not None, const uint8_t[::1] offsets not None, int offset_bytes,
                 Py_ssize_t first=0, str name="", lines=None):
        cdef Py_ssize_t num_keys = offsets.shape[0] // offset_bytes - 1
        self._name = name
        self._lines = lines
        if num_keys < 0:
            raise ValueError("offsets are empty; n keys have n + 1 of them")
        self._data = data
        self._offsets = offsets
        self._first = first
        self._source.layout = {4: MMB_OFFSETS32, 8: MMB_OFFSETS64}[offset_bytes]
        self._source.data = &data[0] if data.shape[0] > 0 else NULL
        self._source.data_bytes = <size_t>data.shape[0]
        self._source.offsets = <const void *>&offsets[0]
        self._source.num_keys = <size_t>num_keys
        if not mmb_offsets_are_valid(
                self._source.layout, self._source.offsets, self._source.num_keys, self._source.data_bytes):
            raise ValueError(f"offsets decrease, or run past the {data.shape[0]} bytes of data")

    def describe(self, Py_ssize_t index):
        if self._lines is not None:
            return f"{self._name}, line {self._lines[index]}"
        if self._name:
            return f"{self._name}, row {self._first + index + 1}"
        return MemoryBatch.describe(self, index)


cdef class LinesBatch(MemoryBatch):
    cdef str _name
    cdef Py_ssize_t _first_line
    cdef size_t _num_lines  # once it is known; 0 before

    def __init__(self, const uint8_t[::1] data not None, str name, Py_ssize_t first_line,
                 int delimiter=0, Py_ssize_t field=0, int comment=0, int blank=0, size_t num_lines=0, bint digests=False):
        self._data = data
        self._name = name
        self._first_line = first_line
        self._source.layout = MMB_LINES
        self._source.data = &data[0] if data.shape[0] > 0 else NULL
        self._source.data_bytes = <size_t>data.shape[0]
        self._source.num_keys = <size_t>(data.shape[0] + 1) // 2  # an upper bound: one byte and its LF
        self._source.delimiter = <uint8_t>delimiter
        self._source.field = <size_t>field
        self._source.comment = <uint8_t>comment
        self._source.blank = <mmb_blank>blank
        self._source.digests = digests
        self._num_lines = num_lines
        if blank != MMB_BLANK_SKIP:
            self._source.num_keys = <size_t>data.shape[0]

    def describe(self, Py_ssize_t index):
        cdef mmb_source source = self._source  # walks the lines as the keys were walked
        cdef mmb_view view
        cdef size_t count = 1
        cdef size_t start = 0
        source.field = 0
        while index >= 0 and count == 1:
            start = source.next
            if mmb_source_fill(&source, &view, 1, &count) != MMB_OK:
                start = source.next
                break
            if count == 1:
                start = <size_t>(view.data - source.data)
            index -= 1
        return self.place(start)

    cdef size_t _most_keys(self):
        if self._num_lines == 0:
            self._num_lines = 1 + mmb_count_lines(self._source.data, self._source.data_bytes)
        return self._num_lines

    cdef object place(self, uint64_t where):
        cdef size_t lines = mmb_count_lines(self._source.data, <size_t>where) if where > 0 else 0
        return f"{self._name}, line {<size_t>self._first_line + lines}"

    def select(self, const uint8_t[::1] flags not None, bint wanted):
        cdef bytearray out = PyByteArray_FromStringAndSize(NULL, self._data.shape[0] + 1)
        cdef uint8_t *target = <uint8_t *>PyByteArray_AS_STRING(out)
        cdef size_t written = 0
        if self._data.shape[0] > 0 and flags.shape[0] > 0:
            with nogil:
                written = mmb_text_select(&self._source, &flags[0], <size_t>flags.shape[0], wanted, target)
        PyByteArray_Resize(out, <Py_ssize_t>written)
        return out
