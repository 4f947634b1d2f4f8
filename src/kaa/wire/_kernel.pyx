# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Decodes and encodes messages by plans, in C: twin of the generated Python, with the same results.

Encoding is in `_kernel_encode.pxi`. Decoding:

A `StructPlan` is made once per (struct, version) from the message class. It lists, in wire order,
what to read and at which place inside the instance to store it: instances have slots, a slot is a
pointer at a fixed distance from the start of the object, and that distance stands in the slot's
member descriptor. So a field costs its own object and one store, and no attribute is ever looked
up by name.

Safety. Every read compares the position with the end first (`need`). A count is compared with the
remaining bytes and with the budget of elements before a list is made. A slot that was not reached
stays NULL, which the interpreter treats as an unset attribute, so that a half-read instance can be
dropped at any point. The buffer is held for the whole call.

Turns. Very large requests and answers are handled by a thread, and C code keeps the interpreter to
itself until it lets go: it does so after every so many structs, or the loop would stand still for
all of them.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
)
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from types import MemberDescriptorType

from kaa.wire.primitives import Uuid, WireError, write_tags

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass
    int PyGC_Disable()
    int PyGC_Enable()
    int PyByteArray_Resize(object array, Py_ssize_t size) except -1
    char* PyByteArray_AS_STRING(object array)
    object PyByteArray_FromStringAndSize(const char* data, Py_ssize_t size)
    long long PyLong_AsLongLong(object value) except? -1
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    object PyType_GenericAlloc(PyTypeObject* type, Py_ssize_t items)
    object PyUnicode_DecodeUTF8(const char* data, Py_ssize_t size, const char* errors)
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member

# Messages with at most some hundred structs.
cdef enum:
    UNWALKED_BYTES_MAX = 16384

# Kinds of fields; the numbers are the interface to `kaa.wire.plan`.
cdef enum Kind:
    INT8 = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    UINT16 = 4
    UINT32 = 5
    FLOAT64 = 6
    BOOL = 7
    UUID = 8
    STRING = 9
    BYTES = 10
    RECORDS = 11
    STRUCT = 12
    # A field that the version lacks or that is tagged: its default, one object for all instances,
    ABSENT = 13
    # or made anew by a call, because it is mutable.
    ABSENT_FRESH = 14

# A millisecond or less of work.
cdef enum:
    STRUCTS_PER_TURN = 1024

cdef struct Op:
    int kind
    bint is_array
    bint is_nullable
    bint is_compact
    Py_ssize_t offset
    Py_ssize_t element_size_min
    int64_t tag
    # Borrowed from the plan's `references`: the field's name, its default, the plan of its struct.
    PyObject* name
    PyObject* default
    PyObject* plan

cdef struct Reader:
    const uint8_t* data
    Py_ssize_t position
    Py_ssize_t end
    int64_t budget
    int64_t tags_max
    int64_t structs
    PyObject* view


cdef Py_ssize_t slot_offset(object cls, str name) except -1:
    descriptor = getattr(cls, name)
    if type(descriptor) is not MemberDescriptorType:
        raise TypeError(f"{cls.__name__}.{name} is not a slot")
    return (<PyMemberDescrObject*><PyObject*>descriptor).d_member.offset


