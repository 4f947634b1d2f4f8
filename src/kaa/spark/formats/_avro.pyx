# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# Avro records to Arrow columns, by a flat program that ``kaa.spark.formats.avro`` compiles.
#
# Program: nodes in preorder. A node is a column (or a null column, or a union) and is one tuple
#   (kind, size, null_branch, scale, children, symbols)
# where null_branch is the branch of a two-branch union that means null (-1: no such union), size
# the bytes of a fixed, scale the factor of a time (negative: a divisor), children the indexes of
# nodes in the order of fields or branches (-1: the branch that is null), symbols those of an enum.
#
# Columns are malloc'ed buffers in Arrow's layout, grown while the GIL is released and then handed
# out without a copy. Bits of validity are written for each row, so that a row can be taken back.
#
# A record that cannot be decoded must leave nothing behind: its columns are cut to the length
# before it, which the offsets of lists and of byte strings tell level by level, and it becomes a
# row of nulls with an entry in the list of errors. Nothing of a record is trusted: every read is
# checked against its end, a count of items against the bytes that are left.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

cdef enum:
    NULL_KIND = 0
    BOOLEAN = 1
    INT32 = 2
    INT64 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    FIXED = 8
    ENUM = 9
    DECIMAL = 10
    DECIMAL_FIXED = 11
    RECORD = 12
    ARRAY = 13
    MAP = 14
    UNION = 15

cdef enum:
    OK = 0
    TRUNCATED = 1
    BAD_VARINT = 2
    BAD_LENGTH = 3
    BAD_BRANCH = 4
    BAD_UTF8 = 5
    BAD_SYMBOL = 6
    BAD_DECIMAL = 7
    BAD_BOOLEAN = 8
    BAD_COUNT = 9
    OUT_OF_RANGE = 10
    LEFT_OVER = 11
    NO_MEMORY = 12

# Items of a type without bytes (null, an empty record) that one block may have.
cdef int64_t EMPTY_ITEMS_MAX = 65536

cdef struct Node:
    int kind
    int32_t size
    int32_t null_branch
    int64_t scale
    int32_t child_count
    int32_t* children
    uint8_t** symbols
    int32_t* symbol_sizes
    # The column: bits, offsets (int32) and values, with their capacities in bytes.
    uint8_t* validity
    int64_t validity_capacity
    int32_t* offsets
    int64_t offsets_capacity
    uint8_t* data
    int64_t data_capacity
    int64_t length
    int64_t nulls
    int64_t used


cdef struct Input:
    const uint8_t* at
    const uint8_t* end


cdef inline int grow(void** buffer, int64_t* capacity, int64_t wanted) noexcept nogil:
    cdef int64_t size
    cdef void* larger
    if wanted <= capacity[0]:
        return OK
    size = capacity[0] * 2
    if size < wanted:
        size = wanted
    if size < 1024:
        size = 1024
    larger = realloc(buffer[0], size)
    if larger == NULL:
        return NO_MEMORY
    buffer[0] = larger
    capacity[0] = size
    return OK


cdef inline int read_long(Input* source, int64_t* value) noexcept nogil:
    cdef uint64_t result = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 64:
        if source.at >= source.end:
            return TRUNCATED
        byte = source.at[0]
        source.at += 1
        result |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int64_t>(result >> 1) ^ -<int64_t>(result & 1)
            return OK
        shift += 7
    return BAD_VARINT


cdef inline int read_size(Input* source, int64_t* size) noexcept nogil:
    cdef int status = read_long(source, size)
    if status != OK:
        return status
    if size[0] < 0:
        return BAD_LENGTH
    if size[0] > source.end - source.at:
        return TRUNCATED
    return OK


cdef int is_utf8(const uint8_t* data, int64_t size) noexcept nogil:
    cdef int64_t at = 0
    cdef uint8_t first, low, high
    cdef int64_t length, index
    while at < size:
        first = data[at]
        if first < 0x80:
            at += 1
            continue
        low = 0x80
        high = 0xBF
        if 0xC2 <= first <= 0xDF:
            length = 2
        elif 0xE0 <= first <= 0xEF:
            length = 3
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F
        elif 0xF0 <= first <= 0xF4:
            length = 4
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        else:
            return 0
        if at + length > size:
            return 0
        for index in range(1, length):
            if data[at + index] < low or data[at + index] > high:
                return 0
            low = 0x80
            high = 0xBF
        at += length
    return 1


