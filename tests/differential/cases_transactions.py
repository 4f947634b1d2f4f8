"""Transactions: their coordinator, and what leaders of partitions do with them."""

from __future__ import annotations

from kaa.wire.messages.k00_produce import ProduceRequest, TopicProduceData
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest
from kaa.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kaa.wire.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest
from kaa.wire.primitives import UUID_ZERO, Uuid
from kaa.wire.registry import ApiKey
from tests.differential.case import Ask, Compare, Story, World, case
from tests.differential.helpers import create
from tests.differential.transactional import (
    Transactional,
    settled,
    started,
    wait_for_groups,
)

# The last version of Produce in which partitions have to be announced, and the next.
_PRODUCE_OLD = 11
_PRODUCE = 12


# --- FindCoordinator


@case(ApiKey.FIND_COORDINATOR, "transactional ids", low=1)
def _(world: World) -> Story:
    started(world)
    names = [world.name("id"), world.name("other"), ""]
    if world.version >= 4:
        yield FindCoordinatorRequest(key_type=1, coordinator_keys=names)
    else:
        for name in names:
            yield FindCoordinatorRequest(key_type=1, key=name)


# --- InitProducerId


@case(ApiKey.INIT_PRODUCER_ID, "transactional producers")
def _(world: World) -> Story:
    producer = started(world)
    yield producer.init()
    yield producer.init()
    yield producer.init(transaction_timeout_ms=900_000)


@case(ApiKey.INIT_PRODUCER_ID, "names and timeouts that are refused")
def _(world: World) -> Story:
    producer = started(world)
    for timeout_ms in (-1, 0, 900_001):
        yield producer.init(transaction_timeout_ms=timeout_ms)
    yield Transactional("").init()


@case(ApiKey.INIT_PRODUCER_ID, "producers that go on after an error", low=3)
def _(world: World) -> Story:
    producer = started(world)
    known = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    yield producer.init(**known)
    yield producer.init(**known)
    yield producer.init()
    yield producer.init(**known)
    yield producer.init(producer_id=producer.producer_id, producer_epoch=17)
    yield producer.init(producer_id=producer.producer_id + 5, producer_epoch=0)
    unknown = Transactional(world.name("new"))
    yield unknown.init(producer_id=producer.producer_id, producer_epoch=3)


@case(ApiKey.INIT_PRODUCER_ID, "an open transaction")
def _(world: World) -> Story:
    yield from create(world)
    producer = started(world)
    yield Ask(producer.add(5, (world.name(), 0)), 5)
    yield producer.init()
    settled(world, producer)
    yield producer.init()
    yield Ask(producer.end(), 5)


# --- AddPartitionsToTxn


@case(ApiKey.ADD_PARTITIONS_TO_TXN, "partitions")
def _(world: World) -> Story:
    yield from create(world, partitions=2)
    producer, version = started(world), world.version
    yield producer.add(version, (world.name(), 0))
    yield producer.add(version, (world.name(), 0))
    yield producer.add(version, (world.name(), 0), (world.name(), 1))
    yield producer.add(version)


@case(ApiKey.ADD_PARTITIONS_TO_TXN, "partitions that are not there")
def _(world: World) -> Story:
    yield from create(world)
    producer, version = started(world), world.version
    yield producer.add(version, (world.name(), 0), (world.name(), 9), (world.name("absent"), 0))


@case(ApiKey.ADD_PARTITIONS_TO_TXN, "producers that are not the newest")
def _(world: World) -> Story:
    yield from create(world)
    producer, version, name = started(world), world.version, (world.name(), 0)
    yield producer.raised().add(version, name)
    yield producer._replace(producer_id=producer.producer_id + 1).add(version, name)
    yield Transactional(world.name("unknown")).add(version, name)
    yield Transactional("").add(version, name)
    started(world)
    yield producer.add(version, name)