cdef class StructPlan:
    """How one struct is read in one version. Fields come first, then the tagged ones."""

    cdef Op* ops
    cdef Op* tagged
    cdef Py_ssize_t op_count
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
        self.op_count = len(fields)
        self.tagged_count = len(tagged)
        self.ops = <Op*>malloc((len(fields) + 1) * sizeof(Op))
        self.tagged = <Op*>malloc((len(tagged) + 1) * sizeof(Op))
        if self.ops == NULL or self.tagged == NULL:
            raise MemoryError
        for index, field in enumerate(fields):
            self.fill(&self.ops[index], field)
        for index, field in enumerate(tagged):
            self.fill(&self.tagged[index], field)

    def __dealloc__(self):
        free(self.ops)
        free(self.tagged)

    cdef int fill(self, Op* op, tuple field) except -1:
        (name, kind, is_array, is_nullable, is_compact, size_min, tag, default, plan) = field
        op.kind = kind
        op.is_array = is_array
        op.is_nullable = is_nullable
        op.is_compact = is_compact
        op.offset = slot_offset(self.cls, name)
        op.element_size_min = size_min
        op.tag = tag
        op.name = <PyObject*>name
        op.default = <PyObject*>default
        op.plan = <PyObject*>plan
        return 0

    def decode(self, buffer, Py_ssize_t position, Py_ssize_t end, int64_t budget, int64_t tags_max):
        """As a generated decoder: the instance at `position` and the position after it."""
        cdef Py_buffer data
        cdef Reader reader
        cdef bint was_enabled = False
        PyObject_GetBuffer(buffer, &data, PyBUF_SIMPLE)
        # Nothing made here can be garbage before it is returned, so that the collector waits until
        # a small message is whole. The objects of a large one it would walk all at once then, on
        # the next thread that makes something, for tens of milliseconds; it walks them here, some
        # at a time.
        if end - position <= UNWALKED_BYTES_MAX:
            was_enabled = PyGC_Disable()
        try:
            if position < 0 or position > end or end > data.len:
                raise WireError("the message lies outside of its buffer")
            reader.data = <const uint8_t*>data.buf
            reader.position = position
            reader.end = end
            reader.budget = budget
            reader.tags_max = tags_max
            reader.structs = 0
            reader.view = <PyObject*>buffer
            return read_struct(self, &reader), reader.position
        finally:
            if was_enabled:
                PyGC_Enable()
            PyBuffer_Release(&data)


cdef inline void store(object instance, Py_ssize_t offset, object value) noexcept:
    cdef PyObject** slot = <PyObject**>(<char*><PyObject*>instance + offset)
    cdef PyObject* old = slot[0]
    Py_INCREF(value)
    slot[0] = <PyObject*>value
    Py_XDECREF(old)


cdef object read_struct(StructPlan plan, Reader* reader):
    instance = PyType_GenericAlloc(<PyTypeObject*><PyObject*>plan.cls, 0)
    cdef Py_ssize_t index
    for index in range(plan.op_count):
        store(instance, plan.ops[index].offset, read_field(&plan.ops[index], reader))
    store(instance, plan.unknown_offset, None)
    if plan.is_flexible:
        need(reader, 1)
        if reader.data[reader.position] == 0:
            reader.position += 1
        else:
            read_tags(plan, instance, reader)
    return instance


cdef int read_tags(StructPlan plan, object instance, Reader* reader) except -1:
    cdef int64_t count = read_uvarint(reader)
    cdef int64_t tag, size
    cdef Py_ssize_t stop, index
    cdef dict unknown = None
    reader.budget -= count
    if count > reader.tags_max or reader.budget < 0 or count * 2 > reader.end - reader.position:
        raise WireError("there are more tagged fields than allowed")
    while count > 0:
        count -= 1
        tag = read_uvarint(reader)
        size = read_uvarint(reader)
        need(reader, size)
        stop = reader.position + <Py_ssize_t>size
        for index in range(plan.tagged_count):
            if plan.tagged[index].tag == tag:
                store(instance, plan.tagged[index].offset, read_field(&plan.tagged[index], reader))
                if reader.position != stop:
                    name = <object>plan.tagged[index].name
                    raise WireError(f"tagged field {name} has a wrong size")
                break
        else:
            if unknown is None:
                unknown = {}
                store(instance, plan.unknown_offset, unknown)
            unknown[tag] = take_bytes(reader, <Py_ssize_t>size)
    return 0


cdef object read_field(Op* op, Reader* reader):
    if op.kind == ABSENT:
        return <object>op.default
    if op.kind == ABSENT_FRESH:
        return (<object>op.default)()
    if op.is_array:
        return read_array(op, reader)
    if op.kind == STRUCT:
        if op.is_nullable and is_null_struct(op, reader):
            return None
        return read_struct(<StructPlan>op.plan, reader)
    if op.kind >= STRING:
        return read_variable(op, reader, op.is_nullable)
    return read_fixed(op.kind, reader)


cdef inline int is_null_struct(Op* op, Reader* reader) except -1:
    """The byte before a nullable struct: for null it is negative, or 0 in a tagged field."""
    need(reader, 1)
    reader.position += 1
    if op.tag >= 0:
        return reader.data[reader.position - 1] == 0
    return reader.data[reader.position - 1] > 127