cdef inline int mark(Node* node, int valid) noexcept nogil:
    # Writes the bit of the row that is being added, and room for it.
    cdef int64_t row = node.length
    cdef int status = grow(<void**>&node.validity, &node.validity_capacity, (row >> 3) + 1)
    if status != OK:
        return status
    if valid:
        node.validity[row >> 3] |= <uint8_t>(1 << (row & 7))
    else:
        node.validity[row >> 3] &= <uint8_t>~(1 << (row & 7))
        node.nulls += 1
    return OK


cdef inline int add_offset(Node* node) noexcept nogil:
    # Closes the row: what follows begins at `used`.
    cdef int status
    if node.used > INT32_MAX:
        return BAD_COUNT
    status = grow(
        <void**>&node.offsets, &node.offsets_capacity, 4 * (node.length + 2)
    )
    if status != OK:
        return status
    node.offsets[0] = 0
    node.offsets[node.length + 1] = <int32_t>node.used
    return OK


cdef inline int add_bytes(Node* node, const uint8_t* data, int64_t size) noexcept nogil:
    cdef int status = grow(<void**>&node.data, &node.data_capacity, node.used + size)
    if status != OK:
        return status
    memcpy(node.data + node.used, data, size)
    node.used += size
    return add_offset(node)


cdef int width_of(int kind) noexcept nogil:
    if kind == INT32 or kind == FLOAT:
        return 4
    if kind == INT64 or kind == DOUBLE:
        return 8
    if kind == DECIMAL or kind == DECIMAL_FIXED:
        return 16
    return 0


cdef inline int add_fixed(Node* node, const void* data, int width) noexcept nogil:
    cdef int status = grow(
        <void**>&node.data, &node.data_capacity, (node.length + 1) * width
    )
    if status != OK:
        return status
    memcpy(node.data + node.length * width, data, width)
    return OK


cdef inline int add_bit(Node* node, int value) noexcept nogil:
    cdef int64_t row = node.length
    cdef int status = grow(<void**>&node.data, &node.data_capacity, (row >> 3) + 1)
    if status != OK:
        return status
    if value:
        node.data[row >> 3] |= <uint8_t>(1 << (row & 7))
    else:
        node.data[row >> 3] &= <uint8_t>~(1 << (row & 7))
    return OK


cdef int add_null(Node* nodes, Node* node) noexcept nogil:
    cdef uint8_t zeros[16]
    cdef int status = OK
    cdef int32_t index
    cdef int width
    memset(zeros, 0, 16)
    status = mark(node, 0)
    if status != OK:
        return status
    width = width_of(node.kind)
    if width:
        status = add_fixed(node, zeros, width)
    elif node.kind == BOOLEAN:
        status = add_bit(node, 0)
    elif node.kind == RECORD or node.kind == UNION:
        for index in range(node.child_count):
            if node.children[index] >= 0:
                status = add_null(nodes, &nodes[node.children[index]])
                if status != OK:
                    return status
    elif node.kind != NULL_KIND:
        status = add_offset(node)
    if status == OK:
        node.length += 1
    return status


cdef int truncate(Node* nodes, Node* node, int64_t length) noexcept nogil:
    # Takes rows back, down to `length` of them.
    cdef int64_t row
    cdef int64_t used
    cdef int32_t index
    for row in range(length, node.length):
        if not (node.validity[row >> 3] >> (row & 7)) & 1:
            node.nulls -= 1
    node.length = length
    if node.kind == RECORD or node.kind == UNION:
        for index in range(node.child_count):
            if node.children[index] >= 0:
                truncate(nodes, &nodes[node.children[index]], length)
    elif node.kind in (BYTES, STRING, FIXED, ENUM, ARRAY, MAP):
        used = node.offsets[length] if node.offsets != NULL and length > 0 else 0
        node.used = used
        if node.kind == ARRAY or node.kind == MAP:
            for index in range(node.child_count):
                truncate(nodes, &nodes[node.children[index]], used)
    return OK


