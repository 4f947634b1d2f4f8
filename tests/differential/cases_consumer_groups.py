"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, and what other APIs say of consumer groups."""

from __future__ import annotations

from itertools import count, islice
from typing import TYPE_CHECKING, Any

from kaa.coordinators.runtime import partition_for
from kaa.wire.errors import Errors
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
from kaa.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kaa.wire.messages.k14_sync_group import SyncGroupRequest
from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest
from kaa.wire.messages.k16_list_groups import ListGroupsRequest
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kaa.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kaa.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kaa.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from kaa.wire.registry import ApiKey
from tests.differential.case import Ask, Compare, Story, World, case
from tests.differential.helpers import NO_TOPIC_ID, create
from tests.unit.coordinators.group.bench import subscription

if TYPE_CHECKING:
    from kaa.wire.primitives import Uuid

BEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
DESCRIBE = ApiKey.CONSUMER_GROUP_DESCRIBE
# As running.py and the oracle's broker are configured.
OFFSETS_PARTITIONS = 4


def beat(world: World, member_id: str = "m", epoch: int = 0, **fields: Any) -> Any:
    """A heartbeat; one that joins is complete, unless fields say otherwise."""
    joining: dict[str, Any] = {}
    if epoch == 0:
        joining = {
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": [world.name()],
            "topic_partitions": [],
        }
    return ConsumerGroupHeartbeatRequest(
        **{
            "group_id": world.name("g"),
            "member_id": member_id,
            "member_epoch": epoch,
            **joining,
            **fields,
        }
    )


def owned(topic_id: Uuid, *partitions: int) -> dict[str, Any]:
    found = [TopicPartitions(topic_id=topic_id, partitions=list(partitions))]
    return {"topic_partitions": found if partitions else []}


def coordinated(world: World, partitions: int = 4) -> Story:
    """A topic t, and the coordinator of groups is ready; gives the id of the topic.

    The group computes assignments without a pause between them.
    """
    setting = AlterableConfig(name="consumer.assignment.interval.ms", config_operation=0, value="0")
    group = AlterConfigsResource(resource_type=32, resource_name=world.name("g"), configs=[setting])
    yield Ask(IncrementalAlterConfigsRequest(resources=[group]), 1, "broker")
    # The broker knows of the setting before it knows of the topic.
    topic_id = yield from create(world, partitions=partitions)
    ready(world)
    subscribable(world)
    return topic_id


def subscribable(world: World, word: str = "t") -> None:
    """Waits until the group's shard knows of a topic, which Metadata may tell before it.

    A member of another group of that shard is given partitions then; each time it is a new
    group, since one group's assignments keep a distance in time.
    """
    shard = partition_for(world.name("g"), OFFSETS_PARTITIONS)
    names = (f"probe.{world.name(word)}.{number}" for number in count())
    groups = (one for one in names if partition_for(one, OFFSETS_PARTITIONS) == shard)
    for group in islice(groups, 500):
        topics = [world.name(word)]
        joined = world.peer.ask(beat(world, group_id=group, subscribed_topic_names=topics), 1)
        world.peer.ask(beat(world, epoch=-1, group_id=group), 1)
        if joined.assignment is not None and joined.assignment.topic_partitions:
            return
    raise AssertionError(f"the coordinator of {world.peer.name} does not know {world.name()}")


def ready(world: World) -> None:
    """Waits for the coordinator; how long it takes is not to be compared."""
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=[world.name("g")])
    probe = ConsumerGroupDescribeRequest(group_ids=[world.name("g")])
    for _ in range(2_000):
        (found,) = world.peer.ask(find, 6).coordinators
        if found.error_code == Errors.NONE:
            (group,) = world.peer.ask(probe, 1).groups
            if group.error_code == Errors.GROUP_ID_NOT_FOUND:
                return
    raise AssertionError(f"{world.peer.name} did not make the offsets topic")


def describe(world: World, *words: str) -> Ask:
    request = ConsumerGroupDescribeRequest(group_ids=[world.name(one) for one in words or ("g",)])
    return Ask(request, world.version if world.key is DESCRIBE else 1)


