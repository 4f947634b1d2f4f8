# Record batches to Arrow columns, and (in _kernel_arrow_encode.pxi) back.
#
# One ArrowDecoder walks one buffer of whole batches, as a fetch returns them, and read() gives the
# next rows as raw buffers in Arrow's layout. No Python object is made per record.
#
#   column           buffers
#   key, value       validity bits (lowest bit first; none if nothing is null), int32 offsets, data
#   headers          a list: validity, int32 offsets into the header entries; null for a record
#                    without headers, as Spark's own connector has it. Entries: key (UTF-8: int32
#                    offsets, data) and value (validity, int32 offsets, data)
#   offset           int64
#   timestamp        int64, milliseconds times the given scale, clamped to the int64 range
#   timestamp type   int32, 0 create time, 1 log append time
#
# Which records come out follows Kafka's consumer:
# - A batch of a producer, when aborted transactions are given: first every aborted transaction that
#   begins at or before the last offset of the batch marks its producer as aborted. An abort marker
#   takes the mark away again. A transactional batch of a marked producer is left out.
# - Control batches give no rows. Records below the next offset are passed over.
# - The first record at or after the end offset ends the read; so does the end of the buffer, where
#   a partial batch is ignored. Then the next offset is that after the last batch, so that offsets
#   which compaction has emptied are not asked for again.
#
# A run. `decode_run` works without the GIL and without allocating, over as many plain batches as
# there are. It stops at a limit, at an error, when an output buffer is too small (nothing of the
# record is written; the caller doubles the buffer and comes again) or at a batch which needs
# Python: compressed, of an older magic, or of a producer while aborted transactions are known.
#
# Bounds. `bytes_used` counts key, value and header bytes plus eight per header entry. A record that
# would lift it above the limit is left to the next read, unless it is the first: progress is
# certain. The limit is below 2 GiB, so that int32 offsets always suffice. Every length is checked
# against the record, and every record against its batch, before a byte of it is touched.
#
# Errors. Rows before a bad record are returned; the read after that raises, and so does every later
# one.

from collections import deque

include "_kernel_record.pxi"
include "_kernel_arrow_columns.pxi"

cdef enum:
    COLUMN_KEY = 1
    COLUMN_VALUE = 2
    COLUMN_HEADERS = 4
    COLUMN_OFFSET = 8
    COLUMN_TIMESTAMP = 16
    COLUMN_TIMESTAMP_TYPE = 32

cdef enum:
    RUN_END = 0
    RUN_LIMIT = 1
    RUN_ROOM = 2
    RUN_PYTHON = 3
    RUN_BATCH_DONE = 4
    RUN_BATCH_OPEN = 5
    RUN_CORRUPT = 6
    RUN_INVALID = 7


cdef struct Cursor:
    const uint8_t* source
    Py_ssize_t source_bytes
    Py_ssize_t position         # of the batch after the one at hand
    int watches_producers       # aborted transactions are known
    int upgrades                # older magic goes to Python instead of being refused
    int64_t next_offset
    int64_t end_offset
    int64_t batch_next_offset   # after the last batch that was entered
    # The batch at hand; no records remain between batches.
    const uint8_t* records
    Py_ssize_t at
    Py_ssize_t limit
    int32_t records_remaining
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    int timestamp_type
    int problem


cdef int find_batch(Cursor* cursor, BatchHeader* header) noexcept nogil:
    # Frames the next batch; reads its header if it is of magic 2.
    cdef const uint8_t* data = cursor.source + cursor.position
    cdef Py_ssize_t available = cursor.source_bytes - cursor.position
    cdef int32_t length
    if available < BATCH_LOG_OVERHEAD_BYTES:
        return RUN_END
    length = <int32_t>big_endian32(data + 8)
    if length < LEGACY_RECORD_BYTES_MIN:
        return RUN_CORRUPT
    if available <= BATCH_MAGIC_POSITION:
        return RUN_END
    header.magic = <int8_t>data[BATCH_MAGIC_POSITION]
    header.bytes = <Py_ssize_t>length + BATCH_LOG_OVERHEAD_BYTES
    if header.magic < 0 or header.magic > 2:
        return RUN_CORRUPT
    if header.magic == 2 and header.bytes < BATCH_HEADER_BYTES:
        return RUN_CORRUPT
    if header.bytes > available:
        return RUN_END
    if header.magic == 2:
        read_batch_header(data, header)
    elif not cursor.upgrades:
        return RUN_CORRUPT
    return RUN_BATCH_OPEN


