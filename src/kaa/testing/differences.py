"""Expected records against found ones, and the text that shows where they differ.

What a test expects of a record may be

- a `str` or `bytes`: the value;
- a pair: key and value;
- a mapping: any of `key`, `value`, `headers`, `partition`, `offset`, `timestamp_ms`;
  what it does not name may be anything;
- a function: it is given the record and says whether it fits.

Text is compared as UTF-8, and inside of pairs and mappings `...` fits anything.
"""

from __future__ import annotations

from contextlib import suppress
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from kaa import limits
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.client.consumer.records import ConsumerRecord

FIELDS = ("key", "value", "headers", "partition", "offset", "timestamp_ms")


def fits(expected: object, record: ConsumerRecord) -> bool:
    """Whether a record is what is expected, in one of the forms above."""
    if callable(expected):
        return bool(expected(record))
    return all(
        wanted is ... or _plain(wanted) == _plain(getattr(record, name))
        for name, wanted in _wanted(expected).items()
    )


def _wanted(expected: object) -> dict[str, Any]:
    if expected is None or isinstance(expected, str | bytes):
        return {"value": expected}
    if isinstance(expected, tuple) and len(expected) == 2:
        return {"key": expected[0], "value": expected[1]}
    if isinstance(expected, dict):
        unknown = expected.keys() - set(FIELDS)
        if unknown:
            raise TypeError(f"a record has no {sorted(unknown)}; it has {', '.join(FIELDS)}")
        return expected
    raise TypeError(
        f"{expected!r} describes no record: give a value, a pair (key, value), a mapping of "
        f"{', '.join(FIELDS)}, or a function"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value


def match(expected: Sequence[object], found: Sequence[ConsumerRecord], *, in_order: bool) -> bool:
    """Whether the records are exactly those expected."""
    if len(expected) != len(found):
        return False
    if in_order:
        return all(map(fits, expected, found))
    left = list(found)
    for each in expected:
        place = next((n for n, record in enumerate(left) if fits(each, record)), None)
        if place is None:
            return False
        del left[place]
    return True


def difference(
    subject: str, expected: Sequence[object], found: Sequence[ConsumerRecord], *, in_order: bool
) -> str:
    """Lines that say what is missing (-) and what is there instead (+)."""
    order = "" if in_order else " in any order"
    lines = [
        f"{subject}: {count_text(len(expected), 'record')} expected{order}, {len(found)} found"
    ]
    lines += _in_order(expected, found) if in_order else _in_any_order(expected, found)
    return "\n".join(lines)


def _in_order(expected: Sequence[object], found: Sequence[ConsumerRecord]) -> list[str]:
    # Whatever fits a record is given that record's name, so that the two rows can be compared.
    numbers = list(range(len(found)))
    wanted: list[object] = []
    for place, each in enumerate(expected):
        same = [place] if place < len(found) else []
        fitting = [n for n in [*same, *numbers] if fits(each, found[n])]
        free = [n for n in fitting if n not in wanted]
        wanted.append(free[0] if free else ("missing", place))
    lines = []
    for kind, low, high, start, end in SequenceMatcher(a=wanted, b=numbers).get_opcodes():
        if kind != "equal":
            lines += [f"- {shown(each)}" for each in expected[low:high]]
        mark = " " if kind == "equal" else "+"
        lines += [f"{mark} {shown_record(record)}" for record in found[start:end]]
    return lines


def _in_any_order(expected: Sequence[object], found: Sequence[ConsumerRecord]) -> list[str]:
    left = list(found)
    lines = []
    for each in expected:
        place = next((n for n, record in enumerate(left) if fits(each, record)), None)
        if place is None:
            lines.append(f"- {shown(each)}")
        else:
            lines.append(f"  {shown_record(left.pop(place))}")
    return [*lines, *(f"+ {shown_record(record)}" for record in left)]


def shown(value: object) -> str:
    """A value as a reader wants it: text where it is text, and not too long."""
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            value = value.decode()
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    if callable(value):
        return getattr(value, "__name__", repr(value))
    text = "..." if value is ... else repr(value)
    if len(text) > limits.TESTING_SHOWN_CHARACTERS_MAX:
        text = f"{text[: limits.TESTING_SHOWN_CHARACTERS_MAX]}... ({len(text)} characters)"
    return text


def shown_record(record: ConsumerRecord) -> str:
    """A record in a line: what it says, and where it is."""
    text = shown(record.value) if record.key is None else shown((record.key, record.value))
    headers = f" {record.headers!r}" if record.headers else ""
    return f"{text}{headers}  [partition {record.partition}, offset {record.offset}]"
