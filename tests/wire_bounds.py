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
from tests.memory import peak_memory

MEMORY_BYTES_BASE = 8 * 1024
MEMORY_BYTES_PER_INPUT_BYTE = 128


def memory_bytes_max(input_size: int) -> int:
    return MEMORY_BYTES_BASE + MEMORY_BYTES_PER_INPUT_BYTE * input_size


def decode_within_bounds(codec: Codec, data: bytes) -> tuple[bytes, int] | None:
    """Decodes hostile bytes and asserts the bound of memory; any error but WireError escapes.

    Returns what the message is when written again and how many bytes it took, so that outcomes can
    be compared; None if it was refused.
    """
    if codec._decode is None:
        codec._compile_decoder()
    with peak_memory() as peak:
        try:
            message, position = codec.decode_prefix(data)
        except WireError:
            message, position = None, 0
    assert peak.size_bytes <= memory_bytes_max(len(data)), (peak.size_bytes, len(data))
    return None if message is None else (codec.encode(message), position)