cdef int add_decimal(Node* node, const uint8_t* data, int64_t size) noexcept nogil:
    # Big-endian two's complement of any size to 16 bytes of little-endian.
    cdef uint8_t out[16]
    cdef uint8_t fill = 0xFF if size and data[0] & 0x80 else 0
    cdef int64_t index
    memset(out, fill, 16)
    while size > 16 and data[0] == fill and (data[1] & 0x80) == (fill & 0x80):
        data += 1
        size -= 1
    if size > 16 or size == 0:
        return BAD_DECIMAL
    for index in range(size):
        out[index] = data[size - 1 - index]
    return add_fixed(node, out, 16)


cdef int decode_number(Node* node, Input* source) noexcept nogil:
    cdef int64_t value
    cdef int32_t small
    cdef int status = read_long(source, &value)
    if status != OK:
        return status
    if node.kind == INT32:
        if value > INT32_MAX or value < -<int64_t>INT32_MAX - 1:
            return OUT_OF_RANGE
        small = <int32_t>value
        return add_fixed(node, &small, 4)
    if node.scale > 1:
        if value > INT64_MAX // node.scale or value < -(INT64_MAX // node.scale):
            return OUT_OF_RANGE
        value *= node.scale
    elif node.scale < 0:
        small = value % -node.scale < 0
        value = value / -node.scale - small
    return add_fixed(node, &value, 8)


cdef int decode_items(Node* nodes, Node* node, Input* source) noexcept nogil:
    cdef int64_t count, size, item
    cdef int status
    cdef int32_t index
    while True:
        status = read_long(source, &count)
        if status != OK:
            return status
        if count == 0:
            break
        if count < 0:
            status = read_long(source, &size)
            if status != OK:
                return status
            if count < -INT64_MAX:
                return BAD_COUNT
            count = -count
        if count > source.end - source.at and count > EMPTY_ITEMS_MAX:
            return BAD_COUNT
        for item in range(count):
            for index in range(node.child_count):
                status = decode(nodes, &nodes[node.children[index]], source)
                if status != OK:
                    return status
        node.used += count
    return add_offset(node)


cdef int decode_union(Node* nodes, Node* node, Input* source) noexcept nogil:
    cdef int64_t branch
    cdef int32_t index, child
    cdef int status = read_long(source, &branch)
    if status != OK:
        return status
    if branch < 0 or branch >= node.child_count:
        return BAD_BRANCH
    if node.children[branch] < 0:
        return add_null(nodes, node)
    for index in range(node.child_count):
        child = node.children[index]
        if child < 0:
            continue
        if index == branch:
            status = decode(nodes, &nodes[child], source)
        else:
            status = add_null(nodes, &nodes[child])
        if status != OK:
            return status
    status = mark(node, 1)
    node.length += 1
    return status


cdef int decode_binary(Node* node, Input* source) noexcept nogil:
    cdef int64_t size = node.size
    cdef int status
    if node.kind == FIXED or node.kind == DECIMAL_FIXED:
        if size > source.end - source.at:
            return TRUNCATED
    else:
        status = read_size(source, &size)
        if status != OK:
            return status
    if node.kind == STRING and not is_utf8(source.at, size):
        return BAD_UTF8
    if node.kind == DECIMAL or node.kind == DECIMAL_FIXED:
        status = add_decimal(node, source.at, size)
    else:
        status = add_bytes(node, source.at, size)
    source.at += size
    return status


cdef int decode_value(Node* nodes, Node* node, Input* source) noexcept nogil:
    cdef int status
    cdef int kind = node.kind
    cdef int width
    cdef int32_t index
    cdef int64_t symbol
    if kind == INT32 or kind == INT64:
        return decode_number(node, source)
    if kind == FLOAT or kind == DOUBLE:
        width = width_of(kind)
        if source.end - source.at < width:
            return TRUNCATED
        status = add_fixed(node, source.at, width)
        source.at += width
        return status
    if kind == BOOLEAN:
        if source.at >= source.end:
            return TRUNCATED
        if source.at[0] > 1:
            return BAD_BOOLEAN
        width = source.at[0]
        source.at += 1
        return add_bit(node, width)
    if kind == RECORD:
        for index in range(node.child_count):
            status = decode(nodes, &nodes[node.children[index]], source)
            if status != OK:
                return status
        return OK
    if kind == ARRAY or kind == MAP:
        return decode_items(nodes, node, source)
    if kind == ENUM:
        status = read_long(source, &symbol)
        if status != OK:
            return status
        if symbol < 0 or symbol >= node.size:
            return BAD_SYMBOL
        return add_bytes(node, node.symbols[symbol], node.symbol_sizes[symbol])
    return decode_binary(node, source)


