"""The names of options, to tell a slip from what is meant.

A misspelt option would be passed over in silence, and with it what it was to do: `startingOffset`
reads a topic from its end. So a name that is none of these is refused, with the nearest one beside
it. Names below `kafka.` are those of clients, of which there are more than anybody lists: one
that no client has is named in a warning.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from kaa.config.client import ADMIN, CONSUMER, PRODUCER
from kaa.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_KAFKA: Final = "kafka."
_SIDES: Final = ("starting", "ending")
SOURCE: Final = (
    "assign", "subscribe", "subscribePattern",
    *(side + name for side in _SIDES for name in ("Offsets", "Timestamp", "OffsetsByTimestamp")),
    "startingOffsetsByTimestampStrategy", "groupFallback", "commitGroup", "columns",
    "includeHeaders", "isolationLevel", "failOnDataLoss", "localFiles", "minPartitions",
    "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "maxBytesPerTrigger", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs", "partition.metadata.cache.ttl.ms", "tier", "tierStore",
    "tierStoreFile",
)  # fmt: skip
SINK: Final = (
    "topic", "exactlyOnce", "transactionalIdPrefix", "transactionTimeoutMs", "txnAppId",
    "txnVersion", "includeHeaders",
)  # fmt: skip
TABLE: Final = (
    "table", "layout", "warehouse", "partitionBy", "compression", "targetFileBytes", "atOffsets",
    "version", "txnAppId", "txnVersion", "snapshotId", "asOfTimestamp", "branch", "tag",
    "startingVersion", "fromOffsets", "changes", "maxFilesPerTrigger", "maxBytesPerTrigger",
)  # fmt: skip
_FORMAT_SIDES: Final = (
    "Format", "Schema", "SchemaFile", "SchemaId", "Subject", "SchemaVersion", "Message", "Framing",
)  # fmt: skip
FORMAT_OPTIONS: Final = (
    *(side + name for side in ("key", "value") for name in _FORMAT_SIDES),
    "schemaRegistry.url", "schemaRegistry.basicAuth", "schemaRegistry.bearerToken",
    "schemaRegistry.ssl.ca", "badRecords", "jsonNumbers",
)  # fmt: skip
# Options of Spark's own connector that say how its Java parts work.
_WITHOUT_EFFECT: Final = ("groupIdPrefix", "useDeprecatedOffsetFetching")
# What Spark adds to the options of a user.
_OF_SPARK: Final = frozenset({"path", "paths", "checkpointlocation", "queryname", "outputmode"})


def check_names(
    names: Iterable[str], known: Iterable[str], prefixes: tuple[str, ...] = ()
) -> list[str]:
    """Raises OptionError for a name that is not known; gives warnings."""
    known = tuple(known)
    lower = {name.lower(): name for name in known}
    notes: list[str] = []
    for name in names:
        small = name.lower()
        if small.startswith(_KAFKA):
            notes += _about_client(small.removeprefix(_KAFKA))
        elif small in {one.lower() for one in _WITHOUT_EFFECT}:
            notes.append(f"option {name} has no effect")
        elif not (
            small in lower
            or small in _OF_SPARK
            or small.startswith(("spark.", "__", *(one.lower() for one in prefixes)))
        ):
            near = get_close_matches(small, lower, 1)
            hint = f"; did you mean {lower[near[0]]}?" if near else ""
            raise OptionError(f"there is no option {name}{hint}")
    return notes


def _about_client(name: str) -> Iterator[str]:
    if not any(name in one for one in (CONSUMER, PRODUCER, ADMIN)):
        yield f"option kafka.{name} is not a client setting, and has no effect"