@case(BEAT, "join, stay and leave")
def _(world: World) -> Story:
    topic_id = yield from coordinated(world)
    yield beat(world)
    yield describe(world)
    yield beat(world, epoch=2)
    yield beat(world, epoch=2, **owned(topic_id, 0, 1, 2, 3))
    full: dict[str, Any] = {"rebalance_timeout_ms": 9_000, "subscribed_topic_names": [world.name()]}
    yield beat(world, epoch=2, **full, **owned(topic_id, 0, 1, 2, 3))
    yield beat(world)
    yield beat(world, epoch=-1)
    yield beat(world, epoch=-1)
    yield describe(world)


@case(BEAT, "requests that make no sense")
def _(world: World) -> Story:
    yield from coordinated(world)
    yield beat(world, group_id="")
    yield beat(world, "", 1)
    yield beat(world, "", -1)
    yield beat(world, instance_id="")
    yield beat(world, rack_id=" ")
    yield beat(world, rebalance_timeout_ms=-1)
    yield beat(world, topic_partitions=None)
    yield beat(world, topic_partitions=[TopicPartitions(topic_id=NO_TOPIC_ID, partitions=[0])])
    yield beat(world, subscribed_topic_names=None)
    yield beat(world, epoch=-2)
    yield beat(world, epoch=-3)
    yield beat(world, server_assignor="sticky")
    yield beat(world, server_assignor="")


@case(BEAT, "ids that the coordinator makes", high=0)
def _(world: World) -> Story:
    yield from coordinated(world)
    answer = world.peer.ask(beat(world, ""), 0)
    yield Compare((bool(answer.member_id), answer.member_epoch, answer.error_code))


@case(BEAT, "ids that clients have to make", low=1)
def _(world: World) -> Story:
    yield from coordinated(world)
    yield beat(world, "")


@case(BEAT, "groups and members that are not there")
def _(world: World) -> Story:
    yield from coordinated(world)
    yield beat(world, epoch=1)
    yield beat(world, epoch=-1)
    yield beat(world)
    yield beat(world, "other", 2)
    yield beat(world, "other", -1)
    yield beat(world, epoch=2, instance_id="i")


@case(BEAT, "epochs that do not fit")
def _(world: World) -> Story:
    topic_id = yield from coordinated(world)
    yield beat(world)
    yield beat(world, epoch=1)
    yield beat(world, epoch=1, **owned(topic_id, 0))
    yield beat(world, epoch=3)
    yield beat(world, epoch=2)


@case(BEAT, "partitions that move")
def _(world: World) -> Story:
    topic_id = yield from coordinated(world)
    yield beat(world, "a")
    joined = yield beat(world, "b")
    yield describe(world)
    asked = yield beat(world, "a", 2, **owned(topic_id, 0, 1, 2, 3))
    kept = asked.assignment.topic_partitions[0].partitions
    yield beat(world, "b", joined.member_epoch)
    yield describe(world)
    yield beat(world, "a", 2, **owned(topic_id, *kept))
    yield beat(world, "b", joined.member_epoch)
    yield describe(world)
    # The answer with the new epoch was lost.
    yield beat(world, "a", 2, **owned(topic_id, *kept))
    yield beat(world, "a", 2, **owned(topic_id, 0, 1, 2, 3))
    yield beat(world, "a", -1)
    yield describe(world)


@case(BEAT, "the range assignor")
def _(world: World) -> Story:
    yield from coordinated(world)
    yield from create(world, "u", 2)
    subscribable(world, "u")
    both = [world.name(), world.name("u")]
    for member_id, topics in (("a", both), ("b", both), ("c", both), ("d", both[1:])):
        yield beat(world, member_id, subscribed_topic_names=topics, server_assignor="range")
        yield describe(world)


@case(BEAT, "the uniform assignor, which most members name")
def _(world: World) -> Story:
    """With one topic: among several, ids that are made by chance decide who gets what."""
    yield from coordinated(world)
    for member_id, assignor in (("a", "range"), ("b", "uniform"), ("c", "uniform"), ("d", None)):
        yield beat(world, member_id, server_assignor=assignor)
        yield describe(world)


@case(BEAT, "subscriptions that change")
def _(world: World) -> Story:
    topic_id = yield from coordinated(world)
    other_id = yield from create(world, "u", 2)
    subscribable(world, "u")
    yield beat(world)
    changed: dict[str, Any] = {"subscribed_topic_names": [world.name("u"), world.name("absent")]}
    yield beat(world, epoch=2, **changed, **owned(topic_id, 0, 1, 2, 3))
    yield describe(world)
    yield beat(world, epoch=2, **owned(topic_id))
    yield beat(world, epoch=3, subscribed_topic_names=[], **owned(other_id, 0, 1))
    yield describe(world)


