"""The APIs of classic groups and of offsets: what is refused, and what is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k16_list_groups import ListGroupsRequest
from kaa.wire.registry import ApiKey
from tests.differential.case import Compare, Story, World, case
from tests.differential.group_requests import (
    commit,
    delete,
    delete_offsets,
    describe,
    fetch,
    heartbeat,
    join,
    leave,
    sync,
    wait_for_coordinator,
)
from tests.differential.helpers import NO_TOPIC_ID, create

if TYPE_CHECKING:
    from kaa.wire.primitives import Uuid

# The newest versions, of commits and fetches the newest that name topics.
JOIN, SYNC, HEARTBEAT, LEAVE, DESCRIBE, DELETE = 9, 5, 4, 5, 6, 2
COMMIT = FETCH = 9


def ready(world: World) -> Story:
    """A topic t and the coordinators of groups; gives the id of the topic."""
    wait_for_coordinator(world.peer)
    topic_id: Uuid = yield from create(world, partitions=2)
    return topic_id


def version(world: World, key: ApiKey, newest: int) -> int:
    return world.version if world.key is key else newest


def only_member(world: World, **fields: Any) -> Story:
    """Joins group g as the only member, in generation 1; gives its id."""
    group, at = world.name("g"), version(world, ApiKey.JOIN_GROUP, JOIN)
    joined = yield join(group, at, **fields)
    if at >= 4 and "instance" not in fields:
        joined = yield join(group, at, joined.member_id, **fields)
    return joined.member_id


def stable_member(world: World, **fields: Any) -> Story:
    """The same, and it has its assignment."""
    member_id = yield from only_member(world, **fields)
    yield sync(
        world.name("g"),
        version(world, ApiKey.SYNC_GROUP, SYNC),
        member_id,
        1,
        assignments={member_id: b"A"},
    )
    return member_id


# --- groups


@case(ApiKey.FIND_COORDINATOR, "groups, and keys that there is no coordinator for")
def _(world: World) -> Story:
    wait_for_coordinator(world.peer)
    if world.version < 4:
        for key in (world.name("g"), ""):
            yield FindCoordinatorRequest(key=key)
        return
    yield FindCoordinatorRequest(coordinator_keys=[world.name("g"), world.name("h"), ""])
    yield FindCoordinatorRequest(coordinator_keys=[])
    for key_type in (3, -1):
        yield FindCoordinatorRequest(key_type=key_type, coordinator_keys=[world.name("g")])


@case(ApiKey.JOIN_GROUP, "requests that make no sense")
def _(world: World) -> Story:
    wait_for_coordinator(world.peer)
    group, at = world.name("g"), world.version
    yield join("", at)
    yield join(group, at, "unknown")
    wrong: list[dict[str, Any]] = [
        {"session": 1},
        {"session": 99_999_999},
        {"kind": ""},
        {"protocols": ()},
    ]
    for fields in wrong:
        yield join(group, at, **fields)


@case(ApiKey.JOIN_GROUP, "members that do not fit")
def _(world: World) -> Story:
    wait_for_coordinator(world.peer)
    member_id = yield from only_member(world)
    group, at = world.name("g"), world.version
    yield join(group, at, "unknown")
    yield join(group, at, kind="connect")
    yield join(group, at, protocols=("sticky",))
    yield join(group, at, member_id)
    yield describe(DESCRIBE, group)


@case(ApiKey.JOIN_GROUP, "static members", low=5)
def _(world: World) -> Story:
    wait_for_coordinator(world.peer)
    group, at = world.name("g"), world.version
    old = yield from only_member(world, instance="i")
    yield sync(group, SYNC, old, 1, instance="i", assignments={old: b"A"})
    again = yield join(group, at, instance="i")
    yield join(group, at, old, instance="i")
    yield join(group, at, again.member_id, instance="k")
    yield join(group, at, "unknown", instance="i")
    yield describe(DESCRIBE, group)


@case(ApiKey.SYNC_GROUP, "members and generations")
def _(world: World) -> Story:
    wait_for_coordinator(world.peer)
    member_id = yield from only_member(world)
    group, at = world.name("g"), world.version
    yield sync("", at, member_id, 1)
    yield sync(world.name("never"), at, member_id, 1)
    for who, generation in (("unknown", 1), (member_id, 0), (member_id, 9)):
        yield sync(group, at, who, generation)
    if at >= 5:
        for fields in ({"protocol": "other"}, {"kind": "other"}, {"kind": None}):
            yield sync(group, at, member_id, 1, **fields)
    yield sync(group, at, member_id, 1, assignments={member_id: b"A", "stranger": b"B"})
    yield sync(group, at, member_id, 1)
    yield sync(group, at, member_id, 2)


@case(ApiKey.HEARTBEAT, "members and generations")
def _(world: World) -> Story:
    wait_for_coordinator(world.peer)
    member_id = yield from stable_member(world)
    group, at = world.name("g"), world.version
    for who, generation in ((member_id, 1), (member_id, 7), ("unknown", 1), ("", 1)):
        yield heartbeat(group, at, who, generation)
    yield heartbeat(world.name("never"), at, member_id, 1)
    yield heartbeat("", at, member_id, 1)
    yield leave(group, LEAVE, (member_id, None))
    yield heartbeat(group, at, member_id, 1)


@case(ApiKey.HEARTBEAT, "static members", low=3)
def _(world: World) -> Story:
    wait_for_coordinator(world.peer)
    member_id = yield from stable_member(world, instance="i")
    group, at = world.name("g"), world.version
    yield heartbeat(group, at, member_id, 1, "i")
    yield heartbeat(group, at, "unknown", 1, "i")
    yield heartbeat(group, at, member_id, 1, "k")
    yield join(group, JOIN, instance="i")
    yield heartbeat(group, at, member_id, 1, "i")


@case(ApiKey.LEAVE_GROUP, "members that are there, and others")
def _(world: World) -> Story:
    wait_for_coordinator(world.peer)
    member_id = yield from stable_member(world)
    group, at = world.name("g"), world.version
    yield leave("", at, (member_id, None))
    yield leave(world.name("never"), at, (member_id, None))
    yield leave(group, at, ("unknown", None))
    if at >= 3:
        yield leave(group, at, ("", "instance"), ("", None), (member_id, "instance"))
        yield leave(group, at)
    yield leave(group, at, (member_id, None))
    yield leave(group, at, (member_id, None))
    yield describe(DESCRIBE, group)


@case(ApiKey.LEAVE_GROUP, "static members", low=3)
def _(world: World) -> Story:
    wait_for_coordinator(world.peer)
    old = yield from stable_member(world, instance="i")
    group, at = world.name("g"), world.version
    yield join(group, JOIN, instance="i")
    yield leave(group, at, (old, "i"), ("", "k"), ("", "i"))
    yield describe(DESCRIBE, group)


@case(ApiKey.DESCRIBE_GROUPS, "every state, and groups that are not there")
def _(world: World) -> Story:
    wait_for_coordinator(world.peer)
    group, at = world.name("g"), world.version
    yield describe(at, group, "")
    member_id = yield from only_member(world)
    yield describe(at, group)
    yield sync(group, SYNC, member_id, 1, assignments={member_id: b"A"})
    yield describe(at, group, world.name("never"))
    yield leave(group, LEAVE, (member_id, None))
    yield describe(at, group, group)


@case(ApiKey.LIST_GROUPS, "classic groups by state and type")
def _(world: World) -> Story:
    yield from ready(world)
    group = world.name("g")
    yield commit(group, COMMIT, topic=world.name())
    filters: list[dict[str, Any]] = [{}]
    if world.version >= 4:
        filters += [{"states_filter": [one]} for one in ("Empty", "STABLE", "empty", "nonsense")]
    if world.version >= 5:
        filters += [{"types_filter": [one]} for one in ("classic", "Classic", "share", "nonsense")]
    for fields in filters:
        answer = world.peer.ask(ListGroupsRequest(**fields), world.version)
        found = [
            (one.protocol_type, one.group_state, one.group_type)
            for one in answer.groups
            if one.group_id == group
        ]
        yield Compare((answer.error_code, found))


@case(ApiKey.DELETE_GROUPS, "groups with members, without, and not there")
def _(world: World) -> Story:
    yield from ready(world)
    member_id = yield from stable_member(world)
    group, at = world.name("g"), world.version
    yield delete(at, group, world.name("never"), "")
    yield leave(group, LEAVE, (member_id, None))
    yield commit(group, COMMIT, topic=world.name())
    yield delete(at, group)
    yield delete(at, group)
    yield fetch(group, FETCH, (world.name(), [0]))
    yield describe(DESCRIBE, group)


# --- offsets


@case(ApiKey.OFFSET_COMMIT, "groups without members")
def _(world: World) -> Story:
    topic_id = yield from ready(world)
    group, at = world.name("g"), world.version
    name: dict[str, Any] = {"topic": world.name(), "topic_id": topic_id}
    yield commit(group, at, **name)
    yield commit(group, at, 1, metadata=None, **name)
    yield commit(group, at, 9, **name)
    yield commit(group, at, topic=world.name("nothing"), topic_id=NO_TOPIC_ID)
    for generation in (0, 3):
        yield commit(group, at, generation=generation, **name)
        yield commit(world.name("never"), at, generation=generation, **name)
    yield commit(group, at, member="somebody", **name)
    yield commit(group, at, metadata="long" * 2_000, **name)
    yield commit("", at, **name)
    yield fetch(group, FETCH)


@case(ApiKey.OFFSET_COMMIT, "classic members and generations")
def _(world: World) -> Story:
    topic_id = yield from ready(world)
    name: dict[str, Any] = {"topic": world.name(), "topic_id": topic_id}
    member_id = yield from only_member(world)
    group, at = world.name("g"), world.version
    yield commit(group, at, member=member_id, generation=1, **name)
    yield sync(group, SYNC, member_id, 1, assignments={member_id: b"A"})
    for who, generation in ((member_id, 1), (member_id, 0), ("unknown", 1), ("", -1)):
        yield commit(group, at, member=who, generation=generation, **name)
    if at >= 7:
        yield commit(group, at, member=member_id, generation=1, instance="i", **name)


@case(ApiKey.OFFSET_FETCH, "partitions, topics and groups that have none")
def _(world: World) -> Story:
    yield from ready(world)
    group, at = world.name("g"), world.version
    yield commit(group, COMMIT, topic=world.name())
    yield commit(group, COMMIT, 1, topic=world.name(), metadata=None)
    if at < 10:
        yield fetch(group, at, (world.name(), [0, 1, 9]), (world.name("nothing"), [0]))
        yield fetch(world.name("never"), at, (world.name(), [0]))
        yield fetch("", at, (world.name(), [0]))
    if 2 <= at < 10:
        yield fetch(group, at)
        yield fetch(world.name("never"), at)


@case(ApiKey.OFFSET_FETCH, "topics by id, and many groups", low=10)
def _(world: World) -> Story:
    topic_id = yield from ready(world)
    yield commit(world.name("g"), COMMIT, topic=world.name())
    topics = [
        OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0, 1]),
        OffsetFetchRequestTopics(topic_id=NO_TOPIC_ID, partition_indexes=[0]),
    ]
    for stable in (False, True):
        for asked in (topics, None):
            groups = [
                OffsetFetchRequestGroup(group_id=name, topics=asked)
                for name in (world.name("g"), world.name("never"), "")
            ]
            yield OffsetFetchRequest(groups=groups, require_stable=stable)


@case(ApiKey.OFFSET_DELETE, "partitions, topics and groups")
def _(world: World) -> Story:
    yield from ready(world)
    group = world.name("g")
    yield commit(group, COMMIT, topic=world.name())
    yield delete_offsets(group, world.name("nothing"), 0)
    yield delete_offsets(world.name("never"), world.name(), 0)
    yield delete_offsets("", world.name(), 0)
    yield delete_offsets(group, world.name(), 0, 9)
    yield fetch(group, FETCH, (world.name(), [0]))


@case(ApiKey.OFFSET_DELETE, "topics that members read")
def _(world: World) -> Story:
    yield from ready(world)
    group = world.name("g")
    member_id = yield from stable_member(world, topic=world.name())
    yield commit(group, COMMIT, member=member_id, generation=1, topic=world.name())
    yield delete_offsets(group, world.name(), 0)
    joined = yield join(group, JOIN, member_id, topic=world.name("other"))
    yield sync(group, SYNC, member_id, joined.generation_id, assignments={member_id: b"B"})
    yield delete_offsets(group, world.name(), 0)
