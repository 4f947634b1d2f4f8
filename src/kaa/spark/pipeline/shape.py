"""JSON Schema, as far as `schema.json` uses it: types, properties, items, enum, pattern."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
}


def problems(value: Any, schema: dict[str, Any], place: str = "") -> Iterator[str]:
    """What is wrong with a value, each with its place."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield f"{place or 'the file'}: must be of type {' or '.join(kinds)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: must be {', '.join(schema['enum'])}, not {value!r}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{place}: {value!r} does not look like {schema['pattern']}"
    if isinstance(value, dict):
        yield from _object_problems(value, schema, place)
    elif isinstance(value, list) and "items" in schema:
        for index, one in enumerate(value):
            yield from problems(one, schema["items"], f"{place}[{index}]")


def _object_problems(value: dict[str, Any], schema: dict[str, Any], place: str) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place or 'the file'}: {name} is missing"
    for name, one in value.items():
        here = f"{place}.{name}" if place else str(name)
        if name in known:
            yield from problems(one, known[name], here)
        elif schema.get("additionalProperties") is False:
            yield f"{here}: there is no such key; there are {', '.join(known)}"
        elif isinstance(schema.get("additionalProperties"), dict):
            yield from problems(one, schema["additionalProperties"], here)


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])