@case(BEAT, "static members")
def _(world: World) -> Story:
    topic_id = yield from coordinated(world)
    yield beat(world, "a", instance_id="i")
    yield beat(world, "b", instance_id="i")
    yield beat(world, "b", 2, instance_id="i")
    yield beat(world, "b", -2, instance_id="i")
    yield beat(world, "a", 2, instance_id="j")
    yield beat(world, "a", -2, instance_id="i")
    yield describe(world)
    yield beat(world, "b", instance_id="i")
    yield describe(world)
    yield beat(world, "a", 2, instance_id="i")
    yield beat(world, "b", 2, instance_id="i", **owned(topic_id, 0, 1, 2, 3))
    yield beat(world, "b", -1, instance_id="i")
    yield describe(world)


@case(BEAT, "regular expressions", low=1)
def _(world: World) -> Story:
    topic_id = yield from coordinated(world)
    names: dict[str, Any] = {"subscribed_topic_names": None}
    for regex in ("(", "[a", "*", "a**", "(?=a)", "\\", ")", "x{1001}", "\\pX"):
        yield beat(world, subscribed_topic_regex=regex, **names)
    yield beat(world, subscribed_topic_regex=f"{world.prefix}\\.[tu]", **names)
    for _ in range(500):
        answer = world.peer.ask(beat(world, epoch=1, topic_partitions=[]), 1)
        if answer.member_epoch == 2:
            break
    yield beat(world, epoch=2, **owned(topic_id, 0, 1, 2, 3))
    yield describe(world)
    yield beat(world, "b", subscribed_topic_regex="", **names)
    yield describe(world)


@case(DESCRIBE, "groups that are no consumer groups")
def _(world: World) -> Story:
    yield from coordinated(world)
    yield commit(world, "simple")
    yield ConsumerGroupDescribeRequest(
        group_ids=[world.name("absent"), world.name("simple"), ""],
        include_authorized_operations=True,
    )
    yield ConsumerGroupDescribeRequest(group_ids=[])


@case(DESCRIBE, "members")
def _(world: World) -> Story:
    yield from coordinated(world)
    yield beat(world, rack_id="r", instance_id="i", server_assignor="range")
    yield ConsumerGroupDescribeRequest(
        group_ids=[world.name("g")], include_authorized_operations=True
    )


# --- the same groups, asked for by other APIs


def commit(
    world: World, word: str = "g", member_id: str = "", epoch: int = -1, version: int = 9
) -> Ask:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topic = OffsetCommitRequestTopic(name=world.name(), partitions=[partition])
    request = OffsetCommitRequest(
        group_id=world.name(word),
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[topic],
    )
    return Ask(request, version)


@case(ApiKey.OFFSET_COMMIT, "members of a consumer group", low=9)
def _(world: World) -> Story:
    yield from coordinated(world)
    yield beat(world)
    for member_id, epoch in (("m", 2), ("m", 3), ("m", 1), ("other", 2), ("", -1)):
        yield commit(world, "g", member_id, epoch)
    yield commit(world, "absent", "m", 2)
    yield commit(world, "g", "m", 2, version=8)
    yield beat(world, epoch=-1)
    yield commit(world)


@case(ApiKey.OFFSET_FETCH, "members of a consumer group", low=9)
def _(world: World) -> Story:
    yield from coordinated(world)
    yield beat(world)
    yield commit(world, "g", "m", 2)
    for member_id, epoch in (("m", 2), ("m", 3), ("m", 1), ("other", 2), (None, -1), ("", -1)):
        topic = OffsetFetchRequestTopics(name=world.name(), partition_indexes=[0, 1])
        group = OffsetFetchRequestGroup(
            group_id=world.name("g"), member_id=member_id, member_epoch=epoch, topics=[topic]
        )
        for is_stable in (False, True):
            yield Ask(OffsetFetchRequest(groups=[group], require_stable=is_stable), 9)


@case(ApiKey.DESCRIBE_GROUPS, "consumer groups")
def _(world: World) -> Story:
    yield from coordinated(world)
    yield beat(world)
    yield DescribeGroupsRequest(groups=[world.name("g"), world.name("absent")])


