"""Steps that many cases share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.records.build import BatchBuilder
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kaa.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kaa.wire.primitives import Uuid
from tests.differential.case import Ask

if TYPE_CHECKING:
    from tests.differential.case import Story, World

NO_TOPIC_ID = Uuid(b"no-such-topic-id")
TIME_MS = 1_700_000_000_000


def creatable(
    name: str, partitions: int = 1, replication_factor: int = 1, **configs: Any
) -> CreatableTopic:
    """A topic to create; settings are Kafka's, with _ for each dot."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def create(world: World, word: str = "t", partitions: int = 1, **configs: Any) -> Story:
    """Creates a topic and waits until the broker knows it; gives its id."""
    name = world.name(word)
    topic = creatable(name, partitions, **configs)
    response = yield Ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7, "broker")
    topic_id: Uuid = response.topics[0].topic_id
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    offsets = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=number, timestamp=-1)
                    for number in range(partitions)
                ],
            )
        ],
    )
    for _ in range(500):
        # Not yielded: how often one has to ask is not to be compared.
        found = world.peer.ask(wanted, 12).topics[0]
        if len(found.partitions) == partitions:
            (topic,) = world.peer.ask(offsets, 7).topics
            if all(partition.error_code == Errors.NONE for partition in topic.partitions):
                return topic_id
    raise AssertionError(f"{world.peer.name} did not make {name}")


def settled(world: World, word: str) -> Story:
    """Waits until the broker knows everything that the controller has answered so far."""
    yield from create(world, f"settled-{word}")


def records(*values: bytes, time_ms: int = TIME_MS, **producer: Any) -> bytes:
    """A batch of records without keys."""
    builder = BatchBuilder(**producer)
    for index, value in enumerate(values):
        builder.append(time_ms + index, None, value)
    return bytes(builder.build())


def produce(
    world: World, data: bytes | None, word: str = "t", number: int = 0, acks: int = -1
) -> ProduceRequest:
    """Version 12 or older, which name topics."""
    partition = PartitionProduceData(index=number, records=data)
    topic = TopicProduceData(name=world.name(word), partition_data=[partition])
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic])


def filled(world: World, *sizes: int, word: str = "t", **configs: Any) -> Story:
    """A topic with one batch of records per size, which keeps them although they are old."""
    topic_id = yield from create(world, word, **{"retention_ms": "-1", **configs})
    for index, size in enumerate(sizes):
        data = records(*[b"value"] * size, time_ms=TIME_MS + 1_000 * index)
        yield Ask(produce(world, data, word), 12)
    return topic_id
