"""DescribeShareGroupOffsets, key 90: where share groups are, and how much is left (KIP-932).

| version | what is new |
|---|---|
| 0 | the first that is served |
| 1 | the lag (KIP-1226) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import GROUPS_DESCRIBED_PER_SLICE_MAX
from kaa.model.pieces import mapped
from kaa.model.turns import Turns
from kaa.net.pending import Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kaa.coordinators.machine import CoordinatorError
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.serving.share.offsets import Described, ShareOffset
    from kaa.wire.messages.k90_describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )


def handle(
    services: Services, request: DescribeShareGroupOffsetsRequest, _: RequestContext
) -> Answer[DescribeShareGroupOffsetsResponse]:
    return Pending(_describe(services, request))


async def _describe(
    services: Services, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    turns = Turns(GROUPS_DESCRIBED_PER_SLICE_MAX)
    groups = []
    for group in request.groups:
        await turns.next()
        groups.append(await _group(services, group))
    return DescribeShareGroupOffsetsResponse(groups=groups)


def _group(
    services: Services, asked: DescribeShareGroupOffsetsRequestGroup
) -> Awaitable[DescribeShareGroupOffsetsResponseGroup]:
    group_id, topics = asked.group_id, asked.topics

    def refused(refusal: CoordinatorError) -> DescribeShareGroupOffsetsResponseGroup:
        if refusal.error is Errors.GROUP_ID_NOT_FOUND:
            # A group that is not there has read nothing.
            return DescribeShareGroupOffsetsResponseGroup(group_id=group_id)
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=refusal.error, error_message=refusal.message
        )

    def respond(described: Described) -> Pieces[DescribeShareGroupOffsetsResponseGroup]:
        answers = []
        for number, (name, found) in enumerate(described.items(), 1):
            answers.append((yield from _topic(services, name, found)))
            if number % GROUPS_DESCRIBED_PER_SLICE_MAX == 0:
                yield
        return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=answers)

    wanted = None if topics is None else {one.topic_name: one.partitions for one in topics}
    return services.share_offsets.describe(group_id, wanted, refused, respond)


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
