# The hash that places a keyed record on its partition, equal to that of Kafka's Java clients:
# murmur2 over 32 bits with seed 0x9747b28c, four bytes at a time, lowest byte first, then the rest,
# then a final mix. The partition is the hash without its sign bit, modulo the number of partitions.

cdef uint32_t murmur2_hash(const uint8_t* data, int64_t size) noexcept nogil:
    cdef uint32_t mix = 0x5BD1E995
    cdef uint32_t hashed = <uint32_t>0x9747B28C ^ <uint32_t>size
    cdef uint32_t word
    cdef int64_t index
    cdef int64_t whole = size & ~3
    for index in range(0, whole, 4):
        word = (
            data[index]
            | <uint32_t>data[index + 1] << 8
            | <uint32_t>data[index + 2] << 16
            | <uint32_t>data[index + 3] << 24
        )
        word *= mix
        word ^= word >> 24
        word *= mix
        hashed *= mix
        hashed ^= word
    if size & 3:
        if size & 3 == 3:
            hashed ^= <uint32_t>data[whole + 2] << 16
        if size & 3 >= 2:
            hashed ^= <uint32_t>data[whole + 1] << 8
        hashed ^= data[whole]
        hashed *= mix
    hashed ^= hashed >> 13
    hashed *= mix
    hashed ^= hashed >> 15
    return hashed


def murmur2(data):
    """Kafka's hash of a key, as the signed 32-bit number Java has."""
    cdef BufferSet buffers = BufferSet()
    cdef const uint8_t* key = buffers.add(data, 0)
    return <int32_t>murmur2_hash(key, buffers.last_bytes())


def murmur2_partitions(
    tuple keys, int64_t row_count, int32_t partition_count, int32_t null_partition
):
    """The partition of each key of an Arrow column, as int32; null keys get the one given."""
    cdef BufferSet buffers = BufferSet()
    cdef BinaryIn column
    cdef const uint8_t* key = NULL
    cdef int64_t row
    cdef int64_t size = 0
    cdef int status = ROW_OK
    cdef bytearray result = bytearray(4 * row_count)
    cdef int32_t* partitions = <int32_t*>PyByteArray_AS_STRING(result)
    if partition_count <= 0:
        raise ValueError("a topic has at least one partition")
    add_binary(buffers, keys, row_count, &column)
    with nogil:
        for row in range(row_count):
            status = read_element(&column, row, &key, &size)
            if status != ROW_OK:
                break
            partitions[row] = null_partition
            if size >= 0:
                partitions[row] = (
                    <int32_t>(murmur2_hash(key, size) & 0x7FFFFFFF) % partition_count
                )
    if status != ROW_OK:
        raise InvalidRecordError(f"row {row}: {_ROW_PROBLEMS[status]}")
    return result
