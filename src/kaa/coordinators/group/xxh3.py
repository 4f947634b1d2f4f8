"""XXH3, the hash with 64 bits, seed 0 and its own secret, as Kafka uses it on topics.

Input of up to 240 bytes is folded by a few multiplications, each length class in its own way.
Longer input runs through eight lanes of 64 bits: stripes of 64 bytes are added to the lanes, the
lanes are scrambled after every block of 16 stripes, the last 64 bytes count once more, and in the
end the lanes are folded into one number. All numbers are little-endian and wrap at 64 bits.

A topic is hashed when it changes and is looked up afterwards, so plain Python is quick enough
(about 10 us for a topic with a few partitions).
"""

from __future__ import annotations

from struct import Struct
from typing import Final

_MASK: Final = (1 << 64) - 1
_MASK32: Final = (1 << 32) - 1
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_PRIME32_1: Final = 0x9E3779B1
_PRIME32_2: Final = 0x85EBCA77
_PRIME32_3: Final = 0xC2B2AE3D
_PRIME64_1: Final = 0x9E3779B185EBCA87
_PRIME64_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME64_3: Final = 0x165667B19E3779F9
_PRIME64_4: Final = 0x85EBCA77C2B2AE63
_PRIME64_5: Final = 0x27D4EB2F165667C5
_MIX_1: Final = 0x165667919E3779F9
_MIX_2: Final = 0x9FB21C651E98DF25

_STRIPE_BYTES: Final = 64
_STRIPES_PER_BLOCK: Final = (192 - _STRIPE_BYTES) // 8
_BLOCK_BYTES: Final = _STRIPE_BYTES * _STRIPES_PER_BLOCK
_LANES: Final = Struct("<8Q")
_LONG: Final = Struct("<Q")
_INT: Final = Struct("<I")


def xxh3_64(data: bytes) -> int:
    """The hash of the bytes as a signed number, which is how Java has it."""
    length = len(data)
    if length <= 16:
        value = _short(data, length)
    elif length <= 128:
        value = _medium(data, length)
    elif length <= 240:
        value = _large(data, length)
    else:
        value = _long(data, length)
    return value - (1 << 64) if value >= 1 << 63 else value


def _u64(data: bytes, position: int) -> int:
    value: int = _LONG.unpack_from(data, position)[0]
    return value


def _u32(data: bytes, position: int) -> int:
    value: int = _INT.unpack_from(data, position)[0]
    return value


def _fold(one: int, other: int) -> int:
    product = one * other
    return (product & _MASK) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _MIX_1 & _MASK
    return value ^ value >> 32


def _old_avalanche(value: int) -> int:
    value ^= value >> 33
    value = value * _PRIME64_2 & _MASK
    value ^= value >> 29
    value = value * _PRIME64_3 & _MASK
    return value ^ value >> 32


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _short(data: bytes, length: int) -> int:
    if length == 0:
        return _old_avalanche(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))
    if length <= 3:
        combined = data[0] << 16 | data[length >> 1] << 24 | data[-1] | length << 8
        return _old_avalanche(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    if length <= 8:
        both = _u32(data, length - 4) + (_u32(data, 0) << 32)
        value = both ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        value ^= _rotated(value, 49) ^ _rotated(value, 24)
        value = value * _MIX_2 & _MASK
        value ^= (value >> 35) + length
        value = value * _MIX_2 & _MASK
        return value ^ value >> 28
    low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
    high = _u64(data, length - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
    swapped = int.from_bytes(_LONG.pack(low), "big")
    return _avalanche(length + swapped + high + _fold(low, high) & _MASK)


def _mixed(data: bytes, position: int, secret: int) -> int:
    return _fold(
        _u64(data, position) ^ _u64(_SECRET, secret),
        _u64(data, position + 8) ^ _u64(_SECRET, secret + 8),
    )


def _medium(data: bytes, length: int) -> int:
    value = length * _PRIME64_1
    for pair in range((length - 1) // 32 + 1):
        value += _mixed(data, 16 * pair, 32 * pair)
        value += _mixed(data, length - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(value & _MASK)


def _large(data: bytes, length: int) -> int:
    value = length * _PRIME64_1
    for number in range(8):
        value += _mixed(data, 16 * number, 16 * number)
    value = _avalanche(value & _MASK)
    for number in range(8, length // 16):
        value += _mixed(data, 16 * number, 16 * (number - 8) + 3)
    value += _mixed(data, length - 16, 136 - 17)
    return _avalanche(value & _MASK)


def _long(data: bytes, length: int) -> int:
    lanes = [
        _PRIME32_3,
        _PRIME64_1,
        _PRIME64_2,
        _PRIME64_3,
        _PRIME64_4,
        _PRIME32_2,
        _PRIME64_5,
        _PRIME32_1,
    ]
    block_count = (length - 1) // _BLOCK_BYTES
    for block in range(block_count):
        for stripe in range(_STRIPES_PER_BLOCK):
            _accumulate(lanes, data, block * _BLOCK_BYTES + stripe * _STRIPE_BYTES, 8 * stripe)
        keys = _LANES.unpack_from(_SECRET, 192 - _STRIPE_BYTES)
        for number, key in enumerate(keys):
            lane = lanes[number]
            lanes[number] = (lane ^ lane >> 47 ^ key) * _PRIME32_1 & _MASK
    start = block_count * _BLOCK_BYTES
    for stripe in range((length - 1 - start) // _STRIPE_BYTES):
        _accumulate(lanes, data, start + stripe * _STRIPE_BYTES, 8 * stripe)
    _accumulate(lanes, data, length - _STRIPE_BYTES, 192 - _STRIPE_BYTES - 7)
    value = length * _PRIME64_1
    for pair in range(4):
        value += _fold(
            lanes[2 * pair] ^ _u64(_SECRET, 11 + 16 * pair),
            lanes[2 * pair + 1] ^ _u64(_SECRET, 19 + 16 * pair),
        )
    return _avalanche(value & _MASK)


def _accumulate(lanes: list[int], data: bytes, position: int, secret: int) -> None:
    values = _LANES.unpack_from(data, position)
    keys = _LANES.unpack_from(_SECRET, secret)
    for number, value in enumerate(values):
        key = value ^ keys[number]
        neighbour = number ^ 1
        lanes[neighbour] = lanes[neighbour] + value & _MASK
        lanes[number] = lanes[number] + (key & _MASK32) * (key >> 32) & _MASK
