"""Requests of groups, as tests of their handlers send them."""

from __future__ import annotations

from typing import Any

from kaa.wire.errors import Errors
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kaa.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kaa.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kaa.wire.primitives import UUID_ZERO, Uuid
from tests.unit.handlers.support import Node

GROUP = "g"
METADATA = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"


def commit_request(
    group: str = GROUP,
    *partitions: tuple[str, int, int],
    topic_id: Uuid = UUID_ZERO,
    metadata: str | None = None,
) -> OffsetCommitRequest:
    """Offsets as topic, partition and offset."""
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name="" if topic_id != UUID_ZERO else topic,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                    )
                ],
            )
            for topic, partition, offset in partitions
        ],
    )


def committed(node: Node, *partitions: tuple[str, int, int], group: str = GROUP) -> None:
    answer = node.ask(commit_request(group, *partitions), 9)
    errors = [one.error_code for topic in answer.topics for one in topic.partitions]
    assert errors == [Errors.NONE] * len(partitions)


def join_request(group: str = GROUP, member_id: str = "", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        session_timeout_ms=fields.pop("session_timeout_ms", 10_000),
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=METADATA)],
        **fields,
    )


def stable_member(node: Node, group: str = GROUP) -> str:
    """The id of the only member of a stable group."""
    member_id = str(node.ask(join_request(group), 9).member_id)
    joined = node.ask(join_request(group, member_id), 9)
    assert joined.error_code == Errors.NONE
    request = SyncGroupRequest(
        group_id=group,
        member_id=member_id,
        generation_id=joined.generation_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"A")],
    )
    assert node.ask(request).assignment == b"A"
    return member_id
