"""The answer to a request that is refused as a whole, in the shape of its own API.

APIs that answer item by item repeat the error for each item; the others have one place for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

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
    from kaa.wire.errors import Errors
    from kaa.wire.schema import Request, Response

Answer = TypeVar("Answer")


def error_response(
    request: Request[Answer], version: int, error: Errors, message: str | None
) -> Answer:
    """What the sender of a request gets when all of it is refused."""
    facts: dict[str, Any] = {"error_code": error, "error_message": message}
    response = _about_topics(request, version, facts) or _about_settings(request, facts)
    if response is None:
        response = _with_top_level_error(request, facts)
    return cast("Answer", response)


def _about_topics(request: Request, version: int, facts: dict[str, Any]) -> Response | None:
    match request:
        case k19_create_topics.CreateTopicsRequest():
            return k19_create_topics.CreateTopicsResponse(
                topics=[
                    k19_create_topics.CreatableTopicResult(name=topic.name, configs=[], **facts)
                    for topic in request.topics
                ]
            )
        case k20_delete_topics.DeleteTopicsRequest():
            wanted = [(topic.name, topic.topic_id) for topic in request.topics]
            wanted += [(name, UUID_ZERO) for name in request.topic_names]
            return k20_delete_topics.DeleteTopicsResponse(
                responses=[
                    k20_delete_topics.DeletableTopicResult(name=name, topic_id=topic_id, **facts)
                    for name, topic_id in wanted
                ]
            )
        case k37_create_partitions.CreatePartitionsRequest():
            return k37_create_partitions.CreatePartitionsResponse(
                results=[
                    k37_create_partitions.CreatePartitionsTopicResult(name=topic.name, **facts)
                    for topic in request.topics
                ]
            )
        case k43_elect_leaders.ElectLeadersRequest():
            return k43_elect_leaders.ElectLeadersResponse(
                # The oldest version has no place for it.
                error_code=facts["error_code"] if version > 0 else 0,
                replica_election_results=[
                    k43_elect_leaders.ReplicaElectionResult(
                        topic=topic.topic,
                        partition_result=[
                            k43_elect_leaders.PartitionResult(partition_id=number, **facts)
                            for number in topic.partitions
                        ],
                    )
                    for topic in request.topic_partitions or ()
                ],
            )
        case k45_alter_partition_reassignments.AlterPartitionReassignmentsRequest():
            return _about_reassignments(request, facts)
    return None


def _about_reassignments(
    request: k45_alter_partition_reassignments.AlterPartitionReassignmentsRequest,
    facts: dict[str, Any],
) -> Response:
    return k45_alter_partition_reassignments.AlterPartitionReassignmentsResponse(
        responses=[
            k45_alter_partition_reassignments.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    k45_alter_partition_reassignments.ReassignablePartitionResponse(
                        partition_index=partition.partition_index, **facts
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        **facts,
    )


def _about_settings(request: Request, facts: dict[str, Any]) -> Response | None:
    match request:
        case k33_alter_configs.AlterConfigsRequest():
            return k33_alter_configs.AlterConfigsResponse(
                responses=[
                    k33_alter_configs.AlterConfigsResourceResponse(
                        resource_type=resource.resource_type,
                        resource_name=resource.resource_name,
                        **facts,
                    )
                    for resource in request.resources
                ]
            )
        case k44_incremental_alter_configs.IncrementalAlterConfigsRequest():
            return k44_incremental_alter_configs.IncrementalAlterConfigsResponse(
                responses=[
                    k44_incremental_alter_configs.AlterConfigsResourceResponse(
                        resource_type=resource.resource_type,
                        resource_name=resource.resource_name,
                        **facts,
                    )
                    for resource in request.resources
                ]
            )
        case k49_alter_client_quotas.AlterClientQuotasRequest():
            return k49_alter_client_quotas.AlterClientQuotasResponse(
                entries=[
                    k49_alter_client_quotas.ResponseEntryData(entity=entry.entity, **facts)
                    for entry in request.entries
                ]
            )
    return None


def _with_top_level_error(request: Request, facts: dict[str, Any]) -> Response:
    response = api(type(request).api_key).response()
    for name, value in facts.items():
        if hasattr(response, name):
            setattr(response, name, value)
    return response
