"""Words of messages that people read."""

from __future__ import annotations


def count_text(count: int, noun: str) -> str:
    """`1 record`, `2 records`; what ends in y becomes ies, and in ch, s or x gets es."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}es" if noun.endswith(("ch", "s", "x")) else f"{count} {noun}s"