cdef inline void pass_batch(Cursor* cursor, BatchHeader* header) noexcept nogil:
    cursor.position += header.bytes
    cursor.batch_next_offset = header.next_offset
    if cursor.next_offset < header.next_offset:
        cursor.next_offset = header.next_offset


cdef int enter_batch(
    Cursor* cursor, BatchHeader* header, const uint8_t* records, Py_ssize_t bytes
) noexcept nogil:
    if header.record_count < 0 or header.record_count > bytes // RECORD_BYTES_MIN:
        cursor.problem = RECORD_COUNT
        return RUN_INVALID
    cursor.position += header.bytes
    cursor.batch_next_offset = header.next_offset
    cursor.records = records
    cursor.at = 0
    cursor.limit = bytes
    cursor.records_remaining = header.record_count
    cursor.base_offset = header.base_offset
    cursor.base_timestamp = header.base_timestamp
    cursor.append_time = header.max_timestamp
    cursor.timestamp_type = header.timestamp_type
    return RUN_BATCH_OPEN


cdef int open_batch(Cursor* cursor) noexcept nogil:
    # Enters the next batch that has rows and needs no Python.
    cdef BatchHeader header
    cdef int status
    while True:
        status = find_batch(cursor, &header)
        if status != RUN_BATCH_OPEN:
            return status
        if header.magic != 2:
            return RUN_PYTHON
        if header.base_offset >= cursor.end_offset:
            cursor.batch_next_offset = cursor.end_offset
            return RUN_END
        if cursor.watches_producers and header.producer_id > -1:
            return RUN_PYTHON
        if header.is_control or header.last_offset < cursor.next_offset:
            pass_batch(cursor, &header)
            continue
        if header.codec != 0:
            return RUN_PYTHON
        return enter_batch(
            cursor,
            &header,
            cursor.source + cursor.position + BATCH_HEADER_BYTES,
            header.bytes - BATCH_HEADER_BYTES,
        )


cdef int decode_batch(Cursor* cursor, RowsOut* out) noexcept nogil:
    cdef Record record
    cdef Py_ssize_t at
    cdef int64_t offset, timestamp
    cdef int status
    while cursor.records_remaining > 0:
        if out.rows >= out.rows_max:
            return RUN_LIMIT
        at = cursor.at
        cursor.problem = parse_record(cursor.records, &at, cursor.limit, &record)
        if cursor.problem != RECORD_OK:
            return RUN_INVALID
        if cursor.records_remaining == 1 and at != cursor.limit:
            cursor.problem = RECORD_AREA_TRAILING
            return RUN_INVALID
        offset = wrapping_sum(cursor.base_offset, record.offset_delta)
        if offset >= cursor.end_offset:
            cursor.batch_next_offset = cursor.end_offset
            return RUN_END
        if offset >= cursor.next_offset:
            if cursor.timestamp_type == 1:
                timestamp = cursor.append_time
            else:
                timestamp = wrapping_sum(cursor.base_timestamp, record.timestamp_delta)
            status = append_row(
                cursor.records, &record, offset, timestamp, cursor.timestamp_type, out
            )
            if status != RUN_BATCH_OPEN:
                cursor.problem = RECORD_ROW_SIZE
                return status
            cursor.next_offset = offset + 1
        cursor.at = at
        cursor.records_remaining -= 1
    return RUN_BATCH_DONE


cdef int decode_run(Cursor* cursor, RowsOut* out) noexcept nogil:
    cdef int status = RUN_BATCH_OPEN
    while True:
        if cursor.records_remaining > 0:
            status = decode_batch(cursor, out)
            if status != RUN_BATCH_DONE:
                return status
        status = open_batch(cursor)
        if status != RUN_BATCH_OPEN:
            return status


include "_kernel_arrow_decoder.pxi"
include "_kernel_arrow_encode.pxi"
