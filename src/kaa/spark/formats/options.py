"""The options that say how keys and values are decoded.

| option | meaning |
|---|---|
| valueFormat, keyFormat | avro, json, protobuf; json-schema is another name of json |
| valueSchema, keySchema | the schema as text: Avro, JSON Schema, .proto text |
| valueSchemaFile, keySchema… | the same from a file; for Protobuf also a file of descriptors |
| valueSchemaId, keySchemaId | the schema of the registry that the columns are made of |
| valueSubject, keySubject | its subject; default <topic>-value, <topic>-key |
| valueSchemaVersion, key… | the version of the subject; default latest |
| valueMessage, keyMessage | the message of a Protobuf schema, in full; default the first |
| valueFraming, keyFraming | confluent or none; default confluent with a registry, else none |
| schemaRegistry.url | addresses with commas between them |
| schemaRegistry.basicAuth | user:password |
| schemaRegistry.bearerToken | a token |
| schemaRegistry.ssl.ca | a file with the certificates to trust |
| badRecords | permissive (a row with nulls and kaa_error), drop or fail |
| jsonNumbers | exact (whole numbers are bigint) or double; of inferred columns alone |

JSON without a schema and without a registry has columns that are inferred (`inference`).

Names are compared without regard to case, as Spark does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

from kaa.spark.formats.registry import RegistrySettings
from kaa.spark.option_names import FORMAT_OPTIONS

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
NAMES: Final = FORMAT_OPTIONS
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
    # Of inferred columns.
    has_only_doubles: bool = False

    @property
    def is_inferred(self) -> bool:
        """Whether nobody says what the columns are."""
        return self.schema is None and self.registry is None


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
    registry = registry_settings(given)
    schema = _schema(option("Schema"), option("SchemaFile"), kind, side)
    if schema is None and registry is None and kind != "json":
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
        _numbers(given) == "double",
    )


def infers(options: Mapping[str, str]) -> bool:
    """Whether columns of keys or values are inferred."""
    sides: tuple[Side, ...] = ("key", "value")
    wanted = [format_options(options, side) for side in sides]
    return any(one is not None and one.is_inferred for one in wanted)


def bad_records(options: Mapping[str, str]) -> BadRecords:
    """What happens to records that cannot be decoded."""
    given = {name.lower(): value for name, value in options.items()}
    policy = given.get("badrecords", "permissive").lower()
    if policy not in {"permissive", "drop", "fail"}:
        raise ValueError(f"badRecords is permissive, drop or fail, not {policy!r}")
    return cast("BadRecords", policy)


def _numbers(given: Mapping[str, str]) -> str:
    numbers = given.get("jsonnumbers", "exact").lower()
    if numbers not in {"exact", "double"}:
        raise ValueError(f"jsonNumbers is exact or double, not {numbers!r}")
    return numbers


def _schema(text: str | None, file: str | None, kind: Kind, side: Side) -> str | bytes | None:
    if text is not None and file is not None:
        raise ValueError(f"give {side}Schema or {side}SchemaFile, not both")
    if file is None:
        return text
    data = Path(file).read_bytes()
    if kind == "protobuf" and not file.endswith(".proto"):
        return data
    return data.decode()


def registry_settings(given: Mapping[str, str]) -> RegistrySettings | None:
    """Where the registry is; None without one. Names of options are in small letters."""
    urls = given.get("schemaregistry.url", "")
    if not urls.strip():
        return None
    return RegistrySettings(
        tuple(url.strip() for url in urls.split(",") if url.strip()),
        given.get("schemaregistry.basicauth"),
        given.get("schemaregistry.bearertoken"),
        given.get("schemaregistry.ssl.ca"),
    )