cdef int decode(Node* nodes, Node* node, Input* source) noexcept nogil:
    cdef int64_t branch
    cdef int status
    if node.kind == UNION:
        return decode_union(nodes, node, source)
    if node.null_branch >= 0:
        status = read_long(source, &branch)
        if status != OK:
            return status
        if branch == node.null_branch:
            return add_null(nodes, node)
        if branch != 1 - node.null_branch:
            return BAD_BRANCH
    if node.kind == NULL_KIND:
        return add_null(nodes, node)
    status = decode_value(nodes, node, source)
    if status != OK:
        return status
    status = mark(node, 1)
    node.length += 1
    return status


cdef class Owned:
    # A buffer that was malloc'ed; a view of it keeps it alive.
    cdef uint8_t* data
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)

    def __dealloc__(self):
        free(self.data)


cdef object take(void** data, int64_t* capacity, int64_t size):
    cdef Owned owned
    if data[0] == NULL:
        return b""  # Nothing was ever written; pyarrow takes no address of nothing.
    owned = Owned.__new__(Owned)
    owned.data = <uint8_t*>data[0]
    owned.size = size
    data[0] = NULL
    capacity[0] = 0
    return owned


cdef class AvroDecoder:
    """Decodes Avro values to the columns of one compiled schema."""

    cdef Node* nodes
    cdef Py_ssize_t count
    cdef object program

    def __cinit__(self, program):
        cdef Py_ssize_t index, part
        cdef Node* node
        self.program = tuple(program)
        self.count = len(self.program)
        self.nodes = <Node*>calloc(self.count, sizeof(Node))
        if self.nodes == NULL:
            raise MemoryError
        for index in range(self.count):
            node = &self.nodes[index]
            kind, size, null_branch, scale, children, symbols = self.program[index]
            node.kind, node.size, node.null_branch = kind, size, null_branch
            node.scale = scale
            node.child_count = len(children)
            node.children = <int32_t*>malloc(4 * max(1, len(children)))
            node.symbols = <uint8_t**>malloc(sizeof(void*) * max(1, len(symbols)))
            node.symbol_sizes = <int32_t*>malloc(4 * max(1, len(symbols)))
            if node.children == NULL or node.symbols == NULL or node.symbol_sizes == NULL:
                raise MemoryError
            for part in range(len(children)):
                node.children[part] = children[part]
            for part in range(len(symbols)):
                # The program keeps the bytes objects, and so what is pointed to, alive.
                node.symbols[part] = <uint8_t*>PyBytes_AS_STRING(symbols[part])
                node.symbol_sizes[part] = <int32_t>PyBytes_GET_SIZE(symbols[part])

    def __dealloc__(self):
        cdef Py_ssize_t index
        for index in range(self.count if self.nodes != NULL else 0):
            free(self.nodes[index].children)
            free(self.nodes[index].symbols)
            free(self.nodes[index].symbol_sizes)
            free(self.nodes[index].validity)
            free(self.nodes[index].offsets)
            free(self.nodes[index].data)
        free(self.nodes)

    def decode(self, validity, offsets, data, Py_ssize_t start, Py_ssize_t rows, Py_ssize_t skip):
        """Decodes a binary column; `skip` bytes before each value are not Avro.

        Returns the columns, (length, nulls, validity, offsets, data) for each node, and the errors
        as (row, code, position).
        """
        cdef Py_buffer validity_view, offsets_view, data_view
        cdef const uint8_t* bits = NULL
        if validity is not None:
            PyObject_GetBuffer(validity, &validity_view, PyBUF_SIMPLE)
            bits = <const uint8_t*>validity_view.buf
        PyObject_GetBuffer(offsets, &offsets_view, PyBUF_SIMPLE)
        PyObject_GetBuffer(data, &data_view, PyBUF_SIMPLE)
        try:
            errors = self.rows(
                bits,
                <const int32_t*>offsets_view.buf + start,
                <const uint8_t*>data_view.buf,
                start,
                rows,
                skip,
            )
            return [self.column(index) for index in range(self.count)], errors
        finally:
            PyBuffer_Release(&data_view)
            PyBuffer_Release(&offsets_view)
            if validity is not None:
                PyBuffer_Release(&validity_view)

    cdef list rows(
        self,
        const uint8_t* bits,
        const int32_t* ends,
        const uint8_t* data,
        Py_ssize_t start,
        Py_ssize_t rows,
        Py_ssize_t skip,
    ):
        cdef Py_ssize_t row = 0
        cdef Input source
        cdef const uint8_t* begin
        cdef int status = OK
        cdef list errors = []
        while row < rows:
            with nogil:
                while row < rows:
                    status = OK
                    if bits != NULL and not (bits[(start + row) >> 3] >> ((start + row) & 7)) & 1:
                        status = add_null(self.nodes, self.nodes)
                        begin = source.at = NULL
                    else:
                        begin = data + ends[row]
                        source.at = begin + skip
                        source.end = data + ends[row + 1]
                        if source.at > source.end:
                            source.at = source.end
                        status = decode(self.nodes, self.nodes, &source)
                        if status == OK and source.at != source.end:
                            status = LEFT_OVER
                    if status != OK:
                        break
                    row += 1
            if status != OK:
                truncate(self.nodes, self.nodes, row)
                if status == NO_MEMORY or add_null(self.nodes, self.nodes) != OK:
                    truncate(self.nodes, self.nodes, 0)
                    raise MemoryError
                errors.append((row, status, source.at - begin))
                row += 1
        return errors

    cdef tuple column(self, Py_ssize_t index):
        cdef Node* node = &self.nodes[index]
        cdef int64_t length = node.length
        cdef int64_t nulls = node.nulls
        cdef int64_t size = length * width_of(node.kind)
        validity = offsets = data = None
        if nulls and node.kind != NULL_KIND:
            validity = take(
                <void**>&node.validity, &node.validity_capacity, (length + 7) >> 3
            )
        if node.kind in (BYTES, STRING, FIXED, ENUM, ARRAY, MAP):
            if length == 0:
                add_empty_offsets(node)
            offsets = take(<void**>&node.offsets, &node.offsets_capacity, 4 * (length + 1))
            size = node.used
        if node.kind == BOOLEAN:
            size = (length + 7) >> 3
        if node.kind not in (NULL_KIND, RECORD, UNION, ARRAY, MAP):
            data = take(<void**>&node.data, &node.data_capacity, size)
        node.length = node.nulls = node.used = 0
        return length, nulls, validity, offsets, data


