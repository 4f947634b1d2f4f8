# Arrow columns to the record areas of batches.
#
# Input columns are raw Arrow buffers, so that nothing is copied or converted row by row:
#
#   binary     (validity or None, offsets, data, first, is_large): `first` is the Arrow offset of a
#              sliced array, which counts rows in the validity bits and in the offsets; offsets
#              are int32, or int64 if large. Binary, string and their large forms look alike.
#   fixed      (validity or None, values, first): int64 timestamps in milliseconds, int32 partitions
#   headers    (validity or None, offsets, first, is_large, entry validity or None, entry first,
#              number of entries, keys, values): a list of structs, whose two children are
#              binary columns of their own
#
# `encode_rows` writes records one after the other into one output buffer, without the GIL. Where a
# batch begins it leaves 61 bytes, so that the caller can put header and checksum there and use the
# batch where it lies; codecs are the caller's, too.
#
#   | room for a header | record | record | ... | room for a header | record | ...
#
# The rows are those of one or more ranges, in the order of an int32 column if there is one: rows
# that are sorted by partition have a range per partition. A batch ends with its range.
#
# A batch ends before the record that would make it larger than the limit, its header of 61 bytes
# counted. A record that is larger than the limit all by itself is an error. When the output is full
# the batch at hand is taken back and the row it began with is returned as the place to go on from,
# so that no batch is cut short by the output buffer.
#
# A record's length comes first, so each record is measured and then written. Timestamp deltas are
# relative to the first record of the batch. A null timestamp stands for the given default.
#
# The buffers are those of the caller's process, but offsets are nevertheless checked against the
# data before they are followed.

cdef enum:
    ROW_OK = 0
    ROW_OFFSETS = 1
    ROW_NULL_HEADER = 2
    ROW_TOO_LARGE = 3
    ROW_TIMESTAMP = 4

cdef enum:
    ENCODE_DONE = 0
    ENCODE_BATCH = 1
    ENCODE_FULL = 2
    ENCODE_BAD_ROW = 3
    RUN_BATCHES_MAX = 64

_ROW_PROBLEMS = (
    "",
    "Arrow offsets point outside of their data",
    "a header or its key is null",
    "the record is larger than a batch may be",
    "the timestamp is negative",
)


cdef struct BinaryIn:
    const uint8_t* validity
    const uint8_t* offsets
    const uint8_t* data
    int64_t data_bytes
    int64_t first
    int64_t rows
    int is_large


cdef inline int is_valid_bit(const uint8_t* validity, int64_t index) noexcept nogil:
    return validity == NULL or (validity[index >> 3] >> (index & 7)) & 1


cdef inline int64_t offset_at(const uint8_t* offsets, int64_t index, int is_large) noexcept nogil:
    # Through memcpy, since nothing promises that a buffer is aligned.
    cdef int64_t large = 0
    cdef int32_t small = 0
    if is_large:
        memcpy(&large, offsets + 8 * index, 8)
        return large
    memcpy(&small, offsets + 4 * index, 4)
    return small


cdef inline int read_element(
    const BinaryIn* column, int64_t row, const uint8_t** data, int64_t* size
) noexcept nogil:
    # Size -1: null.
    cdef int64_t index, start, end
    if row < 0 or row >= column.rows:
        return ROW_OFFSETS
    index = column.first + row
    if not is_valid_bit(column.validity, index):
        size[0] = -1
        return ROW_OK
    start = offset_at(column.offsets, index, column.is_large)
    end = offset_at(column.offsets, index + 1, column.is_large)
    if start < 0 or end < start or end > column.data_bytes:
        return ROW_OFFSETS
    data[0] = column.data + start
    size[0] = end - start
    return ROW_OK


