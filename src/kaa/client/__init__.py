"""The asyncio client of Kafka's protocol: producer, consumer and admin on `kaa.wire`.

    from kaa.client import Producer

    async with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
        await producer.send("orders", b"value", key=b"key")

Settings have the names, defaults and checks of Java's clients. `kaa.client.sync` has the same
without asyncio. The modules, from the socket upwards:

| module | what it owns |
|---|---|
| `errors` | what can go wrong, as types that say what to do |
| `arguments` | what callers hand in, checked before anything else sees it |
| `settings` | what a user gave as settings, with warnings about slips |
| `serialization` | between the objects of an application and bytes |
| `connection` | one connection: versions, pipelining, time limits |
| `metadata` | who leads what, from the answers of brokers |
| `backoff` | pauses between attempts |
| `waiting` | waits that end with a deadline |
| `cluster` | the connections of a client; requests that find their broker |
| `broker_tasks` | one task per broker, as sender and fetcher have them |
| `coordinator` | who coordinates a group or a transactional id |
| `security` | TLS and SASL |
| `producer` | batches, transactions and the tasks that send them |
| `consumer` | positions, fetches and records |
| `group` | membership in groups of both protocols, and committed offsets |
| `share` | share groups: records held one by one, and what became of them |
| `admin` | topics, settings, groups, transactions, the cluster |
| `sync` | all of it for scripts without asyncio |
| `complaints` | warnings about what goes wrong again and again, without flooding the log |
| `leaders` | warnings about partitions that nobody leads |
| `peer` | the connection from one node of a cluster to another: kept, opened again |
| `life` | the life of a client that works in the background: begun once, ended once |

What is not used is not loaded: names are imported from their modules when they are asked for.

"""

from typing import TYPE_CHECKING

from kaa.lazy import lazy_names

if TYPE_CHECKING:
    from kaa.client.admin.admin import Admin, ConfigChange, NewTopic
    from kaa.client.admin.groups import GroupDescription, MemberDescription
    from kaa.client.admin.transactions import TransactionDescription
    from kaa.client.consumer.consumer import Consumer, FetchedBatches
    from kaa.client.consumer.records import ConsumerRecord
    from kaa.client.errors import (
        ClientError,
        CommitFailedError,
        KafkaError,
        NotSubscribedError,
        ProducerFencedError,
        SerializationError,
    )
    from kaa.client.group.membership import GroupMetadata, RebalanceListener
    from kaa.client.group.offsets import OffsetAndMetadata
    from kaa.client.producer.producer import Delivery, Producer, RecordMetadata
    from kaa.client.serialization import SerializationContext
    from kaa.client.share.consumer import AcknowledgeType, ShareConsumer, ShareRecord
    from kaa.model.kinds import ResourceType
    from kaa.model.topics import TopicPartition

__all__ = [
    "AcknowledgeType",
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
    "NotSubscribedError",
    "OffsetAndMetadata",
    "Producer",
    "ProducerFencedError",
    "RebalanceListener",
    "RecordMetadata",
    "ResourceType",
    "SerializationContext",
    "SerializationError",
    "ShareConsumer",
    "ShareRecord",
    "TopicPartition",
    "TransactionDescription",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "kaa.client.admin.admin": ["Admin", "ConfigChange", "NewTopic"],
        "kaa.client.admin.groups": ["GroupDescription", "MemberDescription"],
        "kaa.client.admin.transactions": ["TransactionDescription"],
        "kaa.client.consumer.consumer": ["Consumer", "FetchedBatches"],
        "kaa.client.consumer.records": ["ConsumerRecord"],
        "kaa.client.errors": [
            "ClientError",
            "CommitFailedError",
            "KafkaError",
            "NotSubscribedError",
            "ProducerFencedError",
            "SerializationError",
        ],
        "kaa.client.group.membership": ["GroupMetadata", "RebalanceListener"],
        "kaa.client.group.offsets": ["OffsetAndMetadata"],
        "kaa.client.serialization": ["SerializationContext"],
        "kaa.client.share.consumer": ["AcknowledgeType", "ShareConsumer", "ShareRecord"],
        "kaa.client.producer.producer": ["Delivery", "Producer", "RecordMetadata"],
        "kaa.model.kinds": ["ResourceType"],
        "kaa.model.topics": ["TopicPartition"],
    },
)