cdef object read_array(Op* op, Reader* reader):
    cdef int64_t count = read_length(op, reader, 4)
    cdef Py_ssize_t index
    if count < 0:
        return null_or_raise(op, count, op.is_nullable)
    reader.budget -= count
    if reader.budget < 0 or count * op.element_size_min > reader.end - reader.position:
        raise WireError(f"{<object>op.name} has more elements than its bytes can hold")
    items = PyList_New(<Py_ssize_t>count)
    for index in range(<Py_ssize_t>count):
        if op.kind == STRUCT:
            item = read_struct(<StructPlan>op.plan, reader)
            reader.structs += 1
            if reader.structs % STRUCTS_PER_TURN == 0:
                with nogil:
                    pass
        elif op.kind >= STRING:
            item = read_variable(op, reader, False)
        else:
            item = read_fixed(op.kind, reader)
        Py_INCREF(item)
        PyList_SET_ITEM(items, index, item)
    return items


cdef object read_variable(Op* op, Reader* reader, bint is_nullable):
    cdef int64_t size = read_length(op, reader, 2 if op.kind == STRING else 4)
    cdef Py_ssize_t start
    if size < 0:
        return null_or_raise(op, size, is_nullable)
    if op.kind == STRING and size > 32767:
        raise WireError(f"{<object>op.name} is too long")
    need(reader, size)
    if op.kind == BYTES:
        return take_bytes(reader, <Py_ssize_t>size)
    start = reader.position
    reader.position += <Py_ssize_t>size
    if op.kind == RECORDS:
        return (<object>reader.view)[start:reader.position]
    return PyUnicode_DecodeUTF8(<const char*>reader.data + start, <Py_ssize_t>size, NULL)


cdef object null_or_raise(Op* op, int64_t length, bint is_nullable):
    if length != -1 or not is_nullable:
        raise WireError(f"{<object>op.name} is null or has a negative length")
    return None


cdef object take_bytes(Reader* reader, Py_ssize_t size):
    value = PyBytes_FromStringAndSize(<const char*>reader.data + reader.position, size)
    reader.position += size
    return value


cdef inline int need(Reader* reader, int64_t size) except -1:
    if size > reader.end - reader.position:
        raise WireError("cut short")
    return 0


cdef int64_t read_uvarint(Reader* reader) except -2:
    cdef uint64_t value = 0
    cdef uint8_t byte
    cdef int shift = 0
    while shift < 35:
        need(reader, 1)
        byte = reader.data[reader.position]
        reader.position += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise WireError("a varint is larger than 32 bits")
            return <int64_t>value
        shift += 7
    raise WireError("a varint is longer than 5 bytes")


cdef inline uint64_t read_big_endian(Reader* reader, int size) noexcept:
    cdef uint64_t value = 0
    cdef int index
    for index in range(size):
        value = value << 8 | reader.data[reader.position + index]
    reader.position += size
    return value


cdef inline int64_t read_length(Op* op, Reader* reader, int width) except? -2:
    if op.is_compact:
        return read_uvarint(reader) - 1
    need(reader, width)
    if width == 2:
        return <int16_t>read_big_endian(reader, 2)
    return <int32_t>read_big_endian(reader, 4)


cdef object read_fixed(int kind, Reader* reader):
    cdef uint64_t bits
    cdef double number
    if kind == INT32:
        need(reader, 4)
        return <int32_t>read_big_endian(reader, 4)
    if kind == INT64:
        need(reader, 8)
        return <int64_t>read_big_endian(reader, 8)
    if kind == INT16:
        need(reader, 2)
        return <int16_t>read_big_endian(reader, 2)
    if kind == UUID:
        need(reader, 16)
        return Uuid(take_bytes(reader, 16))
    if kind == INT8:
        need(reader, 1)
        return <int8_t>read_big_endian(reader, 1)
    if kind == BOOL:
        need(reader, 1)
        return read_big_endian(reader, 1) != 0
    if kind == UINT16:
        need(reader, 2)
        return <uint16_t>read_big_endian(reader, 2)
    if kind == UINT32:
        need(reader, 4)
        return <uint32_t>read_big_endian(reader, 4)
    need(reader, 8)
    bits = read_big_endian(reader, 8)
    memcpy(&number, &bits, 8)
    return number


include "_kernel_encode.pxi"
