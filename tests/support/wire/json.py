"""Messages as the JSON that Kafka's generated converters read and write.

A field of the version is always there, a tagged field only if it differs from its default. Names
are Kafka's own, a uuid is its text and bytes are base64.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from kaa.wire.schema import UUID, Field, Message, Struct, fields_of

# Two words are one in our names.
_NAMES = {
    "enable_2pc": "enable2Pc",
    "kraft_version": "kRaftVersion",
    "kraft_version_feature": "kRaftVersionFeature",
}


def kafka_json(message: Message, version: int) -> dict[str, Any]:
    return _struct_json(message, version, is_flexible=version in message.flexible_versions)


def _struct_json(struct: Struct, version: int, *, is_flexible: bool) -> dict[str, Any]:
    json = {}
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if version not in field.versions:
            continue
        if is_flexible and version in field.tagged and value == field.default:
            continue
        json[json_name(field.name)] = _value_json(field, value, version, is_flexible=is_flexible)
    return json


def json_name(name: str) -> str:
    first, *rest = name.split("_")
    return _NAMES.get(name) or first + "".join(word.capitalize() for word in rest)


def _value_json(field: Field, value: Any, version: int, *, is_flexible: bool) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_element_json(field, each, version, is_flexible=is_flexible) for each in value]
    return _element_json(field, value, version, is_flexible=is_flexible)


def _element_json(field: Field, value: Any, version: int, *, is_flexible: bool) -> Any:
    if field.is_struct:
        return _struct_json(value, version, is_flexible=is_flexible)
    if field.element is UUID:
        return str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value
