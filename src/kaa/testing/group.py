"""A consumer group in a test: how far it is, and what state it is in, as an operator sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.testing.client import check
from kaa.testing.topic import EARLIEST, LATEST, Topic
from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequest
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k15_describe_groups import DescribeGroupsRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.testing.client import Client
    from kaa.wire.schema import Request

_NO_OFFSET: Final = -1


class Group:
    """A group by its id, whether it exists or not."""

    def __init__(
        self, group_id: str, client: Callable[[], Client], wait_for: Callable[..., Any]
    ) -> None:
        self.id = group_id
        self._client = client
        self._wait_for = wait_for

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"Group({self.id!r})"

    def committed(self) -> dict[tuple[str, int], int]:
        """The committed offsets by topic and partition."""
        answer = self._ask(OffsetFetchRequest(group_id=self.id, topics=None))
        check(f"the offsets of group {self.id}", answer.error_code)
        return {
            (topic.name, row.partition_index): row.committed_offset
            for topic in answer.topics
            for row in topic.partitions
            if row.committed_offset != _NO_OFFSET
        }

    def lag(self) -> int | None:
        """Records that the group has not committed, in all partitions of every topic of which it
        committed any; None before the first commit.
        """
        committed = self.committed()
        if not committed:
            return None
        lag = 0
        for name in {topic for topic, _ in committed}:
            topic = Topic(name, self._client, self._wait_for)
            starts, ends = topic.offsets(EARLIEST), topic.offsets(LATEST)
            lag += sum(
                end - max(committed.get((name, number), 0), starts[number])
                for number, end in ends.items()
            )
        return lag

    def state(self) -> str:
        """Kafka's word for it: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead."""
        return str(self._described().group_state)

    def member_count(self) -> int:
        return len(self._described().members)

    def _described(self) -> Any:
        row = self._ask(DescribeGroupsRequest(groups=[self.id])).groups[0]
        check(f"group {self.id}", row.error_code)
        return row

    def _ask(self, request: Request) -> Any:
        return self._client().send(request, self.coordinator_id())

    def coordinator_id(self) -> int:
        """The broker that keeps the group; the first group of a cluster makes a topic for it."""

        def found() -> Any:
            request = FindCoordinatorRequest(key=self.id, key_type=0)
            answer = self._client().send(request)
            check(f"the coordinator of group {self.id}", answer.error_code)
            return answer

        answer = self._wait_for(found, what=f"the coordinator of group {self.id}")
        self._client().know(answer.node_id, answer.host, answer.port)
        return int(answer.node_id)
