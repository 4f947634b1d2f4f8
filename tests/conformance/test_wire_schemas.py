"""Every message class against Kafka's own schemas, field by field.

Both sides are brought into one plain form, a list of `FieldFacts`, and compared whole, so that a
fact that is not compared has to be left out here by name:

- `about`, `entityType` and `mapKey` say nothing about bytes.
- `zeroCopy` says how Java holds bytes in memory; here bytes are copied out and records never are.

Three conventions are ours. A tagged struct that cannot be null is None when absent, where Java has
one with default values. A nullable field says so in the versions that the message still has. The
class of a struct may carry a prefix where two structs of one module have the same name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kaa.wire import Uuid
from kaa.wire.primitives import NO_VERSIONS, UUID_ZERO, Versions
from kaa.wire.schema import (
    RECORDS,
    ApiMessage,
    CoordinatorKey,
    CoordinatorRecord,
    CoordinatorValue,
    Data,
    Field,
    Fixed,
    Message,
    MetadataRecord,
    Request,
    Response,
    Struct,
    fields_of,
)
from tests.support.wire.instances import all_messages

pytestmark = pytest.mark.oracle

Schema = dict[str, Any]

# Schemas that Kafka keeps to say that these keys are gone.
REMOVED = {
    "LeaderAndIsrRequest": 4,
    "LeaderAndIsrResponse": 4,
    "StopReplicaRequest": 5,
    "StopReplicaResponse": 5,
    "UpdateMetadataRequest": 6,
    "UpdateMetadataResponse": 6,
    "ControlledShutdownRequest": 7,
    "ControlledShutdownResponse": 7,
}
BASES: dict[str, type[Message]] = {
    "request": Request,
    "response": Response,
    "header": Data,
    "data": Data,
    "metadata": MetadataRecord,
    "coordinator-key": CoordinatorKey,
    "coordinator-value": CoordinatorValue,
}
SCHEMA_FACTS = {
    *("type", "name", "apiKey", "validVersions", "flexibleVersions", "listeners"),
    *("latestVersionUnstable", "fields", "commonStructs"),
}
FIELD_FACTS = {
    *("name", "type", "versions", "nullableVersions", "tag", "taggedVersions", "default"),
    *("ignorable", "flexibleVersions", "fields"),
    *("about", "entityType", "mapKey", "zeroCopy"),
}


class FieldFacts(NamedTuple):
    """What is known of a field; `fields` are those of its struct, None for other types."""

    name: str
    type: str
    versions: Versions
    nullable: Versions
    default: object
    tag: int | None
    tagged: Versions
    ignorable: bool
    flexible: bool
    fields: list[FieldFacts] | None


def snake_case(name: str) -> str:
    """Kafka's name of a field in our spelling; a run of capitals is one word, and so is KRaft."""
    name = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    text = ""
    for index, letter in enumerate(name):
        after_small = index > 0 and not name[index - 1].isupper()
        before_small = index > 0 and name[index + 1 : index + 2].islower()
        text += "_" if letter.isupper() and (after_small or before_small) else ""
        text += letter.lower()
    return text


def official_fields(schema: Schema) -> list[FieldFacts]:
    valid = Versions.parse(schema["validVersions"])
    common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}

    def facts(field: Schema) -> FieldFacts:
        assert set(field) <= FIELD_FACTS, set(field) - FIELD_FACTS
        is_array = field["type"].startswith("[]")
        element = field["type"].removeprefix("[]")
        members = field.get("fields", common.get(element))
        # A tagged field may leave its versions out; they are then those of the tag.
        versions = Versions.parse(field.get("versions") or field["taggedVersions"])
        nullable = Versions.parse(field.get("nullableVersions", "none"))
        is_struct = members is not None and not is_array
        return FieldFacts(
            name=snake_case(field["name"]),
            type=field["type"],
            versions=versions,
            nullable=nullable.within(valid).within(versions),
            default=official_default(field, is_struct=is_struct),
            tag=field.get("tag"),
            tagged=Versions.parse(field.get("taggedVersions", "none")),
            ignorable=field.get("ignorable", False),
            flexible=field.get("flexibleVersions") != "none",
            fields=None if members is None else [facts(member) for member in members],
        )

    return [facts(field) for field in schema["fields"]]


