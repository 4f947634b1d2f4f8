# Deep validation: every record of one batch, from a contiguous area or from streamed chunks.
#
# A record that lies whole in the chunk takes `scan_record`, which changes nothing until it has seen
# the whole record. Where a chunk ends inside a record, `resume_record` goes field by field and
# remembers where it stopped: the stage, the bytes still to skip, the varint begun. Neither keeps a
# byte of any field, so a batch is validated in constant memory however far it expands.
#
# With `checks_lengths`, a record must fill its declared length exactly. Without, lengths are read
# and ignored, because Kafka ignores them in compressed batches that it does not rewrite.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport free, realloc

cdef enum:
    SCAN_MORE = 0
    SCAN_DONE = 1
    SCAN_INVALID = 2
    SCAN_ILLEGAL_LENGTH = 3

cdef enum:
    STEP_OK = 0
    STEP_SHORT = 1
    STEP_INVALID = 2
    STEP_ILLEGAL_LENGTH = 3

cdef enum:
    SCAN_ERROR_NO_KEY = 1
    SCAN_ERROR_TIMESTAMP = 2
    SCAN_ERROR_APPEND_TIME = 3

cdef enum:
    STAGE_LENGTH = 0
    STAGE_ATTRIBUTES = 1
    STAGE_TIMESTAMP = 2
    STAGE_OFFSET = 3
    STAGE_KEY = 4
    STAGE_VALUE = 5
    STAGE_HEADER_COUNT = 6
    STAGE_HEADER_KEY = 7
    STAGE_HEADER_VALUE = 8
    STAGE_END = 9


cdef struct ScanError:
    int32_t index
    int32_t kind
    int64_t timestamp


cdef struct Scan:
    # What to check; never changes.
    int32_t record_count
    int64_t base_timestamp
    int64_t append_time
    int64_t now_ms
    int64_t before_max_ms
    int64_t after_max_ms
    bint is_append_time
    bint is_create_time_topic
    bint requires_key
    bint checks_lengths
    bint tracks_canonical
    # What the records seen so far add up to.
    int32_t record_index
    int64_t max_timestamp
    int32_t max_timestamp_offset_delta
    bint is_consecutive
    bint is_canonical
    bint has_timestamp_error
    int64_t scanned_bytes
    int64_t canonical_bytes
    ScanError* errors
    Py_ssize_t error_count
    Py_ssize_t error_room
    Py_ssize_t error_count_max
    # The record that the last chunk ended in.
    int stage
    int64_t record_left
    int64_t skip_left
    bint skips_header_key
    uint64_t varint_raw
    int varint_shift
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_length
    int32_t headers_left


cdef void scan_note_error(Scan* scan, int kind, int64_t timestamp) noexcept nogil:
    cdef Py_ssize_t room
    cdef ScanError* grown
    if kind != SCAN_ERROR_NO_KEY:
        scan.has_timestamp_error = True
    if scan.error_count >= scan.error_count_max:
        return
    if scan.error_count == scan.error_room:
        room = 64 if scan.error_room == 0 else scan.error_room * 2
        grown = <ScanError*>realloc(scan.errors, room * sizeof(ScanError))
        if grown == NULL:
            return
        scan.errors = grown
        scan.error_room = room
    scan.errors[scan.error_count].index = scan.record_index
    scan.errors[scan.error_count].kind = kind
    scan.errors[scan.error_count].timestamp = timestamp
    scan.error_count += 1


cdef inline void scan_complete_record(
    Scan* scan, int64_t timestamp_delta, int32_t offset_delta, int32_t key_length
) noexcept nogil:
    # Unsigned arithmetic: what hostile deltas overflow must wrap, as it does in Java.
    cdef int64_t timestamp, age
    timestamp = <int64_t>(<uint64_t>scan.base_timestamp + <uint64_t>timestamp_delta)
    if scan.is_append_time:
        timestamp = scan.append_time
    if scan.requires_key and key_length < 0:
        scan_note_error(scan, SCAN_ERROR_NO_KEY, timestamp)
    elif scan.is_create_time_topic and timestamp != -1:
        age = <int64_t>(<uint64_t>scan.now_ms - <uint64_t>timestamp)
        if age > scan.before_max_ms or <int64_t>(0 - <uint64_t>age) > scan.after_max_ms:
            scan_note_error(scan, SCAN_ERROR_TIMESTAMP, timestamp)
    elif scan.is_append_time:
        scan_note_error(scan, SCAN_ERROR_APPEND_TIME, timestamp)
    if timestamp > scan.max_timestamp:
        scan.max_timestamp = timestamp
        scan.max_timestamp_offset_delta = offset_delta
    if offset_delta != scan.record_index:
        scan.is_consecutive = False
    if scan.tracks_canonical and (
        timestamp < -1 or (scan.record_index == 0 and timestamp_delta != 0)
    ):
        scan.is_canonical = False
    scan.record_index += 1


