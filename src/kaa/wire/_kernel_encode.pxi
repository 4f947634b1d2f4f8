# Encodes messages by a plan, in C: twin of the generated Python encoder, with the same bytes.
#
# An `EncodePlan` is made once per (struct, version). It lists the fields in wire order, and between
# them those that the version lacks and that must have their default, since they would be lost
# otherwise. Values are read from the slots of the instance, as the decoder stores them; an object
# of another class is asked for its attributes by name.
#
# A message is written into a buffer of its own, which grows by doubling, and is taken from there
# when the message is whole: a message that is refused leaves nothing behind. It is appended to the
# caller's bytearray, or, with the head of its frame before it, cut into what a socket sends.
# Records are not copied: their place and the caller's object are noted in `splices`. A tagged field
# goes to a buffer of its own first, since its size comes before it; that is the slow way, and
# taken for fields that are set only.

# How a value is compared with the default of its field; the numbers are the interface to
# `kaa.wire.plan`.
cdef enum Default:
    # The version has the field: its value is written whatever it is.
    ALWAYS = 0
    # Set unless None.
    NONE = 1
    # Set if true.
    EMPTY = 2
    # Set if true or None, which is not the default of a nullable field.
    EMPTY_NOT_NONE = 3
    # Set unless true.
    TRUE = 4
    # Set unless equal to the default.
    EQUAL = 5
    # Set unless None or equal to the default.
    NONE_OR_EQUAL = 6

# The size before a frame.
cdef enum:
    FRAME_SIZE_BYTES = 4

cdef struct Put:
    int kind
    bint is_array
    bint is_nullable
    bint is_compact
    int unless
    Py_ssize_t offset
    int64_t tag
    # Borrowed from the plan's `references`.
    PyObject* name
    PyObject* default
    PyObject* plan

cdef struct Writer:
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t room
    # Where in the whole the first byte stands.
    Py_ssize_t start
    PyObject* splices
    Py_ssize_t structs


cdef class EncodePlan:
    """How one struct is written in one version. Fields come first, then the tagged ones."""

    cdef Put* puts
    cdef Put* tagged
    cdef Py_ssize_t put_count
    cdef Py_ssize_t tagged_count
    cdef bint is_flexible
    cdef Py_ssize_t unknown_offset
    cdef object cls
    cdef list references

    def __cinit__(self, cls, list fields, list tagged, bint is_flexible):
        self.cls = cls
        self.references = [fields, tagged]
        self.is_flexible = is_flexible
        self.unknown_offset = slot_offset(cls, "unknown_tags")
        self.put_count = len(fields)
        self.tagged_count = len(tagged)
        self.puts = <Put*>malloc((len(fields) + 1) * sizeof(Put))
        self.tagged = <Put*>malloc((len(tagged) + 1) * sizeof(Put))
        if self.puts == NULL or self.tagged == NULL:
            raise MemoryError
        for index, field in enumerate(fields):
            self.fill(&self.puts[index], field)
        for index, field in enumerate(tagged):
            self.fill(&self.tagged[index], field)

    def __dealloc__(self):
        free(self.puts)
        free(self.tagged)

    cdef int fill(self, Put* put, tuple field) except -1:
        (name, kind, is_array, is_nullable, is_compact, unless, tag, default, plan) = field
        put.kind = kind
        put.is_array = is_array
        put.is_nullable = is_nullable
        put.is_compact = is_compact
        put.unless = unless
        put.offset = slot_offset(self.cls, name)
        put.tag = tag
        put.name = <PyObject*>name
        put.default = <PyObject*>default
        put.plan = <PyObject*>plan
        return 0

    def encode(self, message, bytearray out, list splices):
        """As a generated encoder: appends the message to `out` and its records to `splices`."""
        cdef Writer writer
        cdef Py_ssize_t before = len(out)
        cdef Py_ssize_t noted = len(splices)
        begin(&writer, 256, before, splices)
        try:
            put_struct(self, message, &writer)
            PyByteArray_Resize(out, before + writer.size)
            memcpy(PyByteArray_AS_STRING(out) + before, writer.data, writer.size)
        except BaseException:
            del splices[noted:]
            raise
        finally:
            free(writer.data)

    def frame(self, message, bytes head):
        """As `Codec.encode_frame`: the buffers of a frame, in order."""
        cdef Writer writer
        cdef list splices = []
        begin(&writer, 256, 0, splices)
        try:
            put_bytes(head, &writer)
            put_struct(self, message, &writer)
            return cut(&writer, splices)
        finally:
            free(writer.data)


