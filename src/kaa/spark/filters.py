"""What a condition of SQL says about partitions, offsets and times, so that less is read. Pure.

Spark does not tell a Python source what a query filters by. So a condition is looked at here for
parts that a topic can be read by, and Spark applies the whole of it again to what is read:
overlooking something costs time, and misreading would cost rows. Therefore only this is taken, and
only where it is joined to the rest by `and`:

- `partition`, `offset` or `timestamp` compared with a literal by `=`, `<`, `<=`, `>`, `>=`,
  on either side, or by `between`; `partition in (...)`;
- literals are whole numbers, and times such as `'2026-01-31 12:00'` or `timestamp '...Z'`, those
  without a zone in the zone of the session.

A condition with a backslash or a comment in it is not looked at, since what they mean depends on
settings of Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>`(?:[^`]|``)*`|"(?:[^"]|"")*")
    |(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\w*)|(?P<name>[^\W\d]\w*)
    |(?P<sign><=>|<=|>=|<>|!=|==|[-+*/%&|^~!<>=(),.\[\]:;?@#$]))""",
    re.VERBOSE,
)
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?"
)
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "==": "="}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Span(NamedTuple):
    """Numbers from `low` up to, but not with, `high`."""

    low: float = -inf
    high: float = inf

    def both(self, other: Span) -> Span:
        """What lies in both spans."""
        return Span(max(self.low, other.low), min(self.high, other.high))


ANY: Final = Span()


@dataclass(frozen=True, slots=True)
class Bounds:
    """What rows can fulfil a condition at all; times are in milliseconds."""

    partitions: frozenset[int] | None = None
    partition: Span = ANY
    offset: Span = ANY
    timestamp: Span = ANY

    def has(self, partition: int) -> bool:
        """Whether rows of a partition can."""
        is_named = self.partitions is None or partition in self.partitions
        return is_named and self.partition.low <= partition < self.partition.high

    def both(self, other: Bounds) -> Bounds:
        """What satisfies both bounds."""
        sets = [one for one in (self.partitions, other.partitions) if one is not None]
        return Bounds(
            frozenset.intersection(*sets) if sets else None,
            self.partition.both(other.partition),
            self.offset.both(other.offset),
            self.timestamp.both(other.timestamp),
        )


class _Token(NamedTuple):
    kind: str
    text: str

    @property
    def word(self) -> str:
        """Names and keywords alike, in small letters; other tokens as they are."""
        if self.kind == "quoted":
            return self.text[1:-1].lower() if self.text[0] == "`" else ""
        return self.text.lower() if self.kind == "name" else self.text


def bounds_of(where: str, zone: tzinfo | None) -> Bounds:
    """What a condition says; times without a zone are passed over where `zone` is None."""
    tokens = _tokens(where)
    return Bounds() if tokens is None else _of_all(tokens, zone)


def names_in(expression: str) -> set[str] | None:
    """Every name in an expression, in small letters; None if that is not known."""
    tokens = _tokens(expression)
    if tokens is None or any(one.text == "*" for one in tokens):
        return None
    return {_bare(one).lower() for one in tokens if one.kind in {"name", "quoted"}}


def _bare(token: _Token) -> str:
    if token.kind != "quoted":
        return token.text
    mark = token.text[0]
    return token.text[1:-1].replace(mark * 2, mark)


