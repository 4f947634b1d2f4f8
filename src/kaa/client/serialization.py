"""Between the objects of an application and the bytes of records.

Without serializers a producer takes bytes, and text, which it writes as UTF-8; a consumer gives
bytes. The settings `key.serializer`, `value.serializer`, `key.deserializer` and
`value.deserializer` change that. Each is a function, or the name of one of Java's serializers:

| Function | Called as |
|---|---|
| `lambda value: json.dumps(value)` | `function(value)` |
| one whose second argument has no default, or is named `ctx` | `function(value, context)` |
| `StringSerializer`, `LongDeserializer` and others of Java, with or without their package | - |

So those of kafka-python and aiokafka fit, and those of confluent-kafka with a schema registry do
too; `context` has the attributes of theirs. A serializer gives bytes or text. None stands for no
key or a tombstone and passes both ways without any function.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.client.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaa.config.definition import ConfigValues
    from kaa.records.batch import Buffer
    from kaa.records.record import Header

    Function = Callable[..., Any]
    Headers = Mapping[str, object] | Iterable[tuple[str, object]]

_CONTEXT_NAMES: Final = frozenset({"ctx", "context"})


class SerializationContext(NamedTuple):
    """Where a key or a value belongs; `field` is "key" or "value"."""

    topic: str
    field: str
    headers: tuple[Header, ...] | None = None


def _packed(form: str) -> tuple[Function, Function]:
    one = struct.Struct(form)
    return one.pack, lambda data: one.unpack(data)[0]


def _same(data: Any) -> Any:
    return data


_JAVA: Final[dict[str, tuple[Function, Function]]] = {
    "ByteArray": (_same, _same),
    "Bytes": (_same, _same),
    "Double": _packed(">d"),
    "Float": _packed(">f"),
    "Integer": _packed(">i"),
    "Long": _packed(">q"),
    "Short": _packed(">h"),
    "String": (str.encode, bytes.decode),
}
"""Java's serializers and deserializers by the names of their types."""
_JAVA_PACKAGE: Final = "org.apache.kafka.common.serialization"


class Serde:
    """One function, called as it wants to be called."""

    __slots__ = ("_function", "_name", "_wants_context")

    def __init__(self, name: str, function: Function) -> None:
        self._name = name
        self._function = function
        self._wants_context = wants_context(function)

    def __call__(self, data: Any, topic: str, headers: Any = None) -> Any:
        """The result; raises SerializationError with what went wrong in the function."""
        try:
            if not self._wants_context:
                return self._function(data)
            field = self._name.partition(".")[0]
            return self._function(data, SerializationContext(topic, field, headers))
        except Exception as error:
            raise SerializationError(
                f"{self._name} failed for a record of topic {topic!r}: "
                f"{type(error).__name__}: {error}"
            ) from error


def wants_context(function: Function) -> bool:
    """Whether a function takes a second argument that says where the data belongs."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [
        one for one in parameters if one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD}
    ]
    if len(positional) < 2:
        return False
    return positional[1].default is inspect.Parameter.empty or positional[1].name in _CONTEXT_NAMES


def serde_of(name: str, values: ConfigValues, functions: Mapping[str, Function]) -> Serde | None:
    """The function of a setting; None: bytes as they are."""
    function = functions.get(name)
    if function is not None:
        return Serde(name, function)
    text = values.get_optional_string(name)
    if not text:
        return None
    is_reading = name.endswith("deserializer")
    suffix = "Deserializer" if is_reading else "Serializer"
    package, _, short = text.rpartition(".")
    found = _JAVA.get(short.removesuffix(suffix))
    # A class of that name in another package may write anything.
    if found is None or not short.endswith(suffix) or package not in {"", _JAVA_PACKAGE}:
        known = ", ".join(f"{one}{suffix}" for one in _JAVA)
        raise SerializationError(
            f"{name}={text} is unknown here; give a function, or one of {known}, alone or with "
            f"their package {_JAVA_PACKAGE}"
        )
    return None if found[0] is _same else Serde(name, found[is_reading])


def to_bytes(data: object, what: str) -> Buffer | None:
    """Bytes of a key, a value or a header; text is UTF-8."""
    if data is None or isinstance(data, bytes | bytearray | memoryview):
        return data
    if isinstance(data, str):
        try:
            return data.encode()
        except UnicodeEncodeError as error:
            raise SerializationError(
                f"a {what} has text that is not UTF-8 ({error.reason}); give it as bytes"
            ) from error
    kind = type(data).__name__
    if isinstance(data, dict | list | tuple):
        hint = "encode it, as with json.dumps"
    elif isinstance(data, int | float):
        hint = "write it as text with str(), or as bytes"
    else:
        hint = "encode it to bytes or text"
    setting = "" if what == "header" else f", or set {what}.serializer"
    raise SerializationError(f"a {what} of type {kind} is neither bytes nor text; {hint}{setting}")


def to_headers(headers: Headers) -> list[Header]:
    """Headers from a mapping or from pairs; values may be text."""
    pairs = headers.items() if hasattr(headers, "items") else headers
    if not isinstance(pairs, Iterable):
        pairs = [pairs]
    found: list[Header] = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise SerializationError(
                f"{pair!r} is not a header; give a dictionary, or pairs of a name and bytes"
            )
        if not pair[0].isascii():
            to_bytes(pair[0], "header")
        value = to_bytes(pair[1], "header")
        found.append((pair[0], None if value is None else bytes(value)))
    return found
