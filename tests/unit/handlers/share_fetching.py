"""Requests of members of a share group: fetches and acknowledgements of the topic t."""

from __future__ import annotations

from typing import Any

from kaa.wire.messages import k78_share_fetch as k78
from kaa.wire.messages import k79_share_acknowledge as k79
from tests.unit.handlers.share_requests import GROUP, initialise, load_shares, topic_id
from tests.unit.handlers.support import Node

# First and last offset, and what is said of them.
Said = tuple[int, int, list[int]]


def ready(node: Node, *sizes: int) -> None:
    """A topic t with a batch per size, of whose first partition the group has state from 0 on."""
    load_shares(node)
    initialise(node, start=0)
    for size in sizes:
        node.append("t", size)


def fetch(
    node: Node, epoch: int, *said: Said, named: bool = True, version: int = 2, **fields: Any
) -> k78.ShareFetchResponse:
    partition = k78.FetchPartition(
        partition_index=fields.pop("number", 0),
        acknowledgement_batches=[
            k78.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in said
        ],
    )
    known = fields.pop("topic_id", None) or topic_id(node)
    topics = [k78.FetchTopic(topic_id=known, partitions=[partition])] if named else []
    settings: dict[str, Any] = {"group_id": GROUP, "member_id": "m", "max_wait_ms": 5_000}
    settings |= {"min_bytes": 1, "max_records": 500, "batch_size": 500, **fields}
    request = k78.ShareFetchRequest(share_session_epoch=epoch, topics=topics, **settings)
    found: k78.ShareFetchResponse = node.ask(request, version)
    return found


def acknowledge(
    node: Node, epoch: int, *said: Said, version: int = 2, **fields: Any
) -> k79.ShareAcknowledgeResponse:
    partition = k79.AcknowledgePartition(
        partition_index=0,
        acknowledgement_batches=[
            k79.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in said
        ],
    )
    topics = [k79.AcknowledgeTopic(topic_id=topic_id(node), partitions=[partition])] if said else []
    settings: dict[str, Any] = {"group_id": GROUP, "member_id": "m", **fields}
    request = k79.ShareAcknowledgeRequest(share_session_epoch=epoch, topics=topics, **settings)
    found: k79.ShareAcknowledgeResponse = node.ask(request, version)
    return found


def held(response: k78.ShareFetchResponse) -> list[tuple[int, int, int]]:
    """First and last offset, and delivery count, of what a member got."""
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in response.responses
        for partition in topic.partitions
        for one in partition.acquired_records
    ]
