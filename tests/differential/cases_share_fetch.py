"""Share sessions: records that are handed out, acknowledged, given back, and offsets of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.wire.messages import k78_share_fetch as k78
from kaa.wire.messages import k79_share_acknowledge as k79
from kaa.wire.messages import k90_describe_share_group_offsets as k90
from kaa.wire.messages import k91_alter_share_group_offsets as k91
from kaa.wire.messages import k92_delete_share_group_offsets as k92
from kaa.wire.registry import ApiKey
from tests.differential.case import Ask, Story, World, case
from tests.differential.cases_consumer_groups import ready as groups_ready
from tests.differential.cases_share_groups import beat, initialise, read, states, summary
from tests.differential.helpers import NO_TOPIC_ID, produce, records

if TYPE_CHECKING:
    from kaa.wire.primitives import Uuid

# First and last offset, and what is said of them: one type, or one for each.
Said = tuple[int, int, tuple[int, ...]]


def ready(world: World, *sizes: int) -> Story:
    """A topic t with a batch per size, of whose first partition the group has state from 0 on."""
    topic_id = yield from states(world)
    yield initialise(world, topic_id, state_epoch=1, start_offset=0)
    for size in sizes:
        yield Ask(produce(world, records(*[b"value"] * size)), 12)
    return topic_id


def fetch(
    world: World, topic_id: Uuid | None, epoch: int, *said: Said, number: int = 0, **fields: Any
) -> k78.ShareFetchRequest:
    topics = []
    if topic_id is not None:
        partition = k78.FetchPartition(
            partition_index=number,
            acknowledgement_batches=[
                k78.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                )
                for first, last, types in said
            ],
        )
        topics = [k78.FetchTopic(topic_id=topic_id, partitions=[partition])]
    # Long enough for the state to be loaded; the answer leaves as soon as there is something.
    settings: dict[str, Any] = {"max_wait_ms": 10_000, "min_bytes": 1, "max_records": 500}
    settings |= {"batch_size": 500, "group_id": world.name("g"), "member_id": "m"}
    return k78.ShareFetchRequest(share_session_epoch=epoch, topics=topics, **settings | fields)


def acknowledge(
    world: World, topic_id: Uuid | None, epoch: int, *said: Said, number: int = 0, **fields: Any
) -> k79.ShareAcknowledgeRequest:
    topics = []
    if topic_id is not None:
        partition = k79.AcknowledgePartition(
            partition_index=number,
            acknowledgement_batches=[
                k79.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                )
                for first, last, types in said
            ],
        )
        topics = [k79.AcknowledgeTopic(topic_id=topic_id, partitions=[partition])]
    settings = {"group_id": world.name("g"), "member_id": "m"} | fields
    return k79.ShareAcknowledgeRequest(share_session_epoch=epoch, topics=topics, **settings)


@case(ApiKey.SHARE_FETCH, "records come, are accepted, released and rejected, and come again")
def come_and_go(world: World) -> Story:
    topic_id = yield from ready(world, 3, 4)
    yield fetch(world, topic_id, 0)
    yield fetch(world, topic_id, 1, (0, 1, (1,)), (2, 4, (2, 3, 2)), (5, 6, (1, 2)))
    yield read(world, topic_id)
    yield fetch(world, topic_id, 2, (2, 6, (1,)))
    yield fetch(world, topic_id, 3, (2, 2, (1,)), (4, 4, (1,)), (6, 6, (1,)), max_wait_ms=0)
    yield read(world, topic_id)
    yield fetch(world, None, 4, max_wait_ms=0)
    yield fetch(world, None, -1)
    yield fetch(world, None, 5)


@case(ApiKey.SHARE_FETCH, "sessions that do not fit")
def sessions(world: World) -> Story:
    topic_id = yield from ready(world, 2)
    yield fetch(world, topic_id, 1)
    yield fetch(world, None, -1)
    yield fetch(world, topic_id, 0, (0, 0, (1,)))
    yield fetch(world, topic_id, 0, group_id=None)
    yield fetch(world, topic_id, 0, member_id="")
    yield fetch(world, topic_id, 0, member_id=None)
    yield fetch(world, topic_id, 0, member_id="m" * 37)
    yield fetch(world, topic_id, 0)
    yield fetch(world, topic_id, 2)
    yield fetch(world, topic_id, 0, max_wait_ms=0)


@case(ApiKey.SHARE_FETCH, "partitions that are not there, and a group without state")
def not_there(world: World) -> Story:
    topic_id = yield from ready(world, 2)
    yield fetch(world, topic_id, 0, number=9)
    yield fetch(world, None, 1, max_wait_ms=0)
    yield fetch(world, topic_id, 0, group_id=world.name("without"))


@case(ApiKey.SHARE_FETCH, "a topic id that nobody knows")
def unknown_topic(world: World) -> Story:
    yield from ready(world)
    yield fetch(world, NO_TOPIC_ID, 0)


@case(ApiKey.SHARE_FETCH, "acknowledgements that make no sense")
def nonsense(world: World) -> Story:
    topic_id = yield from ready(world, 4)
    yield fetch(world, topic_id, 0)
    yield fetch(world, topic_id, 1, (3, 1, (1,)), max_wait_ms=0)
    yield fetch(world, topic_id, 2, (2, 3, (1,)), (0, 1, (1,)), max_wait_ms=0)
    yield fetch(world, topic_id, 3, (0, 1, ()), max_wait_ms=0)
    yield fetch(world, topic_id, 4, (0, 1, (1, 2, 3)), max_wait_ms=0)
    yield fetch(world, topic_id, 5, (0, 1, (5,)), max_wait_ms=0)
    yield fetch(world, topic_id, 6, (0, 1, (-1,)), max_wait_ms=0)
    yield fetch(world, topic_id, 7, (0, 1, (4,)), max_wait_ms=0)
    yield fetch(world, topic_id, 8, (9, 9, (1,)), max_wait_ms=0)
    yield fetch(world, topic_id, 9, (0, 3, (0, 1, 2, 3)))
    yield fetch(world, topic_id, 10, (0, 3, (1,)), max_wait_ms=0)


@case(ApiKey.SHARE_FETCH, "limits of records, and acquire modes")
def limits(world: World) -> Story:
    topic_id = yield from ready(world, 3, 3, 3)
    is_strict = world.version >= 2
    mode = {"share_acquire_mode": 1} if is_strict else {}
    yield fetch(world, topic_id, 0, max_records=2, **mode)
    yield fetch(world, topic_id, 1, max_records=5, **mode)
    yield fetch(world, topic_id, 2, max_records=1, batch_size=1)


@case(ApiKey.SHARE_FETCH, "new records in batches of about a size")
def sized(world: World) -> Story:
    topic_id = yield from ready(world, 3, 1, 1, 3)
    yield fetch(world, topic_id, 0, batch_size=2)


@case(ApiKey.SHARE_FETCH, "locks that are renewed", low=2)
def renewed(world: World) -> Story:
    topic_id = yield from ready(world, 2)
    yield fetch(world, topic_id, 0)
    still = {"max_wait_ms": 0, "min_bytes": 0, "max_records": 0, "max_bytes": 0}
    yield fetch(world, topic_id, 1, (0, 1, (4,)), is_renew_ack=True, **still)
    yield fetch(world, topic_id, 2, (0, 0, (4,)), (1, 1, (1,)), is_renew_ack=True, **still)
    yield fetch(world, topic_id, 3, (1, 1, (4,)), is_renew_ack=True, **still)


@case(ApiKey.SHARE_ACKNOWLEDGE, "what a member says of its records, and the end of its session")
def acknowledged(world: World) -> Story:
    topic_id = yield from ready(world, 6)
    yield Ask(fetch(world, topic_id, 0), 1)
    yield acknowledge(world, topic_id, 1, (0, 2, (1,)), (3, 4, (2, 3)))
    yield acknowledge(world, topic_id, 2, (0, 0, (1,)))
    yield acknowledge(world, topic_id, 2, (5, 5, (1,)))
    yield acknowledge(world, None, 3)
    yield read(world, topic_id)
    yield acknowledge(world, topic_id, -1, (5, 5, (1,)))
    yield read(world, topic_id)
    yield acknowledge(world, None, -1)


@case(ApiKey.SHARE_ACKNOWLEDGE, "requests that make no sense")
def acknowledge_nonsense(world: World) -> Story:
    topic_id = yield from ready(world, 2)
    yield acknowledge(world, topic_id, 0, (0, 0, (1,)))
    yield acknowledge(world, topic_id, 1, (0, 0, (1,)))
    yield acknowledge(world, topic_id, 1, member_id="")
    yield acknowledge(world, topic_id, 1, group_id=None)
    yield Ask(fetch(world, topic_id, 0), 1)
    yield acknowledge(world, topic_id, 1, (0, 1, (4,)))
    yield acknowledge(world, topic_id, 2, (1, 0, (1,)))
    yield acknowledge(world, topic_id, 3, (0, 0, (1,)), number=1)
    yield acknowledge(world, topic_id, 4, (0, 0, (1,)), number=9)
    yield acknowledge(world, NO_TOPIC_ID, 5, (0, 0, (1,)))


@case(ApiKey.SHARE_ACKNOWLEDGE, "locks that are renewed", low=2)
def acknowledge_renewed(world: World) -> Story:
    topic_id = yield from ready(world, 3)
    yield Ask(fetch(world, topic_id, 0), 1)
    yield acknowledge(world, topic_id, 1, (0, 2, (4, 1, 2)), is_renew_ack=True)
    yield acknowledge(world, topic_id, 2, (1, 1, (4,)), is_renew_ack=True)
    yield acknowledge(world, topic_id, 3, (0, 0, (1,)), is_renew_ack=True)


def offsets_of(world: World, *topics: tuple[str, list[int]], group: str = "g") -> Any:
    """Without topics, of all that the group has."""
    wanted = [
        k90.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
        for name, numbers in topics
    ]
    one = k90.DescribeShareGroupOffsetsRequestGroup(
        group_id=world.name(group), topics=wanted or None
    )
    return k90.DescribeShareGroupOffsetsRequest(groups=[one])


def alter(world: World, offsets: dict[int, int], topic: str = "t", group: str = "g") -> Any:
    partitions = [
        k91.AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
        for number, offset in offsets.items()
    ]
    one = k91.AlterShareGroupOffsetsRequestTopic(
        topic_name=world.name(topic), partitions=partitions
    )
    return k91.AlterShareGroupOffsetsRequest(group_id=world.name(group), topics=[one])


def forget(world: World, *topics: str, group: str = "g") -> Any:
    return k92.DeleteShareGroupOffsetsRequest(
        group_id=world.name(group),
        topics=[
            k92.DeleteShareGroupOffsetsRequestTopic(topic_name=world.name(topic))
            for topic in topics
        ],
    )


@case(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "groups with and without state")
def offsets_described(world: World) -> Story:
    groups_ready(world)
    topic_id = yield from ready(world, 6)
    topic = world.name()
    yield offsets_of(world, (topic, [0, 1]))
    yield Ask(fetch(world, topic_id, 0), 1)
    yield Ask(acknowledge(world, topic_id, 1, (0, 1, (1,)), (3, 3, (1,))), 1)
    yield offsets_of(world, (topic, [0]))
    yield offsets_of(world, (world.name("absent"), [0]))
    yield offsets_of(world, group="absent")
    yield offsets_of(world)


@case(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "offsets of a group without members, and with one")
def offsets_altered(world: World) -> Story:
    groups_ready(world)
    topic_id = yield from ready(world, 6)
    yield alter(world, {0: 4, 1: 0, 9: 1})
    yield offsets_of(world)
    yield summary(world, topic_id)
    yield alter(world, {0: 2})
    yield summary(world, topic_id)
    yield alter(world, {0: 2}, "absent")
    yield k91.AlterShareGroupOffsetsRequest(group_id="", topics=[])
    yield k91.AlterShareGroupOffsetsRequest(group_id=world.name("g"), topics=[])
    yield beat(world)
    yield alter(world, {0: 0})
    yield beat(world, epoch=-1)
    yield alter(world, {0: 1})


@case(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "topics that a group has read, and has not")
def offsets_deleted(world: World) -> Story:
    groups_ready(world)
    topic_id = yield from ready(world, 6)
    yield forget(world, "t")
    yield alter(world, {0: 4, 1: 2})
    yield forget(world, "absent")
    yield forget(world, "t", "absent")
    yield offsets_of(world)
    yield summary(world, topic_id)
    yield forget(world, "t")
    yield k92.DeleteShareGroupOffsetsRequest(group_id="", topics=[])
    yield k92.DeleteShareGroupOffsetsRequest(group_id=world.name("g"), topics=[])
    yield beat(world)
    yield forget(world, "t")