cdef int begin(Writer* writer, Py_ssize_t room, Py_ssize_t start, list splices) except -1:
    writer.size = 0
    writer.room = room
    writer.start = start
    writer.splices = <PyObject*>splices
    writer.structs = 0
    writer.data = <uint8_t*>malloc(room)
    if writer.data == NULL:
        raise MemoryError
    return 0


cdef list cut(Writer* writer, list splices):
    """What was written, with its size in the first four bytes and the records where they belong."""
    cdef Py_ssize_t start = 0, end = writer.size, position
    cdef int64_t size = end - FRAME_SIZE_BYTES
    cdef list parts = []
    for _, records in splices:
        size += len(records)
    if size > 0x7FFFFFFF:
        raise ValueError(f"a frame of {size} bytes is too long")
    writer.size = 0
    put_big_endian(<uint64_t>size, FRAME_SIZE_BYTES, writer)
    for place, records in splices:
        position = place
        if not start <= position <= end:
            raise ValueError("records stand outside of their message")
        parts.append(PyBytes_FromStringAndSize(<char*>writer.data + start, position - start))
        parts.append(records)
        start = position
    if start < end:
        parts.append(PyBytes_FromStringAndSize(<char*>writer.data + start, end - start))
    return parts


cdef int reserve(Writer* writer, Py_ssize_t size) except -1:
    cdef Py_ssize_t room = writer.room
    cdef uint8_t* data
    if writer.size + size <= room:
        return 0
    while room < writer.size + size:
        room *= 2
    data = <uint8_t*>realloc(writer.data, room)
    if data == NULL:
        raise MemoryError
    writer.data = data
    writer.room = room
    return 0


cdef inline bint has_slots(EncodePlan plan, object instance) except -1:
    """Whether the slots of the plan's class are where they are in an instance of it."""
    return type(instance) is plan.cls or isinstance(instance, plan.cls)


cdef inline object value_of(object instance, bint is_slotted, Py_ssize_t offset, PyObject* name):
    cdef PyObject* found
    if is_slotted:
        found = (<PyObject**>(<char*><PyObject*>instance + offset))[0]
        if found == NULL:
            raise AttributeError(<object>name)
        return <object>found
    return getattr(instance, <object>name)


cdef int put_struct(EncodePlan plan, object instance, Writer* writer) except -1:
    cdef Py_ssize_t index
    cdef Put* put
    cdef bint is_slotted = has_slots(plan, instance)
    for index in range(plan.put_count):
        put = &plan.puts[index]
        value = value_of(instance, is_slotted, put.offset, put.name)
        if put.unless == ALWAYS:
            put_field(put, value, writer)
        elif is_set(put, value):
            raise WireError(f"this version cannot carry {<object>put.name}")
    unknown = value_of(instance, is_slotted, plan.unknown_offset, <PyObject*>"unknown_tags")
    if not plan.is_flexible:
        if unknown:
            raise WireError("this version has no tagged fields")
        return 0
    known = put_known(plan, instance, writer) if plan.tagged_count else None
    if known or unknown:
        section = bytearray()
        write_tags(section, known or [], unknown)
        put_bytes(section, writer)
    else:
        reserve(writer, 1)
        writer.data[writer.size] = 0
        writer.size += 1
    return 0


cdef object put_known(EncodePlan plan, object instance, Writer* writer):
    """The tagged fields that are set, each with its bytes; None if there are none."""
    cdef Py_ssize_t index
    cdef Put* put
    cdef Writer inner
    cdef list known = None
    cdef bint is_slotted = has_slots(plan, instance)
    for index in range(plan.tagged_count):
        put = &plan.tagged[index]
        value = value_of(instance, is_slotted, put.offset, put.name)
        if not is_set(put, value):
            continue
        begin(&inner, 64, 0, <list>writer.splices)
        try:
            put_field(put, value, &inner)
            if known is None:
                known = []
            known.append((put.tag, PyByteArray_FromStringAndSize(<char*>inner.data, inner.size)))
        finally:
            free(inner.data)
    return known


cdef bint is_set(Put* put, object value) except -1:
    if put.unless == NONE:
        return value is not None
    if put.unless == EMPTY:
        return bool(value)
    if put.unless == EMPTY_NOT_NONE:
        return value is None or bool(value)
    if put.unless == TRUE:
        return not value
    if put.unless == NONE_OR_EQUAL and value is None:
        return False
    return value is not <object>put.default and value != <object>put.default


