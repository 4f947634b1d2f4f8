# A record that spans chunks, field by field. What is known of it is in `Scan`: the stage, the
# bytes still to skip, the varint begun, the bytes its length leaves it.

cdef int resume_varint(
    Scan* scan, const uint8_t* data, Py_ssize_t* position, Py_ssize_t limit, int bytes_max
) noexcept nogil:
    # Leaves the value in `varint_raw` and clears `varint_shift`.
    cdef uint8_t byte
    if scan.varint_shift == 0:
        scan.varint_raw = 0
    while position[0] < limit:
        byte = data[position[0]]
        position[0] += 1
        scan.varint_raw |= <uint64_t>(byte & 0x7F) << scan.varint_shift
        if byte < 0x80:
            scan.varint_shift = 0
            return VARINT_OK
        scan.varint_shift += 7
        if scan.varint_shift == 7 * bytes_max:
            return VARINT_LONG
    return VARINT_SHORT


cdef int resume_skip(
    Scan* scan, const uint8_t* data, Py_ssize_t* position, Py_ssize_t limit
) noexcept nogil:
    cdef Py_ssize_t size = limit - position[0]
    if size > scan.skip_left:
        size = scan.skip_left
    if scan.skips_header_key and scan.tracks_canonical:
        if not scan_is_ascii(data + position[0], size):
            scan.is_canonical = False
    position[0] += size
    scan.skip_left -= size
    return STEP_SHORT if scan.skip_left > 0 else STEP_OK


cdef int resume_enter_field(Scan* scan, int32_t length) noexcept nogil:
    # A length has been read: its bytes are skipped next.
    if scan.tracks_canonical:
        scan_track_length(scan, length)
    scan.skips_header_key = scan.stage == STAGE_HEADER_KEY
    scan.skip_left = length if length > 0 else 0
    return STEP_OK


cdef int resume_field(
    Scan* scan, const uint8_t* data, Py_ssize_t* position, Py_ssize_t limit
) noexcept nogil:
    # Finishes one field and moves to the next stage, or says what stops it.
    cdef int status
    cdef int32_t value
    if scan.skip_left > 0:
        return resume_skip(scan, data, position, limit)
    if scan.stage == STAGE_ATTRIBUTES:
        if position[0] >= limit:
            return STEP_SHORT
        if data[position[0]] != 0:
            scan.is_canonical = False
        scan.canonical_bytes += 1
        position[0] += 1
        scan.stage = STAGE_TIMESTAMP
        return STEP_OK
    if scan.stage == STAGE_TIMESTAMP:
        status = resume_varint(scan, data, position, limit, VARLONG_BYTES_MAX)
        if status != VARINT_OK:
            return STEP_SHORT if status == VARINT_SHORT else STEP_INVALID
        scan.timestamp_delta = zigzag_decode64(scan.varint_raw)
        scan.canonical_bytes += varlong_size(scan.timestamp_delta)
        scan.stage = STAGE_OFFSET
        return STEP_OK
    status = resume_varint(scan, data, position, limit, VARINT_BYTES_MAX)
    if status == VARINT_SHORT:
        return STEP_SHORT
    if status == VARINT_LONG:
        return STEP_ILLEGAL_LENGTH if scan.stage == STAGE_LENGTH else STEP_INVALID
    value = zigzag_decode32(<uint32_t>scan.varint_raw)
    if scan.stage == STAGE_LENGTH:
        if scan.checks_lengths and value <= 0:
            return STEP_INVALID
        scan.record_left = value
        scan.canonical_bytes += varint_size(value)
        scan.stage = STAGE_ATTRIBUTES
        return STEP_OK
    if scan.stage == STAGE_OFFSET:
        scan.offset_delta = value
        scan.canonical_bytes += varint_size(value)
        scan.stage = STAGE_KEY
        return STEP_OK
    return resume_content(scan, value)


cdef int resume_content(Scan* scan, int32_t value) noexcept nogil:
    # The varint of a key, a value or a header has been read.
    if scan.stage == STAGE_KEY:
        scan.key_length = value
        resume_enter_field(scan, value)
        scan.stage = STAGE_VALUE
    elif scan.stage == STAGE_VALUE:
        resume_enter_field(scan, value)
        scan.stage = STAGE_HEADER_COUNT
    elif scan.stage == STAGE_HEADER_COUNT:
        if value < 0:
            return STEP_INVALID
        scan.headers_left = value
        scan.canonical_bytes += varint_size(value)
        scan.stage = STAGE_HEADER_KEY if value > 0 else STAGE_END
    elif scan.stage == STAGE_HEADER_KEY:
        if value < 0:
            return STEP_INVALID
        resume_enter_field(scan, value)
        scan.stage = STAGE_HEADER_VALUE
    else:
        resume_enter_field(scan, value)
        scan.headers_left -= 1
        scan.stage = STAGE_HEADER_KEY if scan.headers_left > 0 else STAGE_END
    return STEP_OK


cdef int resume_record(
    Scan* scan, const uint8_t* data, Py_ssize_t* position, Py_ssize_t limit
) noexcept nogil:
    cdef Py_ssize_t start, end
    cdef int status
    cdef bint is_bounded
    while scan.stage != STAGE_END or scan.skip_left > 0:
        is_bounded = scan.checks_lengths and scan.stage != STAGE_LENGTH
        start = position[0]
        end = limit
        if is_bounded and scan.record_left < limit - start:
            end = start + scan.record_left
        status = resume_field(scan, data, position, end)
        if is_bounded:
            scan.record_left -= position[0] - start
        if status == STEP_SHORT and is_bounded and scan.record_left == 0:
            return STEP_INVALID
        if status != STEP_OK:
            return status
    if scan.checks_lengths and scan.record_left != 0:
        return STEP_INVALID
    scan.stage = STAGE_LENGTH
    scan_complete_record(scan, scan.timestamp_delta, scan.offset_delta, scan.key_length)
    return STEP_OK
