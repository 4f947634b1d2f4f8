"""The options that say how keys and values are decoded.

============================ =====================================================================
option                       meaning
============================ =====================================================================
valueFormat, keyFormat       avro, json, protobuf; json-schema is another name of json
valueSchema, keySchema       the schema as text: Avro, JSON Schema, .proto text
valueSchemaFile, keySchema…  the same from a file; for Protobuf also a file of descriptors
valueSchemaId, keySchemaId   the schema of the registry that the columns are made of
valueSubject, keySubject     its subject; default <topic>-value, <topic>-key
valueSchemaVersion, key…     the version of the subject; default latest
valueMessage, keyMessage     the message of a Protobuf schema, in full; default the first
valueFraming, keyFraming     confluent or none; default confluent with a registry, else none
schemaRegistry.url           addresses with commas between them
schemaRegistry.basicAuth     user:password
schemaRegistry.bearerToken   a token
schemaRegistry.ssl.ca        a file with the certificates to trust
badRecords                   permissive (a row with nulls and kaa_error), drop or fail
============================ =====================================================================

Names are compared without regard to case, as Spark does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

from kaa.spark.formats.registry import RegistrySettings

if TYPE_CHECKING:
    from collections.abc import Mapping

Side = Literal["key", "value"]
Kind = Literal["avro", "json", "protobuf"]
BadRecords = Literal["permissive", "drop", "fail"]

_KINDS: Final[dict[str, Kind]] = {
    "avro": "avro",
    "json": "json",
    "json-schema": "json",
    "jsonschema": "json",
    "protobuf": "protobuf",
}
_PER_SIDE: Final = (
    "Format", "Schema", "SchemaFile", "SchemaId", "Subject", "SchemaVersion", "Message", "Framing",
)  # fmt: skip
_SHARED: Final = (
    "schemaRegistry.url",
    "schemaRegistry.basicAuth",
    "schemaRegistry.bearerToken",
    "schemaRegistry.ssl.ca",
    "badRecords",
)
NAMES: Final = (*(side + name for side in ("key", "value") for name in _PER_SIDE), *_SHARED)
"""Every option of this page."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """How one of key and value is to be decoded, as the user said it."""

    side: Side
    kind: Kind
    schema: str | bytes | None
    schema_id: int | None
    subject: str | None
    version: str
    message: str | None
    is_framed: bool
    registry: RegistrySettings | None


def format_options(options: Mapping[str, str], side: Side) -> FormatOptions | None:
    """What the options say of keys or of values; None if these stay as they are."""
    given = {name.lower(): value for name, value in options.items()}

    def option(name: str) -> str | None:
        return given.get((side + name).lower())

    wanted = option("Format")
    if wanted is None or wanted.lower() in {"", "binary"}:
        return None
    kind = _KINDS.get(wanted.lower())
    if kind is None:
        raise ValueError(
            f"{side}Format is {wanted!r}; it can be {', '.join(sorted(_KINDS))} or binary"
        )
    registry = _registry(given)
    schema = _schema(option("Schema"), option("SchemaFile"), kind, side)
    if schema is None and registry is None:
        raise ValueError(f"{side}Format={wanted} needs {side}SchemaFile or schemaRegistry.url")
    framing = (option("Framing") or ("confluent" if registry else "none")).lower()
    if framing not in {"confluent", "none"}:
        raise ValueError(f"{side}Framing is confluent or none, not {framing!r}")
    if framing == "confluent" and registry is None:
        raise ValueError(f"{side}Framing=confluent needs schemaRegistry.url")
    number = option("SchemaId")
    return FormatOptions(
        side,
        kind,
        schema,
        None if number is None else int(number),
        option("Subject"),
        option("SchemaVersion") or "latest",
        option("Message"),
        framing == "confluent",
        registry,
    )


def bad_records(options: Mapping[str, str]) -> BadRecords:
    """What happens to records that cannot be decoded."""
    given = {name.lower(): value for name, value in options.items()}
    policy = given.get("badrecords", "permissive").lower()
    if policy not in {"permissive", "drop", "fail"}:
        raise ValueError(f"badRecords is permissive, drop or fail, not {policy!r}")
    return cast("BadRecords", policy)


def _schema(text: str | None, file: str | None, kind: Kind, side: Side) -> str | bytes | None:
    if text is not None and file is not None:
        raise ValueError(f"give {side}Schema or {side}SchemaFile, not both")
    if file is None:
        return text
    data = Path(file).read_bytes()
    if kind == "protobuf" and not file.endswith(".proto"):
        return data
    return data.decode()


def _registry(given: Mapping[str, str]) -> RegistrySettings | None:
    urls = given.get("schemaregistry.url", "")
    if not urls.strip():
        return None
    return RegistrySettings(
        tuple(url.strip() for url in urls.split(",") if url.strip()),
        given.get("schemaregistry.basicauth"),
        given.get("schemaregistry.bearertoken"),
        given.get("schemaregistry.ssl.ca"),
    )
