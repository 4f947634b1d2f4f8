r"""Format strings for records, with kcat's letters and rpk's braces.

| letter | stands for | letter | stands for |
|---|---|---|---|
| %t | topic | %s | value, as is |
| %p | partition | %S | length of the value, -1 for null |
| %o | offset | %R | the same in 4 bytes, big-endian |
| %T | timestamp in milliseconds | %k | key, as is |
| %h | headers, name=value,name=value | %K | length of the key, -1 for null |
| %v | value, as %s | %% | a percent sign |

Braces after `%k`, `%s` and `%v` say how bytes are written: `%k{hex}`, `%s{base64}`,
`%s{json}` (a string of JSON). `%T{iso}` is the time in UTC. `\n`, `\t`, `\r`, `\0`,
`\\` and `\x2c` mean what they do in C. A null key or value is printed as `NULL`, or as the
option for it says.

On a terminal, what is `as is` is so but for what would steer the terminal (`visible`).
"""

from __future__ import annotations

import csv
import json
import re
from base64 import b64encode
from datetime import UTC, datetime
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from kaa.cli.output import yaml_text
from kaa.cli.registry import JsonBytes
from kaa.cli.template import PREFIX, Template
from kaa.cli.visible import visible, visible_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.client.consumer.records import ConsumerRecord

    Field = Callable[[str, int, ConsumerRecord], bytes]

_TOKEN: Final = re.compile(
    r"%(.)(?:\{(hex|base64|json|iso)\})?|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)", re.DOTALL
)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_ENCODINGS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "hex": lambda data: data.hex().encode(),
    "base64": b64encode,
    "json": lambda data: json.dumps(data.decode(errors="replace")).encode(),
}


def compile_format(text: str, null: bytes = b"NULL", *, escapes: bool = False) -> Field:
    """A function of topic, partition and record; raises ValueError at an unknown letter.

    With `escapes`, what records hold cannot steer a terminal; what the format says still can.
    """
    pieces: list[Any] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"the format ends with {text[position:]!r}")
        position = match.end()
        letter, brace, code, escape, plain = match.groups()
        if plain is not None:
            pieces.append(plain.encode())
        elif code is not None:
            pieces.append(bytes.fromhex(code))
        elif escape is not None:
            if escape not in _ESCAPES:
                raise ValueError(
                    f"\\{escape} is not an escape; there are \\n \\t \\r \\0 \\\\ \\xNN"
                )
            pieces.append(_ESCAPES[escape])
        elif letter == "%":
            pieces.append(b"%")
        else:
            pieces.append(_field(letter, brace, null, visible_bytes if escapes else bytes))

    def write(topic: str, partition: int, record: ConsumerRecord) -> bytes:
        return b"".join(
            piece if isinstance(piece, bytes) else piece(topic, partition, record)
            for piece in pieces
        )

    return write


def _field(letter: str, brace: str | None, null: bytes, as_is: Callable[[bytes], bytes]) -> Field:
    if letter in "ksv" and brace != "iso":
        encode = _ENCODINGS.get(brace or "", as_is)
        name = "key" if letter == "k" else "value"

        def data(_topic: str, _partition: int, record: ConsumerRecord) -> bytes:
            found = getattr(record, name)
            return null if found is None else encode(found)

        return data
    if letter == "T" and brace == "iso":
        return lambda _, __, record: iso_time(record.timestamp).encode()
    fields: dict[str, Field] = {
        "t": lambda topic, _, __: topic.encode(),
        "p": lambda _, partition, __: b"%d" % partition,
        "o": lambda _, __, record: b"%d" % record.offset,
        "T": lambda _, __, record: b"%d" % record.timestamp,
        "K": lambda _, __, record: b"%d" % (-1 if record.key is None else len(record.key)),
        "S": lambda _, __, record: b"%d" % (-1 if record.value is None else len(record.value)),
        "R": lambda _, __, record: (-1 if record.value is None else len(record.value)).to_bytes(
            4, "big", signed=True
        ),
        "h": lambda _, __, record: b",".join(
            as_is(name.encode()) + b"=" + (null if value is None else as_is(value))
            for name, value in record.headers
        ),
    }
    if letter not in fields or brace is not None:
        known = " ".join(f"%{one}" for one in ("k", "s", "v", *fields))
        shown = f"%{letter}" if brace is None else f"%{letter}{{{brace}}}"
        raise ValueError(
            f"{shown} is not a field; there are {known} and, with braces, %k{{hex}} %s{{base64}} "
            "%s{json} %T{iso}"
        )
    return fields[letter]


