"""Words of messages that people read."""

from __future__ import annotations


def count_text(count: int, noun: str) -> str:
    """`1 record`, `2 records`; what ends in y becomes ies, and in ch, s or x gets es."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}es" if noun.endswith(("ch", "s", "x")) else f"{count} {noun}s"


def partitions_text(count: int) -> str:
    """Which partitions a topic of so many has: `partition 0 alone`, `partitions 0 to 2`."""
    return "partition 0 alone" if count == 1 else f"partitions 0 to {count - 1}"
