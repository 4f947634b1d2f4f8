"""A bench with topics, for groups of the consumer protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kaa.controller.image import BrokerImage, ClusterImage
from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.machine import GroupMachine
from kaa.coordinators.group.outcome import Client
from kaa.coordinators.group.settings import ConsumerTimes
from kaa.coordinators.group.topics import GroupTopics
from kaa.wire.errors import Errors
from kaa.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kaa.wire.messages.metadata_topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from kaa.wire.primitives import Uuid
from tests.unit.coordinators.group.bench import GROUP, GroupBench

Owned = Mapping[str, Iterable[int]]


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"-"))


class ConsumerBench(GroupBench):
    """See the module's text. Topics are t with four partitions and u with two."""

    def __init__(self, times: ConsumerTimes | None = None, **settings: Any) -> None:
        self.image = ClusterImage()
        self.topics = GroupTopics()
        self.offset = 0
        self.times = times or ConsumerTimes(assignment_interval_ms=0)
        self.image.brokers[1] = BrokerImage(1, 0, Uuid(16), (), {}, "rack", False, False, (), None)
        self.create("t", 4)
        self.create("u", 2)
        super().__init__(**settings)

    def _machine(self) -> GroupMachine:
        return GroupMachine(
            lambda: self.settings,
            lambda: f"id-{next(self.ids)}",
            self.topics,
            lambda _: self.times,
        )

    # --- topics

    def create(self, name: str, count: int, start: int = 0) -> None:
        """A topic, or more partitions of one."""
        if start == 0:
            self.image.replay(TopicRecord(name=name, topic_id=topic_id(name)))
        for number in range(start, count):
            self.image.replay(
                PartitionRecord(
                    partition_id=number, topic_id=topic_id(name), replicas=[1], isr=[1], leader=1
                )
            )
        self._changed()

    def delete(self, name: str) -> None:
        self.image.replay(RemoveTopicRecord(topic_id=topic_id(name)))
        self._changed()

    def _changed(self) -> None:
        self.offset += 1
        self.topics.update(self.image, self.image.take_delta(), self.offset)

    # --- requests

    def beat(
        self,
        member_id: str,
        epoch: int = 0,
        *,
        topics: Iterable[str] | None = None,
        owned: Owned | None = None,
        regex: str | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = -1,
        group: str = GROUP,
        name: str | None = None,
    ) -> Any:
        """The response, or the error; None if it waits. A join is complete by itself."""
        is_join = epoch == 0
        if is_join and topics is None and regex is None:
            topics = ["t"]
        if is_join and rebalance_ms == -1:
            rebalance_ms = 30_000
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=partitions({} if is_join and owned is None else owned),
        )
        client = Client(f"client of {member_id}", "/127.0.0.1", 1)
        return self.run(
            name or f"beat of {member_id}",
            lambda machine, now: machine.consumer.heartbeat(request, client, now),
        )

    def settle(self, *member_ids: str, rounds: int = 6, group: str = GROUP) -> None:
        """Members do what they are asked until nothing changes any more."""
        for _ in range(rounds):
            for member_id in member_ids:
                found = self.consumer_group(group).members.get(member_id)
                if found is not None and found.member_epoch >= 0:
                    owned = {one: list(numbers) for one, numbers in self.owned(member_id).items()}
                    instance = found.instance_id
                    self.beat(
                        member_id, found.member_epoch, owned=owned, instance=instance, group=group
                    )

    # --- looking

    def consumer_group(self, group: str = GROUP) -> ConsumerGroup:
        found = self.machine.groups.get(group)
        assert isinstance(found, ConsumerGroup)
        return found

    def owned(self, member_id: str, group: str = GROUP) -> dict[str, list[int]]:
        return names(self.consumer_group(group).members[member_id].assigned)


def partitions(owned: Owned | None) -> list[TopicPartitions] | None:
    if owned is None:
        return None
    return [
        TopicPartitions(topic_id=topic_id(name), partitions=list(numbers))
        for name, numbers in owned.items()
    ]


def names(owned: Mapping[Uuid, Iterable[int]]) -> dict[str, list[int]]:
    return {bytes(one).decode().rstrip("-"): sorted(numbers) for one, numbers in owned.items()}


def assigned(response: ConsumerGroupHeartbeatResponse | Errors) -> dict[str, list[int]] | None:
    """What the answer says that a member has; None if it says nothing."""
    assert isinstance(response, ConsumerGroupHeartbeatResponse), response
    if response.assignment is None:
        return None
    return names({one.topic_id: one.partitions for one in response.assignment.topic_partitions})