def official_default(field: Schema, *, is_struct: bool) -> object:
    # Kafka reads a default of JSON's null as no default at all; only the text "null" means null.
    text = field.get("default")
    if text == "null":
        return None
    if is_struct:
        assert text is None
        return None if "tag" in field and "nullableVersions" not in field else "struct"
    kind = field["type"]
    if kind.startswith("[]"):
        assert text is None
        return []
    if kind == "records":
        assert text is None
        return None
    if kind == "bool":
        return str(text).lower() == "true"
    if kind == "float64":
        return float(text or 0)
    if kind == "uuid":
        return UUID_ZERO if text is None else Uuid.parse(text)
    if kind == "string":
        return text or ""
    if kind == "bytes":
        assert text is None
        return b""
    return int(str(text or 0), 0)


def our_fields(message: type[Message], struct: type[Struct]) -> list[FieldFacts]:
    return [our_facts(message, field) for field in fields_of(struct)]


def our_facts(message: type[Message], field: Field) -> FieldFacts:
    default = field.default
    if isinstance(default, Struct):
        assert default == field.element()
        default = "struct"
    return FieldFacts(
        name=field.name,
        type=("[]" if field.is_array else "") + type_name(field.element),
        versions=field.versions,
        nullable=field.nullable.within(message.valid_versions).within(field.versions),
        default=default,
        tag=field.tag,
        tagged=field.tagged,
        ignorable=field.ignorable,
        flexible=field.flexible,
        fields=our_fields(message, field.element) if field.is_struct else None,
    )


def type_name(element: Fixed | type | str) -> str:
    if isinstance(element, Fixed):
        return element.name
    if isinstance(element, str):
        assert element == RECORDS
        return element
    return "string" if element is str else element.__name__


def assert_same_fields(ours: list[FieldFacts], official: list[FieldFacts], path: str) -> None:
    assert [field.name for field in ours] == [field.name for field in official], path
    for our, their in zip(ours, official, strict=True):
        here = f"{path}.{our.name}"
        if our.fields is not None:
            # The name of a struct class may carry a prefix, never another name.
            assert our.type.removeprefix("[]").endswith(their.type.removeprefix("[]")), here
            assert our.type.startswith("[]") == their.type.startswith("[]"), here
            assert their.fields is not None, here
            assert_same_fields(our.fields, their.fields, here)
            our, their = our._replace(type="struct"), their._replace(type="struct")
        assert our._replace(fields=None) == their._replace(fields=None), here


def test_no_message_is_missing_and_none_is_extra(kafka_schemas: dict[str, Schema]) -> None:
    removed = {
        name: schema["apiKey"]
        for name, schema in kafka_schemas.items()
        if schema["validVersions"] == "none"
    }
    assert removed == REMOVED
    ours = [message.__name__ for message in all_messages()]
    assert len(set(ours)) == len(ours)
    assert set(ours) == set(kafka_schemas) - set(REMOVED)


@pytest.mark.parametrize("message", all_messages(), ids=lambda message: str(message.__name__))
def test_message_equals_its_schema(
    message: type[Message], kafka_schemas: dict[str, Schema]
) -> None:
    schema = kafka_schemas[message.__name__]
    assert set(schema) <= SCHEMA_FACTS, set(schema) - SCHEMA_FACTS
    assert issubclass(message, BASES[schema["type"]])
    assert message.valid_versions == Versions.parse(schema["validVersions"])
    assert message.flexible_versions == Versions.parse(schema.get("flexibleVersions", "none"))
    if issubclass(message, ApiMessage):
        assert message.api_key == schema["apiKey"]
    elif issubclass(message, MetadataRecord | CoordinatorRecord):
        assert message.record_type == schema["apiKey"]
    else:
        assert "apiKey" not in schema
    if issubclass(message, Request):
        assert list(message.listener_types) == schema["listeners"]
        assert message.latest_version_unstable == schema.get("latestVersionUnstable", False)
    else:
        assert not {"listeners", "latestVersionUnstable"} & set(schema)
    assert_same_fields(our_fields(message, message), official_fields(schema), message.__name__)


def test_a_field_that_is_never_null_defaults_to_a_value() -> None:
    """Records are the exception: a message with records cannot be written before they are set."""
    for message in all_messages():
        for struct in structs_of(message):
            for field in fields_of(struct):
                is_tagged_struct = field.is_struct and not field.is_array and field.tag is not None
                if field.nullable == NO_VERSIONS and not is_tagged_struct:
                    assert (field.default is None) == (field.element is RECORDS), field.name


def structs_of(struct: type[Struct]) -> list[type[Struct]]:
    nested = [field.element for field in fields_of(struct) if field.is_struct]
    return [struct, *(inner for element in nested for inner in structs_of(element))]
