# Varints of Kafka's records: zig-zag, seven bits per byte, lowest bits first; a set high bit says
# that more bytes follow.
#
#   varint    at most 5 bytes, 32-bit value
#   varlong   at most 10 bytes, 64-bit value
#
# Bits of the last byte beyond the width of the value are dropped, as Java drops them.
#
# Readers never read at or beyond `limit`. They return VARINT_OK and move `position` past the
# varint, or VARINT_SHORT (the bytes end inside it) or VARINT_LONG (no last byte where one must be)
# and leave `position` alone. Writers need VARINT_BYTES_MAX or VARLONG_BYTES_MAX bytes of room and
# return the bytes written.

cdef enum:
    VARINT_OK = 0
    VARINT_SHORT = 1
    VARINT_LONG = 2
    VARINT_BYTES_MAX = 5
    VARLONG_BYTES_MAX = 10


cdef inline int32_t zigzag_decode32(uint32_t value) noexcept nogil:
    return <int32_t>((value >> 1) ^ (~(value & 1) + 1))


cdef inline int64_t zigzag_decode64(uint64_t value) noexcept nogil:
    return <int64_t>((value >> 1) ^ (~(value & 1) + 1))


cdef inline uint32_t zigzag_encode32(int32_t value) noexcept nogil:
    return (<uint32_t>value << 1) ^ (~(<uint32_t>value >> 31) + 1)


cdef inline uint64_t zigzag_encode64(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ (~(<uint64_t>value >> 63) + 1)


cdef inline int read_varint(
    const uint8_t* data, Py_ssize_t* position, Py_ssize_t limit, int32_t* value
) noexcept nogil:
    cdef Py_ssize_t at = position[0]
    cdef uint32_t byte, raw
    cdef int shift
    if at < limit and data[at] < 0x80:
        value[0] = zigzag_decode32(data[at])
        position[0] = at + 1
        return VARINT_OK
    raw = 0
    shift = 0
    while shift < 7 * VARINT_BYTES_MAX:
        if at >= limit:
            return VARINT_SHORT
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = zigzag_decode32(raw)
            position[0] = at
            return VARINT_OK
        shift += 7
    return VARINT_LONG


cdef inline int read_varlong(
    const uint8_t* data, Py_ssize_t* position, Py_ssize_t limit, int64_t* value
) noexcept nogil:
    cdef Py_ssize_t at = position[0]
    cdef uint64_t byte, raw
    cdef int shift
    if at < limit and data[at] < 0x80:
        value[0] = zigzag_decode64(data[at])
        position[0] = at + 1
        return VARINT_OK
    raw = 0
    shift = 0
    while shift < 7 * VARLONG_BYTES_MAX:
        if at >= limit:
            return VARINT_SHORT
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = zigzag_decode64(raw)
            position[0] = at
            return VARINT_OK
        shift += 7
    return VARINT_LONG


cdef inline int varint_size(int32_t value) noexcept nogil:
    cdef uint32_t raw = zigzag_encode32(value)
    cdef int size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline int varlong_size(int64_t value) noexcept nogil:
    cdef uint64_t raw = zigzag_encode64(value)
    cdef int size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline int write_varint(uint8_t* data, int32_t value) noexcept nogil:
    cdef uint32_t raw = zigzag_encode32(value)
    cdef int size = 0
    while raw >= 0x80:
        data[size] = <uint8_t>(raw | 0x80)
        raw >>= 7
        size += 1
    data[size] = <uint8_t>raw
    return size + 1


cdef inline int write_varlong(uint8_t* data, int64_t value) noexcept nogil:
    cdef uint64_t raw = zigzag_encode64(value)
    cdef int size = 0
    while raw >= 0x80:
        data[size] = <uint8_t>(raw | 0x80)
        raw >>= 7
        size += 1
    data[size] = <uint8_t>raw
    return size + 1