def iso_time(timestamp_ms: int) -> str:
    """A time in UTC to the millisecond; - where there is none."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


COLUMNS: Final = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")


class RecordWriter:
    """Records in the form that `-o` or a format string asks for, one by one.

    What `-o json` writes is one list, of which every record is a line.
    """

    def __init__(
        self, output: str, format_: str | None, null: str, *, escapes: bool = False
    ) -> None:
        self.is_list = output == "json" and format_ is None
        self.written = 0
        self._write = _writer(output, format_, null, escapes)

    def write(self, topic: str, partition: int, record: ConsumerRecord) -> bytes:
        """The bytes of a record."""
        data = self._write(topic, partition, record)
        self.written += 1
        if not self.is_list:
            return data
        return (b"[\n " if self.written == 1 else b",\n ") + data

    def head(self, output: str) -> bytes:
        """What stands before the first record."""
        return ",".join(COLUMNS).encode() + b"\n" if output == "csv" else b""

    def end(self) -> bytes:
        """What stands after the last record."""
        if not self.is_list:
            return b""
        return b"\n]\n" if self.written else b"[]\n"


def _writer(
    output: str, format_: str | None, null: str, escapes: bool
) -> Callable[[str, int, ConsumerRecord], bytes]:
    if format_ is None and output.startswith(PREFIX):
        return _template_writer(output, escapes)
    if format_ is not None:
        return compile_format(format_, null.encode(), escapes=escapes)
    if output == "json":
        return lambda *record: json.dumps(as_json(*record)).encode()
    if output == "jsonl":
        return lambda *record: json.dumps(as_json(*record)).encode() + b"\n"
    if output == "yaml":
        return lambda *record: yaml_text([as_json(*record)]).encode()
    if output == "name":
        return compile_format("%t-%p@%o\\n")
    if output == "csv":
        return _visible_csv_line if escapes else _csv_line
    if output == "wide":
        return compile_format("%t-%p@%o %T %k %s\\n", null.encode(), escapes=escapes)
    return compile_format("%s\\n", null.encode(), escapes=escapes)


def _template_writer(text: str, escapes: bool) -> Callable[[str, int, ConsumerRecord], bytes]:
    template = Template(text)
    template.fill(dict.fromkeys(COLUMNS))  # A key that is not there is reported at once.

    def write(topic: str, partition: int, record: ConsumerRecord) -> bytes:
        line = template.fill(as_json(topic, partition, record))
        return f"{visible(line) if escapes else line}\n".encode()

    return write


def _csv_line(topic: str, partition: int, record: ConsumerRecord) -> bytes:
    text = StringIO()
    row = as_json(topic, partition, record)
    row["headers"] = json.dumps(row["headers"]) if row["headers"] else ""
    for name in ("key", "value"):
        if not isinstance(row[name], str | None):
            row[name] = json.dumps(row[name])
    csv.writer(text, lineterminator="\n").writerow([row[name] for name in COLUMNS])
    return text.getvalue().encode()


def _visible_csv_line(topic: str, partition: int, record: ConsumerRecord) -> bytes:
    return visible(_csv_line(topic, partition, record).decode()).encode()


def as_json(topic: str, partition: int, record: ConsumerRecord) -> dict[str, Any]:
    """A record as JSON: text where it is UTF-8, else `{"base64": ...}`."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": _json_bytes(record.key),
        "value": _json_bytes(record.value),
        "headers": [[name, _json_bytes(value)] for name, value in record.headers],
    }


def _json_bytes(data: bytes | None) -> Any:
    if data is None:
        return None
    if isinstance(data, JsonBytes):
        return json.loads(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
