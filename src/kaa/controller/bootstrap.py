"""The first records of a cluster, and what an active controller writes before anything else.

Formatting a node leaves the records of a new cluster in `bootstrap.checkpoint`: the level of
every feature, perhaps SCRAM credentials. The first active controller finds a log without a
metadata.version and writes them, inside a metadata transaction, so that a crash in between leaves
nothing half done: the next active controller finds a transaction without an end, aborts it and
starts over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.feature_table import (
    ELR_VERSION,
    FEATURES,
    KRAFT_VERSION,
    METADATA_TRANSACTIONS,
    METADATA_VERSION,
    METADATA_VERSION_MAX,
    default_level,
)
from kaa.controller.framing import decode_record
from kaa.controller.result import ControllerResult
from kaa.model.kinds import ResourceType
from kaa.wire.messages.metadata_cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from kaa.wire.messages.metadata_settings import ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.controller.state import ControllerState
    from kaa.wire.schema import MetadataRecord


def bootstrap_records(
    metadata_version: int = METADATA_VERSION_MAX.level, levels: Mapping[str, int] | None = None
) -> list[MetadataRecord]:
    """The features of a new cluster: those given, and for the others what the version comes with.

    `metadata.version` is first, the others follow in the order of their names.
    """
    records: list[MetadataRecord] = [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=metadata_version)
    ]
    chosen = {name: default_level(name, metadata_version) for name in FEATURES} | dict(levels or {})
    records += [
        FeatureLevelRecord(name=name, feature_level=chosen[name])
        for name in sorted(chosen)
        if chosen[name] > 0 and name not in {METADATA_VERSION, KRAFT_VERSION}
    ]
    return records


def read_bootstrap_records(values: Iterable[bytes]) -> list[MetadataRecord]:
    """The records of `bootstrap.checkpoint`."""
    return [decode_record(value)[0] for value in values]


def activation_records(
    state: ControllerState, bootstrap: list[MetadataRecord], *, is_transaction_open: bool
) -> ControllerResult[None]:
    """What an active controller starts with. The log may hold a transaction without an end."""
    abort = [AbortTransactionRecord(reason="the controller changed")] if is_transaction_open else []
    if METADATA_VERSION in state.image.features:
        return ControllerResult(list(abort), None)
    levels = {
        record.name: record.feature_level
        for record in bootstrap
        if isinstance(record, FeatureLevelRecord)
    }
    records = list(bootstrap)
    if levels.get(ELR_VERSION, 0) > 0:
        # Eligible leader replicas need one min.insync.replicas for the cluster, whatever the file
        # of the next controller says.
        records.append(
            ConfigRecord(
                resource_type=ResourceType.BROKER.value,
                resource_name="",
                name="min.insync.replicas",
                value=str(state.settings.broker.get_int("min.insync.replicas")),
            )
        )
    if levels.get(METADATA_VERSION, 0) < METADATA_TRANSACTIONS:
        return ControllerResult(records, None)
    return ControllerResult(
        [
            *abort,
            BeginTransactionRecord(name="Bootstrap records"),
            *records,
            EndTransactionRecord(),
        ],
        None,
        is_atomic=False,
    )
