"""Commits of members of a consumer group within a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.consumer.group import validate_partition_commit
from kaa.coordinators.machine import CoordinatorError
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.coordinators.group.consumer.group import ConsumerGroup
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest


def validate_transactional_commit(
    group: ConsumerGroup, request: TxnOffsetCommitRequest, topics: GroupTopics
) -> None:
    """Producers know generations alone: a stale member epoch is an illegal one."""
    try:
        behind = group.validate_offset_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            api_version=0,
            is_transactional=True,
        )
        if behind is None:
            return
        for topic in request.topics:
            topic_id = topics.topic_id(topic.name)
            if topic_id is None:
                raise CoordinatorError(Errors.ILLEGAL_GENERATION)
            for partition in topic.partitions:
                validate_partition_commit(
                    behind, request.generation_id, topic_id, partition.partition_index
                )
    except CoordinatorError as refusal:
        if refusal.error is not Errors.STALE_MEMBER_EPOCH:
            raise
        raise CoordinatorError(Errors.ILLEGAL_GENERATION) from None
