"""Kafka's official message schemas, read out of the jars that ship them.

A schema is JSON with line comments. The durable records of the coordinators, of the metadata log
and of remote storage are described like requests and responses, each in the jar of its owner.
"""

import json
import re
import zipfile
from pathlib import Path
from typing import Any, Final

from tests.oracle.maven import jars

Schema = dict[str, Any]

_FOLDERS: Final = ("common/message/", "common/metadata/", "message/")
_STRING_OR_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*')


def kafka_schemas() -> dict[str, Schema]:
    """Every schema by its name, also of messages that are no longer served."""
    schemas: dict[str, Schema] = {}
    for jar in sorted(jars().glob("kafka-*.jar")):
        for schema in _schemas_of(jar):
            name = schema["name"]
            assert name not in schemas, f"two schemas are named {name}"
            schemas[name] = schema
    return schemas


def java_class_name(schema: Schema) -> str:
    """The simple name of the Java class that Kafka generates from a schema."""
    name: str = schema["name"]
    return f"{name}Data" if schema["type"] in {"request", "response", "header"} else name


def parse_schema(text: str) -> Schema:
    """A schema without its comments; what looks like a comment inside a string stays."""
    plain = _STRING_OR_COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else "", text)
    schema: Schema = json.loads(plain)
    return schema


def _schemas_of(jar: Path) -> list[Schema]:
    with zipfile.ZipFile(jar) as archive:
        return [
            parse_schema(archive.read(entry).decode())
            for entry in archive.namelist()
            if entry.startswith(_FOLDERS) and entry.endswith(".json")
        ]
