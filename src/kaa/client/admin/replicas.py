"""Replicas and leaders for the admin client: reassignments, and elections that people ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.client.admin.base import AdminBase, outcome
from kaa.client.arguments import broker_ids_of, pairs_of, partition_of, partitions_of
from kaa.client.errors import check
from kaa.model.topics import TopicPartition
from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kaa.wire.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaa.client.errors import KafkaError

PartitionOutcome = dict[TopicPartition, "KafkaError | None"]
"""By partition: None where it was done, else why not."""


class Reassignment(NamedTuple):
    """A partition on its way to other brokers; `replicas` has the old and the new ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReplicaAdmin(AdminBase):
    """The part of the admin client that is about replicas."""

    async def alter_partition_reassignments(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> PartitionOutcome:
        """Moves partitions to these replicas, the first to lead; None takes a move back."""
        topics: dict[str, ReassignableTopic] = {}
        for partition, replicas in pairs_of(wanted, "partitions and lists of broker ids"):
            name, number = partition_of(partition)
            if isinstance(replicas, int | str):
                text = f"replicas of {name}-{number} are a list of broker ids, not {replicas!r}"
                raise TypeError(text)
            topic = topics.setdefault(name, ReassignableTopic(name=name, partitions=[]))
            topic.partitions.append(
                ReassignablePartition(
                    partition_index=number,
                    replicas=None if replicas is None else broker_ids_of(replicas),
                )
            )
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms, topics=list(topics.values())
        )
        what = "cannot reassign partitions"
        response, node = await self._change(request, what)
        check(response.error_code, what, message=response.error_message, node=node)
        return {
            TopicPartition(topic.name, one.partition_index): outcome(
                one, f"cannot reassign {topic.name}-{one.partition_index}", node
            )
            for topic in response.responses
            for one in topic.partitions
        }

    async def list_partition_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """All partitions that are on their way."""
        what = "list of reassignments"
        request = ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms)
        response, node = await self._change(request, what)
        check(response.error_code, what, message=response.error_message, node=node)
        return {
            TopicPartition(topic.name, one.partition_index): Reassignment(
                tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
            )
            for topic in response.topics
            for one in topic.partitions
        }

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> PartitionOutcome:
        """Elects preferred leaders, or any live replica; for these partitions, or for all.

        Where nothing needs to change, ELECTION_NOT_NEEDED is the answer for a partition that was
        named, and none for one that was not.
        """
        topics: dict[str, TopicPartitions] | None = None
        if partitions is not None:
            topics = {}
            for name, number in partitions_of(partitions):
                topic = topics.setdefault(name, TopicPartitions(topic=name, partitions=[]))
                topic.partitions.append(number)
        request = ElectLeadersRequest(
            election_type=1 if unclean else 0,
            topic_partitions=None if topics is None else list(topics.values()),
            timeout_ms=self._timeout_ms,
        )
        what = "cannot elect leaders"
        response, node = await self._change(request, what)
        check(response.error_code, what, node=node)
        return {
            TopicPartition(topic.topic, one.partition_id): outcome(
                one, f"cannot elect a leader of {topic.topic}-{one.partition_id}", node
            )
            for topic in response.replica_election_results
            for one in topic.partition_result
        }
