# The Arrow columns that decoding fills (_kernel_arrow.pxi has the layout): growing bytearrays,
# written to through plain addresses while the GIL is released.
#
# A row is measured first and written when it fits, so nothing has to be undone when a buffer must
# grow.

cdef enum:
    HEADER_ENTRY_BYTES = 8

# --- UTF-8

cdef inline int is_plain_ascii(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint8_t seen = 0
    cdef Py_ssize_t index
    for index in range(size):
        seen |= data[index]
    return seen < 0x80


cdef Py_ssize_t utf8_sequence(const uint8_t* data, Py_ssize_t size, int* valid) noexcept nogil:
    # Bytes of the first sequence; if it is not valid, of the part that one U+FFFD stands for.
    cdef uint8_t first = data[0]
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xBF
    cdef Py_ssize_t length, index
    valid[0] = 1
    if first < 0x80:
        return 1
    if 0xC2 <= first <= 0xDF:
        length = 2
    elif 0xE0 <= first <= 0xEF:
        length = 3
        if first == 0xE0:
            low = 0xA0
    elif 0xF0 <= first <= 0xF4:
        length = 4
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    else:
        valid[0] = 0
        return 1
    for index in range(1, length):
        if index >= size or data[index] < low or data[index] > high:
            valid[0] = 0
            return index
        low = 0x80
        high = 0xBF
    # Half of a surrogate pair is well formed and yet no text.
    valid[0] = first != 0xED or data[1] < 0xA0
    return length


cdef int64_t copy_utf8(uint8_t* out, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    # Copies text and puts U+FFFD for what is not UTF-8, in the places where Java puts it.
    # Returns the bytes written; with no `out`, those it would write.
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t length
    cdef int64_t written = 0
    cdef int valid
    while at < size:
        length = utf8_sequence(data + at, size - at, &valid)
        if out != NULL:
            if valid:
                memcpy(out + written, data + at, length)
            else:
                memcpy(out + written, <const uint8_t*>b"\xef\xbf\xbd", 3)
        written += length if valid else 3
        at += length
    return written


# --- buffers

cdef extern from *:
    """
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif

    /* A fresh buffer of many megabytes costs a page fault per 4 KiB, about as much as filling it.
       Where the system leaves the choice to programs, ask for pages of 2 MiB. It is advice only:
       that it fails does not matter. */
    static void kaa_use_huge_pages(void *data, int64_t bytes) {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        const uintptr_t page = 4096;
        uintptr_t first = ((uintptr_t)data + page - 1) & ~(page - 1);
        uintptr_t end = ((uintptr_t)data + (uintptr_t)bytes) & ~(page - 1);
        if (bytes >= 4 * 1024 * 1024)
            (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
    #else
        (void)data;
        (void)bytes;
    #endif
    }
    """
    void kaa_use_huge_pages(void* data, int64_t bytes) noexcept nogil


cdef int resize(bytearray buffer, int64_t size) except -1:
    PyByteArray_Resize(buffer, size)
    kaa_use_huge_pages(PyByteArray_AS_STRING(buffer), size)
    return 0


cdef struct BinaryOut:
    uint8_t* validity
    int32_t* offsets
    uint8_t* data
    int64_t used
    int64_t capacity
    int64_t nulls


cdef class ColumnBuilder:
    # Three growing bytearrays; `out` has their addresses. A list column leaves `data` empty and
    # counts entries in `used`.
    cdef BinaryOut out
    cdef bytearray validity, offsets, data

    def __cinit__(self):
        self.validity = bytearray()
        self.offsets = bytearray(4)
        self.data = bytearray()
        self.refresh()

    cdef void refresh(self) noexcept:
        self.out.validity = <uint8_t*>PyByteArray_AS_STRING(self.validity)
        self.out.offsets = <int32_t*>PyByteArray_AS_STRING(self.offsets)
        self.out.data = <uint8_t*>PyByteArray_AS_STRING(self.data)

    cdef int reserve_rows(self, int64_t rows) except -1:
        # New validity bits are set: only nulls are written one by one.
        cdef Py_ssize_t before = len(self.validity)
        cdef Py_ssize_t after = (rows + 7) // 8
        PyByteArray_Resize(self.validity, after)
        resize(self.offsets, 4 * (rows + 1))
        self.refresh()
        if after > before:
            memset(self.out.validity + before, 0xFF, after - before)
        return 0

    cdef int reserve_data(self, int64_t capacity) except -1:
        resize(self.data, capacity)
        self.out.capacity = capacity
        self.refresh()
        return 0

    cdef int ensure_data(self, int64_t size) except -1:
        if size > self.out.capacity - self.out.used:
            self.reserve_data(max(self.out.used + size, 2 * self.out.capacity))
        return 0

    cdef tuple finish(self, int64_t rows):
        # (null count, validity or None, offsets, data), cut to what is used.
        cdef object validity = None
        if self.out.nulls:
            PyByteArray_Resize(self.validity, (rows + 7) // 8)
            self.refresh()
            if rows & 7:
                self.out.validity[rows >> 3] &= <uint8_t>((1 << (rows & 7)) - 1)
            validity = self.validity
        PyByteArray_Resize(self.offsets, 4 * (rows + 1))
        if self.out.capacity:
            PyByteArray_Resize(self.data, self.out.used)
        return self.out.nulls, validity, self.offsets, self.data


cdef inline void append_binary(
    BinaryOut* column, int64_t row, const uint8_t* data, int32_t size
) noexcept nogil:
    if size >= 0:
        memcpy(column.data + column.used, data, size)
        column.used += size
    else:
        column.validity[row >> 3] &= <uint8_t>~(1 << (row & 7))
        column.nulls += 1
    column.offsets[row + 1] = <int32_t>column.used


cdef struct RowsOut:
    # A column that is not wanted is NULL.
    BinaryOut* key
    BinaryOut* value
    BinaryOut* headers
    BinaryOut* header_keys
    BinaryOut* header_values
    int64_t* offsets
    int64_t* timestamps
    int32_t* timestamp_types
    int64_t timestamp_scale
    int64_t rows, rows_max, row_capacity
    int64_t entries, entry_capacity
    int64_t bytes_used, bytes_max
    # What the record at hand needs, for the caller who has to make room.
    int64_t key_bytes, value_bytes, header_key_bytes, header_value_bytes, header_count


cdef void measure_headers(const uint8_t* data, Record* record, RowsOut* out) noexcept nogil:
    cdef Py_ssize_t at = record.headers
    cdef const uint8_t* field = NULL
    cdef int32_t size = 0
    cdef int32_t index
    for index in range(record.header_count):
        read_field(data, &at, record.end, &field, &size)
        if is_plain_ascii(field, size):
            out.header_key_bytes += size
        else:
            out.header_key_bytes += copy_utf8(NULL, field, size)
        read_field(data, &at, record.end, &field, &size)
        if size > 0:
            out.header_value_bytes += size


cdef void append_headers(const uint8_t* data, Record* record, RowsOut* out) noexcept nogil:
    cdef Py_ssize_t at = record.headers
    cdef const uint8_t* field = NULL
    cdef BinaryOut* keys = out.header_keys
    cdef int32_t size = 0
    cdef int32_t index
    for index in range(record.header_count):
        read_field(data, &at, record.end, &field, &size)
        if is_plain_ascii(field, size):
            memcpy(keys.data + keys.used, field, size)
            keys.used += size
        else:
            keys.used += copy_utf8(keys.data + keys.used, field, size)
        keys.offsets[out.entries + 1] = <int32_t>keys.used
        read_field(data, &at, record.end, &field, &size)
        append_binary(out.header_values, out.entries, field, size)
        out.entries += 1
    if record.header_count == 0:
        out.headers.validity[out.rows >> 3] &= <uint8_t>~(1 << (out.rows & 7))
        out.headers.nulls += 1
    out.headers.offsets[out.rows + 1] = <int32_t>out.entries


cdef inline int has_room(RowsOut* out) noexcept nogil:
    if out.rows >= out.row_capacity:
        return 0
    if out.key != NULL and out.key_bytes > out.key.capacity - out.key.used:
        return 0
    if out.value != NULL and out.value_bytes > out.value.capacity - out.value.used:
        return 0
    if out.headers == NULL or out.header_count == 0:
        return 1
    return (
        out.header_count <= out.entry_capacity - out.entries
        and out.header_key_bytes <= out.header_keys.capacity - out.header_keys.used
        and out.header_value_bytes <= out.header_values.capacity - out.header_values.used
    )


cdef inline int64_t scaled(int64_t timestamp, int64_t scale) noexcept nogil:
    cdef int64_t bound = INT64_MAX // scale
    if timestamp > bound:
        return INT64_MAX
    if timestamp < -bound:
        return -INT64_MAX
    return timestamp * scale


cdef inline int append_row(
    const uint8_t* data, Record* record, int64_t offset, int64_t timestamp, int type, RowsOut* out
) noexcept nogil:
    cdef int64_t cost
    out.key_bytes = record.key_bytes if out.key != NULL and record.key_bytes > 0 else 0
    out.value_bytes = record.value_bytes if out.value != NULL and record.value_bytes > 0 else 0
    cost = out.key_bytes + out.value_bytes
    out.header_count = 0
    if out.headers != NULL and record.header_count > 0:
        out.header_count = record.header_count
        out.header_key_bytes = 0
        out.header_value_bytes = 0
        measure_headers(data, record, out)
        cost += out.header_key_bytes + out.header_value_bytes
        cost += HEADER_ENTRY_BYTES * out.header_count
    if cost > out.bytes_max - out.bytes_used:
        if out.rows > 0:
            return RUN_LIMIT
        if cost > INT32_BYTES_MAX:
            return RUN_INVALID
    if not has_room(out):
        return RUN_ROOM
    if out.key != NULL:
        append_binary(out.key, out.rows, record.key, record.key_bytes)
    if out.value != NULL:
        append_binary(out.value, out.rows, record.value, record.value_bytes)
    if out.headers != NULL:
        append_headers(data, record, out)
    if out.offsets != NULL:
        out.offsets[out.rows] = offset
    if out.timestamps != NULL:
        out.timestamps[out.rows] = scaled(timestamp, out.timestamp_scale)
    if out.timestamp_types != NULL:
        out.timestamp_types[out.rows] = type
    out.rows += 1
    out.bytes_used += cost
    return RUN_BATCH_OPEN