cdef int put_field(Put* put, object value, Writer* writer) except -1:
    if put.is_array:
        return put_array(put, value, writer)
    if put.kind == STRUCT:
        if put.is_nullable:
            reserve(writer, 1)
            if value is None:
                writer.data[writer.size] = 0 if put.tag >= 0 else 255
                writer.size += 1
                return 0
            writer.data[writer.size] = 1
            writer.size += 1
        return put_struct(<EncodePlan>put.plan, value, writer)
    if put.kind >= STRING:
        return put_variable(put, value, writer, put.is_nullable)
    return put_fixed(put.kind, value, writer)


cdef int put_array(Put* put, object value, Writer* writer) except -1:
    cdef Py_ssize_t count
    if value is None and put.is_nullable:
        return put_length(put, -1, writer, 4)
    count = len(value)
    put_length(put, count, writer, 4)
    for item in value:
        count -= 1
        if put.kind == STRUCT:
            put_struct(<EncodePlan>put.plan, item, writer)
            writer.structs += 1
            if writer.structs % STRUCTS_PER_TURN == 0:
                with nogil:
                    pass
        elif put.kind >= STRING:
            put_variable(put, item, writer, False)
        else:
            put_fixed(put.kind, item, writer)
    if count:
        raise ValueError(f"{<object>put.name} has not as many elements as it says")
    return 0


cdef int put_variable(Put* put, object value, Writer* writer, bint is_nullable) except -1:
    cdef Py_ssize_t size
    cdef const char* text
    if value is None and is_nullable:
        return put_length(put, -1, writer, 2 if put.kind == STRING else 4)
    if put.kind == STRING:
        text = PyUnicode_AsUTF8AndSize(value, &size)
        if size > 32767:
            raise WireError(f"{<object>put.name} is too long")
        put_length(put, size, writer, 2)
        reserve(writer, size)
        memcpy(writer.data + writer.size, text, size)
        writer.size += size
        return 0
    put_length(put, len(value), writer, 4)
    if put.kind == RECORDS:
        (<list>writer.splices).append((writer.start + writer.size, value))
        return 0
    return put_bytes(value, writer)


cdef int put_bytes(object value, Writer* writer) except -1:
    cdef Py_buffer data
    PyObject_GetBuffer(value, &data, PyBUF_SIMPLE)
    try:
        reserve(writer, data.len)
        memcpy(writer.data + writer.size, data.buf, data.len)
        writer.size += data.len
    finally:
        PyBuffer_Release(&data)
    return 0


cdef int put_length(Put* put, Py_ssize_t length, Writer* writer, int width) except -1:
    """A length or count, -1 for null; in the compact form it is one more than the value."""
    cdef uint64_t value
    if length > 0x7FFFFFFF:
        raise ValueError(f"{<object>put.name} is too long")
    if not put.is_compact:
        return put_big_endian(<uint64_t>length, width, writer)
    reserve(writer, 5)
    value = <uint64_t>(length + 1)
    while value > 0x7F:
        writer.data[writer.size] = value & 0x7F | 0x80
        writer.size += 1
        value >>= 7
    writer.data[writer.size] = <uint8_t>value
    writer.size += 1
    return 0


cdef inline int put_big_endian(uint64_t value, int width, Writer* writer) except -1:
    cdef int index
    reserve(writer, width)
    for index in range(width):
        writer.data[writer.size + index] = <uint8_t>(value >> (8 * (width - 1 - index)))
    writer.size += width
    return 0


cdef inline int put_integer(
    object value, int width, int64_t low, int64_t high, Writer* writer
) except -1:
    cdef int64_t number = PyLong_AsLongLong(value)
    if number < low or number > high:
        raise OverflowError(f"{number} is not between {low} and {high}")
    return put_big_endian(<uint64_t>number, width, writer)


cdef int put_fixed(int kind, object value, Writer* writer) except -1:
    cdef uint64_t bits
    cdef double number
    cdef Py_ssize_t size
    if kind == INT32:
        return put_integer(value, 4, -0x80000000, 0x7FFFFFFF, writer)
    if kind == INT64:
        return put_big_endian(<uint64_t>PyLong_AsLongLong(value), 8, writer)
    if kind == INT16:
        return put_integer(value, 2, -0x8000, 0x7FFF, writer)
    if kind == UUID:
        size = len(value)
        if size != 16:
            raise ValueError(f"a uuid has 16 bytes, not {size}")
        return put_bytes(value, writer)
    if kind == INT8:
        return put_integer(value, 1, -0x80, 0x7F, writer)
    if kind == BOOL:
        return put_big_endian(1 if value else 0, 1, writer)
    if kind == UINT16:
        return put_integer(value, 2, 0, 0xFFFF, writer)
    if kind == UINT32:
        return put_integer(value, 4, 0, 0xFFFFFFFF, writer)
    number = value
    memcpy(&bits, &number, 8)
    return put_big_endian(bits, 8, writer)
