"""A streams group on a bench: a group machine with topics, and members that report their tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kaa.coordinators.group.machine import GroupMachine
from kaa.coordinators.group.outcome import Client
from kaa.coordinators.group.settings import StreamsTimes
from kaa.coordinators.group.streams.group import StreamsGroup
from kaa.coordinators.group.streams.groups import StreamsHeartbeat
from kaa.coordinators.machine import CoordinatorResult
from kaa.model.pieces import Pieces
from kaa.wire.messages.k88_streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.unit.coordinators.group.bench import GROUP
from tests.unit.coordinators.group.consumer.bench import ConsumerBench

CLIENT = Client("client", "/host", 0)
AT_ONCE = StreamsTimes(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
Owned = dict[str, list[int]]


def info(name: str, partitions: int = 0) -> TopicInfo:
    configs = [KeyValue(key="cleanup.policy", value="compact")]
    return TopicInfo(name=name, partitions=partitions, topic_configs=configs)


def subtopology(name: str = "0", *sources: str, **fields: Any) -> Subtopology:
    """Reads source topics, by default t; other fields are empty."""
    empty: dict[str, Any] = {
        "source_topics": list(sources or ("t",)),
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    }
    return Subtopology(subtopology_id=name, **(empty | fields))


def copartitioned(sources: list[int], repartitioned: list[int]) -> CopartitionGroup:
    return CopartitionGroup(
        source_topics=sources, source_topic_regex=[], repartition_source_topics=repartitioned
    )


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(subtopologies or (subtopology(),)))


def task_ids(owned: Owned | None) -> list[TaskIds] | None:
    if owned is None:
        return None
    return [TaskIds(subtopology_id=name, partitions=numbers) for name, numbers in owned.items()]


def shown(tasks: list[TaskIds] | None) -> Owned | None:
    if tasks is None:
        return None
    return {one.subtopology_id: one.partitions for one in tasks}


class StreamsBench(ConsumerBench):
    """See the module's text. The assignment is computed at once."""

    def __init__(self, streams: StreamsTimes = AT_ONCE, **settings: Any) -> None:
        self.streams_times = streams
        self.answered: StreamsHeartbeat | None = None
        self.pieces = 0
        self.between: Callable[[], None] = lambda: None
        super().__init__(**settings)

    def _machine(self) -> GroupMachine:
        return GroupMachine(
            lambda: self.settings,
            lambda: f"id-{next(self.ids)}",
            self.topics,
            lambda _: self.times,
            streams_times=lambda _: self.streams_times,
        )

    def ask(
        self, member: str = "m", epoch: int = 0, owned: Owned | None = None, **fields: Any
    ) -> Any:
        """The response or the error; the bench keeps the topics that are to be made."""
        if epoch == 0:
            fields.setdefault("topology", topology())
            fields.setdefault("rebalance_timeout_ms", 10_000)
            fields.setdefault("process_id", f"p-{member}")
            owned = {} if owned is None else owned
        standby = fields.pop("standby", {} if owned is not None else None)
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member,
            member_epoch=epoch,
            active_tasks=task_ids(owned),
            standby_tasks=task_ids(standby),
            warmup_tasks=None if owned is None else [],
            **fields,
        )

        def command(
            machine: GroupMachine, now: Any
        ) -> CoordinatorResult | Pieces[CoordinatorResult]:
            return self.watched(machine.streams.heartbeat(request, CLIENT, now))

        answer = self.run(f"streams {member}", command)
        if isinstance(answer, StreamsHeartbeat):
            self.answered = answer
            return answer.response
        return answer

    def watched(
        self, work: CoordinatorResult | Pieces[CoordinatorResult]
    ) -> CoordinatorResult | Pieces[CoordinatorResult]:
        """Counts the pieces, and does something between them."""
        self.pieces = 0
        if isinstance(work, CoordinatorResult):
            return work

        def pieces() -> Pieces[CoordinatorResult]:
            while True:
                try:
                    next(work)
                except StopIteration as stop:
                    result: CoordinatorResult = stop.value
                    return result
                self.pieces += 1
                self.between()
                yield

        return pieces()

    def statuses(self, response: StreamsGroupHeartbeatResponse) -> dict[int, str]:
        return {one.status_code: one.status_detail for one in response.status or ()}

    @property
    def streams_group(self) -> StreamsGroup:
        found = self.machine.groups[GROUP]
        assert isinstance(found, StreamsGroup)
        return found