def _tokens(text: str) -> list[_Token] | None:
    if "\\" in text or "--" in text or "/*" in text:
        return None
    found: list[_Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            return None
        found.append(_Token(match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return found


def _of_all(tokens: list[_Token], zone: tzinfo | None) -> Bounds:
    bounds = Bounds()
    for part in _conjuncts(tokens):
        inner = _unwrapped(part)
        found = _of_all(inner, zone) if inner is not None else _of_one(part, zone)
        bounds = bounds.both(found or Bounds())
    return bounds


def _conjuncts(tokens: list[_Token]) -> Iterator[list[_Token]]:
    """The parts that must all hold; none where `or` joins something on the same level."""
    parts: list[list[_Token]] = [[]]
    depth = betweens = 0
    for one in tokens:
        if one.word in {"(", "[", "case"} and one.kind != "quoted":
            depth += 1
        elif one.word in {")", "]", "end"} and one.kind != "quoted":
            depth -= 1
        elif depth == 0 and one.kind == "name":
            if one.word == "or":
                return
            if one.word == "between":
                betweens += 1
            elif one.word == "and" and betweens:
                betweens -= 1
            elif one.word == "and":
                parts.append([])
                continue
        parts[-1].append(one)
    if depth == 0:
        yield from parts


def _unwrapped(tokens: list[_Token]) -> list[_Token] | None:
    """What is in parentheses, if all of it is in one pair."""
    if len(tokens) < 2 or tokens[0].text != "(" or tokens[-1].text != ")":
        return None
    depth = 0
    for at, one in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(one.text, 0)
        if depth == 0:
            return tokens[1:-1] if at == len(tokens) - 1 else None
    return None


def _of_one(tokens: list[_Token], zone: tzinfo | None) -> Bounds | None:
    """What a single comparison says; None for anything else."""
    words = [one.word for one in tokens]
    if not words:
        return None
    column = words[0]
    if column not in {"partition", "offset", "timestamp"}:
        # A literal that is compared with a column says the same, turned round.
        sign = next((at for at, one in enumerate(words) if one in _FLIPPED), None)
        if sign is None or len(tokens) - sign != 2 or tokens[0].word == "":
            return None
        turned = [tokens[-1], _Token("sign", _FLIPPED[words[sign]]), *tokens[:sign]]
        is_column = turned[0].word in {"partition", "offset", "timestamp"}
        return _of_one(turned, zone) if is_column else None
    if len(words) < 3 or tokens[0].kind not in {"name", "quoted"}:
        return None
    if words[1] in _FLIPPED:
        value = _literal(tokens[2:], column, zone)
        return None if value is None else _bounds(column, [_span(words[1], value)])
    if words[1] == "between" and "and" in words:
        middle = words.index("and")
        low = _literal(tokens[2:middle], column, zone)
        high = _literal(tokens[middle + 1 :], column, zone)
        if low is None or high is None:
            return None
        return _bounds(column, [_span(">=", low), _span("<=", high)])
    if column == "partition" and words[1:3] == ["in", "("] and words[-1] == ")":
        return _of_list(tokens[3:-1])
    return None


def _of_list(tokens: list[_Token]) -> Bounds | None:
    numbers, commas = tokens[::2], tokens[1::2]
    is_list = len(numbers) == len(commas) + 1 and all(one.text == "," for one in commas)
    values = [_literal([one], "partition", None) for one in numbers]
    if not is_list or None in values:
        return None
    return Bounds(partitions=frozenset(int(one) for one in values if one is not None))


def _bounds(column: str, spans: Iterable[Span]) -> Bounds:
    whole = ANY
    for one in spans:
        whole = whole.both(one)
    if column == "partition":
        return Bounds(partition=whole)
    return Bounds(offset=whole) if column == "offset" else Bounds(timestamp=whole)


def _span(sign: str, value: float) -> Span:
    """Whole numbers that a comparison with a number allows, which may lie between two of them."""
    down = value // 1
    up = -(-value // 1)
    match sign:
        case "<":
            return Span(high=up)
        case "<=":
            return Span(high=down + 1)
        case ">":
            return Span(low=down + 1)
        case ">=":
            return Span(low=up)
    return Span(up, down + 1)


def _literal(tokens: list[_Token], column: str, zone: tzinfo | None) -> float | None:
    """The number that a literal stands for: for times, milliseconds."""
    if column == "timestamp":
        if len(tokens) == 2 and tokens[0].word == "timestamp" and tokens[0].kind == "name":
            tokens = tokens[1:]
        is_text = len(tokens) == 1 and tokens[0].kind == "text"
        return _time_ms(tokens[0].text[1:-1], zone) if is_text else None
    negative = len(tokens) == 2 and tokens[0].text == "-"
    digits = tokens[-1].text if tokens else ""
    if len(tokens) != 1 + negative or not digits.isdecimal():
        return None
    return -int(digits) if negative else int(digits)


def _time_ms(text: str, zone: tzinfo | None) -> float | None:
    if not _TIME.fullmatch(text.strip()):
        return None
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if when.tzinfo is None:
        if zone is None:
            return None
        when = when.replace(tzinfo=zone)
    return (when - _EPOCH) / _MILLISECOND