cdef inline bint scan_is_ascii(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint8_t bits = 0
    cdef Py_ssize_t at
    for at in range(size):
        bits |= data[at]
    return bits < 0x80


cdef inline void scan_track_length(Scan* scan, int32_t length) noexcept nogil:
    scan.canonical_bytes += varint_size(length)
    if length > 0:
        scan.canonical_bytes += length
    elif length < -1:
        scan.is_canonical = False


cdef inline int scan_field(
    const uint8_t* data, Py_ssize_t* position, Py_ssize_t limit, int32_t* length
) noexcept nogil:
    # One length and as many bytes; a negative length stands for none.
    cdef int status = read_varint(data, position, limit, length)
    if status != VARINT_OK:
        return status
    if length[0] > 0:
        if length[0] > limit - position[0]:
            return VARINT_SHORT
        position[0] += length[0]
    return VARINT_OK


cdef inline int scan_short_of(Scan* scan, int status) noexcept nogil:
    # Running out of bytes inside a record whose length is known to be there is an error of the
    # record; otherwise the next chunk may bring them.
    if status == VARINT_SHORT and not scan.checks_lengths:
        return STEP_SHORT
    return STEP_INVALID


cdef inline int scan_record(
    Scan* scan, const uint8_t* data, Py_ssize_t* position, Py_ssize_t limit
) noexcept nogil:
    cdef Py_ssize_t at = position[0]
    cdef Py_ssize_t end = limit
    cdef int32_t length, offset_delta, key_length, value_length, header_count
    cdef int64_t timestamp_delta
    cdef uint8_t attributes
    cdef int status = read_varint(data, &at, limit, &length)
    if status != VARINT_OK:
        return STEP_SHORT if status == VARINT_SHORT else STEP_ILLEGAL_LENGTH
    if scan.checks_lengths:
        if length <= 0:
            return STEP_INVALID
        if length > limit - at:
            return STEP_SHORT
        end = at + length
    elif at >= end:
        return STEP_SHORT
    attributes = data[at]
    at += 1
    status = read_varlong(data, &at, end, &timestamp_delta)
    if status != VARINT_OK:
        return scan_short_of(scan, status)
    status = read_varint(data, &at, end, &offset_delta)
    if status != VARINT_OK:
        return scan_short_of(scan, status)
    status = scan_field(data, &at, end, &key_length)
    if status != VARINT_OK:
        return scan_short_of(scan, status)
    status = scan_field(data, &at, end, &value_length)
    if status != VARINT_OK:
        return scan_short_of(scan, status)
    status = read_varint(data, &at, end, &header_count)
    if status != VARINT_OK:
        return scan_short_of(scan, status)
    if header_count != 0:
        status = scan_headers(scan, data, &at, end, header_count)
        if status != STEP_OK:
            return status
    if scan.checks_lengths and at != end:
        return STEP_INVALID
    if scan.tracks_canonical:
        if attributes != 0:
            scan.is_canonical = False
        scan.canonical_bytes += varint_size(length) + 1 + varlong_size(timestamp_delta)
        scan.canonical_bytes += varint_size(offset_delta) + varint_size(header_count)
        scan_track_length(scan, key_length)
        scan_track_length(scan, value_length)
    scan_complete_record(scan, timestamp_delta, offset_delta, key_length)
    position[0] = at
    return STEP_OK


cdef int scan_headers(
    Scan* scan, const uint8_t* data, Py_ssize_t* position, Py_ssize_t limit, int32_t count
) noexcept nogil:
    cdef int32_t length
    cdef int status
    cdef int64_t canonical_bytes = scan.canonical_bytes
    cdef Py_ssize_t at = position[0]
    if count < 0:
        return STEP_INVALID
    while count > 0:
        status = scan_field(data, &at, limit, &length)
        if status == VARINT_OK and length < 0:
            return STEP_INVALID
        if status == VARINT_OK and scan.tracks_canonical:
            scan_track_length(scan, length)
            if not scan_is_ascii(data + at - length, length):
                scan.is_canonical = False
        if status == VARINT_OK:
            status = scan_field(data, &at, limit, &length)
        if status != VARINT_OK:
            # A record that is short now is scanned again from its start.
            scan.canonical_bytes = canonical_bytes
            return scan_short_of(scan, status)
        if scan.tracks_canonical:
            scan_track_length(scan, length)
        count -= 1
    position[0] = at
    return STEP_OK


include "_kernel_validate_resume.pxi"


cdef int scan_chunk(Scan* scan, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t position = 0
    cdef int status = STEP_OK
    # Both are true only between two chunks that one record spans.
    cdef bint is_inside = scan.stage != STAGE_LENGTH or scan.varint_shift != 0
    scan.scanned_bytes += size
    while scan.record_index < scan.record_count:
        if not is_inside:
            status = scan_record(scan, data, &position, size)
        if is_inside or status == STEP_SHORT:
            status = resume_record(scan, data, &position, size)
            is_inside = False
        if status == STEP_SHORT:
            return SCAN_MORE
        if status != STEP_OK:
            return SCAN_INVALID if status == STEP_INVALID else SCAN_ILLEGAL_LENGTH
    return SCAN_DONE if position == size else SCAN_INVALID


cdef class RecordScanner:
    """One batch being validated: `feed` its records in chunks of any size, then `finish`."""

    cdef Scan scan
    cdef int status
    cdef Py_ssize_t unlocked_bytes_min

    def __cinit__(
        self,
        *,
        int32_t record_count,
        int64_t base_timestamp,
        append_time,
        int64_t now_ms,
        int64_t before_max_ms,
        int64_t after_max_ms,
        bint is_create_time_topic,
        bint requires_key,
        bint checks_lengths,
        bint tracks_canonical,
        Py_ssize_t error_count_max,
        Py_ssize_t unlocked_bytes_min,
    ):
        memset(&self.scan, 0, sizeof(Scan))
        self.scan.record_count = record_count
        self.scan.base_timestamp = base_timestamp
        self.scan.is_append_time = append_time is not None
        self.scan.append_time = 0 if append_time is None else append_time
        self.scan.now_ms = now_ms
        self.scan.before_max_ms = before_max_ms
        self.scan.after_max_ms = after_max_ms
        self.scan.is_create_time_topic = is_create_time_topic
        self.scan.requires_key = requires_key
        self.scan.checks_lengths = checks_lengths
        self.scan.tracks_canonical = tracks_canonical
        self.scan.error_count_max = error_count_max
        self.scan.max_timestamp = -1
        self.scan.max_timestamp_offset_delta = -1
        self.scan.is_consecutive = True
        self.scan.is_canonical = True
        self.status = SCAN_DONE if record_count == 0 else SCAN_MORE
        self.unlocked_bytes_min = unlocked_bytes_min

    def __dealloc__(self):
        free(self.scan.errors)

    def feed(self, const uint8_t[::1] chunk not None) -> int:
        """Scans the next bytes; anything after the last record makes the batch invalid."""
        cdef Py_ssize_t size = chunk.shape[0]
        if size == 0 or self.status > SCAN_DONE:
            return self.status
        if size >= self.unlocked_bytes_min:
            with nogil:
                self.status = scan_chunk(&self.scan, &chunk[0], size)
        else:
            self.status = scan_chunk(&self.scan, &chunk[0], size)
        return self.status

    def finish(self) -> int:
        """Says that no bytes follow: a record that still misses some makes the batch invalid."""
        if self.status == SCAN_MORE:
            self.status = SCAN_INVALID
        return self.status

    @property
    def record_index(self) -> int:
        return self.scan.record_index

    @property
    def max_timestamp(self) -> int:
        return self.scan.max_timestamp

    @property
    def max_timestamp_offset_delta(self) -> int:
        return self.scan.max_timestamp_offset_delta

    @property
    def is_consecutive(self) -> bool:
        return self.scan.is_consecutive

    @property
    def is_canonical(self) -> bool:
        return (
            self.scan.tracks_canonical
            and self.scan.is_canonical
            and self.scan.canonical_bytes == self.scan.scanned_bytes
        )

    @property
    def has_timestamp_error(self) -> bool:
        return self.scan.has_timestamp_error

    @property
    def scanned_bytes(self) -> int:
        return self.scan.scanned_bytes

    @property
    def errors(self) -> list:
        cdef Py_ssize_t at
        return [
            (self.scan.errors[at].index, self.scan.errors[at].kind, self.scan.errors[at].timestamp)
            for at in range(self.scan.error_count)
        ]


# The fields of a batch header that decide whether it is a plain one; see `kaa.records.batch`.
cdef enum:
    PLAIN_HEADER_BYTES = 61
    PLAIN_OVERHEAD_BYTES = 12
    PLAIN_MAGIC = 2
    PLAIN_TRANSACTIONAL_FLAG = 0x10


cdef inline int64_t read_big_endian(const uint8_t* data, int size) noexcept nogil:
    # Sign-extended from its first byte.
    cdef uint64_t value = <uint64_t><int64_t><int8_t>data[0]
    cdef int at
    for at in range(1, size):
        value = value << 8 | data[at]
    return <int64_t>value


cdef inline bint is_plain_header(const uint8_t* data, Py_ssize_t size, int64_t bytes_max) noexcept:
    cdef int64_t count
    if size < PLAIN_HEADER_BYTES or size > bytes_max:
        return False
    if read_big_endian(data, 8) != 0 or read_big_endian(data + 8, 4) + PLAIN_OVERHEAD_BYTES != size:
        return False
    if data[16] != PLAIN_MAGIC or read_big_endian(data + 21, 2) & ~PLAIN_TRANSACTIONAL_FLAG != 0:
        return False
    count = read_big_endian(data + 57, 4)
    if count <= 0 or count != read_big_endian(data + 23, 4) + 1:
        return False
    return read_big_endian(data + 43, 8) < 0 or read_big_endian(data + 53, 4) >= 0


def scan_plain(
    records,
    int64_t bytes_max,
    int64_t now_ms,
    int64_t before_max_ms,
    int64_t after_max_ms,
    bint is_create_time_topic,
    bint requires_key,
    Py_ssize_t unlocked_bytes_min,
    /,
):
    """The greatest timestamp and the offset delta of its first record, if this is one whole batch
    of a client, not compressed, to which nothing can be objected but its checksum. None stands for
    anything else, and is no refusal: somebody has to look closer.
    """
    cdef Py_buffer view
    cdef Scan scan
    cdef int status = SCAN_INVALID
    cdef const uint8_t* data
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t*>view.buf
        if not is_plain_header(data, view.len, bytes_max):
            return None
        memset(&scan, 0, sizeof(Scan))
        scan.record_count = <int32_t>read_big_endian(data + 57, 4)
        scan.base_timestamp = read_big_endian(data + 27, 8)
        scan.now_ms = now_ms
        scan.before_max_ms = before_max_ms
        scan.after_max_ms = after_max_ms
        scan.is_create_time_topic = is_create_time_topic
        scan.requires_key = requires_key
        scan.checks_lengths = True
        # One is enough to know that there are some.
        scan.error_count_max = 1
        scan.max_timestamp = -1
        scan.max_timestamp_offset_delta = -1
        if view.len >= unlocked_bytes_min:
            with nogil:
                status = scan_chunk(
                    &scan, data + PLAIN_HEADER_BYTES, view.len - PLAIN_HEADER_BYTES
                )
        else:
            status = scan_chunk(&scan, data + PLAIN_HEADER_BYTES, view.len - PLAIN_HEADER_BYTES)
        if scan.errors != NULL:
            free(scan.errors)
            return None
        if status != SCAN_DONE or scan.has_timestamp_error:
            return None
        return scan.max_timestamp, scan.max_timestamp_offset_delta
    finally:
        PyBuffer_Release(&view)
