"""DescribeQuorum, key 55: the replicas of the metadata quorum and how far they are (KIP-595).

Only the metadata partition is known; if a request asks for anything else, everything in it is
unknown. Only the leader answers.

| version | what is new |
|---|---|
| 1 | when replicas fetched last, and when they had everything (KIP-836) |
| 2 | directories of replicas, addresses of voters, errors in words (KIP-853) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.forwarding import forward
from kaa.handlers.in_slices import in_slices_and_pieces
from kaa.handlers.quorum_messages import asked_by_name, check_request
from kaa.limits import METADATA_PARTITIONS_PER_SLICE_MAX
from kaa.model.pieces import mapped
from kaa.net.pending import Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k55_describe_quorum import (
    DescribeQuorumResponse,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k55_describe_quorum import DescribeQuorumRequest, RequestTopicData


def handle(
    services: NodeServices, request: DescribeQuorumRequest, context: RequestContext
) -> Answer[DescribeQuorumResponse]:
    if check_request(services, None, asked_by_name(request.topics)) is not Errors.NONE:
        return _unknown(request)
    return Pending(forward(services, request, context))


def _unknown(request: DescribeQuorumRequest) -> Answer[DescribeQuorumResponse]:
    return in_slices_and_pieces(
        request.topics,
        _unknown_topic,
        lambda topics: DescribeQuorumResponse(topics=topics),
        slice_max=METADATA_PARTITIONS_PER_SLICE_MAX,
        cost=lambda topic: 1 + len(topic.partitions),
    )


def _unknown_topic(asked: RequestTopicData) -> Pieces[ResponseTopicData]:
    error = Errors.UNKNOWN_TOPIC_OR_PARTITION
    partitions = yield from mapped(
        lambda partition: ResponsePartitionData(
            partition_index=partition.partition_index,
            error_code=error,
            error_message=error.message,
        ),
        asked.partitions,
    )
    return ResponseTopicData(topic_name=asked.topic_name, partitions=partitions)
