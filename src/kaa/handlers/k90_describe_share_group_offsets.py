"""DescribeShareGroupOffsets, key 90: where share groups are, and how much is left (KIP-932).

| version | |
|---|---|
| 0 | the first that is served |
| 1 | the lag (KIP-1226) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.machine import CoordinatorError
from kaa.limits import GROUPS_DESCRIBED_PER_SLICE_MAX
from kaa.model.pieces import mapped
from kaa.serving.turns import Turns, in_turns
from kaa.wire.errors import Errors
from kaa.wire.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.handlers.context import RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.serving.share.offsets import ShareOffset
    from kaa.wire.messages.k90_describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )


async def handle(
    services: Services, request: DescribeShareGroupOffsetsRequest, _: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    turns = Turns(GROUPS_DESCRIBED_PER_SLICE_MAX)
    groups = []
    for group in request.groups:
        await turns.next()
        groups.append(await _group(services, group))
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _group(
    services: Services, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id, offsets = asked.group_id, services.share_offsets
    topics: dict[str, Iterable[int]]
    try:
        if asked.topics is None:
            known = await offsets.topics_of(group_id)
            topics = {name: sorted(some) for name, some in known.items()}
        else:
            topics = {topic.topic_name: topic.partitions for topic in asked.topics}
    except CoordinatorError as refusal:
        if refusal.error is Errors.GROUP_ID_NOT_FOUND:
            # A group that is not there has read nothing.
            return DescribeShareGroupOffsetsResponseGroup(group_id=group_id)
        shown = refusal.for_clients()
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=shown.error, error_message=shown.message
        )
    described = await offsets.describe(group_id, topics)
    turns = Turns(GROUPS_DESCRIBED_PER_SLICE_MAX)
    answers = []
    for name, found in described.items():
        await turns.next()
        answers.append(await in_turns(_topic(services, name, found)))
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=answers)


def _topic(
    services: Services, name: str, found: dict[int, ShareOffset]
) -> Pieces[DescribeShareGroupOffsetsResponseTopic]:
    image = services.image.topics.get(name)
    partitions = yield from mapped(lambda item: _partition(*item), found.items())
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=UUID_ZERO if image is None else image.id,
        partitions=partitions,
    )


def _partition(number: int, one: ShareOffset) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=number,
        start_offset=one.start_offset,
        leader_epoch=one.leader_epoch,
        lag=one.lag,
        error_code=one.error,
        error_message=None if one.error is Errors.NONE else one.error.message,
    )