@case(ApiKey.ADD_PARTITIONS_TO_TXN, "many at once, and to verify", low=4)
def _(world: World) -> Story:
    yield from create(world, partitions=2)
    one, other = started(world), started(world, "other")
    name, next_name = (world.name(), 0), (world.name(), 1)
    yield AddPartitionsToTxnRequest(
        transactions=[
            one.transaction(name),
            other.transaction(name, next_name, verify_only=True),
            Transactional(world.name("unknown")).transaction(name),
        ]
    )
    yield AddPartitionsToTxnRequest(
        transactions=[
            one.transaction(name, next_name, verify_only=True),
            other.raised().transaction(name, verify_only=True),
            Transactional("").transaction(name, verify_only=True),
        ]
    )


# --- AddOffsetsToTxn


@case(ApiKey.ADD_OFFSETS_TO_TXN, "groups and producers")
def _(world: World) -> Story:
    wait_for_groups(world)
    producer = started(world)
    yield producer.add_offsets()
    yield producer.add_offsets()
    yield producer.raised().add_offsets()
    yield producer._replace(producer_id=producer.producer_id + 1).add_offsets()
    yield Transactional(world.name("unknown")).add_offsets()
    yield Transactional("").add_offsets()


# --- EndTxn


@case(ApiKey.END_TXN, "commits and aborts")
def _(world: World) -> Story:
    yield from create(world)
    producer = started(world)
    for is_commit in (True, False):
        yield Ask(producer.add(3, (world.name(), 0)), 3)
        yield producer.end(is_commit=is_commit)
        settled(world, producer)
        # A retry, and the opposite of it.
        yield producer.end(is_commit=is_commit)
        yield producer.end(is_commit=not is_commit)
        settled(world, producer)
        producer = started(world)


@case(ApiKey.END_TXN, "nothing to end")
def _(world: World) -> Story:
    producer = started(world)
    yield producer.end(is_commit=True)
    yield producer.end(is_commit=False)
    settled(world, producer)
    yield producer.end(is_commit=False)
    yield producer.raised().end(is_commit=False)


@case(ApiKey.END_TXN, "producers that are not the newest")
def _(world: World) -> Story:
    producer = started(world)
    yield producer.raised().end()
    yield producer._replace(producer_id=producer.producer_id + 1).end()
    yield Transactional(world.name("unknown")).end()
    yield Transactional("").end()
    started(world)
    yield producer.end()


# --- WriteTxnMarkers


def _marker(
    producer: Transactional,
    *partitions: tuple[str, int],
    coordinator_epoch: int = 100,
    transaction_version: int = 0,
    is_commit: bool = False,
) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=is_commit,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=[number])
            for topic, number in partitions
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    return WriteTxnMarkersRequest(markers=[marker])


@case(ApiKey.WRITE_TXN_MARKERS, "partitions, and nothing to mark")
def _(world: World) -> Story:
    yield from create(world)
    producer = Transactional(world.name("id"))
    yield WriteTxnMarkersRequest(markers=[])
    yield _marker(producer, (world.name(), 0))
    yield _marker(producer, (world.name(), 0))
    yield _marker(producer, (world.name(), 0), (world.name(), 5), (world.name("absent"), 0))


@case(ApiKey.WRITE_TXN_MARKERS, "epochs")
def _(world: World) -> Story:
    yield from create(world)
    producer, name = started(world)._replace(epoch=0), (world.name(), 0)
    yield Ask(producer.produce(world), _PRODUCE)
    yield _marker(producer, name, transaction_version=2)
    yield _marker(producer.raised(), name, transaction_version=2)
    yield _marker(producer.raised(), name, transaction_version=2)
    yield _marker(producer, name, transaction_version=2)
    yield _marker(producer, name)
    yield _marker(producer.raised(2), name, coordinator_epoch=99)
    yield _producers(world)


@case(ApiKey.WRITE_TXN_MARKERS, "producers that cannot be")
def _(world: World) -> Story:
    yield from create(world)
    producer, name = started(world), (world.name(), 0)
    for bad in (producer._replace(producer_id=-1), producer._replace(epoch=-1)):
        yield _marker(bad, name)
        yield _marker(bad, name, (world.name("absent"), 0))
        yield _marker(bad, (world.name("absent"), 0))
    both = (producer, producer._replace(epoch=-1))
    markers = [marker for each in both for marker in _marker(each, name).markers]
    yield WriteTxnMarkersRequest(markers=markers)
    yield _producers(world)


