"""What clients that read and write use: Metadata, Produce, Fetch, ListOffsets, and their like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kaa.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kaa.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest
from kaa.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kaa.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kaa.wire.messages.k35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from kaa.wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from kaa.wire.primitives import UUID_ZERO, Uuid
from kaa.wire.registry import ApiKey
from tests.differential.case import Ask, Story, World, case
from tests.differential.helpers import NO_TOPIC_ID, TIME_MS, create, filled, records
from tests.differential.peers import BROKER

if TYPE_CHECKING:
    from collections.abc import Sequence


def create_kept(world: World, word: str = "t", partitions: int = 1, **configs: Any) -> Story:
    """A topic that keeps records however old: these are, and retention comes when it likes."""
    return create(world, word, partitions, retention_ms="-1", **configs)


# --- Metadata


def _metadata(*names: str | None, **flags: bool) -> MetadataRequest:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    request.allow_auto_topic_creation = flags.pop("create", False)
    for name, value in flags.items():
        setattr(request, name, value)
    return request


@case(ApiKey.METADATA, "topics by name", low=4)
def _(world: World) -> Story:
    yield from create_kept(world, "a", 3)
    yield from create_kept(world, "b")
    yield _metadata(world.name("a"), world.name("b"))
    yield _metadata(world.name("a"), world.name("a"))
    yield _metadata(world.name("absent"), "no such name", "")


@case(ApiKey.METADATA, "no topics", low=1)
def _(world: World) -> Story:
    yield _metadata(create=True)


@case(ApiKey.METADATA, "topics that are made when asked for")
def _(world: World) -> Story:
    name = world.name("made")
    yield _metadata(name, "no such name", create=True)
    for _ in range(500):
        found = world.peer.ask(_metadata(name), 12).topics[0]
        if found.partitions:
            break
    yield _metadata(name, create=True)


@case(ApiKey.METADATA, "operations that are allowed", low=8, high=10)
def _(world: World) -> Story:
    yield from create_kept(world)
    yield _metadata(
        world.name(),
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )


@case(ApiKey.METADATA, "operations on topics that are allowed", low=11)
def _(world: World) -> Story:
    yield from create_kept(world)
    yield _metadata(world.name(), world.name("absent"), include_topic_authorized_operations=True)


@case(ApiKey.METADATA, "topics by id", low=12)
def _(world: World) -> Story:
    topic_id = yield from create_kept(world)
    for ids in ([topic_id], [NO_TOPIC_ID], [topic_id, NO_TOPIC_ID], [topic_id, topic_id]):
        wanted = [MetadataRequestTopic(name=None, topic_id=each) for each in ids]
        yield MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


@case(ApiKey.METADATA, "names and ids mixed", low=12)
def _(world: World) -> Story:
    topic_id = yield from create_kept(world, "a")
    yield from create_kept(world, "b")
    both = MetadataRequestTopic(name=world.name("b"), topic_id=topic_id)
    name_only = MetadataRequestTopic(name=world.name("b"))
    id_only = MetadataRequestTopic(name=None, topic_id=topic_id)
    for wanted in ([both], [name_only, id_only]):
        yield MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


@case(ApiKey.METADATA, "neither name nor id", low=12)
def _(world: World) -> Story:
    yield MetadataRequest(topics=[MetadataRequestTopic(name=None)])


# --- InitProducerId


@case(ApiKey.INIT_PRODUCER_ID, "idempotent producers")
def _(world: World) -> Story:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    # The first one may have to wait for a block of ids.
    while world.peer.ask(request, 4).error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS:
        continue
    yield InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    yield InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)


@case(ApiKey.INIT_PRODUCER_ID, "ids that are given", low=3)
def _(world: World) -> Story:
    for producer_id, epoch in ((5, 3), (5, -1), (-1, 3)):
        yield InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=60_000,
            producer_id=producer_id,
            producer_epoch=epoch,
        )


# --- Produce


def _produce(
    world: World,
    topic_id: Uuid,
    *parts: tuple[int, bytes | None],
    word: str = "t",
    acks: int = -1,
) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=world.name(word) if world.version < 13 else "",
                topic_id=topic_id if world.version >= 13 else UUID_ZERO,
                partition_data=[
                    PartitionProduceData(index=number, records=data) for number, data in parts
                ],
            )
        ],
    )


@case(ApiKey.PRODUCE, "batches")
def _(world: World) -> Story:
    topic_id = yield from create_kept(world, partitions=2)
    one = records(b"a", b"b")
    yield _produce(world, topic_id, (0, one))
    yield _produce(world, topic_id, (0, one), (1, one))
    yield _produce(world, topic_id, (0, one), acks=1)
    yield ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[])
    yield _produce(world, topic_id)


@case(ApiKey.PRODUCE, "partitions that are not there")
def _(world: World) -> Story:
    topic_id = yield from create_kept(world)
    one = records(b"a")
    yield _produce(world, topic_id, (0, one), (9, one), (-1, one))
    yield _produce(world, NO_TOPIC_ID, (0, one), word="absent")


@case(ApiKey.PRODUCE, "acks that do not exist")
def _(world: World) -> Story:
    topic_id = yield from create_kept(world)
    for acks in (2, -2):
        yield _produce(world, topic_id, (0, records(b"a")), acks=acks)


@case(ApiKey.PRODUCE, "damaged batches")
def _(world: World) -> Story:
    topic_id = yield from create_kept(world)
    whole = records(b"abc")
    flipped = bytearray(whole)
    flipped[-1] ^= 1
    yield _produce(world, topic_id, (0, bytes(flipped)))


@case(ApiKey.PRODUCE, "no bytes, or several batches")
def _(world: World) -> Story:
    topic_id = yield from create_kept(world)
    yield _produce(world, topic_id, (0, b""))
    yield _produce(world, topic_id, (0, records(b"a") + records(b"b")))


@case(ApiKey.PRODUCE, "what a topic does not take")
def _(world: World) -> Story:
    compacted = yield from create_kept(world, "c", cleanup_policy="compact")
    yield _produce(world, compacted, (0, records(b"a", b"b")), word="c")
    small = yield from create_kept(world, "s", max_message_bytes="100")
    yield _produce(world, small, (0, records(b"x" * 200)), word="s")
    early = yield from create_kept(world, "e", message_timestamp_before_max_ms="1")
    yield _produce(world, early, (0, records(b"a", b"b")), word="e")


@case(ApiKey.PRODUCE, "internal topics", high=12)
def _(world: World) -> Story:
    yield ProduceRequest(
        acks=-1,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(
                name="__transaction_state",
                partition_data=[PartitionProduceData(index=0, records=records(b"a"))],
            )
        ],
    )


@case(ApiKey.PRODUCE, "log append time")
def _(world: World) -> Story:
    topic_id = yield from create_kept(world, message_timestamp_type="LogAppendTime")
    yield _produce(world, topic_id, (0, records(b"a")))


@case(ApiKey.PRODUCE, "sequences of a producer")
def _(world: World) -> Story:
    topic_id = yield from create_kept(world)

    def batch(sequence: int, epoch: int = 0) -> bytes:
        return records(b"a", b"b", producer_id=777, producer_epoch=epoch, base_sequence=sequence)

    for data in (batch(0), batch(2), batch(0), batch(2), batch(9), batch(4, 1), batch(0, 1)):
        yield _produce(world, topic_id, (0, data))
    yield _produce(world, topic_id, (0, batch(4, 0)))


# --- Fetch


def _fetch(
    world: World,
    topic_id: Uuid,
    *positions: tuple[int, int],
    word: str = "t",
    **fields: Any,
) -> FetchRequest:
    """Asks for partitions by number and offset."""
    uses_ids = world.version >= 13
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=fields.pop("max_bytes", 1_000_000),
        topics=[
            FetchTopic(
                topic="" if uses_ids else world.name(word),
                topic_id=topic_id if uses_ids else UUID_ZERO,
                partitions=[
                    FetchPartition(
                        partition=number,
                        fetch_offset=offset,
                        partition_max_bytes=fields.get("partition_max_bytes", 1_000_000),
                        current_leader_epoch=fields.get("current_leader_epoch", -1),
                    )
                    for number, offset in positions
                ],
            )
        ],
    )
    for name in ("isolation_level", "session_id", "session_epoch", "rack_id"):
        if name in fields:
            setattr(request, name, fields[name])
    return request


@case(ApiKey.FETCH, "batches", on=(BROKER,))
def _(world: World) -> Story:
    topic_id = yield from filled(world, 3, 2, 4)
    for offset in (0, 1, 3, 4, 8, 9):
        yield _fetch(world, topic_id, (0, offset))
    yield _fetch(world, topic_id, (0, 0), isolation_level=1)
    yield FetchRequest(topics=[])


@case(ApiKey.FETCH, "limited sizes", on=(BROKER,))
def _(world: World) -> Story:
    topic_id = yield from filled(world, 3, 2, 4)
    for size in (0, 1, 100, 200):
        yield _fetch(world, topic_id, (0, 0), max_bytes=size)
        yield _fetch(world, topic_id, (0, 0), partition_max_bytes=size)


@case(ApiKey.FETCH, "offsets out of range", on=(BROKER,))
def _(world: World) -> Story:
    topic_id = yield from filled(world, 3)
    for offset in (-1, 4, 10**12):
        yield _fetch(world, topic_id, (0, offset))


@case(ApiKey.FETCH, "partitions that are not there", on=(BROKER,))
def _(world: World) -> Story:
    topic_id = yield from create_kept(world)
    yield _fetch(world, topic_id, (0, 0), (9, 0), (-1, 0))
    yield _fetch(world, NO_TOPIC_ID, (0, 0), word="absent")


@case(ApiKey.FETCH, "leader epochs", low=9, on=(BROKER,))
def _(world: World) -> Story:
    topic_id = yield from filled(world, 1)
    for epoch in (0, 1, -2):
        yield _fetch(world, topic_id, (0, 0), current_leader_epoch=epoch)


@case(ApiKey.FETCH, "sessions", low=7, on=(BROKER,))
def _(world: World) -> Story:
    topic_id = yield from filled(world, 3)
    first = yield _fetch(world, topic_id, (0, 0), session_id=0, session_epoch=0)
    session = first.session_id
    yield _fetch(world, topic_id, session_id=session, session_epoch=1)
    yield _fetch(world, topic_id, (0, 3), session_id=session, session_epoch=2)
    yield _fetch(world, topic_id, session_id=session, session_epoch=2)
    yield _fetch(world, topic_id, session_id=session + 1, session_epoch=1)
    uses_ids = world.version >= 13
    forgotten = ForgottenTopic(
        topic="" if uses_ids else world.name(),
        topic_id=topic_id if uses_ids else UUID_ZERO,
        partitions=[0],
    )
    yield FetchRequest(session_id=session, session_epoch=3, forgotten_topics_data=[forgotten])
    yield FetchRequest(session_id=session, session_epoch=-1)
    yield FetchRequest(session_id=session, session_epoch=4)


# --- ListOffsets


def _offsets(world: World, *wanted: tuple[int, int], **fields: int) -> ListOffsetsRequest:
    """Asks for partitions by number and time."""
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=fields.get("isolation_level", 0),
        topics=[
            ListOffsetsTopic(
                name=world.name(),
                partitions=[
                    ListOffsetsPartition(
                        partition_index=number,
                        timestamp=time,
                        current_leader_epoch=fields.get("current_leader_epoch", -1),
                    )
                    for number, time in wanted
                ],
            )
        ],
    )


@case(ApiKey.LIST_OFFSETS, "times and special positions")
def _(world: World) -> Story:
    yield from filled(world, 3, 2, 4)
    for time in (-1, -2, 0, TIME_MS, TIME_MS + 1, TIME_MS + 500, TIME_MS + 1_001, TIME_MS * 2):
        yield _offsets(world, (0, time))
    for time in (-3, -4, -5, -6, -7, -99):
        yield _offsets(world, (0, time))


@case(ApiKey.LIST_OFFSETS, "an empty partition")
def _(world: World) -> Story:
    yield from create_kept(world)
    for time in (-1, -2, -3, -4, 0, TIME_MS):
        yield _offsets(world, (0, time))


@case(ApiKey.LIST_OFFSETS, "committed records", low=2)
def _(world: World) -> Story:
    yield from filled(world, 3)
    for time in (-1, -2, TIME_MS):
        yield _offsets(world, (0, time), isolation_level=1)


@case(ApiKey.LIST_OFFSETS, "partitions that are not there, or asked for twice")
def _(world: World) -> Story:
    yield from filled(world, 1, word="other")
    yield _offsets(world, (0, -1))
    yield from filled(world, 1)
    yield _offsets(world, (9, -1), (-1, -1), (0, -1))
    yield _offsets(world, (0, -1), (0, -2))
    yield _offsets(world)
    yield ListOffsetsRequest(replica_id=-1, topics=[])


@case(ApiKey.LIST_OFFSETS, "leader epochs", low=4)
def _(world: World) -> Story:
    yield from filled(world, 1)
    for epoch in (0, 1, -2):
        yield _offsets(world, (0, -1), current_leader_epoch=epoch)


# --- DeleteRecords


def _delete(*wanted: tuple[str, Sequence[tuple[int, int]]]) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(partition_index=number, offset=offset)
                    for number, offset in parts
                ],
            )
            for name, parts in wanted
        ],
        timeout_ms=10_000,
    )


@case(ApiKey.DELETE_RECORDS, "the start of a log")
def _(world: World) -> Story:
    topic_id = yield from filled(world, 3, 2, 4)
    name = world.name()
    for offset in (0, 2, 1, 4, -1):
        yield _delete((name, [(0, offset)]))
        wanted = ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-2)]
        )
        yield ListOffsetsRequest(replica_id=-1, topics=[wanted])
    fetch = _fetch(world._replace(version=18), topic_id, (0, 0))
    yield Ask(fetch, 18)


@case(ApiKey.DELETE_RECORDS, "offsets out of range")
def _(world: World) -> Story:
    yield from filled(world, 3)
    for offset in (4, -2, 10**12):
        yield _delete((world.name(), [(0, offset)]))


@case(ApiKey.DELETE_RECORDS, "topics that are not for it")
def _(world: World) -> Story:
    yield from create_kept(world, "c", cleanup_policy="compact")
    yield from create_kept(world, "b", cleanup_policy="compact,delete")
    yield from create_kept(world, "n", cleanup_policy="")
    for name in (world.name("c"), world.name("b"), world.name("n"), world.name("absent"), "a b"):
        yield _delete((name, [(0, 0), (9, 0)]))


@case(ApiKey.DELETE_RECORDS, "topics and partitions twice, and none")
def _(world: World) -> Story:
    yield from filled(world, 3)
    name = world.name()
    yield _delete((name, [(0, 1), (0, 2)]))
    yield _delete((name, [(0, 1)]), (name, [(9, 1)]))
    yield _delete()
    yield _delete((name, []))


# --- OffsetForLeaderEpoch


@case(ApiKey.OFFSET_FOR_LEADER_EPOCH, "epochs of a log")
def _(world: World) -> Story:
    yield from filled(world, 3)

    def ask(name: str, *wanted: tuple[int, int, int]) -> OffsetForLeaderEpochRequest:
        parts = [
            OffsetForLeaderPartition(
                partition=number, current_leader_epoch=current, leader_epoch=epoch
            )
            for number, current, epoch in wanted
        ]
        return OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic=name, partitions=parts)]
        )

    name = world.name()
    for epoch in (0, 1, 5, -1, -5):
        yield ask(name, (0, -1, epoch))
    for current in (0, 1, -2):
        yield ask(name, (0, current, 0))
    yield ask(name, (0, -1, 0), (0, -1, 1), (9, -1, 0))
    yield ask(world.name("absent"), (0, -1, 0))
    yield ask(name)
    yield OffsetForLeaderEpochRequest(topics=[])


# --- DescribeProducers


@case(ApiKey.DESCRIBE_PRODUCERS, "producers of a partition")
def _(world: World) -> Story:
    topic_id = yield from create_kept(world, partitions=2)
    later = world._replace(version=13)
    for sequence in (0, 2):
        data = records(b"a", b"b", producer_id=778, producer_epoch=3, base_sequence=sequence)
        yield Ask(_produce(later, topic_id, (0, data)), 13)
    for name, numbers in (
        (world.name(), [0, 1]),
        (world.name(), [0, 0, 9, -1]),
        (world.name(), []),
        (world.name("absent"), [0]),
        ("no such name", [0]),
        ("", [0]),
    ):
        yield DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=numbers)])
    yield DescribeProducersRequest(topics=[])


# --- AlterReplicaLogDirs


def _alter_log_dirs(*wanted: tuple[str, str, list[int]]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=numbers)]
            )
            for path, name, numbers in wanted
        ]
    )


@case(ApiKey.ALTER_REPLICA_LOG_DIRS, "directories and partitions that are there, and others")
def _(world: World) -> Story:
    yield from filled(world, 3)
    here, name = world.peer.directory, world.name()
    yield _alter_log_dirs((here, name, [0]))
    for path in ("/nowhere", "", here + "/", f"{here}/{name}-0"):
        yield _alter_log_dirs((path, name, [0]))
    yield _alter_log_dirs((here, name, [9]))
    yield _alter_log_dirs((here, world.name("absent"), [0]))
    yield _alter_log_dirs((here, name, [0, 0]))
    yield _alter_log_dirs(("/nowhere", name, [0]), (here, name, [0]))
    yield _alter_log_dirs((here, name, [0]), ("/nowhere", name, [0]))
    yield AlterReplicaLogDirsRequest(dirs=[])


# --- DescribeLogDirs


@case(ApiKey.DESCRIBE_LOG_DIRS, "partitions and their sizes")
def _(world: World) -> Story:
    yield from filled(world, 3, 2)
    for topics in (
        [(world.name(), [0])],
        [(world.name(), [0, 0, 9])],
        [(world.name("absent"), [0])],
        [],
    ):
        yield DescribeLogDirsRequest(
            topics=[
                DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in topics
            ]
        )
