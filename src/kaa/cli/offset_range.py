"""The offset grammar: where to start reading, and where to stop.

| POINT | where |
|---|---|
| `start`, `beginning`, `earliest` | the first record |
| `end`, `latest` | after the last one |
| `N` | offset N |
| `+N` | N records after the first |
| `-N` | N records before the end |
| `@TIME` | the first record at or after a time |

| TIME | when |
|---|---|
| `1700000000000` | milliseconds since 1970 |
| `2026-01-31`, `2026-01-31T10:00:00`, `2026-01-31T10:00:00+02:00` | UTC without a zone |
| `-10m` | that long ago: s, m, h or d |
| `today`, `yesterday` | the start of that day in UTC |

| RANGE | what |
|---|---|
| `POINT` | from there on |
| `POINT:POINT` | up to, without the second |
| `:POINT` | from the first |
| `@TIME:TIME` | between two times |

Times hold colons themselves; a range is cut at the first colon that leaves two valid points.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

# With the words of Kafka and of librdkafka.
_WORDS: Final = {
    "start": "start",
    "beginning": "start",
    "earliest": "start",
    "end": "end",
    "latest": "end",
}
_ADDED: Final = re.compile(r"\+\d+")
_FROM_END: Final = re.compile(r"-\d+")
_AGO: Final = re.compile(r"-(\d+)([smhd])")
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# The wire has no room for a later time.
_INT64_LAST: Final = 2**63 - 1
_DAYS_BACK: Final = {"today": 0, "yesterday": 1}


class Point(NamedTuple):
    """A place in a partition: `kind` is offset, start, end or time; `value` counts from it."""

    kind: str
    value: int = 0

    def offset(self, first: int, end: int, at_time: int | None) -> int:
        """The offset that it stands for in a partition; `at_time` is what the broker found."""
        if self.kind == "time":
            return end if at_time is None else at_time
        base = {"offset": 0, "start": first, "end": end}[self.kind]
        return min(max(base + self.value, first), max(first, end))

    def remark(self, first: int, end: int) -> str | None:
        """What to say of an offset that the partition does not have; None if it has it."""
        if self.kind != "offset" or first <= self.value <= max(first, end):
            return None
        return f"offset {self.value} is outside {first} to {end}; {self.offset(first, end, None)}"


class ReadRange(NamedTuple):
    """What to read: up to `stop`, or for ever."""

    start: Point
    stop: Point | None = None


def parse_range(text: str, now_ms: int) -> ReadRange:
    """Reads the grammar of the module's text; raises ValueError."""
    point = _parse_point(text, now_ms)
    if point is not None:
        return ReadRange(point)
    for position in (index for index, letter in enumerate(text) if letter == ":"):
        left, right = text[:position], text[position + 1 :]
        start = _parse_point(left, now_ms) if left else Point("start")
        if start is None:
            continue
        if left.startswith("@") and not right.startswith("@") and right not in _WORDS:
            right = f"@{right}"
        stop = _parse_point(right, now_ms)
        if stop is not None:
            if start.kind == stop.kind and stop.value < start.value:
                raise ValueError(f"{text!r} ends before it starts")
            return ReadRange(start, stop)
    raise ValueError(
        f"{text!r} is not an offset; write start, end, 42, +42, -42, 10:20, @2026-01-31T10:00:00 "
        "or @-10m"
    )


def _parse_point(text: str, now_ms: int) -> Point | None:
    if text in _WORDS:
        return Point(_WORDS[text])
    if text.isdecimal():
        return Point("offset", int(text))
    if _ADDED.fullmatch(text):
        return Point("start", int(text))
    if _FROM_END.fullmatch(text):
        return Point("end", int(text))
    if text.startswith("@"):
        time_ms = _parse_time(text[1:], now_ms)
        return None if time_ms is None else Point("time", time_ms)
    return None


def _parse_time(text: str, now_ms: int) -> int | None:
    if text.isdecimal() and len(text) > 8:
        return int(text) if int(text) <= _INT64_LAST else None
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(0, now_ms - int(ago[1]) * _UNIT_MS[ago[2]])
    if text in _DAYS_BACK:
        return now_ms - now_ms % _UNIT_MS["d"] - _DAYS_BACK[text] * _UNIT_MS["d"]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1000))
