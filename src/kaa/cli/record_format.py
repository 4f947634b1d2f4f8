r"""Format strings for records, with kcat's letters.

====  =============================================  ====  ==================================
%t    topic                                          %s    value
%p    partition                                      %S    length of the value, -1 for null
%o    offset                                         %k    key
%T    timestamp in milliseconds                      %K    length of the key, -1 for null
%h    headers, name=value,name=value                 %%    a percent sign
====  =============================================  ====  ==================================

``\n``, ``\t``, ``\r``, ``\0`` and ``\\`` mean what they do in C. A null key or value is printed as
``NULL``, or as nothing with the option for it. Keys and values are written as the bytes they are.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.records.record import Record

_TOKEN: Final = re.compile(r"%(.)|\\(.)|([^%\\]+)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def compile_format(text: str, null: bytes = b"NULL") -> Callable[[str, int, Record], bytes]:
    """A function of topic, partition and record; raises ValueError at an unknown letter."""
    pieces: list[Any] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"the format ends with {text[position:]!r}")
        position = match.end()
        letter, escape, plain = match.groups()
        if plain is not None:
            pieces.append(plain.encode())
        elif escape is not None:
            if escape not in _ESCAPES:
                raise ValueError(f"\\{escape} is no escape; there are \\n \\t \\r \\0 \\\\")
            pieces.append(_ESCAPES[escape])
        elif letter == "%":
            pieces.append(b"%")
        else:
            pieces.append(_field(letter, null))

    def write(topic: str, partition: int, record: Record) -> bytes:
        return b"".join(
            piece if isinstance(piece, bytes) else piece(topic, partition, record)
            for piece in pieces
        )

    return write


def _field(letter: str, null: bytes) -> Callable[[str, int, Record], bytes]:
    fields: dict[str, Callable[[str, int, Record], bytes]] = {
        "t": lambda topic, _, __: topic.encode(),
        "p": lambda _, partition, __: b"%d" % partition,
        "o": lambda _, __, record: b"%d" % record.offset,
        "T": lambda _, __, record: b"%d" % record.timestamp,
        "k": lambda _, __, record: null if record.key is None else record.key,
        "s": lambda _, __, record: null if record.value is None else record.value,
        "K": lambda _, __, record: b"%d" % (-1 if record.key is None else len(record.key)),
        "S": lambda _, __, record: b"%d" % (-1 if record.value is None else len(record.value)),
        "h": lambda _, __, record: b",".join(
            name.encode() + b"=" + (null if value is None else value)
            for name, value in record.headers
        ),
    }
    if letter not in fields:
        raise ValueError(
            f"%{letter} is no field; there are {' '.join(f'%{one}' for one in fields)}"
        )
    return fields[letter]


def as_json(topic: str, partition: int, record: Record) -> dict[str, Any]:
    """A record as JSON: text where it is UTF-8, else ``{"base64": ...}``."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": _json_bytes(record.key),
        "value": _json_bytes(record.value),
        "headers": [[name, _json_bytes(value)] for name, value in record.headers],
    }


def _json_bytes(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
