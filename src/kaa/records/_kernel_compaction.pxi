# The loops of log compaction: the map from key to latest offset, the flags of each record against
# that map, and the record area of a batch with some of its records left out.
#
# The map is an open-addressed table in one bytearray, 24 bytes per slot, so that a dedupe buffer of
# so many bytes holds a known number of keys:
#
#   offset bytes field
#   0      16    SipHash-2-4-128 of the key, two little-endian halves
#   16     8     latest offset + 1, little-endian; 0: the slot is empty
#
# A key's place is the first half, scaled to the number of slots, and then the next slots in turn;
# it ends at the first empty one. The table is never filled completely (the caller's load limit), so
# a search always ends. Keys are not kept. Two keys of one hash would be taken for one, and a record
# lost: with a secret seed nobody can look for such keys, and by chance a billion keys meet with
# probability 2^-69.
#
# The table is larger than any cache, so that every key would wait for memory. Therefore sixteen
# keys are hashed, and their slots asked for, before the first of them is looked up.
#
# Flags of a record, one byte each:
#
#   1  it has a key
#   2  it has a value (without: a tombstone)
#   4  its offset is not below the latest offset of its key in the map, or the map has no such key
#   8  it lies after the last offset the map knows about
#
# The rules what to keep are the caller's: it maps flag bytes to 0 or 1 and hands them back.

cdef enum:
    SLOT_BYTES = 24
    WINDOW_KEYS = 16
    RECORD_HAS_KEY = 1
    RECORD_HAS_VALUE = 2
    RECORD_IS_LATEST = 4
    RECORD_IS_BEHIND_MAP = 8


cdef struct Slot:
    uint64_t low
    uint64_t high
    int64_t next_offset


cdef struct OffsetTable:
    Slot* slots
    uint64_t slot_count
    uint64_t seed_low
    uint64_t seed_high


cdef struct SipState:
    uint64_t v0, v1, v2, v3


cdef inline uint64_t rotate_left(uint64_t value, int bits) noexcept nogil:
    return value << bits | value >> (64 - bits)


cdef inline void sip_rounds(SipState* state, int rounds) noexcept nogil:
    cdef int index
    for index in range(rounds):
        state.v0 += state.v1
        state.v1 = rotate_left(state.v1, 13) ^ state.v0
        state.v0 = rotate_left(state.v0, 32)
        state.v2 += state.v3
        state.v3 = rotate_left(state.v3, 16) ^ state.v2
        state.v0 += state.v3
        state.v3 = rotate_left(state.v3, 21) ^ state.v0
        state.v2 += state.v1
        state.v1 = rotate_left(state.v1, 17) ^ state.v2
        state.v2 = rotate_left(state.v2, 32)


cdef inline void sip_word(SipState* state, uint64_t word) noexcept nogil:
    state.v3 ^= word
    sip_rounds(state, 2)
    state.v0 ^= word


cdef void siphash(
    uint64_t seed_low, uint64_t seed_high, const uint8_t* data, int64_t size,
    uint64_t* low, uint64_t* high
) noexcept nogil:
    cdef SipState state
    cdef uint64_t word
    cdef int64_t index
    cdef int64_t whole = size & ~7
    state.v0 = seed_low ^ 0x736F6D6570736575ULL
    state.v1 = seed_high ^ 0x646F72616E646F6DULL ^ 0xEE
    state.v2 = seed_low ^ 0x6C7967656E657261ULL
    state.v3 = seed_high ^ 0x7465646279746573ULL
    for index in range(0, whole, 8):
        memcpy(&word, data + index, 8)
        sip_word(&state, word)
    word = <uint64_t>size << 56
    for index in range(whole, size):
        word |= <uint64_t>data[index] << (8 * (index - whole))
    sip_word(&state, word)
    state.v2 ^= 0xEE
    sip_rounds(&state, 4)
    low[0] = state.v0 ^ state.v1 ^ state.v2 ^ state.v3
    state.v1 ^= 0xDD
    sip_rounds(&state, 4)
    high[0] = state.v0 ^ state.v1 ^ state.v2 ^ state.v3


