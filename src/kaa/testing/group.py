"""A consumer group in a test: how far it is, and what state it is in, as an operator sees it."""

from __future__ import annotations

from operator import eq
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from kaa.model.topics import NO_OFFSET
from kaa.testing.client import RefusedError, check
from kaa.testing.topic import EARLIEST, LATEST, Topic
from kaa.wire.errors import Errors
from kaa.wire.messages.embedded import ConsumerProtocolAssignment
from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequest
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k15_describe_groups import DescribedGroupMember, DescribeGroupsRequest
from kaa.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaa.testing.client import Client
    from kaa.wire.schema import Request


class Figure(NamedTuple):
    """Something of a group that can be waited for: how it is found, and when it is enough."""

    look: Callable[[Any], object]
    is_enough: Callable[[Any, Any], bool] = eq


def at_most(found: int | None, wanted: int) -> bool:
    """Whether a number is known and no larger."""
    return found is not None and found <= wanted


class AnyGroup:
    """A group of any kind by its id, whether it exists or not."""

    _figures: ClassVar[Mapping[str, Figure]] = {}

    def __init__(
        self, group_id: str, client: Callable[[], Client], wait_for: Callable[..., Any]
    ) -> None:
        self.id = group_id
        self._client = client
        self._wait_for = wait_for

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def figures(self, names: Iterable[str]) -> dict[str, Figure]:
        """What is to be waited for, by name."""
        wanted = list(names)
        unknown = [name for name in wanted if name not in self._figures]
        if unknown:
            raise TypeError(
                f"{self!r} has no {', '.join(unknown)} to wait for; it has "
                f"{', '.join(self._figures)}"
            )
        return {name: self._figures[name] for name in wanted}

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


class Group(AnyGroup):
    """A consumer group."""

    def committed(self) -> dict[tuple[str, int], int]:
        """The committed offsets by topic and partition."""
        answer = self._ask(OffsetFetchRequest(group_id=self.id, topics=None))
        check(f"the offsets of group {self.id}", answer.error_code)
        return {
            (topic.name, row.partition_index): row.committed_offset
            for topic in answer.topics
            for row in topic.partitions
            if row.committed_offset != NO_OFFSET
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
        """Kafka's word for it, Dead if there is no such group. Classic groups: Empty,
        PreparingRebalance, CompletingRebalance, Stable; those of KIP-848: Empty, Assigning,
        Reconciling, Stable.
        """
        return str(self._described().group_state)

    def member_count(self) -> int:
        """How many members the group has now."""
        return len(self._described().members)

    def assignment(self) -> dict[str, list[tuple[str, int]]]:
        """Topics and partitions by member id, as the coordinator knows them."""
        row = self._described()
        return {member.member_id: sorted(_partitions(member)) for member in row.members}

    _figures: ClassVar = {
        "lag": Figure(lag, at_most),
        "state": Figure(state),
        "members": Figure(member_count),
    }

    def _described(self) -> Any:
        """A group of the newer protocol, or else of the classic one."""
        try:
            answer = self._ask(ConsumerGroupDescribeRequest(group_ids=[self.id]))
        except RefusedError:
            pass  # The broker is too old to know of it.
        else:
            row = answer.groups[0]
            if row.error_code != Errors.GROUP_ID_NOT_FOUND:
                check(f"group {self.id}", row.error_code)
                return row
        row = self._ask(DescribeGroupsRequest(groups=[self.id])).groups[0]
        check(f"group {self.id}", row.error_code)
        return row


def _partitions(member: Any) -> list[tuple[str, int]]:
    if not isinstance(member, DescribedGroupMember):
        return [
            (topic.topic_name, number)
            for topic in member.assignment.topic_partitions
            for number in topic.partitions
        ]
    data = bytes(member.member_assignment)
    if not data:
        return []
    # The bytes begin with their version, of which each begins as the first does.
    version = min(int.from_bytes(data[:2], "big"), ConsumerProtocolAssignment.valid_versions.high)
    assignment, _ = ConsumerProtocolAssignment.codec(version).decode_prefix(data[2:])
    return [
        (topic.topic, number)
        for topic in assignment.assigned_partitions
        for number in topic.partitions
    ]
