"""The four codecs of record batches, written as Kafka's Java client writes them, read as leniently.

The records of a compressed batch are one stream; how each codec frames it is described in the
module of that codec. Reading is an iterator of chunks with bounded memory: what zstd's window
demands (128 MiB at most), one lz4 block (4 MiB at most), one snappy block (64/3 of its input at
most). Nothing is trusted before it is checked against the bytes that are there. Every failure to
read is a `CompressionError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kaa.limits import BATCH_EXPANDED_BYTES_MAX
from kaa.records._codec_gzip import GzipCompressor, read_gzip
from kaa.records._codec_lz4 import LZ4_LEVELS, Lz4Compressor, read_lz4
from kaa.records._codec_snappy import SnappyCompressor, read_snappy
from kaa.records._codec_zstd import ZstdCompressor, read_zstd, read_zstd_at_once
from kaa.records.batch import CompressionType
from kaa.records.errors import CompressionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.records.batch import Buffer

# Lowest, highest and default level, as Kafka's settings allow them; gzip's -1 is zlib's default.
GZIP_LEVELS = (1, 9, -1)
ZSTD_LEVELS = (-131072, 22, 3)


def decompress_chunks(codec: CompressionType, data: Buffer) -> Iterator[Buffer]:
    """What `data` expands to, in chunks of bounded size and in constant memory."""
    return _READERS[codec](memoryview(data))


def decompress_all(
    codec: CompressionType, data: Buffer, limit: int = BATCH_EXPANDED_BYTES_MAX
) -> bytes:
    """What `data` expands to as a whole; an error above `limit` bytes."""
    chunks = []
    size = 0
    is_zstd = codec is CompressionType.ZSTD
    expanded = read_zstd_at_once(memoryview(data)) if is_zstd else decompress_chunks(codec, data)
    for chunk in expanded:
        size += len(chunk)
        if size > limit:
            raise CompressionError(f"{codec.name.lower()} data expands beyond {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


class Compressor(Protocol):
    """One compressed stream being written. Output comes as it becomes available."""

    def write(self, data: Buffer) -> bytes: ...

    def finish(self) -> bytes: ...


def compressor(codec: CompressionType, level: int | None = None) -> Compressor:
    """A new stream of `codec`; `None` asks for Kafka's default level."""
    if codec is CompressionType.GZIP:
        return GzipCompressor(checked_level(codec, level))
    if codec is CompressionType.LZ4:
        return Lz4Compressor(checked_level(codec, level))
    if codec is CompressionType.ZSTD:
        return ZstdCompressor(checked_level(codec, level))
    if codec is CompressionType.SNAPPY:
        return SnappyCompressor()
    return _Uncompressed()


def compress(codec: CompressionType, data: Buffer, level: int | None = None) -> bytes:
    stream = compressor(codec, level)
    return stream.write(data) + stream.finish()


def checked_level(codec: CompressionType, level: int | None) -> int:
    """The level to use, or ValueError for one that Kafka's settings do not allow."""
    lowest, highest, default = _LEVELS[codec]
    if level is None:
        return default
    if not lowest <= level <= highest and level != default:
        raise ValueError(f"{codec.name.lower()} has no level {level}: {lowest} to {highest}")
    return level


_LEVELS = {
    CompressionType.GZIP: GZIP_LEVELS,
    CompressionType.LZ4: LZ4_LEVELS,
    CompressionType.ZSTD: ZSTD_LEVELS,
}


class _Uncompressed:
    def write(self, data: Buffer) -> bytes:
        return bytes(data)

    def finish(self) -> bytes:
        return b""


def _read_uncompressed(data: memoryview) -> Iterator[Buffer]:
    yield data


_READERS = {
    CompressionType.NONE: _read_uncompressed,
    CompressionType.GZIP: read_gzip,
    CompressionType.SNAPPY: read_snappy,
    CompressionType.LZ4: read_lz4,
    CompressionType.ZSTD: read_zstd,
}