cdef extern from *:
    """
    /* The upper half of a 128-bit product: scales a hash to a number of slots, no division. */
    static inline uint64_t kaa_scale(uint64_t hash, uint64_t count) {
        return (uint64_t)(((unsigned __int128)hash * count) >> 64);
    }

    /* Asks for a cache line ahead of its use. */
    static inline void kaa_prefetch(const void *address) {
        __builtin_prefetch(address);
    }
    """
    uint64_t kaa_scale(uint64_t hash, uint64_t count) noexcept nogil
    void kaa_prefetch(const void* address) noexcept nogil


cdef inline void hash_key(
    const OffsetTable* table, const uint8_t* key, int64_t size, Slot* sought
) noexcept nogil:
    # The slot as it would be for this key; its place is on the way to the cache when this returns.
    siphash(table.seed_low, table.seed_high, key, size, &sought.low, &sought.high)
    kaa_prefetch(&table.slots[kaa_scale(sought.low, table.slot_count)])


cdef inline Slot* find_slot(const OffsetTable* table, const Slot* sought) noexcept nogil:
    # The slot of the key, or the empty one where it belongs.
    cdef uint64_t index = kaa_scale(sought.low, table.slot_count)
    cdef Slot* slot
    while True:
        slot = &table.slots[index]
        if slot.next_offset == 0:
            return slot
        if slot.low == sought.low and slot.high == sought.high:
            return slot
        index += 1
        if index == table.slot_count:
            index = 0


cdef const uint8_t* open_area(
    BufferSet buffers, object records, int64_t record_count
) except? NULL:
    cdef const uint8_t* data = buffers.add(records, 0)
    if record_count < 0 or record_count > buffers.last_bytes() // RECORD_BYTES_MIN:
        raise InvalidRecordError(_RECORD_PROBLEMS[RECORD_COUNT])
    return data


cdef int open_table(BufferSet buffers, object table, bytes seed, OffsetTable* result) except -1:
    cdef const uint8_t* halves = seed
    if len(seed) != 16:
        raise ValueError("a seed has 16 bytes")
    memcpy(&result.seed_low, halves, 8)
    memcpy(&result.seed_high, halves + 8, 8)
    result.slots = <Slot*>buffers.add(table, SLOT_BYTES)
    result.slot_count = buffers.last_bytes() // SLOT_BYTES
    return 0


cdef struct AreaScan:
    const uint8_t* data
    Py_ssize_t bytes
    Py_ssize_t at
    int64_t record_count
    int64_t index               # of the next record
    int64_t base_offset
    int64_t start_offset
    int64_t size
    int64_t size_max
    int64_t latest_offset
    int is_full
    int problem


cdef int next_record(AreaScan* scan, Record* record) noexcept nogil:
    # Whether there is one; if not, `problem` says whether that is an error.
    if scan.index == scan.record_count:
        if scan.record_count > 0 and scan.at != scan.bytes:
            scan.problem = RECORD_AREA_TRAILING
        return 0
    scan.problem = parse_record(scan.data, &scan.at, scan.bytes, record)
    if scan.problem != RECORD_OK:
        return 0
    scan.index += 1
    return 1


cdef int fill_window(const OffsetTable* table, AreaScan* scan, Slot* window) noexcept nogil:
    # The next keys to put; fewer than a window only at the end.
    cdef Record record
    cdef int count = 0
    cdef int64_t offset
    while count < WINDOW_KEYS and next_record(scan, &record):
        offset = wrapping_sum(scan.base_offset, record.offset_delta)
        # No log has the last offset there is; it has no successor to be stored as.
        if record.key_bytes < 0 or offset < scan.start_offset or offset == INT64_MAX:
            continue
        hash_key(table, record.key, record.key_bytes, &window[count])
        window[count].next_offset = offset + 1
        count += 1
    return count


cdef void scan_area(const OffsetTable* table, AreaScan* scan) noexcept nogil:
    cdef Slot window[WINDOW_KEYS]
    cdef Slot* slot
    cdef int count = WINDOW_KEYS
    cdef int index
    while count == WINDOW_KEYS:
        count = fill_window(table, scan, window)
        for index in range(count):
            if scan.size >= scan.size_max:
                scan.is_full = 1
                scan.problem = RECORD_OK
                return
            slot = find_slot(table, &window[index])
            if slot.next_offset == 0:
                scan.size += 1
            slot[0] = window[index]
            scan.latest_offset = window[index].next_offset - 1


