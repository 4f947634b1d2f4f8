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
}

# Still to be repaired.
OPEN: Final[dict[tuple[ApiKey, str], str]] = {
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "nothing to cancel"): "has words, Kafka has none",
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "replicas that are there already"): (
        "an empty request has a null message, Kafka's is empty"
    ),
    (ApiKey.CREATE_PARTITIONS, "wrong counts and names"): "has words, Kafka has none",
    (ApiKey.DELETE_RECORDS, "the start of a log"): "as Fetch: offsets out of range",
    (ApiKey.DELETE_TOPICS, "neither name nor id, both, and one topic twice"): (
        "a topic that is given by name and by id is deleted"
    ),
    (ApiKey.FETCH, "leader epochs"): "negative epochs count; aborted transactions are not null",
    (ApiKey.FETCH, "offsets out of range"): "aborted transactions are not null",
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "groups and subscriptions"): (
        "another code for settings of subscriptions"
    ),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "null values and names twice at the controller"): (
        "both are refused, Kafka takes them"
    ),
    (ApiKey.LIST_OFFSETS, "partitions that are not there, or asked for twice"): (
        "repeated partitions are answered each, and topics without partitions"
    ),
    (ApiKey.METADATA, "names and ids mixed"): "names count besides ids",
    (ApiKey.METADATA, "neither name nor id"): "is answered, Kafka fails",
    (ApiKey.METADATA, "operations on topics that are allowed"): "absent topics have none",
    (ApiKey.METADATA, "topics by id"): "a repeated topic is answered twice",
    (ApiKey.METADATA, "topics by name"): "a repeated topic is answered twice",
    (ApiKey.PRODUCE, "batches"): "a topic without partitions is answered",
    (ApiKey.PRODUCE, "damaged batches"): "tells the start of the log, Kafka does not",
    (ApiKey.PRODUCE, "no bytes, or several batches"): "tells the start of the log",
    (ApiKey.PRODUCE, "sequences of a producer"): "has words, and no start of the log",
    (ApiKey.PRODUCE, "what a topic does not take"): "tells the start of the log",
    (ApiKey.UPDATE_FEATURES, "before there were dry runs"): "results have no words",
    (ApiKey.UPDATE_FEATURES, "dry runs"): "results have no words, and each feature one",
}