@case(ApiKey.WRITE_TXN_MARKERS, "the offsets topic")
def _(world: World) -> Story:
    yield from create(world)
    wait_for_groups(world)
    producer, group = started(world), world.name("g")
    yield Ask(producer.commit_offsets(group, (world.name(), 0)), 5)
    numbers = [("__consumer_offsets", number) for number in range(4)]
    yield _marker(producer, *numbers, is_commit=True)
    yield _offsets(world, group)


def _offsets(world: World, group: str) -> Ask:
    topics = [OffsetFetchRequestTopics(name=world.name(), partition_indexes=[0])]
    return Ask(
        OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True
        ),
        9,
    )


# --- TxnOffsetCommit


@case(ApiKey.TXN_OFFSET_COMMIT, "offsets of a transaction")
def _(world: World) -> Story:
    yield from create(world)
    wait_for_groups(world)
    producer, group = started(world), world.name("g")
    yield producer.commit_offsets(group, (world.name(), 0))
    yield Ask(producer.add_offsets(group), 4)
    yield producer.commit_offsets(group, (world.name(), 0))
    yield _offsets(world, group)
    yield Ask(producer.end(), 5)
    settled(world, producer)
    yield _offsets(world, group)


@case(ApiKey.TXN_OFFSET_COMMIT, "partitions and groups that are not there")
def _(world: World) -> Story:
    yield from create(world)
    wait_for_groups(world)
    producer, name = started(world), (world.name(), 0)
    yield Ask(producer.add_offsets(world.name("g")), 4)
    absent = ((world.name(), 9), (world.name("absent"), 0))
    yield producer.commit_offsets(world.name("g"), *absent)
    yield producer.commit_offsets("", name)
    yield producer.commit_offsets(world.name("g"), name, metadata="x" * 5_000)


@case(ApiKey.TXN_OFFSET_COMMIT, "members", low=3)
def _(world: World) -> Story:
    yield from create(world)
    wait_for_groups(world)
    producer, name, group = started(world), (world.name(), 0), world.name("g")
    yield producer.commit_offsets(group, name, generation_id=3, member_id="m")
    yield producer.commit_offsets(group, name)
    yield producer.commit_offsets(group, name, generation_id=3, member_id="m")
    yield producer.commit_offsets(group, name, member_id="m", group_instance_id="i")


@case(ApiKey.TXN_OFFSET_COMMIT, "producers that are not the newest")
def _(world: World) -> Story:
    yield from create(world)
    wait_for_groups(world)
    producer, name, group = started(world), (world.name(), 0), world.name("g")
    yield producer.raised().commit_offsets(group, name)
    yield producer._replace(producer_id=producer.producer_id + 1).commit_offsets(group, name)
    yield Transactional(world.name("unknown")).commit_offsets(group, name)


# --- DescribeTransactions, ListTransactions, DescribeProducers


@case(ApiKey.DESCRIBE_TRANSACTIONS, "every state")
def _(world: World) -> Story:
    yield from create(world, partitions=2)
    producer = started(world)
    names = [producer.name, world.name("unknown"), ""]
    yield DescribeTransactionsRequest(transactional_ids=names)
    yield Ask(producer.add(5, (world.name(), 0), (world.name(), 1)), 5)
    yield DescribeTransactionsRequest(transactional_ids=names)
    for is_commit in (True, False):
        yield Ask(producer.end(is_commit=is_commit), 5)
        settled(world, producer)
        yield DescribeTransactionsRequest(transactional_ids=names)
        producer = producer.raised()
    yield DescribeTransactionsRequest(transactional_ids=[])


@case(ApiKey.LIST_TRANSACTIONS, "by state and producer")
def _(world: World) -> Story:
    yield from create(world)
    producer, other = started(world), started(world, "other")
    yield Ask(producer.add(5, (world.name(), 0)), 5)
    ids = [producer.producer_id, other.producer_id]
    yield ListTransactionsRequest(producer_id_filters=ids)
    for states in (["Ongoing"], ["Empty", "Dead"], ["PrepareEpochFence"], ["ongoing", "No"]):
        yield ListTransactionsRequest(producer_id_filters=ids, state_filters=states)


