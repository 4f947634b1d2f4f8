"""Messages and records of internal topics as the values that JSON has.

A field that the version does not have is left out, and so is a tagged field at its default. Bytes
are text where they are UTF-8, else `{"base64": ...}`.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from importlib import import_module
from struct import Struct as Layout
from typing import TYPE_CHECKING, Any, Final

from kaa.model.topics import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from kaa.wire.primitives import Uuid, WireError
from kaa.wire.schema import Struct, fields_of

if TYPE_CHECKING:
    from kaa.coordinators.records import RecordTypes
    from kaa.records.record import Record
    from kaa.wire.schema import Data, Message

_VERSION: Final = Layout(">h")
_COORDINATOR_MODULES: Final = {
    "offsets": ("offsets_classic", "offsets_consumer", "offsets_share", "offsets_streams"),
    "transactions": ("transaction_log",),
    "share": ("share_state",),
}
_TOPICS: Final = {
    CONSUMER_OFFSETS: "offsets",
    TRANSACTION_STATE: "transactions",
    SHARE_GROUP_STATE: "share",
    CLUSTER_METADATA: "metadata",
}


def decoder_of(topic: str) -> str:
    """What the records of a topic are."""
    return _TOPICS.get(topic, "text")


def plain_bytes(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes as text where they are UTF-8."""
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def plain_message(message: Message, version: int) -> dict[str, Any]:
    """A message in a version, field by field."""
    return _plain_struct(message, version, is_flexible=version in message.flexible_versions)


def _plain_struct(struct: Struct, version: int, *, is_flexible: bool) -> dict[str, Any]:
    found = {}
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if version not in field.versions:
            continue
        if is_flexible and version in field.tagged and value == field.default:
            continue
        found[field.name] = _plain(value, version, is_flexible=is_flexible)
    return found


def _plain(value: Any, version: int, *, is_flexible: bool) -> Any:
    if isinstance(value, list):
        return [_plain(one, version, is_flexible=is_flexible) for one in value]
    if isinstance(value, Struct):
        return _plain_struct(value, version, is_flexible=is_flexible)
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, memoryview):
        return {"bytes": len(value)}
    if isinstance(value, bytes | bytearray):
        return plain_bytes(bytes(value))
    return value


# --- records


def plain_record(record: Record, decoder: str) -> dict[str, Any]:
    """A record, with key and value decoded as far as they are understood."""
    plain: dict[str, Any] = {
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": plain_bytes(record.key),
        "value": plain_bytes(record.value),
        "headers": [[name, plain_bytes(value)] for name, value in record.headers],
    }
    if decoder == "text":
        return plain
    try:
        decoded = _metadata(record) if decoder == "metadata" else _coordinator(record, decoder)
    except WireError as error:
        return plain | {"error": str(error)}
    return plain | decoded


def _metadata(record: Record) -> dict[str, Any]:
    from kaa.controller.framing import decode_record

    if record.value is None:
        return {}
    message, version = decode_record(record.value)
    return {"type": type(message).__name__, "value": plain_message(message, version)}


def _coordinator(record: Record, decoder: str) -> dict[str, Any]:
    found = _record_types(decoder).decode(record.key, record.value)
    if found is None:
        return {"error": "a record of a newer version"}
    key, value = found
    plain: dict[str, Any] = {"type": type(key).__name__.removesuffix("Key")}
    plain["key"] = plain_message(key, 0)
    if value is not None:
        assert record.value is not None
        plain["value"] = plain_message(value, _VERSION.unpack_from(record.value)[0])
    return plain


@cache
def _record_types(decoder: str) -> RecordTypes:
    """Every kind of record of an internal topic."""
    from kaa.coordinators.records import RecordType, RecordTypes
    from kaa.wire.schema import CoordinatorKey

    found = []
    for name in _COORDINATOR_MODULES[decoder]:
        module = import_module(f"kaa.wire.messages.{name}")
        for key in list(vars(module).values()):
            is_key = isinstance(key, type) and issubclass(key, CoordinatorKey)
            if is_key and key is not CoordinatorKey:
                value = getattr(module, key.__name__.removesuffix("Key") + "Value")
                found.append(RecordType(key, value))
    return RecordTypes(found)


def plain_control(record: Record) -> dict[str, Any]:
    """A control record: a transaction marker, or what the quorum writes."""
    from kaa.records.control import (
        ControlRecordType,
        decode_control_key,
        decode_end_transaction_value,
    )
    from kaa.wire.messages import control

    kind = decode_control_key(record.key)
    plain: dict[str, Any] = {
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "type": kind.name,
    }
    classes: dict[ControlRecordType, type[Data]] = {
        ControlRecordType.LEADER_CHANGE: control.LeaderChangeMessage,
        ControlRecordType.SNAPSHOT_HEADER: control.SnapshotHeaderRecord,
        ControlRecordType.SNAPSHOT_FOOTER: control.SnapshotFooterRecord,
        ControlRecordType.KRAFT_VERSION: control.KRaftVersionRecord,
        ControlRecordType.KRAFT_VOTERS: control.VotersRecord,
    }
    if kind in {ControlRecordType.ABORT, ControlRecordType.COMMIT}:
        plain["value"] = {"coordinator_epoch": decode_end_transaction_value(record.value)}
    elif kind in classes and record.value is not None:
        # Kafka writes the first version of each.
        plain["value"] = plain_message(classes[kind].decode(record.value, 0), 0)
    return plain
