"""Differences that were found, by API and case, each with its reason."""

from __future__ import annotations

from typing import Final

from kaa.wire.registry import ApiKey

_FAILS = "Kafka fails inside and answers UNKNOWN_SERVER_ERROR"

# Meant to stay.
KNOWN: Final[dict[tuple[ApiKey, str], str]] = {
    (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "an operation on loggers that does not exist",
    ): f"{_FAILS}; Kaa answers INVALID_REQUEST",
    (
        ApiKey.FETCH_SNAPSHOT,
        "snapshots that do not exist, and other epochs",
    ): f"{_FAILS} to everything but a piece of a snapshot; Kaa answers the error of the partition",
    (
        ApiKey.FETCH_SNAPSHOT,
        "other clusters and partitions",
    ): f"{_FAILS} to everything but a piece of a snapshot; Kaa answers INVALID_REQUEST",
    (
        ApiKey.SHARE_FETCH,
        "a topic id that nobody knows",
    ): f"{_FAILS} from then on in that session; Kaa answers UNKNOWN_TOPIC_ID for the partition",
}
