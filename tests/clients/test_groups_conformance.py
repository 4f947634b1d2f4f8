"""The requests of groups and offsets in every version, sent to Kafka and to Kaa.

The same conversation is held with both, and every answer is compared. `tests/differential` has the
same APIs in its table, at three versions each.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from kaa.wire.messages.k08_offset_commit import OffsetCommitRequest
from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k11_join_group import JoinGroupRequest
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest
from kaa.wire.messages.k13_leave_group import LeaveGroupRequest
from kaa.wire.messages.k14_sync_group import SyncGroupRequest
from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest
from kaa.wire.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.messages.k47_offset_delete import OffsetDeleteRequest
from kaa.wire.primitives import Uuid
from kaa.wire.registry import ApiKey
from tests.differential.case import Ask
from tests.differential.group_requests import (
    TOPIC,
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
from tests.differential.normal import differences, normal
from tests.differential.peers import Peer
from tests.differential.running import kaa_peer, kafka_peer

pytestmark = [pytest.mark.oracle, pytest.mark.xdist_group("differential groups")]

LISTED = "groups-conformance-listed"
NOWHERE = Uuid(b"nobody-has-this!")


Story = Generator[Ask, Any, None]


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Peer, Peer]]:
    with kafka_peer() as kafka, kaa_peer(tmp_path_factory.mktemp("kaa")) as kaa:
        for peer in (kafka, kaa):
            topic = CreatableTopic(
                name=TOPIC, num_partitions=2, replication_factor=1, assignments=[], configs=[]
            )
            peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
            wait_for_coordinator(peer)
        yield kafka, kaa


def tell(peers: tuple[Peer, Peer], story: Callable[[], Story]) -> None:
    """Both answers to every request must be the same."""
    stories = [story(), story()]
    asks = [next(one) for one in stories]
    while True:
        answers = [
            peer.ask(ask.request, ask.version or 0) for peer, ask in zip(peers, asks, strict=True)
        ]
        for answer in answers:
            if isinstance(answer, ListGroupsResponse):
                # Others may have groups on the same Kafka.
                answer.groups = [group for group in answer.groups if group.group_id == LISTED]
        kafka, kaa = (normal(answer) for answer in answers)
        found = differences(kafka, kaa)
        assert not found, f"{asks[1].request} in version {asks[1].version}: {found}"
        try:
            asks = [one.send(answer) for one, answer in zip(stories, answers, strict=True)]
        except StopIteration:
            return


# --- stories


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(peers: tuple[Peer, Peer], version: int) -> None:
    def story() -> Story:
        for key in ("g", ""):
            asked = (
                FindCoordinatorRequest(key=key)
                if version < 4
                else FindCoordinatorRequest(coordinator_keys=[key, "h"])
            )
            yield Ask(asked, version)
        if version >= 4:
            yield Ask(FindCoordinatorRequest(key_type=3, coordinator_keys=["g"]), version)

    tell(peers, story)


@pytest.mark.parametrize("version", range(2, 10))
def test_offsets_without_members(peers: tuple[Peer, Peer], version: int) -> None:
    group = f"simple-{version}"

    def story() -> Story:
        yield commit(group, version)
        yield commit(group, version, 1, metadata=None)
        yield commit(group, version, topic="nothing")
        yield commit(group, version, 9)
        yield commit(group, version, generation=3)
        yield commit(f"{group}-never", version, generation=3)
        yield commit(group, version, member="somebody")
        yield commit(group, version, metadata="long" * 2_000)
        yield commit("", version)
        for reading in range(1, 10):
            yield fetch(group, reading, (TOPIC, [0, 1, 9]), ("nothing", [0]))
            yield fetch("never", reading, (TOPIC, [0]))
            if reading >= 2:
                yield fetch(group, reading)
                yield fetch("never", reading)
        for stable in (False, True):
            yield fetch(group, 9, (TOPIC, [0, 9]), stable=stable)
            yield fetch(group, 9, stable=stable)
        yield delete_offsets(group, TOPIC, 0, 9)
        yield delete_offsets(group, "nothing", 0)
        yield delete_offsets("never", TOPIC, 0)
        yield delete_offsets("", TOPIC, 0)
        yield fetch(group, 5, (TOPIC, [0, 1]))
        yield delete(2, group, "never", "")

    tell(peers, story)


@pytest.mark.parametrize("version", range(10))
def test_a_dynamic_member(peers: tuple[Peer, Peer], version: int) -> None:
    group = f"dynamic-{version}"

    def story() -> Story:
        yield join("", version)
        for fields in ({"session": 1}, {"session": 99_999_999}, {"kind": ""}, {"protocols": ()}):
            yield join(f"{group}-new", version, **fields)
        yield join(f"{group}-new", version, "unknown")
        joined = yield join(group, version)
        if version >= 4:
            joined = yield join(group, version, joined.member_id)
        member = joined.member_id
        yield join(group, version, "unknown")
        yield join(group, version, kind="connect")
        yield join(group, version, protocols=("sticky",))
        yield join(group, version, member)
        for sender, generation in ((member, 1), (member, 7), ("unknown", 1)):
            yield heartbeat(group, version, sender, generation)
        yield heartbeat("never", version, member, 1)
        yield heartbeat("", version, member, 1)
        for sender, generation in (("unknown", 1), (member, 9)):
            yield sync(group, version, sender, generation)
        yield sync("never", version, member, 1)
        yield sync("", version, member, 1)
        if version >= 5:
            yield sync(group, version, member, 1, protocol="other")
            yield sync(group, version, member, 1, kind="other")
            yield sync(group, version, member, 1, kind=None)
        committing = max(2, version)
        yield commit(group, committing, member=member, generation=1)
        yield describe(version, group)
        given = {member: b"A", "stranger": b"B"}
        yield sync(group, version, member, 1, assignments=given)
        yield sync(group, version, member, 1)
        yield commit(group, committing, member=member, generation=1)
        yield commit(group, committing, member=member, generation=0)
        yield commit(group, committing, member="unknown", generation=1)
        yield commit(group, committing)
        yield describe(version, group, "never")
        yield delete(version, group, "never")
        yield delete_offsets(group, TOPIC, 0, 9)
        yield join(group, version, member, topic="other")
        yield sync(group, version, member, 2, assignments={member: b"C"})
        yield delete_offsets(group, TOPIC, 0)
        yield leave(group, version, ("unknown", None))
        if version >= 3:
            yield leave(group, version, ("", "instance"), ("", None), (member, "instance"))
        yield leave(group, version, (member, None))
        yield leave("never", version, (member, None))
        yield leave("", version, (member, None))
        yield describe(version, group)
        yield heartbeat(group, version, member, 3)
        yield sync(group, version, member, 3)
        yield join(group, version, member)
        yield commit(group, committing)
        yield delete(version, group)
        yield describe(version, group)

    tell(peers, story)


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_member(peers: tuple[Peer, Peer], version: int) -> None:
    group = f"static-{version}"

    def story() -> Story:
        joined = yield join(group, version, instance="i")
        old = joined.member_id
        yield sync(group, version, old, 1, instance="i", assignments={old: b"A"})
        yield heartbeat(group, version, old, 1, "i")
        yield heartbeat(group, version, "unknown", 1, "i")
        yield heartbeat(group, version, old, 1, "k")
        again = yield join(group, version, instance="i")
        new = again.member_id
        yield sync(group, version, new, 1, instance="i")
        yield sync(group, version, old, 1, instance="i")
        yield heartbeat(group, version, old, 1, "i")
        yield join(group, version, old, instance="i")
        yield join(group, version, new, instance="k")
        yield commit(group, 8, member=old, generation=1, instance="i")
        yield describe(version, group)
        yield leave(group, version, (old, "i"), ("", "i"))
        yield describe(version, group)

    tell(peers, story)


def test_lists_of_groups(peers: tuple[Peer, Peer]) -> None:
    def story() -> Story:
        yield commit(LISTED, 8)
        for version in range(6):
            yield Ask(ListGroupsRequest(), version)
        for states in (["Empty", "nonsense"], ["STABLE"], ["empty"]):
            yield Ask(ListGroupsRequest(states_filter=states), 5)
        for kind in ("classic", "Classic", "consumer", "nonsense"):
            yield Ask(ListGroupsRequest(types_filter=[kind]), 5)

    tell(peers, story)


def test_topics_by_id(peers: tuple[Peer, Peer]) -> None:
    def story() -> Story:
        yield commit("by-id", 10, topic_id=NOWHERE)
        topics = [OffsetFetchRequestTopics(topic_id=NOWHERE, partition_indexes=[0])]
        for asked in (topics, None):
            group = OffsetFetchRequestGroup(group_id="by-id", topics=asked)
            yield Ask(OffsetFetchRequest(groups=[group]), 10)

    tell(peers, story)


def test_every_api_of_groups_is_here() -> None:
    told = {
        request.api_key
        for request in (
            OffsetCommitRequest,
            OffsetFetchRequest,
            FindCoordinatorRequest,
            JoinGroupRequest,
            HeartbeatRequest,
            LeaveGroupRequest,
            SyncGroupRequest,
            DescribeGroupsRequest,
            ListGroupsRequest,
            DeleteGroupsRequest,
            OffsetDeleteRequest,
        )
    }
    assert told == {8, 9, 10, 11, 12, 13, 14, 15, 16, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE}
