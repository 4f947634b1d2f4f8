"""Answers in the form in which they are compared.

Left out of the comparison, because it must differ between two nodes:

- ids: of clusters, topics, directories, incarnations. Whether there is one is compared. Of the ids
  of members, what was made by chance.
- ports, directories, sizes of disks, times of the clock, epochs of brokers, offsets in the metadata
  log, producer ids, session ids, epochs of finalized features.
- words: of errors and of documentation. Whether there are any, and whether null or empty stands for
  none, is compared.
- the order of a list of structures, which Kafka takes from its hash tables.
- a piece of a batch at the end of fetched records: Kafka fills an answer up to its limit, Kaa ends
  it with a whole batch, and consumers pass over the piece.
- the order, and the settings under `kaa.`, of descriptions of brokers.

A closed connection is compared as such.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Final

from kaa.wire.primitives import UUID_ZERO, Uuid
from kaa.wire.schema import Struct, fields_of

Normal = Any
# The offset of a batch and the length of what follows.
_BATCH_LENGTH: Final = struct.Struct(">8xi")

_TEXTS: Final = frozenset(
    {
        "error_message",
        "acknowledge_error_message",
        "documentation",
        "batch_index_error_message",
    }
)
_MASKED: Final = frozenset(
    {
        "broker_epoch",
        "cluster_id",
        "correlation_id",
        "finalized_features_epoch",
        "last_caught_up_timestamp",
        "last_fetch_timestamp",
        "log_append_time_ms",
        "log_dir",
        "log_end_offset",
        "port",
        "producer_id",
        "producer_id_start",
        "response_data",
        "session_id",
        "last_timestamp",
        "total_bytes",
        "transaction_start_time_ms",
        "usable_bytes",
    }
)
_CHANCE: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What is not a value: it must be the same on both sides.
_NOTHING: Final = (None, "", 0, -1)
# Settings whose values hold ports and directories.
_OWN_SETTINGS: Final = frozenset(
    {
        "advertised.listeners",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
    }
)


def normal(value: Any, name: str = "") -> Normal:
    """The comparable form of a response or a part of it."""
    if isinstance(value, Uuid):
        return "no id" if value == UUID_ZERO else "an id"
    if isinstance(value, Struct):
        return _struct(value)
    if isinstance(value, list):
        items = [normal(item) for item in value if not _is_ours_alone(item)]
        are_structs = any(isinstance(item, Struct) for item in value)
        return sorted(items, key=repr) if are_structs else items
    if name == "records" and value is not None:
        return _whole_batches(bytes(value)).hex()
    if isinstance(value, memoryview | bytearray | bytes) and name not in _MASKED:
        return bytes(value).hex()
    if name in _TEXTS:
        return value if value in {None, ""} else "words"
    if name in _MASKED:
        return value if value in _NOTHING else "some value"
    return _CHANCE.sub("chance", value) if isinstance(value, str) else value


def _struct(value: Struct) -> dict[str, Normal]:
    fields = {
        field.name: normal(getattr(value, field.name), field.name)
        for field in fields_of(type(value))
    }
    if "current_voters" in fields:
        fields["high_watermark"] = normal(fields["high_watermark"], "log_end_offset")
    if fields.get("name") in _OWN_SETTINGS and fields.get("value"):
        fields["value"] = "some value"
    return fields


def _whole_batches(data: bytes) -> bytes:
    end = 0
    while end + _BATCH_LENGTH.size <= len(data):
        (length,) = _BATCH_LENGTH.unpack_from(data, end)
        if end + _BATCH_LENGTH.size + length > len(data):
            break
        end += _BATCH_LENGTH.size + length
    return data[:end]


def _is_ours_alone(item: Any) -> bool:
    return str(getattr(item, "name", "")).startswith("kaa.")


def differences(expected: Normal, found: Normal, path: str = "") -> list[str]:
    """Where two comparable forms differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            line
            for name in expected.keys() | found.keys()
            for line in differences(
                expected.get(name, "absent"), found.get(name, "absent"), f"{path}.{name}"
            )
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for index, (one, other) in enumerate(zip(expected, found, strict=True))
            for line in differences(one, other, f"{path}[{index}]")
        ]
    return [] if expected == found else [f"{path}: Kafka has {expected!r}, Kaa has {found!r}"]
