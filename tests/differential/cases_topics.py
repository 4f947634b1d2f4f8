"""CreateTopics, DeleteTopics, CreatePartitions, and what changes and lists partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.wire.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kaa.wire.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kaa.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kaa.wire.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kaa.wire.registry import ApiKey
from tests.differential.case import Compare, Story, World, case
from tests.differential.helpers import NO_TOPIC_ID, creatable, create

if TYPE_CHECKING:
    from collections.abc import Sequence

# --- CreateTopics


def _create_topics(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


@case(ApiKey.CREATE_TOPICS, "topics with settings")
def _(world: World) -> Story:
    yield _create_topics(
        creatable(world.name("a"), 3),
        creatable(world.name("b"), retention_ms="1000", cleanup_policy="compact,delete"),
    )


@case(ApiKey.CREATE_TOPICS, "nothing")
def _(world: World) -> Story:
    yield _create_topics()


@case(ApiKey.CREATE_TOPICS, "a dry run")
def _(world: World) -> Story:
    yield _create_topics(creatable(world.name()), validate_only=True)
    yield _create_topics(creatable(world.name(), 2), validate_only=True)


@case(ApiKey.CREATE_TOPICS, "existing and colliding names")
def _(world: World) -> Story:
    yield _create_topics(creatable(world.name("a.b")))
    yield _create_topics(creatable(world.name("a.b")))
    yield _create_topics(creatable(world.name("a_b")))
    yield _create_topics(creatable(world.name("c.d")), creatable(world.name("c_d")))


@case(ApiKey.CREATE_TOPICS, "a name twice in one request")
def _(world: World) -> Story:
    yield _create_topics(creatable(world.name()), creatable(world.name()))


@case(ApiKey.CREATE_TOPICS, "names that are not allowed")
def _(world: World) -> Story:
    names = ("", ".", "..", "no such name", "x" * 250, "umlaut-\u00fc", "__cluster_metadata")
    yield _create_topics(*(creatable(name) for name in names))


@case(ApiKey.CREATE_TOPICS, "wrong counts")
def _(world: World) -> Story:
    yield _create_topics(
        creatable(world.name("a"), 0),
        creatable(world.name("b"), -2),
        creatable(world.name("c"), 1, 0),
        creatable(world.name("d"), 1, -2),
        creatable(world.name("e"), 1, 2),
        creatable(world.name("f"), 1, 32767),
        creatable(world.name("g"), 10_001),
    )


@case(ApiKey.CREATE_TOPICS, "the defaults of the cluster", low=4)
def _(world: World) -> Story:
    yield _create_topics(creatable(world.name(), -1, -1))


@case(ApiKey.CREATE_TOPICS, "the defaults before they could be asked for", high=3)
def _(world: World) -> Story:
    yield _create_topics(creatable(world.name(), -1, -1))


@case(ApiKey.CREATE_TOPICS, "wrong settings")
def _(world: World) -> Story:
    yield _create_topics(
        creatable(world.name("a"), retention_ms="x"),
        creatable(world.name("b"), no_such_setting="1"),
        creatable(world.name("c"), cleanup_policy="shred"),
        creatable(world.name("d"), min_compaction_lag_ms="5", max_compaction_lag_ms="4"),
        creatable(world.name("e"), remote_storage_enable="true"),
        creatable(world.name("f"), segment_bytes="1"),
    )


@case(ApiKey.CREATE_TOPICS, "null and repeated settings")
def _(world: World) -> Story:
    null = creatable(world.name("a"), retention_ms="1")
    null.configs[0].value = None
    yield _create_topics(null)


def _assigned(name: str, *assignments: Sequence[int], first: int = 0) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=first + index, broker_ids=list(ids))
            for index, ids in enumerate(assignments)
        ],
    )


@case(ApiKey.CREATE_TOPICS, "assignments by hand")
def _(world: World) -> Story:
    both = _assigned(world.name("h"), [1])
    both.num_partitions = both.replication_factor = 1
    yield _create_topics(
        _assigned(world.name("a"), [1], [1]),
        _assigned(world.name("b"), []),
        _assigned(world.name("c"), [1, 1]),
        _assigned(world.name("d"), [9]),
        _assigned(world.name("e"), [1], first=1),
        _assigned(world.name("f"), [1], [1, 9]),
        _assigned(world.name("g"), [-1]),
        both,
    )


# --- DeleteTopics


@case(ApiKey.DELETE_TOPICS, "by name", high=5)
def _(world: World) -> Story:
    yield from create(world, "a")
    yield from create(world, "b", 3)
    names = [world.name("a"), world.name("b"), world.name("absent"), "no such name", ""]
    yield DeleteTopicsRequest(topic_names=names, timeout_ms=10_000)
    yield DeleteTopicsRequest(topic_names=names[:1], timeout_ms=10_000)
    yield DeleteTopicsRequest(topic_names=[], timeout_ms=10_000)


@case(ApiKey.DELETE_TOPICS, "a name twice", high=5)
def _(world: World) -> Story:
    yield from create(world)
    yield DeleteTopicsRequest(topic_names=[world.name()] * 2, timeout_ms=10_000)
    yield DeleteTopicsRequest(topic_names=["__cluster_metadata"], timeout_ms=10_000)


@case(ApiKey.DELETE_TOPICS, "by name and by id", low=6)
def _(world: World) -> Story:
    yield from create(world, "a")
    topic_id = yield from create(world, "b", 2)
    wanted = [
        DeleteTopicState(name=world.name("a")),
        DeleteTopicState(topic_id=topic_id),
        DeleteTopicState(name=world.name("absent")),
        DeleteTopicState(topic_id=NO_TOPIC_ID),
    ]
    yield DeleteTopicsRequest(topics=wanted, timeout_ms=10_000)
    yield DeleteTopicsRequest(topics=[], timeout_ms=10_000)


@case(ApiKey.DELETE_TOPICS, "neither name nor id, both, and one topic twice", low=6)
def _(world: World) -> Story:
    topic_id = yield from create(world)
    name = world.name()
    by_name, by_id = DeleteTopicState(name=name), DeleteTopicState(topic_id=topic_id)
    yield DeleteTopicsRequest(topics=[DeleteTopicState()], timeout_ms=10_000)
    both = DeleteTopicState(name=name, topic_id=topic_id)
    yield DeleteTopicsRequest(topics=[both], timeout_ms=10_000)
    for twice in ([by_name, by_name], [by_id, by_id], [by_name, by_id]):
        yield DeleteTopicsRequest(topics=twice, timeout_ms=10_000)


# --- CreatePartitions


def _more(
    name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
) -> CreatePartitionsTopic:
    return CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=(
            None
            if assignments is None
            else [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in assignments]
        ),
    )


def _create_partitions(
    *topics: CreatePartitionsTopic, validate_only: bool = False
) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=list(topics), timeout_ms=10_000, validate_only=validate_only
    )


@case(ApiKey.CREATE_PARTITIONS, "more partitions")
def _(world: World) -> Story:
    yield from create(world, "a")
    yield from create(world, "b")
    yield _create_partitions()
    yield _create_partitions(_more(world.name("a"), 5), validate_only=True)
    yield _create_partitions(_more(world.name("a"), 2), _more(world.name("b"), 3, [[1], [1]]))


@case(ApiKey.CREATE_PARTITIONS, "wrong counts and names")
def _(world: World) -> Story:
    yield from create(world, "a", 3)
    for count in (3, 2, 0, -1):
        yield _create_partitions(_more(world.name("a"), count))
    yield _create_partitions(_more(world.name("absent"), 3), _more("no such name", 3))
    yield _create_partitions(_more(world.name("a"), 4), _more(world.name("a"), 5))


@case(ApiKey.CREATE_PARTITIONS, "wrong assignments")
def _(world: World) -> Story:
    yield from create(world, "a")
    wrong: list[list[list[int]]] = [[], [[]], [[9]], [[1, 1]], [[1], [1]], [[1, 9]], [[-1]]]
    for assignments in wrong:
        yield _create_partitions(_more(world.name("a"), 2, assignments))


# --- ElectLeaders


def _elected(world: World, kind: int) -> Compare:
    """All partitions are asked for; what others left is not compared."""
    request = ElectLeadersRequest(election_type=kind, topic_partitions=None, timeout_ms=10_000)
    response = world.peer.ask(request, world.version, world.listener)
    results = response.replica_election_results
    response.replica_election_results = [
        result for result in results if result.topic.startswith(world.prefix)
    ]
    return Compare(response)


@case(ApiKey.ELECT_LEADERS, "preferred leaders")
def _(world: World) -> Story:
    yield from create(world, partitions=2)
    for numbers in ([0, 1], [0, 9], []):
        wanted = [TopicPartitions(topic=world.name(), partitions=numbers)]
        yield ElectLeadersRequest(topic_partitions=wanted, timeout_ms=10_000)
    absent = [TopicPartitions(topic=world.name("absent"), partitions=[0])]
    yield ElectLeadersRequest(topic_partitions=absent, timeout_ms=10_000)
    yield ElectLeadersRequest(topic_partitions=[], timeout_ms=10_000)
    yield _elected(world, 0)


@case(ApiKey.ELECT_LEADERS, "leaders that are not in sync", low=1)
def _(world: World) -> Story:
    yield from create(world)
    wanted = [TopicPartitions(topic=world.name(), partitions=[0, 7])]
    yield ElectLeadersRequest(election_type=1, topic_partitions=wanted, timeout_ms=10_000)
    yield _elected(world, 1)


# --- reassignments


def _reassign(
    world: World, *wanted: tuple[str, int, Sequence[int] | None]
) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        timeout_ms=10_000,
        topics=[
            ReassignableTopic(
                name=world.name(word),
                partitions=[
                    ReassignablePartition(
                        partition_index=number, replicas=None if ids is None else list(ids)
                    )
                ],
            )
            for word, number, ids in wanted
        ],
    )


@case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "replicas that are there already")
def _(world: World) -> Story:
    yield from create(world)
    yield _reassign(world, ("t", 0, [1]))
    yield _reassign(world)


@case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "replicas that cannot be")
def _(world: World) -> Story:
    yield from create(world)
    for ids in ([], [9], [1, 9], [1, 1], [-1]):
        yield _reassign(world, ("t", 0, ids))
    yield _reassign(world, ("t", 9, [1]), ("absent", 0, [1]))


@case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "nothing to cancel")
def _(world: World) -> Story:
    yield from create(world)
    yield _reassign(world, ("t", 0, None), ("absent", 0, None))


@case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "a fixed number of replicas", low=1)
def _(world: World) -> Story:
    yield from create(world)
    request = _reassign(world, ("t", 0, [1]))
    request.allow_replication_factor_change = False
    yield request


@case(ApiKey.LIST_PARTITION_REASSIGNMENTS, "nothing moves")
def _(world: World) -> Story:
    yield from create(world, partitions=2)
    yield ListPartitionReassignmentsRequest(topics=None)
    yield ListPartitionReassignmentsRequest(topics=[])
    for name, numbers in ((world.name(), [0, 1, 9]), (world.name("absent"), [0]), ("a b", [])):
        wanted = ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
        yield ListPartitionReassignmentsRequest(topics=[wanted, wanted])


# --- DescribeTopicPartitions


def _describe(
    world: World, *words: str, cursor: tuple[str, int] | None = None, limit: int = 2_000
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=world.name(word)) for word in words],
        response_partition_limit=limit,
        cursor=(
            None
            if cursor is None
            else Cursor(topic_name=world.name(cursor[0]), partition_index=cursor[1])
        ),
    )


@case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "pages")
def _(world: World) -> Story:
    yield from create(world, "a")
    yield from create(world, "b", 3)
    yield _describe(world, "b", "a")
    yield _describe(world, "b", "b")
    for limit in (-1, 0, 1, 2, 3, 4, 5):
        yield _describe(world, "a", "b", limit=limit)
    for number in (0, 1, 2, 3, 77):
        yield _describe(world, "b", cursor=("b", number), limit=1)
    yield _describe(world, "a", "b", cursor=("b", 1))


@case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "names that do not exist")
def _(world: World) -> Story:
    yield from create(world, "b", 3)
    yield _describe(world, "absent", "b", "no such name", limit=2)
    yield _describe(world, "absent", cursor=("absent", 0))
    yield DescribeTopicPartitionsRequest(topics=[TopicRequest(name="")])


@case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "cursors that do not fit")
def _(world: World) -> Story:
    yield from create(world, "b")
    yield _describe(world, "b", cursor=("a", 0))
    yield _describe(world, "b", cursor=("c", 0))
    yield _describe(world, "b", cursor=("b", -1))


@case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "all topics from a name on")
def _(world: World) -> Story:
    yield from create(world, "a", 2)
    yield _describe(world, cursor=("a", 1), limit=1)


# --- no time at all


@case(ApiKey.CREATE_TOPICS, "no time to wait")
def _(world: World) -> Story:
    yield CreateTopicsRequest(topics=[creatable(world.name())], timeout_ms=0)
    yield CreateTopicsRequest(topics=[creatable(world.name())], timeout_ms=-5)
    yield CreateTopicsRequest(topics=[], timeout_ms=0)


@case(ApiKey.DELETE_TOPICS, "no time to wait", high=5)
def _(world: World) -> Story:
    yield from create(world)
    yield DeleteTopicsRequest(topic_names=[world.name()], timeout_ms=0)


@case(ApiKey.DELETE_TOPICS, "no time to wait, by name and id", low=6)
def _(world: World) -> Story:
    topic_id = yield from create(world)
    yield DeleteTopicsRequest(topics=[DeleteTopicState(name=world.name())], timeout_ms=0)
    yield DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id)], timeout_ms=0)


@case(ApiKey.CREATE_PARTITIONS, "no time to wait")
def _(world: World) -> Story:
    yield from create(world)
    yield CreatePartitionsRequest(topics=[_more(world.name(), 2)], timeout_ms=0)


@case(ApiKey.ELECT_LEADERS, "no time to wait")
def _(world: World) -> Story:
    yield from create(world)
    wanted = [TopicPartitions(topic=world.name(), partitions=[0])]
    yield ElectLeadersRequest(topic_partitions=wanted, timeout_ms=0)
    yield ElectLeadersRequest(topic_partitions=None, timeout_ms=0)


@case(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "no time to wait")
def _(world: World) -> Story:
    yield from create(world)
    request = _reassign(world, ("t", 0, [1]))
    request.timeout_ms = 0
    yield request
