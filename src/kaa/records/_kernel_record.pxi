# One record and the frame of one batch, as every loop of this kernel but validation reads them
# (which has to tell Kafka's errors apart). `kaa.records.record` and `kaa.records.batch` have the
# byte tables.
#
# `parse_record` accepts what Kafka's reader accepts: a length that lies within the batch, fields
# that fill it exactly, any negative key or value length as null, header keys that are not null. It
# checks each length against the record before it moves on, so the spans it returns can be used
# without further checks.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport INT64_MAX

from kaa import limits
from kaa.records.errors import CorruptRecordsError, InvalidRecordError, RecordsError

cdef Py_ssize_t unlocked_bytes_min = limits.KERNEL_UNLOCKED_BYTES_MIN

cdef enum:
    BATCH_HEADER_BYTES = 61
    BATCH_LOG_OVERHEAD_BYTES = 12
    BATCH_MAGIC_POSITION = 16
    LEGACY_RECORD_BYTES_MIN = 14
    RECORD_BYTES_MIN = 7
    INT32_BYTES_MAX = 0x7FFFFFFF
    # All columns of encode_rows with their validity, the order and the output are 19.
    BUFFERS_MAX = 24

cdef enum:
    RECORD_OK = 0
    RECORD_VARINT = 1
    RECORD_SIZE = 2
    RECORD_FIELD = 3
    RECORD_HEADERS = 4
    RECORD_TRAILING = 5
    RECORD_COUNT = 6
    RECORD_AREA_TRAILING = 7
    RECORD_ROW_SIZE = 8

_RECORD_PROBLEMS = (
    "",
    "a varint is cut short or too long",
    "a record does not fit into its batch",
    "a key, value or header does not fit into its record",
    "a header count or a header key is not valid",
    "a record has bytes after its headers",
    "the record count does not fit the size of the batch",
    "a batch has bytes after its records",
    "a record is too large for an Arrow column",
)


cdef struct Record:
    Py_ssize_t start            # of the length varint
    Py_ssize_t body             # of the attributes byte, right after the length
    Py_ssize_t end
    Py_ssize_t timestamp_end    # after the timestamp delta
    Py_ssize_t headers          # of the first header
    const uint8_t* key
    const uint8_t* value
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_bytes           # negative: null, here and below
    int32_t value_bytes
    int32_t header_count


cdef inline int read_field(
    const uint8_t* data,
    Py_ssize_t* position,
    Py_ssize_t limit,
    const uint8_t** field,
    int32_t* size,
) noexcept nogil:
    # A varint length and that many bytes; nothing but the length if it is negative.
    if read_varint(data, position, limit, size) != VARINT_OK:
        return RECORD_VARINT
    field[0] = data + position[0]
    if size[0] > 0:
        if size[0] > limit - position[0]:
            return RECORD_FIELD
        position[0] += size[0]
    return RECORD_OK


cdef int pass_headers(
    const uint8_t* data, Py_ssize_t* position, Py_ssize_t limit, int32_t count
) noexcept nogil:
    cdef const uint8_t* field
    cdef int32_t size, index
    cdef int status
    if count < 0 or count > limit - position[0]:
        return RECORD_HEADERS
    for index in range(count):
        status = read_field(data, position, limit, &field, &size)
        if status != RECORD_OK:
            return status
        if size < 0:
            return RECORD_HEADERS
        status = read_field(data, position, limit, &field, &size)
        if status != RECORD_OK:
            return status
    return RECORD_OK


cdef inline int parse_record(
    const uint8_t* data, Py_ssize_t* position, Py_ssize_t limit, Record* record
) noexcept nogil:
    # Moves `position` past a record that holds; leaves it alone otherwise.
    cdef Py_ssize_t at = position[0]
    cdef int32_t length
    cdef int status
    if read_varint(data, &at, limit, &length) != VARINT_OK:
        return RECORD_VARINT
    if length < RECORD_BYTES_MIN - 1 or length > limit - at:
        return RECORD_SIZE
    record.start = position[0]
    record.body = at
    record.end = at + length
    at += 1
    if read_varlong(data, &at, record.end, &record.timestamp_delta) != VARINT_OK:
        return RECORD_VARINT
    record.timestamp_end = at
    if read_varint(data, &at, record.end, &record.offset_delta) != VARINT_OK:
        return RECORD_VARINT
    status = read_field(data, &at, record.end, &record.key, &record.key_bytes)
    if status != RECORD_OK:
        return status
    status = read_field(data, &at, record.end, &record.value, &record.value_bytes)
    if status != RECORD_OK:
        return status
    if read_varint(data, &at, record.end, &record.header_count) != VARINT_OK:
        return RECORD_VARINT
    record.headers = at
    if record.header_count != 0:
        status = pass_headers(data, &at, record.end, record.header_count)
        if status != RECORD_OK:
            return status
    if at != record.end:
        return RECORD_TRAILING
    position[0] = at
    return RECORD_OK


# --- the frame of a batch

cdef struct BatchHeader:
    int64_t base_offset, last_offset, next_offset, base_timestamp, max_timestamp, producer_id
    Py_ssize_t bytes
    int32_t record_count
    int magic, codec, timestamp_type, is_transactional, is_control


cdef inline uint32_t big_endian32(const uint8_t* data) noexcept nogil:
    return (
        <uint32_t>data[0] << 24 | <uint32_t>data[1] << 16 | <uint32_t>data[2] << 8 | data[3]
    )


cdef inline int64_t big_endian64(const uint8_t* data) noexcept nogil:
    return <int64_t>(<uint64_t>big_endian32(data) << 32 | big_endian32(data + 4))


cdef inline int64_t wrapping_sum(int64_t left, int64_t right) noexcept nogil:
    # As Java adds: only bad input goes over the edge, and both kernels shall agree about it.
    return <int64_t>(<uint64_t>left + <uint64_t>right)


cdef void read_batch_header(const uint8_t* data, BatchHeader* header) noexcept nogil:
    cdef int attributes = data[22]
    header.base_offset = big_endian64(data)
    header.last_offset = wrapping_sum(header.base_offset, <int32_t>big_endian32(data + 23))
    header.next_offset = header.last_offset + (header.last_offset < INT64_MAX)
    header.base_timestamp = big_endian64(data + 27)
    header.max_timestamp = big_endian64(data + 35)
    header.producer_id = big_endian64(data + 43)
    header.record_count = <int32_t>big_endian32(data + 57)
    header.codec = attributes & 7
    header.timestamp_type = attributes >> 3 & 1
    header.is_transactional = attributes >> 4 & 1
    header.is_control = attributes >> 5 & 1


# --- buffers of callers

cdef class BufferSet:
    # Holds the buffers of input columns for as long as a call uses their addresses.
    cdef Py_buffer views[BUFFERS_MAX]
    cdef int count

    def __dealloc__(self):
        cdef int index
        for index in range(self.count):
            PyBuffer_Release(&self.views[index])

    cdef const uint8_t* add(self, object buffer, int64_t bytes_min) except? NULL:
        # The address of a buffer, which must hold so many bytes; NULL for None.
        if buffer is None:
            return NULL
        if self.count == BUFFERS_MAX:
            raise AssertionError("no call has so many buffers")
        PyObject_GetBuffer(buffer, &self.views[self.count], PyBUF_SIMPLE)
        self.count += 1
        if self.views[self.count - 1].len < bytes_min:
            raise InvalidRecordError("a buffer is shorter than its rows need")
        return <const uint8_t*>self.views[self.count - 1].buf

    cdef int64_t last_bytes(self):
        return self.views[self.count - 1].len
