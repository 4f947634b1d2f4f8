# Records as Python objects, for those who want to hold them: consumers, and coordinators and
# controllers that replay their logs. `_pure_objects` is the twin; `kaa.records.record` has the byte
# table. `parse_record` has checked every span before an object is made of it.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8

from kaa.records._pure_objects import decode_header_key

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    SEQUENCE_MAX = 0x7FFFFFFF
    NO_SEQUENCE = -1


cdef inline object object_of_span(const uint8_t* data, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*>data, size)


cdef object object_header_key(const uint8_t* data, int32_t size):
    try:
        return PyUnicode_DecodeUTF8(<const char*>data, size, NULL)
    except UnicodeDecodeError:
        return decode_header_key(object_of_span(data, size))


cdef tuple object_headers(const uint8_t* data, Record* record):
    cdef Py_ssize_t position = record.headers
    cdef const uint8_t* field = NULL
    cdef int32_t size = 0
    cdef int32_t index
    cdef list headers = []
    for index in range(record.header_count):
        read_field(data, &position, record.end, &field, &size)
        key = object_header_key(field, size)
        read_field(data, &position, record.end, &field, &size)
        headers.append((key, object_of_span(field, size)))
    return tuple(headers)


cdef inline int64_t object_sequence(int32_t base_sequence, int32_t offset_delta) noexcept:
    cdef int64_t sequence = <int64_t>base_sequence + offset_delta
    if base_sequence < 0:
        return NO_SEQUENCE
    return sequence - SEQUENCE_MAX - 1 if sequence > SEQUENCE_MAX else sequence


def decode_records(
    const uint8_t[::1] data not None,
    Py_ssize_t position,
    int64_t count_max,
    int64_t base_offset,
    int64_t base_timestamp,
    append_time,
    int32_t base_sequence,
    record_class,
):
    """Up to `count_max` records from `position` on, and the position after the last of them.

    Stops where a record is malformed or not whole; the caller finds out which.
    """
    cdef Py_ssize_t limit = data.shape[0]
    cdef const uint8_t* start = &data[0] if limit > 0 else NULL
    cdef Record record
    cdef list records = []
    new = tuple.__new__
    while count_max > 0 and parse_record(start, &position, limit, &record) == RECORD_OK:
        timestamp = append_time
        if timestamp is None:
            timestamp = wrapping_sum(base_timestamp, record.timestamp_delta)
        fields = (
            wrapping_sum(base_offset, record.offset_delta),
            timestamp,
            object_of_span(record.key, record.key_bytes),
            object_of_span(record.value, record.value_bytes),
            object_headers(start, &record) if record.header_count > 0 else (),
            object_sequence(base_sequence, record.offset_delta),
        )
        records.append(new(record_class, fields))
        count_max -= 1
    return records, position


cdef inline bytes object_field_bytes(field):
    return field if type(field) is bytes else bytes(field)


cdef inline Py_ssize_t object_field_size(field):
    # Of the length and the bytes it counts.
    if field is None:
        return 1
    return varint_size(<int32_t>len(field)) + len(field)


cdef inline uint8_t* object_write_span(uint8_t* out, const void* data, Py_ssize_t size) noexcept:
    out += write_varint(out, <int32_t>size)
    memcpy(out, data, size)
    return out + size


cdef inline uint8_t* object_write_field(uint8_t* out, bytes field):
    if field is None:
        return out + write_varint(out, -1)
    return object_write_span(out, PyBytes_AS_STRING(field), PyBytes_GET_SIZE(field))


def encode_record(int32_t offset_delta, int64_t timestamp_delta, key, value, headers=()) -> bytes:
    """One record with its length field, byte for byte as Java writes it."""
    cdef bytes key_bytes = None if key is None else object_field_bytes(key)
    cdef bytes value_bytes = None if value is None else object_field_bytes(value)
    cdef list fields = [
        (header_key, None if header_value is None else object_field_bytes(header_value))
        for header_key, header_value in headers
    ]
    cdef Py_ssize_t size = 1 + varlong_size(timestamp_delta) + varint_size(offset_delta)
    cdef Py_ssize_t text_size
    cdef const char* text
    cdef bytes record
    cdef uint8_t* out
    size += object_field_size(key_bytes) + object_field_size(value_bytes)
    size += varint_size(<int32_t>len(fields))
    for header_key, header_value in fields:
        PyUnicode_AsUTF8AndSize(header_key, &text_size)
        size += varint_size(<int32_t>text_size) + text_size + object_field_size(header_value)
    if size > INT32_BYTES_MAX:
        raise ValueError(f"a record of {size} bytes")
    record = PyBytes_FromStringAndSize(NULL, varint_size(<int32_t>size) + size)
    out = <uint8_t*>PyBytes_AS_STRING(record)
    out += write_varint(out, <int32_t>size)
    out[0] = 0
    out += 1
    out += write_varlong(out, timestamp_delta)
    out += write_varint(out, offset_delta)
    out = object_write_field(out, key_bytes)
    out = object_write_field(out, value_bytes)
    out += write_varint(out, <int32_t>len(fields))
    for header_key, header_value in fields:
        text = PyUnicode_AsUTF8AndSize(header_key, &text_size)
        out = object_write_span(out, text, text_size)
        out = object_write_field(out, header_value)
    return record