cdef int open_scan(
    BufferSet buffers, object records, int64_t record_count, int64_t base_offset, AreaScan* scan
) except -1:
    memset(scan, 0, sizeof(AreaScan))
    scan.data = open_area(buffers, records, record_count)
    scan.bytes = buffers.last_bytes()
    scan.record_count = record_count
    scan.base_offset = base_offset
    scan.latest_offset = -1
    return 0


def offset_map_scan(
    bytearray table,
    bytes seed,
    int64_t size,
    int64_t size_max,
    records,
    int64_t record_count,
    int64_t base_offset,
    int64_t start_offset,
):
    """Puts each key from `start_offset` on; returns (size, latest offset put or -1, is full)."""
    cdef BufferSet buffers = BufferSet()
    cdef OffsetTable offsets
    cdef AreaScan scan
    open_table(buffers, table, seed, &offsets)
    open_scan(buffers, records, record_count, base_offset, &scan)
    scan.start_offset = max(start_offset, 0)
    scan.size = size
    scan.size_max = min(size_max, <int64_t>offsets.slot_count - 1)
    if scan.bytes >= unlocked_bytes_min:
        with nogil:
            scan_area(&offsets, &scan)
    else:
        scan_area(&offsets, &scan)
    if scan.problem != RECORD_OK:
        raise InvalidRecordError(_RECORD_PROBLEMS[scan.problem])
    return scan.size, scan.latest_offset, bool(scan.is_full)


cdef void flag_area(const OffsetTable* table, AreaScan* scan, uint8_t* flags) noexcept nogil:
    # `latest_offset` of the scan is that of the map.
    cdef Slot window[WINDOW_KEYS]
    cdef int64_t indexes[WINDOW_KEYS]
    cdef Record record
    cdef int64_t offset
    cdef int count = WINDOW_KEYS
    cdef int index
    while count == WINDOW_KEYS:
        count = 0
        while count < WINDOW_KEYS and next_record(scan, &record):
            offset = wrapping_sum(scan.base_offset, record.offset_delta)
            flags[scan.index - 1] = RECORD_HAS_VALUE if record.value_bytes >= 0 else 0
            if offset > scan.latest_offset:
                flags[scan.index - 1] |= RECORD_IS_BEHIND_MAP
            if record.key_bytes >= 0:
                flags[scan.index - 1] |= RECORD_HAS_KEY
                hash_key(table, record.key, record.key_bytes, &window[count])
                window[count].next_offset = offset
                indexes[count] = scan.index - 1
                count += 1
        for index in range(count):
            if window[index].next_offset >= find_slot(table, &window[index]).next_offset - 1:
                flags[indexes[index]] |= RECORD_IS_LATEST


def offset_map_flags(
    bytearray table,
    bytes seed,
    records,
    int64_t record_count,
    int64_t base_offset,
    int64_t latest_offset,
):
    """One flag byte per record, see the table above."""
    cdef BufferSet buffers = BufferSet()
    cdef OffsetTable offsets
    cdef AreaScan scan
    cdef bytearray flags
    cdef uint8_t* out
    open_table(buffers, table, seed, &offsets)
    open_scan(buffers, records, record_count, base_offset, &scan)
    scan.latest_offset = latest_offset
    flags = bytearray(record_count)
    out = <uint8_t*>PyByteArray_AS_STRING(flags)
    if scan.bytes >= unlocked_bytes_min:
        with nogil:
            flag_area(&offsets, &scan, out)
    else:
        flag_area(&offsets, &scan, out)
    if scan.problem != RECORD_OK:
        raise InvalidRecordError(_RECORD_PROBLEMS[scan.problem])
    return flags


def offset_table(int64_t size):
    """An empty table of so many bytes, in large pages where the system has them."""
    cdef bytearray table = bytearray()
    resize(table, size)
    memset(PyByteArray_AS_STRING(table), 0, size)
    return table


