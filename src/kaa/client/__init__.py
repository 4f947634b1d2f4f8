"""The asyncio client of Kafka's protocol: producer, consumer and admin on ``kaa.wire``.

::

    from kaa.client import Producer

    async with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
        await producer.send("orders", b"value", key=b"key")

Settings have the names, defaults and checks of Java's clients. ``kaa.client.sync`` has the same
without asyncio. The modules, from the socket upwards:

``errors``       what can go wrong, as types that say what to do
``security``     TLS from PEM files
``sasl``         PLAIN and SCRAM
``connection``   one connection: versions, pipelining, time limits
``metadata``     who leads what, from the answers of brokers
``backoff``      pauses between attempts
``cluster``      the connections of a client; requests that find their broker
``coordinator``  who coordinates a group or a transactional id
``accumulator``  the machine of the producer: batches, order, sequences
``partitioner``  the partition of a record, as in Java
``producer``     the tasks around both
``fetched``      records out of fetch answers, aborted transactions left out
``offsets``      offsets by time
``fetch_request``  fetch requests
``fetcher``      positions and the tasks that fetch
``group``        membership in groups of both protocols
``consumer``     the consumer around both
``group_offsets``  committed offsets
``consumer_protocol``  what members of a classic group tell each other
``admin``        topics and records; ``admin_*``: settings, groups, transactions, the cluster
``sync``         all of it for scripts

What is not used is not loaded: names are imported from their modules when they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaa.client.admin import Admin, ConfigChange, NewTopic, ResourceType
    from kaa.client.admin_groups import GroupDescription, MemberDescription
    from kaa.client.admin_transactions import TransactionDescription
    from kaa.client.consumer import Consumer, ConsumerRecord, FetchedBatches
    from kaa.client.errors import (
        ClientError,
        CommitFailedError,
        KafkaError,
        ProducerFencedError,
    )
    from kaa.client.group.membership import GroupMetadata, RebalanceListener
    from kaa.client.group_offsets import OffsetAndMetadata
    from kaa.client.metadata import TopicPartition
    from kaa.client.producer import Delivery, Producer, RecordMetadata

__all__ = [
    "Admin",
    "ClientError",
    "CommitFailedError",
    "ConfigChange",
    "Consumer",
    "ConsumerRecord",
    "Delivery",
    "FetchedBatches",
    "GroupDescription",
    "GroupMetadata",
    "KafkaError",
    "MemberDescription",
    "NewTopic",
    "OffsetAndMetadata",
    "Producer",
    "ProducerFencedError",
    "RebalanceListener",
    "RecordMetadata",
    "ResourceType",
    "TopicPartition",
    "TransactionDescription",
]

_MODULES = {
    "admin": ("Admin", "ConfigChange", "NewTopic", "ResourceType"),
    "admin_groups": ("GroupDescription", "MemberDescription"),
    "admin_transactions": ("TransactionDescription",),
    "consumer": ("Consumer", "ConsumerRecord", "FetchedBatches"),
    "errors": ("ClientError", "CommitFailedError", "KafkaError", "ProducerFencedError"),
    "group.membership": ("GroupMetadata", "RebalanceListener"),
    "group_offsets": ("OffsetAndMetadata",),
    "metadata": ("TopicPartition",),
    "producer": ("Delivery", "Producer", "RecordMetadata"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"kaa.client.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
