"""A share group that reads every partition of the node."""

from __future__ import annotations

import time

from kaa.wire.errors import Errors
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kaa.wire.messages.k77_share_group_describe import ShareGroupDescribeRequest
from kaa.wire.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from tests.scale.requests import NAMES, NUMBERS, SHARE_GROUP, TOPICS, share_fetch
from tests.scale.steps import Scale

MEMBERS = 10
JOINS = 0
LEAVES = LAST_EPOCH = -1


class Members:
    """All of them subscribe to every topic."""

    def __init__(self, scale: Scale) -> None:
        self._ask = scale.node.client.ask
        self._everything = sum(scale.partition_counts(NAMES))
        self._epochs = [JOINS] * MEMBERS
        self._assigned = [0] * MEMBERS

    def _heartbeat(self, number: int, epoch: int) -> None:
        asked = ShareGroupHeartbeatRequest(
            group_id=SHARE_GROUP,
            member_id=f"member-{number}",
            member_epoch=epoch,
            subscribed_topic_names=NAMES if epoch == JOINS else None,
        )
        answer = self._ask(asked)
        assert answer.error_code == Errors.NONE, answer.error_message
        self._epochs[number] = answer.member_epoch
        if answer.assignment is not None:
            owned = answer.assignment.topic_partitions
            self._assigned[number] = sum(len(topic.partitions) for topic in owned)

    def beat(self) -> None:
        for number, epoch in enumerate(self._epochs):
            self._heartbeat(number, epoch)

    def have_all(self) -> bool:
        """Every partition was given to somebody, which takes share state of it."""
        self.beat()
        # Others are served meanwhile.
        time.sleep(0.2)  # noqa: TID251  The node runs on another thread.
        return sum(self._assigned) == self._everything

    def leave(self) -> None:
        for number in range(MEMBERS):
            self._heartbeat(number, LEAVES)
        self._epochs = [JOINS] * MEMBERS
        self._assigned = [0] * MEMBERS


def fetch(scale: Scale) -> None:
    image = scale.node.broker.services.image
    for epoch in (0, 1, 2, LAST_EPOCH):
        answer = scale.node.client.ask(share_fetch(image, NAMES, NUMBERS, epoch))
        assert answer.error_code == Errors.NONE


def join(scale: Scale, members: Members) -> list[str]:
    long = scale.step("share members that join", members.beat)
    long += scale.step(
        "share members that get partitions", lambda: scale.wait_until(members.have_all)
    )
    return long


def test_fetches_of_partitions_without_state(scale: Scale) -> None:
    scale.wait_for_coordinator(0, SHARE_GROUP)
    scale.steady("ShareFetch without state", lambda: fetch(scale))


def test_members_of_every_topic(scale: Scale) -> None:
    scale.wait_for_coordinator(0, SHARE_GROUP)
    members = Members(scale)
    long = join(scale, members)

    def join_again() -> list[str]:
        members.leave()
        # Share partitions would have their state already.
        deleted = scale.node.client.ask(DeleteGroupsRequest(groups_names=[SHARE_GROUP]))
        assert deleted.results[0].error_code == Errors.NONE
        return join(scale, members)

    held = scale.held_again(long, join_again)
    assert not held, "a share group held the loop:\n" + "\n".join(held)
    scale.steady("share heartbeats", members.beat)
    scale.ask("ShareGroupDescribe of members", ShareGroupDescribeRequest(group_ids=[SHARE_GROUP]))
    scale.steady("ShareFetch", lambda: fetch(scale))
    group = DescribeShareGroupOffsetsRequestGroup(group_id=SHARE_GROUP, topics=None)
    offsets = DescribeShareGroupOffsetsRequest(groups=[group])
    assert len(scale.node.client.ask(offsets).groups[0].topics) == TOPICS
    scale.ask("DescribeShareGroupOffsets of a group", offsets)
    scale.repeated("share members that leave", lambda _: members.leave(), 1)