def offset_map_get(bytearray table, bytes seed, key):
    """The latest offset of a key, or -1."""
    cdef BufferSet buffers = BufferSet()
    cdef OffsetTable offsets
    cdef Slot sought
    cdef const uint8_t* data
    open_table(buffers, table, seed, &offsets)
    data = buffers.add(key, 0)
    hash_key(&offsets, data, buffers.last_bytes(), &sought)
    return find_slot(&offsets, &sought).next_offset - 1


# --- leaving records out

cdef struct Retain:
    int64_t base_timestamp      # of the batch as it was
    int64_t append_time
    int has_append_time
    int64_t new_base            # of the batch as it will be
    int has_new_base
    int64_t max_timestamp
    int64_t kept
    int problem


cdef Py_ssize_t write_retained(
    const uint8_t* data, const Record* record, int64_t timestamp_delta, uint8_t* out
) noexcept nogil:
    # A record as it was, with another timestamp delta; returns its size.
    cdef Py_ssize_t rest = record.end - record.timestamp_end
    cdef Py_ssize_t size
    if timestamp_delta == record.timestamp_delta:
        size = record.end - record.start
        memcpy(out, data + record.start, size)
        return size
    size = write_varint(out, <int32_t>(1 + varlong_size(timestamp_delta) + rest))
    out[size] = data[record.body]
    size += 1
    size += write_varlong(out + size, timestamp_delta)
    memcpy(out + size, data + record.timestamp_end, rest)
    return size + rest


cdef Py_ssize_t retain_area(
    const uint8_t* data, Py_ssize_t bytes, const uint8_t* keep, int64_t record_count,
    Retain* retain, uint8_t* out
) noexcept nogil:
    cdef Record record
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t written = 0
    cdef int64_t index, timestamp
    for index in range(record_count):
        retain.problem = parse_record(data, &at, bytes, &record)
        if retain.problem != RECORD_OK:
            return 0
        if not keep[index]:
            continue
        timestamp = retain.append_time
        if not retain.has_append_time:
            timestamp = wrapping_sum(retain.base_timestamp, record.timestamp_delta)
        if not retain.has_new_base:
            retain.new_base = timestamp
            retain.has_new_base = 1
        if retain.kept == 0 or timestamp > retain.max_timestamp:
            retain.max_timestamp = timestamp
        retain.kept += 1
        written += write_retained(
            data, &record, <int64_t>(<uint64_t>timestamp - <uint64_t>retain.new_base), out + written
        )
    if record_count > 0 and at != bytes:
        retain.problem = RECORD_AREA_TRAILING
    return written


def retain_records(
    records, int64_t record_count, keep, int64_t base_timestamp, append_time, new_base_timestamp
):
    """The record area with only the records whose `keep` byte is not 0.

    Returns (records, record count, base timestamp, max timestamp). Timestamp deltas refer to the
    new base timestamp, by default that of the first record kept.
    """
    cdef BufferSet buffers = BufferSet()
    cdef Retain retain
    cdef const uint8_t* data
    cdef const uint8_t* kept
    cdef uint8_t* target
    cdef Py_ssize_t bytes_in, written
    cdef bytearray out
    data = open_area(buffers, records, record_count)
    bytes_in = buffers.last_bytes()
    kept = buffers.add(keep, record_count)
    retain.base_timestamp = base_timestamp
    retain.has_append_time = append_time is not None
    retain.append_time = -1 if append_time is None else append_time
    retain.has_new_base = new_base_timestamp is not None
    retain.new_base = -1 if new_base_timestamp is None else new_base_timestamp
    retain.max_timestamp = -1
    retain.kept = 0
    retain.problem = RECORD_OK
    out = bytearray()
    PyByteArray_Resize(out, bytes_in + record_count * (VARINT_BYTES_MAX + VARLONG_BYTES_MAX))
    target = <uint8_t*>PyByteArray_AS_STRING(out)
    with nogil:
        written = retain_area(data, bytes_in, kept, record_count, &retain, target)
    if retain.problem != RECORD_OK:
        raise InvalidRecordError(_RECORD_PROBLEMS[retain.problem])
    PyByteArray_Resize(out, written)
    return out, retain.kept, retain.new_base, retain.max_timestamp
