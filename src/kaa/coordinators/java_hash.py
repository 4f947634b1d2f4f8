"""The hash of strings in Java, by which Kafka places groups and orders its tables."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, as a signed int32."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(data), 2):
        value = (31 * value + (data[position] << 8 | data[position + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