@case(ApiKey.LIST_TRANSACTIONS, "by duration", low=1)
def _(world: World) -> Story:
    yield from create(world)
    producer, other = started(world), started(world, "other")
    yield Ask(producer.add(5, (world.name(), 0)), 5)
    ids = [producer.producer_id, other.producer_id]
    for duration_ms in (-1, 3_600_000):
        yield ListTransactionsRequest(producer_id_filters=ids, duration_filter=duration_ms)


@case(ApiKey.LIST_TRANSACTIONS, "by pattern", low=2)
def _(world: World) -> Story:
    started(world)
    started(world, "other")
    prefix = world.prefix.replace(".", "[.]")
    for pattern in (f"{prefix}.*", f"{prefix}[.]id", prefix, "", None, "("):
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        if not pattern:
            request.state_filters = ["Dead"]
        yield request


def _producers(world: World) -> Ask:
    topics = [TopicRequest(name=world.name(), partition_indexes=[0])]
    return Ask(DescribeProducersRequest(topics=topics), 0)


@case(ApiKey.DESCRIBE_PRODUCERS, "transactions")
def _(world: World) -> Story:
    yield from create(world)
    producer = started(world)
    yield Ask(producer.produce(world), _PRODUCE)
    yield _producers(world)
    yield Ask(producer.end(), 5)
    settled(world, producer)
    yield _producers(world)


# --- Produce, Fetch, ListOffsets


def _produce(
    world: World, producer: Transactional, topic_id: Uuid, sequence: int = 0
) -> ProduceRequest:
    """In the version under test."""
    request = producer.produce(world, sequence)
    if world.version >= 13:
        (topic,) = request.topic_data
        request.topic_data = [
            TopicProduceData(topic_id=topic_id, partition_data=topic.partition_data)
        ]
    return request


@case(ApiKey.PRODUCE, "transactions that were announced, or not", low=3)
def _(world: World) -> Story:
    topic_id = yield from create(world)
    producer = started(world)
    yield _produce(world, producer, topic_id)
    yield Ask(producer.add(3, (world.name(), 0)), 3)
    yield _produce(world, producer, topic_id)
    yield _produce(world, producer, topic_id, 1)
    yield _produce(world, producer, topic_id, 1)
    yield _produce(world, producer, topic_id, 5)


@case(ApiKey.PRODUCE, "transactions of producers that are not the newest", low=3)
def _(world: World) -> Story:
    topic_id = yield from create(world)
    producer = started(world)
    yield _produce(world, producer.raised(), topic_id)
    yield _produce(world, Transactional(world.name("unknown")), topic_id)
    unnamed = _produce(world, producer, topic_id)
    unnamed.transactional_id = None
    yield unnamed


def _committed_and_aborted(world: World) -> Story:
    """A partition with a committed, an aborted and an open transaction."""
    topic_id = yield from create(world)
    producer = started(world)
    for is_commit in (True, False):
        yield Ask(producer.produce(world), _PRODUCE)
        yield Ask(producer.end(is_commit=is_commit), 5)
        settled(world, producer)
        producer = producer.raised()
    yield Ask(producer.produce(world), _PRODUCE)
    return topic_id


@case(ApiKey.FETCH, "committed records", on=("broker",), low=4)
def _(world: World) -> Story:
    topic_id = yield from _committed_and_aborted(world)
    by_id = world.version >= 13
    for offset in (0, 2, 4, 5):
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchTopic(
            topic="" if by_id else world.name(),
            topic_id=topic_id if by_id else UUID_ZERO,
            partitions=[partition],
        )
        answer = world.peer.ask(
            FetchRequest(
                replica_id=-1,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1 << 20,
                isolation_level=1,
                topics=[topic],
            ),
            world.version,
        )
        (found,) = answer.responses[0].partitions
        # Markers have times of their own.
        found.records = bytes([bool(found.records)])
        yield Compare(found)


@case(ApiKey.LIST_OFFSETS, "the last stable offset", low=2)
def _(world: World) -> Story:
    yield from _committed_and_aborted(world)
    for isolation in (0, 1):
        for timestamp in (-1, -2):
            partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            yield ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation,
                topics=[ListOffsetsTopic(name=world.name(), partitions=[partition])],
            )
