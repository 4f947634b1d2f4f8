"""The bounds that decoding keeps on any input, for tests and fuzz targets to assert.

Memory: what decoding needs at its peak is at most `MEMORY_BYTES_BASE` plus
`MEMORY_BYTES_PER_INPUT_BYTE` for each byte of the input. The worst known input is an array of
structs of two bytes, each with one unknown tagged field of two more: an object, a list and a
dictionary for four bytes, 82 bytes for each. Above that, the budget of elements in `kaa.limits`
bounds a message absolutely.
"""

from __future__ import annotations

from kaa.wire.codec import Codec
from kaa.wire.primitives import WireError
from tests.support.memory import peak_memory

MEMORY_BYTES_BASE = 8 * 1024
MEMORY_BYTES_PER_INPUT_BYTE = 128


def memory_bytes_max(input_size: int) -> int:
    return MEMORY_BYTES_BASE + MEMORY_BYTES_PER_INPUT_BYTE * input_size


# What a message is when written again, and how many bytes it took; None if it was refused.
Outcome = tuple[bytes, int] | None


def outcome(codec: Codec, data: bytes) -> Outcome:
    """What a codec makes of hostile bytes; any error but WireError escapes."""
    try:
        message, position = codec.decode_prefix(data)
    except WireError:
        return None
    return codec.encode(message), position


def decode_within_bounds(codec: Codec, data: bytes) -> Outcome:
    """As `outcome`, and asserts the bound of memory."""
    if codec._decode is None:
        codec._compile_decoder()
    with peak_memory() as peak:
        try:
            message, position = codec.decode_prefix(data)
        except WireError:
            message, position = None, 0
    assert peak.size_bytes <= memory_bytes_max(len(data)), (peak.size_bytes, len(data))
    return None if message is None else (codec.encode(message), position)