cdef int add_binary(
    BufferSet buffers, object column, int64_t rows, BinaryIn* result
) except -1:
    validity, offsets, data, first, is_large = column
    if first < 0 or rows < 0:
        raise InvalidRecordError("an Arrow array has a negative offset or length")
    result.first = first
    result.rows = rows
    result.is_large = is_large
    result.validity = buffers.add(validity, (result.first + rows + 7) // 8)
    result.offsets = buffers.add(
        offsets, 0 if rows == 0 else (result.first + rows + 1) * (8 if is_large else 4)
    )
    result.data = buffers.add(data, 0)
    result.data_bytes = buffers.last_bytes()
    return 0


cdef struct RowsIn:
    int64_t rows
    int has_key, has_headers
    BinaryIn key, value, header_keys, header_values
    const uint8_t* headers_validity
    const uint8_t* headers_offsets
    int64_t headers_first
    int headers_large
    const uint8_t* entries_validity
    int64_t entries_first
    const uint8_t* timestamps_validity
    const uint8_t* timestamps
    int64_t timestamps_first
    int64_t default_timestamp
    const uint8_t* order        # int32 row numbers, or NULL


cdef struct RowSpan:
    # What one row turns into; filled by measure_row, used by write_row.
    const uint8_t* key
    const uint8_t* value
    int64_t key_bytes, value_bytes
    int64_t header_start, header_end
    int64_t timestamp
    int64_t body_bytes


cdef int64_t row_field_bytes(int64_t size) noexcept nogil:
    return varint_size(<int32_t>size) + (size if size > 0 else 0)


cdef int measure_headers_in(const RowsIn* rows, int64_t row, RowSpan* span) noexcept nogil:
    cdef const uint8_t* data = NULL
    cdef int64_t index = rows.headers_first + row
    cdef int64_t entry
    cdef int64_t size = 0
    cdef int status
    span.header_start = 0
    span.header_end = 0
    if not is_valid_bit(rows.headers_validity, index):
        return ROW_OK
    span.header_start = offset_at(rows.headers_offsets, index, rows.headers_large)
    span.header_end = offset_at(rows.headers_offsets, index + 1, rows.headers_large)
    if span.header_start < 0 or span.header_end < span.header_start:
        return ROW_OFFSETS
    if span.header_end > rows.header_keys.rows:
        return ROW_OFFSETS
    for entry in range(span.header_start, span.header_end):
        if not is_valid_bit(rows.entries_validity, rows.entries_first + entry):
            return ROW_NULL_HEADER
        status = read_element(&rows.header_keys, entry, &data, &size)
        if status != ROW_OK:
            return status
        if size < 0:
            return ROW_NULL_HEADER
        if size > INT32_BYTES_MAX:
            return ROW_TOO_LARGE
        span.body_bytes += row_field_bytes(size)
        status = read_element(&rows.header_values, entry, &data, &size)
        if status != ROW_OK:
            return status
        if size > INT32_BYTES_MAX:
            return ROW_TOO_LARGE
        span.body_bytes += row_field_bytes(size)
    return ROW_OK


cdef inline int measure_row(const RowsIn* rows, int64_t row, RowSpan* span) noexcept nogil:
    # All but the two deltas, which depend on the batch the row goes to.
    cdef int64_t index
    cdef int status
    if row < 0 or row >= rows.rows:
        return ROW_OFFSETS
    span.key = NULL
    span.value = NULL
    span.key_bytes = -1
    span.timestamp = rows.default_timestamp
    if rows.timestamps != NULL:
        index = rows.timestamps_first + row
        if is_valid_bit(rows.timestamps_validity, index):
            span.timestamp = offset_at(rows.timestamps, index, 1)
            if span.timestamp < 0:
                return ROW_TIMESTAMP
    if rows.has_key:
        status = read_element(&rows.key, row, &span.key, &span.key_bytes)
        if status != ROW_OK:
            return status
    status = read_element(&rows.value, row, &span.value, &span.value_bytes)
    if status != ROW_OK:
        return status
    if span.key_bytes > INT32_BYTES_MAX or span.value_bytes > INT32_BYTES_MAX:
        return ROW_TOO_LARGE
    span.body_bytes = 1 + row_field_bytes(span.key_bytes) + row_field_bytes(span.value_bytes)
    span.header_start = 0
    span.header_end = 0
    if rows.has_headers:
        status = measure_headers_in(rows, row, span)
        if status != ROW_OK:
            return status
        if span.header_end - span.header_start > INT32_BYTES_MAX:
            return ROW_TOO_LARGE
    span.body_bytes += varint_size(<int32_t>(span.header_end - span.header_start))
    return ROW_OK


cdef inline uint8_t* write_row_field(
    uint8_t* out, const uint8_t* data, int64_t size
) noexcept nogil:
    out += write_varint(out, <int32_t>size)
    if size > 0:
        memcpy(out, data, size)
        out += size
    return out


cdef inline void write_row(
    const RowsIn* rows,
    const RowSpan* span,
    uint8_t* out,
    int64_t timestamp_delta,
    int32_t offset_delta,
) noexcept nogil:
    cdef const uint8_t* data = NULL
    cdef int64_t entry
    cdef int64_t size = 0
    out += write_varint(
        out,
        <int32_t>(
            span.body_bytes + varlong_size(timestamp_delta) + varint_size(offset_delta)
        ),
    )
    out[0] = 0
    out += 1
    out += write_varlong(out, timestamp_delta)
    out += write_varint(out, offset_delta)
    out = write_row_field(out, span.key, span.key_bytes)
    out = write_row_field(out, span.value, span.value_bytes)
    out += write_varint(out, <int32_t>(span.header_end - span.header_start))
    for entry in range(span.header_start, span.header_end):
        read_element(&rows.header_keys, entry, &data, &size)
        out = write_row_field(out, data, size)
        read_element(&rows.header_values, entry, &data, &size)
        out = write_row_field(out, data, size)


cdef struct BatchOut:
    int64_t start, end, range_index, first_row, row_count, base_timestamp, max_timestamp


cdef struct EncodeRun:
    uint8_t* out
    int64_t capacity
    int64_t used                # by finished batches
    int64_t batch_bytes_max
    int64_t row                 # in the order of the call; the next to encode
    const uint8_t* range_ends   # int64 each
    int64_t range_count
    int64_t range_index
    int problem
    BatchOut batches[RUN_BATCHES_MAX]
    int batch_count


cdef inline int64_t row_number(const RowsIn* rows, int64_t row) noexcept nogil:
    return offset_at(rows.order, row, 0) if rows.order != NULL else row


cdef int encode_batch(
    const RowsIn* rows, EncodeRun* run, int64_t row_end, BatchOut* batch
) noexcept nogil:
    # One batch from run.row on, after the finished ones.
    cdef RowSpan span
    cdef int64_t row = run.row
    cdef int64_t at = run.used + BATCH_HEADER_BYTES
    cdef int64_t body, size, delta
    batch.start = run.used
    batch.first_row = row
    batch.base_timestamp = -1
    batch.max_timestamp = -1
    while row < row_end:
        run.problem = measure_row(rows, row_number(rows, row), &span)
        if run.problem != ROW_OK:
            run.row = row
            return ENCODE_BAD_ROW
        if row == batch.first_row:
            batch.base_timestamp = span.timestamp
        delta = span.timestamp - batch.base_timestamp
        body = span.body_bytes + varlong_size(delta)
        body += varint_size(<int32_t>(row - batch.first_row))
        size = INT32_BYTES_MAX if body > INT32_BYTES_MAX else body + varint_size(<int32_t>body)
        if size > run.batch_bytes_max - (at - batch.start):
            if row > batch.first_row:
                break
            run.problem = ROW_TOO_LARGE
            return ENCODE_BAD_ROW
        if size > run.capacity - at:
            return ENCODE_FULL
        write_row(rows, &span, run.out + at, delta, <int32_t>(row - batch.first_row))
        at += size
        row += 1
        if span.timestamp > batch.max_timestamp:
            batch.max_timestamp = span.timestamp
    batch.end = at
    batch.row_count = row - batch.first_row
    run.row = row
    run.used = at
    return ENCODE_BATCH


cdef int encode_run(const RowsIn* rows, EncodeRun* run) noexcept nogil:
    # Batches until the output or the list of batches is full, or the ranges end.
    cdef BatchOut* batch
    cdef int64_t row_end
    cdef int status
    run.batch_count = 0
    while run.range_index < run.range_count:
        row_end = offset_at(run.range_ends, run.range_index, 1)
        if run.row >= row_end:
            run.range_index += 1
            continue
        if run.batch_count == RUN_BATCHES_MAX:
            return ENCODE_BATCH
        batch = &run.batches[run.batch_count]
        batch.range_index = run.range_index
        status = encode_batch(rows, run, row_end, batch)
        if status != ENCODE_BATCH:
            return status
        run.batch_count += 1
    return ENCODE_DONE


cdef int fill_rows(BufferSet buffers, RowsIn* rows, int64_t count, object columns) except -1:
    key, value, headers, timestamps, default_timestamp = columns
    rows.rows = count
    rows.default_timestamp = default_timestamp
    rows.has_key = key is not None
    rows.has_headers = headers is not None
    add_binary(buffers, value, count, &rows.value)
    if rows.has_key:
        add_binary(buffers, key, count, &rows.key)
    if timestamps is not None:
        validity, values, first = timestamps
        if first < 0:
            raise InvalidRecordError("an Arrow array has a negative offset")
        rows.timestamps_first = first
        rows.timestamps_validity = buffers.add(validity, (first + count + 7) // 8)
        rows.timestamps = buffers.add(values, 8 * (first + count))
    if rows.has_headers:
        fill_headers(buffers, rows, count, headers)
    return 0


cdef int fill_headers(BufferSet buffers, RowsIn* rows, int64_t count, object headers) except -1:
    validity, offsets, first, is_large, entry_validity, entry_first, entries, keys, values = headers
    if first < 0 or entry_first < 0 or entries < 0:
        raise InvalidRecordError("an Arrow array has a negative offset or length")
    rows.headers_first = first
    rows.headers_large = is_large
    rows.headers_validity = buffers.add(validity, (first + count + 7) // 8)
    rows.headers_offsets = buffers.add(
        offsets, 0 if count == 0 else (first + count + 1) * (8 if is_large else 4)
    )
    rows.entries_first = entry_first
    rows.entries_validity = buffers.add(entry_validity, (entry_first + entries + 7) // 8)
    add_binary(buffers, keys, entries, &rows.header_keys)
    add_binary(buffers, values, entries, &rows.header_values)
    return 0


def encode_rows(
    int64_t capacity,
    tuple columns,
    int64_t row_count,
    order,
    range_ends,
    int64_t first_row,
    int64_t batch_bytes_max,
):
    """A buffer of at most `capacity` bytes with batches of the rows from `first_row` on.

    Returns the buffer, the batches in it, and the row to go on from.
    """
    cdef BufferSet buffers = BufferSet()
    cdef RowsIn rows
    cdef EncodeRun run
    cdef bytearray out = bytearray()
    cdef list batches = []
    cdef int status = ENCODE_BATCH
    cdef int index
    memset(&rows, 0, sizeof(RowsIn))
    fill_rows(buffers, &rows, row_count, columns)
    rows.order = buffers.add(order, 4 * row_count)
    run.range_ends = buffers.add(range_ends, 0)
    run.range_count = buffers.last_bytes() // 8
    run.range_index = 0
    resize(out, capacity)
    run.out = <uint8_t*>PyByteArray_AS_STRING(out)
    run.capacity = capacity
    run.used = 0
    run.batch_bytes_max = min(batch_bytes_max, INT32_BYTES_MAX)
    run.row = first_row
    while status == ENCODE_BATCH:
        with nogil:
            status = encode_run(&rows, &run)
        if status == ENCODE_BAD_ROW:
            raise InvalidRecordError(
                f"row {row_number(&rows, run.row)}: {_ROW_PROBLEMS[run.problem]}"
            )
        for index in range(run.batch_count):
            batches.append(batch_tuple(&run.batches[index]))
    PyByteArray_Resize(out, run.used)
    return out, batches, run.row


cdef tuple batch_tuple(const BatchOut* batch):
    return (
        batch.start,
        batch.end,
        batch.range_index,
        batch.first_row,
        batch.row_count,
        batch.base_timestamp,
        batch.max_timestamp,
    )


# --- rows by partition

cdef struct Partitions:
    const uint8_t* validity
    const uint8_t* values       # int32 each
    int64_t first
    int64_t rows
    int64_t count


cdef int64_t count_partitions(const Partitions* partitions, int64_t* counts) noexcept nogil:
    # Rows of each partition; the first row without a valid one, or -1.
    cdef int64_t row, partition
    for row in range(partitions.rows):
        partition = offset_at(partitions.values, partitions.first + row, 0)
        if not is_valid_bit(partitions.validity, partitions.first + row):
            return row
        if partition < 0 or partition >= partitions.count:
            return row
        counts[partition] += 1
    return -1


cdef void place_rows(
    const Partitions* partitions, int64_t* next_place, int32_t* order
) noexcept nogil:
    cdef int64_t row, partition
    for row in range(partitions.rows):
        partition = offset_at(partitions.values, partitions.first + row, 0)
        order[next_place[partition]] = <int32_t>row
        next_place[partition] += 1


def order_by_partition(
    validity, values, int64_t first, int64_t row_count, int64_t partition_count
):
    """The rows sorted by partition, stable, and where each partition begins and ends there."""
    cdef BufferSet buffers = BufferSet()
    cdef Partitions partitions
    cdef int64_t partition, count, bad_row
    cdef int64_t at = 0
    cdef bytearray order = bytearray(4 * row_count)
    cdef bytearray places = bytearray(8 * partition_count)
    cdef int32_t* sorted_rows = <int32_t*>PyByteArray_AS_STRING(order)
    cdef int64_t* next_place = <int64_t*>PyByteArray_AS_STRING(places)
    cdef list ranges = []
    if first < 0:
        raise InvalidRecordError("an Arrow array has a negative offset")
    partitions.validity = buffers.add(validity, (first + row_count + 7) // 8)
    partitions.values = buffers.add(values, 4 * (first + row_count))
    partitions.first = first
    partitions.rows = row_count
    partitions.count = partition_count
    with nogil:
        bad_row = count_partitions(&partitions, next_place)
    if bad_row >= 0:
        raise InvalidRecordError(f"row {bad_row}: the partition is null or does not exist")
    for partition in range(partition_count):
        count = next_place[partition]
        next_place[partition] = at
        if count:
            ranges.append((partition, at, at + count))
        at += count
    with nogil:
        place_rows(&partitions, next_place, sorted_rows)
    return order, ranges
