"""Share groups: membership, and the state of share partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.wire.errors import Errors
from kaa.wire.messages import k83_initialize_share_group_state as k83
from kaa.wire.messages import k84_read_share_group_state as k84
from kaa.wire.messages import k85_write_share_group_state as k85
from kaa.wire.messages import k86_delete_share_group_state as k86
from kaa.wire.messages import k87_read_share_group_state_summary as k87
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kaa.wire.messages.k77_share_group_describe import ShareGroupDescribeRequest
from kaa.wire.registry import ApiKey
from tests.differential.case import Story, World, case
from tests.differential.cases_consumer_groups import ready
from tests.differential.helpers import NO_TOPIC_ID, create

if TYPE_CHECKING:
    from kaa.wire.primitives import Uuid

PARTITION = 0


def states(world: World) -> Story:
    """A topic t whose share coordinator is ready; gives the id of the topic."""
    topic_id = yield from create(world, partitions=2)
    find = FindCoordinatorRequest(
        key_type=2, coordinator_keys=[f"{world.name('g')}:{topic_id}:{PARTITION}"]
    )
    for _ in range(2_000):
        (found,) = world.peer.ask(find, 6).coordinators
        if found.error_code == Errors.NONE:
            answer = world.peer.ask(summary(world, topic_id), 1)
            if answer.results[0].partitions[0].error_code == Errors.NONE:
                return topic_id
    raise AssertionError(f"{world.peer.name} has no share coordinator")


def initialise(world: World, topic_id: Uuid, partition: int = 0, **fields: int) -> Any:
    settings: dict[str, Any] = {"state_epoch": 0, "start_offset": -1} | fields
    one = k83.PartitionData(partition=partition, **settings)
    topic = k83.InitializeStateData(topic_id=topic_id, partitions=[one])
    return k83.InitializeShareGroupStateRequest(group_id=world.name("g"), topics=[topic])


def read(world: World, topic_id: Uuid, partition: int = 0, leader_epoch: int = 0) -> Any:
    one = k84.PartitionData(partition=partition, leader_epoch=leader_epoch)
    topic = k84.ReadStateData(topic_id=topic_id, partitions=[one])
    return k84.ReadShareGroupStateRequest(group_id=world.name("g"), topics=[topic])


def write(world: World, topic_id: Uuid, *batches: tuple[int, ...], **fields: int) -> Any:
    settings: dict[str, Any] = {"partition": 0, "state_epoch": 0, "leader_epoch": 0} | fields
    settings.setdefault("start_offset", -1)
    one = k85.PartitionData(
        **settings,
        delivery_complete_count=len(batches),
        state_batches=[
            k85.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in batches
        ],
    )
    topic = k85.WriteStateData(topic_id=topic_id, partitions=[one])
    return k85.WriteShareGroupStateRequest(group_id=world.name("g"), topics=[topic])


def delete(world: World, topic_id: Uuid, partition: int = 0) -> Any:
    one = k86.PartitionData(partition=partition)
    topic = k86.DeleteStateData(topic_id=topic_id, partitions=[one])
    return k86.DeleteShareGroupStateRequest(group_id=world.name("g"), topics=[topic])


def summary(world: World, topic_id: Uuid, partition: int = 0) -> Any:
    one = k87.PartitionData(partition=partition, leader_epoch=0)
    topic = k87.ReadStateSummaryData(topic_id=topic_id, partitions=[one])
    return k87.ReadShareGroupStateSummaryRequest(group_id=world.name("g"), topics=[topic])


@case(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "state begins, and begins again with a higher epoch")
def initialise_twice(world: World) -> Story:
    topic_id = yield from states(world)
    for epoch, start in ((1, -1), (2, 40), (1, 7), (-1, 3), (2, 5)):
        yield initialise(world, topic_id, state_epoch=epoch, start_offset=start)
        yield summary(world, topic_id)
    for partition, topic in ((9, topic_id), (0, NO_TOPIC_ID)):
        yield initialise(world, topic, partition)
    yield k83.InitializeShareGroupStateRequest(group_id="", topics=[])
    yield k83.InitializeShareGroupStateRequest(group_id=world.name("g"), topics=[])


@case(ApiKey.READ_SHARE_GROUP_STATE, "what was written, with leaders that come and go")
def reading(world: World) -> Story:
    topic_id = yield from states(world)
    yield read(world, topic_id)
    yield initialise(world, topic_id)
    yield read(world, topic_id)
    yield write(world, topic_id, (0, 4, 2, 1), (5, 9, 0, 1), start_offset=0)
    for epoch in (0, -1, 3, 2, 3):
        yield read(world, topic_id, leader_epoch=epoch)
    yield read(world, topic_id, partition=-1)
    yield read(world, topic_id, partition=9)
    yield k84.ReadShareGroupStateRequest(group_id=world.name("g"), topics=[])


@case(ApiKey.WRITE_SHARE_GROUP_STATE, "batches that overlap, and epochs that are fenced")
def writing(world: World) -> Story:
    topic_id = yield from states(world)
    yield write(world, topic_id)
    yield initialise(world, topic_id, state_epoch=2)
    yield write(world, topic_id, (0, 9, 0, 1), state_epoch=2)
    yield write(world, topic_id, (3, 5, 2, 1), (4, 4, 4, 2), state_epoch=2, start_offset=1)
    yield read(world, topic_id)
    yield write(world, topic_id, state_epoch=1)
    yield read(world, topic_id, leader_epoch=4)
    yield write(world, topic_id, state_epoch=2, leader_epoch=3)
    yield write(world, topic_id, partition=9)
    yield summary(world, topic_id)


@case(ApiKey.DELETE_SHARE_GROUP_STATE, "state that is there, and that is not")
def deleting(world: World) -> Story:
    topic_id = yield from states(world)
    yield delete(world, topic_id)
    yield initialise(world, topic_id)
    yield delete(world, topic_id)
    yield read(world, topic_id)
    yield delete(world, topic_id, 9)
    yield delete(world, NO_TOPIC_ID)


@case(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "numbers with and without state")
def numbers(world: World) -> Story:
    topic_id = yield from states(world)
    yield summary(world, topic_id)
    yield initialise(world, topic_id, state_epoch=3, start_offset=5)
    yield write(world, topic_id, (5, 6, 2, 1), state_epoch=3, start_offset=5)
    yield summary(world, topic_id)
    yield summary(world, topic_id, 9)
    yield summary(world, topic_id, -1)


def beat(world: World, member_id: str = "m", epoch: int = 0, **fields: Any) -> Any:
    if epoch == 0:
        fields.setdefault("subscribed_topic_names", [world.name()])
    return ShareGroupHeartbeatRequest(
        group_id=fields.pop("group_id", world.name("g")),
        member_id=member_id,
        member_epoch=epoch,
        **fields,
    )


@case(ApiKey.SHARE_GROUP_HEARTBEAT, "requests that make no sense")
def nonsense(world: World) -> Story:
    ready(world)
    yield beat(world, "")
    yield beat(world, group_id="")
    yield beat(world, rack_id="")
    yield beat(world, subscribed_topic_names=[])
    yield beat(world, epoch=-2)
    yield beat(world, epoch=3)
    yield beat(world, epoch=-1)


@case(ApiKey.SHARE_GROUP_HEARTBEAT, "members of a topic that does not exist come and go")
def come_and_go(world: World) -> Story:
    ready(world)
    yield beat(world)
    yield beat(world)
    yield beat(world, epoch=9)
    yield beat(world, "other", 1)
    yield beat(world, "second")
    yield beat(world, epoch=-1)
    yield beat(world, "second", -1)


@case(ApiKey.SHARE_GROUP_DESCRIBE, "groups that are there, and that are not")
def described(world: World) -> Story:
    ready(world)
    yield beat(world, rack_id="r")
    names = [world.name("g"), world.name("absent")]
    yield ShareGroupDescribeRequest(group_ids=names)
    yield ShareGroupDescribeRequest(group_ids=names[:1], include_authorized_operations=True)
    yield beat(world, epoch=-1)
    yield ShareGroupDescribeRequest(group_ids=names[:1])