cdef int add_empty_offsets(Node* node) except -1:
    if grow(<void**>&node.offsets, &node.offsets_capacity, 4) != OK:
        raise MemoryError
    node.offsets[0] = 0
    return 0


def frame_ids(validity, offsets, data, Py_ssize_t start, Py_ssize_t rows):
    """The schema id of each value in Confluent's frame: -1 where it is null, -2 without a frame."""
    cdef const int32_t[::1] ends = memoryview(offsets).cast("B").cast("i")
    cdef const uint8_t[::1] bits = None if validity is None else memoryview(validity).cast("B")
    cdef const uint8_t[::1] source = memoryview(data).cast("B")
    cdef bytearray out = bytearray(4 * rows)
    cdef int32_t* ids = <int32_t*><char*>out
    cdef Py_ssize_t row, at
    with nogil:
        for row in range(start, start + rows):
            if bits is not None and not (bits[row >> 3] >> (row & 7)) & 1:
                ids[row - start] = -1
                continue
            at = ends[row]
            if ends[row + 1] - at < 5 or source[at] != 0 or source[at + 1] & 0x80:
                ids[row - start] = -2
                continue
            ids[row - start] = (
                <int32_t>source[at + 1] << 24
                | <int32_t>source[at + 2] << 16
                | <int32_t>source[at + 3] << 8
                | <int32_t>source[at + 4]
            )
    return out
