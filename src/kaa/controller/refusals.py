"""The answer to a request that is refused as a whole, in the shape of its own API.

APIs that answer item by item repeat the error for each item; the others have one place for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.wire.messages import (
    k19_create_topics,
    k20_delete_topics,
    k33_alter_configs,
    k44_incremental_alter_configs,
)
from kaa.wire.primitives import UUID_ZERO
from kaa.wire.registry import api

if TYPE_CHECKING:
    from kaa.wire.errors import Errors
    from kaa.wire.schema import Request, Response


def error_response(request: Request, error: Errors, message: str) -> Response:
    """What the sender of a request gets when all of it is refused."""
    facts: dict[str, Any] = {"error_code": error, "error_message": message}
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
    return _with_top_level_error(request, facts)


def _with_top_level_error(request: Request, facts: dict[str, Any]) -> Response:
    response = api(type(request).api_key).response()
    for name, value in facts.items():
        if hasattr(response, name):
            setattr(response, name, value)
    return response
