# The Python face of the decode loops in _kernel_arrow.pxi, which includes it: owns the buffers,
# makes room, and does what needs Python between two runs (expanding a batch, deciding about a
# transaction).

cdef class RowsBuilder:
    # The wanted columns of one read; `out` has the addresses the loops write to.
    cdef RowsOut out
    cdef int columns
    cdef ColumnBuilder key, value, headers, header_keys, header_values
    cdef bytearray offsets, timestamps, timestamp_types

    def __cinit__(self, int columns, int64_t rows_max, int64_t bytes_max, int64_t timestamp_scale):
        self.columns = columns
        self.out.rows_max = min(rows_max, INT32_BYTES_MAX - 1)
        self.out.bytes_max = bytes_max
        self.out.timestamp_scale = timestamp_scale
        self.offsets = bytearray()
        self.timestamps = bytearray()
        self.timestamp_types = bytearray()
        if columns & COLUMN_KEY:
            self.key = ColumnBuilder()
            self.out.key = &self.key.out
        if columns & COLUMN_VALUE:
            self.value = ColumnBuilder()
            self.out.value = &self.value.out
        if columns & COLUMN_HEADERS:
            self.headers = ColumnBuilder()
            self.header_keys = ColumnBuilder()
            self.header_values = ColumnBuilder()
            self.out.headers = &self.headers.out
            self.out.header_keys = &self.header_keys.out
            self.out.header_values = &self.header_values.out

    cdef int start(self, const Cursor* cursor) except -1:
        # A guess from the next batch. A good guess costs no copying, a bad one doubles its way up;
        # not more than is needed, since fresh memory costs as much as filling it.
        cdef BatchHeader header
        cdef int64_t source_bytes = cursor.source_bytes - cursor.position
        cdef int64_t record_bytes = 128
        cdef int64_t rows
        cdef Cursor ahead = cursor[0]
        if find_batch(&ahead, &header) == RUN_BATCH_OPEN and header.magic == 2:
            if 0 < header.record_count < header.bytes // RECORD_BYTES_MIN:
                record_bytes = header.bytes // header.record_count
        rows = min(self.out.rows_max, 16 + source_bytes // record_bytes)
        self.reserve_rows(rows)
        if self.value is not None:
            self.value.reserve_data(min(source_bytes, min(self.out.bytes_max, rows * record_bytes)))
        return 0

    cdef int reserve_rows(self, int64_t rows) except -1:
        cdef ColumnBuilder column
        for column in (self.key, self.value, self.headers):
            if column is not None:
                column.reserve_rows(rows)
        if self.columns & COLUMN_OFFSET:
            resize(self.offsets, 8 * rows)
            self.out.offsets = <int64_t*>PyByteArray_AS_STRING(self.offsets)
        if self.columns & COLUMN_TIMESTAMP:
            resize(self.timestamps, 8 * rows)
            self.out.timestamps = <int64_t*>PyByteArray_AS_STRING(self.timestamps)
        if self.columns & COLUMN_TIMESTAMP_TYPE:
            resize(self.timestamp_types, 4 * rows)
            self.out.timestamp_types = <int32_t*>PyByteArray_AS_STRING(self.timestamp_types)
        self.out.row_capacity = rows
        return 0

    cdef int grow(self) except -1:
        # Makes room for the record that had none, twice as much as there was at least.
        cdef int64_t entries
        if self.out.rows >= self.out.row_capacity:
            self.reserve_rows(min(self.out.rows_max, 2 * self.out.row_capacity + 64))
        if self.key is not None:
            self.key.ensure_data(self.out.key_bytes)
        if self.value is not None:
            self.value.ensure_data(self.out.value_bytes)
        if self.headers is not None and self.out.header_count > 0:
            self.header_keys.ensure_data(self.out.header_key_bytes)
            self.header_values.ensure_data(self.out.header_value_bytes)
            entries = self.out.entries + self.out.header_count
            if entries > self.out.entry_capacity:
                entries = max(entries, 2 * self.out.entry_capacity)
                self.header_keys.reserve_rows(entries)
                self.header_values.reserve_rows(entries)
                self.out.entry_capacity = entries
        return 0

    cdef tuple finish(self):
        cdef int64_t rows = self.out.rows
        cdef int64_t entries = self.out.entries
        cdef object key = None, value = None, headers = None
        if self.key is not None:
            key = self.key.finish(rows)
        if self.value is not None:
            value = self.value.finish(rows)
        if self.headers is not None:
            headers = (
                entries,
                self.headers.finish(rows),
                self.header_keys.finish(entries),
                self.header_values.finish(entries),
            )
        return rows, key, value, headers, *(
            self.fixed(column, buffer, width * rows)
            for column, buffer, width in (
                (COLUMN_OFFSET, self.offsets, 8),
                (COLUMN_TIMESTAMP, self.timestamps, 8),
                (COLUMN_TIMESTAMP_TYPE, self.timestamp_types, 4),
            )
        )

    cdef object fixed(self, int column, bytearray buffer, Py_ssize_t size):
        if not self.columns & column:
            return None
        PyByteArray_Resize(buffer, size)
        return buffer


cdef class ArrowDecoder:
    cdef Cursor cursor
    cdef Py_buffer source_view
    cdef Py_buffer records_view
    cdef int has_source, has_records
    cdef bint exhausted
    cdef object source, expand, upgrade
    # What is wrong with the bytes at the cursor, as (class, message): an exception kept with its
    # traceback would keep this object alive, and with it the caller's buffer.
    cdef tuple failure
    cdef object aborted             # of (first offset, producer id), the earliest first
    cdef set aborted_producers

    def __init__(self, buffer, start_offset, end_offset, aborted, expand, upgrade=None):
        if self.has_source:
            raise TypeError("an ArrowDecoder is made once")
        PyObject_GetBuffer(buffer, &self.source_view, PyBUF_SIMPLE)
        self.has_source = 1
        self.source = memoryview(buffer)
        self.expand = expand
        self.upgrade = upgrade
        self.aborted = deque(sorted((first, producer) for producer, first in aborted))
        self.aborted_producers = set()
        self.cursor.source = <const uint8_t*>self.source_view.buf
        self.cursor.source_bytes = self.source_view.len
        self.cursor.next_offset = start_offset
        self.cursor.batch_next_offset = start_offset
        self.cursor.end_offset = end_offset
        self.cursor.upgrades = upgrade is not None
        self.cursor.watches_producers = bool(self.aborted)

    def __dealloc__(self):
        if self.has_records:
            PyBuffer_Release(&self.records_view)
        if self.has_source:
            PyBuffer_Release(&self.source_view)

    @property
    def next_offset(self):
        return min(self.cursor.next_offset, self.cursor.end_offset)

    @property
    def position(self):
        return self.cursor.position

    @property
    def is_exhausted(self):
        return self.exhausted

    def read(self, int columns, int64_t rows_max, int64_t bytes_max, int64_t timestamp_scale):
        cdef RowsBuilder rows
        cdef int status
        if self.failure is not None:
            raise self.failure[0](self.failure[1])
        rows = RowsBuilder(columns, rows_max, min(bytes_max, INT32_BYTES_MAX), timestamp_scale)
        rows.start(&self.cursor)
        while not self.exhausted:
            if self.cursor.source_bytes - self.cursor.position >= unlocked_bytes_min:
                with nogil:
                    status = decode_run(&self.cursor, &rows.out)
            else:
                status = decode_run(&self.cursor, &rows.out)
            if status == RUN_ROOM:
                rows.grow()
            elif status == RUN_LIMIT:
                break
            elif status == RUN_END:
                self.finish_range()
            else:
                try:
                    self.go_on(status)
                except RecordsError as error:
                    self.failure = (type(error), str(error))
                    if rows.out.rows == 0:
                        raise
                    break
        return rows.finish()

    cdef void finish_range(self) noexcept:
        self.exhausted = True
        if self.cursor.next_offset < self.cursor.batch_next_offset:
            self.cursor.next_offset = self.cursor.batch_next_offset

    cdef int go_on(self, int status) except -1:
        if status == RUN_CORRUPT:
            raise CorruptRecordsError(
                f"no batch has the size or the magic found at position {self.cursor.position}"
            )
        if status == RUN_INVALID:
            raise self.invalid()
        return self.open_with_python()

    cdef object invalid(self):
        return InvalidRecordError(_RECORD_PROBLEMS[self.cursor.problem])

    cdef int hold(self, object buffer) except -1:
        # The expanded records at hand; they stay until the next batch that needs expanding.
        if self.has_records:
            self.has_records = 0
            PyBuffer_Release(&self.records_view)
        PyObject_GetBuffer(buffer, &self.records_view, PyBUF_SIMPLE)
        self.has_records = 1
        return 0

    cdef int open_with_python(self) except -1:
        # The batch at the cursor is framed already and lies within the buffer.
        cdef BatchHeader header
        cdef Py_ssize_t start = self.cursor.position
        cdef const uint8_t* records = NULL
        cdef Py_ssize_t records_bytes = 0
        cdef object batch
        find_batch(&self.cursor, &header)
        batch = self.source[start : start + header.bytes]
        if header.magic != 2:
            batch = memoryview(self.upgrade(batch))
            self.hold(batch)
            if self.records_view.len < BATCH_HEADER_BYTES:
                raise CorruptRecordsError("a batch of an older magic became none of magic 2")
            read_batch_header(<const uint8_t*>self.records_view.buf, &header)
            if header.base_offset >= self.cursor.end_offset:
                self.cursor.batch_next_offset = self.cursor.end_offset
                self.finish_range()
                return 0
        elif self.cursor.watches_producers and header.producer_id > -1:
            if self.is_aborted(&header, batch):
                pass_batch(&self.cursor, &header)
                return 0
        if header.is_control or header.last_offset < self.cursor.next_offset:
            pass_batch(&self.cursor, &header)
            return 0
        self.find_records(&header, batch, &records, &records_bytes)
        if enter_batch(&self.cursor, &header, records, records_bytes) != RUN_BATCH_OPEN:
            raise self.invalid()
        return 0

    cdef int find_records(
        self, BatchHeader* header, object batch, const uint8_t** records, Py_ssize_t* size
    ) except -1:
        # Where the records of a batch lie: in the source, in an upgraded batch, or expanded.
        if header.codec != 0:
            self.hold(self.expand(batch[BATCH_HEADER_BYTES:], header.codec))
            records[0] = <const uint8_t*>self.records_view.buf
            size[0] = self.records_view.len
        elif header.magic != 2:
            records[0] = <const uint8_t*>self.records_view.buf + BATCH_HEADER_BYTES
            size[0] = self.records_view.len - BATCH_HEADER_BYTES
        else:
            records[0] = self.cursor.source + self.cursor.position + BATCH_HEADER_BYTES
            size[0] = header.bytes - BATCH_HEADER_BYTES
        return 0

    cdef bint is_aborted(self, BatchHeader* header, object batch) except -1:
        while self.aborted and self.aborted[0][0] <= header.last_offset:
            self.aborted_producers.add(self.aborted.popleft()[1])
        if not header.is_control:
            return header.is_transactional and header.producer_id in self.aborted_producers
        if self.is_abort_marker(header, batch):
            self.aborted_producers.discard(header.producer_id)
            self.cursor.watches_producers = bool(self.aborted or self.aborted_producers)
        return False

    cdef bint is_abort_marker(self, BatchHeader* header, object batch) except -1:
        # The key of a marker: int16 version, int16 type, which is 0 for an abort.
        cdef Record record
        cdef const uint8_t* records = NULL
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t at = 0
        if header.record_count <= 0:
            return False
        self.find_records(header, batch, &records, &size)
        self.cursor.problem = parse_record(records, &at, size, &record)
        if self.cursor.problem != RECORD_OK:
            raise self.invalid()
        if record.key_bytes < 4 or record.key[0] >= 0x80:
            raise InvalidRecordError("the key of a control record has no valid version and type")
        return record.key[2] == 0 and record.key[3] == 0
