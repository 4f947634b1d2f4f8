"""The answer to a request that is refused as a whole, in the shape of its own API.

APIs that answer item by item repeat the error for each item; the others have one place for it.
Where there are very many items, the answer is made in pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from kaa.model.pieces import mapped, mapped_groups
from kaa.wire.messages import (
    k19_create_topics,
    k20_delete_topics,
    k33_alter_configs,
    k37_create_partitions,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k45_alter_partition_reassignments,
    k49_alter_client_quotas,
)
from kaa.wire.primitives import UUID_ZERO
from kaa.wire.registry import api

if TYPE_CHECKING:
    from kaa.model.pieces import Pieces
    from kaa.wire.errors import Errors
    from kaa.wire.schema import Request, Response

Answer = TypeVar("Answer")


def error_response(
    request: Request[Answer], version: int, error: Errors, message: str | None
) -> Pieces[Answer]:
    """What the sender of a request gets when all of it is refused."""
    facts: dict[str, Any] = {"error_code": error, "error_message": message}
    response = yield from _about_topics(request, version, facts)
    if response is None:
        response = yield from _about_settings(request, facts)
    if response is None:
        response = _with_top_level_error(request, facts)
    return cast("Answer", response)


def _about_topics(request: Request, version: int, facts: dict[str, Any]) -> Pieces[Response | None]:
    match request:
        case k19_create_topics.CreateTopicsRequest():
            topics = yield from mapped(
                lambda topic: k19_create_topics.CreatableTopicResult(
                    name=topic.name, configs=[], **facts
                ),
                request.topics,
            )
            return k19_create_topics.CreateTopicsResponse(topics=topics)
        case k20_delete_topics.DeleteTopicsRequest():
            result = k20_delete_topics.DeletableTopicResult
            responses = yield from mapped(
                lambda topic: result(name=topic.name, topic_id=topic.topic_id, **facts),
                request.topics,
            )
            responses += yield from mapped(
                lambda name: result(name=name, topic_id=UUID_ZERO, **facts), request.topic_names
            )
            return k20_delete_topics.DeleteTopicsResponse(responses=responses)
        case k37_create_partitions.CreatePartitionsRequest():
            results = yield from mapped(
                lambda topic: k37_create_partitions.CreatePartitionsTopicResult(
                    name=topic.name, **facts
                ),
                request.topics,
            )
            return k37_create_partitions.CreatePartitionsResponse(results=results)
        case k43_elect_leaders.ElectLeadersRequest():
            return (yield from _about_elections(request, version, facts))
        case k45_alter_partition_reassignments.AlterPartitionReassignmentsRequest():
            return (yield from _about_reassignments(request, facts))
    return None


def _about_elections(
    request: k43_elect_leaders.ElectLeadersRequest, version: int, facts: dict[str, Any]
) -> Pieces[Response]:
    results = yield from mapped_groups(
        request.topic_partitions or (),
        lambda topic: topic.partitions,
        lambda number: k43_elect_leaders.PartitionResult(partition_id=number, **facts),
        lambda topic, parts: k43_elect_leaders.ReplicaElectionResult(
            topic=topic.topic, partition_result=parts
        ),
    )
    # The oldest version has no place for it.
    error_code = facts["error_code"] if version > 0 else 0
    return k43_elect_leaders.ElectLeadersResponse(
        error_code=error_code, replica_election_results=results
    )


def _about_reassignments(
    request: k45_alter_partition_reassignments.AlterPartitionReassignmentsRequest,
    facts: dict[str, Any],
) -> Pieces[Response]:
    module = k45_alter_partition_reassignments
    responses = yield from mapped_groups(
        request.topics,
        lambda topic: topic.partitions,
        lambda partition: module.ReassignablePartitionResponse(
            partition_index=partition.partition_index, **facts
        ),
        lambda topic, parts: module.ReassignableTopicResponse(name=topic.name, partitions=parts),
    )
    return module.AlterPartitionReassignmentsResponse(responses=responses, **facts)


def _about_settings(request: Request, facts: dict[str, Any]) -> Pieces[Response | None]:
    match request:
        case k33_alter_configs.AlterConfigsRequest():
            responses = yield from mapped(
                lambda resource: k33_alter_configs.AlterConfigsResourceResponse(
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    **facts,
                ),
                request.resources,
            )
            return k33_alter_configs.AlterConfigsResponse(responses=responses)
        case k44_incremental_alter_configs.IncrementalAlterConfigsRequest():
            altered = yield from mapped(
                lambda resource: k44_incremental_alter_configs.AlterConfigsResourceResponse(
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    **facts,
                ),
                request.resources,
            )
            return k44_incremental_alter_configs.IncrementalAlterConfigsResponse(responses=altered)
        case k49_alter_client_quotas.AlterClientQuotasRequest():
            entries = yield from mapped(
                lambda entry: k49_alter_client_quotas.ResponseEntryData(
                    entity=entry.entity, **facts
                ),
                request.entries,
            )
            return k49_alter_client_quotas.AlterClientQuotasResponse(entries=entries)
    return None


def _with_top_level_error(request: Request, facts: dict[str, Any]) -> Response:
    response = api(type(request).api_key).response()
    for name, value in facts.items():
        if hasattr(response, name):
            setattr(response, name, value)
    return response
