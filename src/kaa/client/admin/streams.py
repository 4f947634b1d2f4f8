"""Streams groups (KIP-1071) for the admin client: their topology, members and tasks.

`list_groups(types=["streams"])` lists them, `delete_groups` deletes those without members, and
their offsets are those of any group (`list_group_offsets` and what stands beside it). How many
standbys there are, and how long members may be silent, are settings of the group (`streams.*`, by
`alter_configs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kaa.client.admin.base import AdminBase
from kaa.client.coordinator import CoordinatorType, ask_coordinator
from kaa.client.errors import KafkaError
from kaa.wire.errors import Errors
from kaa.wire.messages.k89_streams_group_describe import StreamsGroupDescribeRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.client.connection import Connection


class StreamsTask(NamedTuple):
    """A partition of a subtopology; written as Kafka Streams names it, 0_1."""

    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}_{self.partition}"


class StreamsSubtopology(NamedTuple):
    """What a part of an application reads and writes, and where it keeps its state."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[str, ...]


class StreamsMemberDescription(NamedTuple):
    """A thread of an application, and the tasks that it runs and is to run."""

    member_id: str
    client_id: str
    host: str
    process_id: str
    epoch: int
    topology_epoch: int
    # Where its process answers queries, as host and port.
    endpoint: tuple[str, int] | None
    active_tasks: tuple[StreamsTask, ...]
    standby_tasks: tuple[StreamsTask, ...]
    target_active_tasks: tuple[StreamsTask, ...]
    target_standby_tasks: tuple[StreamsTask, ...]


class StreamsGroupDescription(NamedTuple):
    """A streams group as its coordinator has it."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    topology_epoch: int | None
    subtopologies: tuple[StreamsSubtopology, ...]
    members: tuple[StreamsMemberDescription, ...]


class StreamsAdmin(AdminBase):
    """The part of the admin client that is about streams groups."""

    async def describe_streams_group(self, group: str) -> StreamsGroupDescription:
        """One group; raises KafkaError if there is no such group."""
        what = f"description of streams group {group!r}"

        async def ask(connection: Connection) -> Any:
            request = StreamsGroupDescribeRequest(group_ids=[group])
            (row,) = (await connection.request(request)).groups
            if not row.error_code:
                return row
            return KafkaError(
                Errors.of(row.error_code), what, message=row.error_message, node=connection.address
            )

        row = await ask_coordinator(
            self.cluster, CoordinatorType.GROUP, group, what, self._timeout_ms, ask
        )
        topology = row.topology
        return StreamsGroupDescription(
            row.group_id,
            row.group_state,
            row.group_epoch,
            row.assignment_epoch,
            None if topology is None else topology.epoch,
            tuple(_subtopology(one) for one in (topology and topology.subtopologies) or ()),
            tuple(streams_member(one) for one in row.members),
        )


def _subtopology(row: Any) -> StreamsSubtopology:
    return StreamsSubtopology(
        row.subtopology_id,
        tuple(row.source_topics),
        tuple(topic.name for topic in row.repartition_source_topics),
        tuple(row.repartition_sink_topics),
        tuple(topic.name for topic in row.state_changelog_topics),
    )


def streams_member(row: Any) -> StreamsMemberDescription:
    """A member from the answer of a broker."""
    endpoint = row.user_endpoint
    return StreamsMemberDescription(
        row.member_id,
        row.client_id,
        row.client_host,
        row.process_id,
        row.member_epoch,
        row.topology_epoch,
        None if endpoint is None else (endpoint.host, endpoint.port),
        _tasks(row.assignment.active_tasks),
        _tasks(row.assignment.standby_tasks),
        _tasks(row.target_assignment.active_tasks),
        _tasks(row.target_assignment.standby_tasks),
    )


def _tasks(rows: Iterable[Any]) -> tuple[StreamsTask, ...]:
    return tuple(
        StreamsTask(row.subtopology_id, number) for row in rows for number in row.partitions
    )