@case(ApiKey.LIST_GROUPS, "consumer groups by type and state", low=5)
def _(world: World) -> Story:
    yield from coordinated(world)
    yield beat(world)
    yield commit(world, "simple")
    for states, types in (
        ([], []),
        ([], ["consumer"]),
        ([], ["CLASSIC"]),
        (["stable"], ["Consumer"]),
        (["Empty"], ["consumer"]),
        ([], ["no such type"]),
        (["no such state"], []),
    ):
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        listed = world.peer.ask(request, 5)
        mine = [one for one in listed.groups if one.group_id.startswith(world.prefix)]
        yield Compare([listed.error_code, *sorted(mine, key=lambda one: one.group_id)])


@case(ApiKey.DELETE_GROUPS, "consumer groups")
def _(world: World) -> Story:
    yield from coordinated(world)
    yield beat(world)
    yield DeleteGroupsRequest(groups_names=[world.name("g")])
    yield beat(world, epoch=-1)
    yield DeleteGroupsRequest(groups_names=[world.name("g"), world.name("absent")])
    yield describe(world)


@case(ApiKey.OFFSET_DELETE, "consumer groups")
def _(world: World) -> Story:
    yield from coordinated(world)
    yield beat(world)
    yield commit(world, "g", "m", 2)
    topic = OffsetDeleteRequestTopic(
        name=world.name(), partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )
    request = OffsetDeleteRequest(group_id=world.name("g"), topics=[topic])
    yield request
    yield beat(world, epoch=-1)
    yield request


# --- members with the classic protocol in a consumer group


def join(world: World, member_id: str = "", **fields: Any) -> Ask:
    protocol = JoinGroupRequestProtocol(name="range", metadata=subscription(world.name()))
    request = JoinGroupRequest(
        **{
            "group_id": world.name("g"),
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [protocol],
            **fields,
        }
    )
    return Ask(request, world.version if world.key is ApiKey.JOIN_GROUP else 9)


def classic_member(world: World) -> Story:
    """Joins the group of consumer member m; gives the id."""
    yield from coordinated(world)
    yield beat(world)
    if world.key is ApiKey.JOIN_GROUP and world.version < 4:
        return world.peer.ask(join(world).request, world.version).member_id
    member_id = world.peer.ask(join(world).request, 9).member_id
    answer = world.peer.ask(join(world, member_id).request, 9)
    yield Compare((answer.error_code, answer.generation_id, answer.protocol_name, answer.leader))
    return member_id


@case(ApiKey.JOIN_GROUP, "classic members of a consumer group")
def _(world: World) -> Story:
    yield from classic_member(world)
    yield join(world, protocol_type="connect")
    wrong = JoinGroupRequestProtocol(name="other", metadata=subscription(world.name()))
    yield join(world, protocols=[wrong])
    answer = world.peer.ask(describe(world).request, 1).groups[0]
    kinds = sorted((one.member_type, one.member_epoch) for one in answer.members)
    yield Compare((answer.group_state, answer.group_epoch, kinds))


@case(ApiKey.SYNC_GROUP, "classic members of a consumer group")
def _(world: World) -> Story:
    member_id = yield from classic_member(world)
    for who, generation in ((member_id, 3), (member_id, 2), ("m", 2), ("other", 3)):
        yield SyncGroupRequest(
            group_id=world.name("g"),
            member_id=who,
            generation_id=generation,
            protocol_type="consumer",
            protocol_name="range",
        )


@case(ApiKey.HEARTBEAT, "classic members of a consumer group")
def _(world: World) -> Story:
    member_id = yield from classic_member(world)
    for who, generation in ((member_id, 3), (member_id, 2), ("m", 2), ("other", 3)):
        yield HeartbeatRequest(group_id=world.name("g"), member_id=who, generation_id=generation)


@case(ApiKey.LEAVE_GROUP, "classic members of a consumer group", low=3)
def _(world: World) -> Story:
    member_id = yield from classic_member(world)
    for who in (member_id, "other"):
        answer = world.peer.ask(
            LeaveGroupRequest(group_id=world.name("g"), members=[MemberIdentity(member_id=who)]),
            world.version,
        )
        yield Compare((answer.error_code, [one.error_code for one in answer.members]))
    yield describe(world)


@case(ApiKey.LEAVE_GROUP, "the last consumer member leaves", low=3)
def _(world: World) -> Story:
    yield from classic_member(world)
    yield beat(world, epoch=-1)
    answer = world.peer.ask(DescribeGroupsRequest(groups=[world.name("g")]), 6).groups[0]
    yield Compare((answer.error_code, answer.group_state, len(answer.members)))
    yield describe(world)
