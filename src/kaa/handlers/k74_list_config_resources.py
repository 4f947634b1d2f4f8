"""ListConfigResources, key 74: the names of everything that has, or could have, settings.

Version 0 was ListClientMetricsResources and lists metrics subscriptions alone (KIP-714). Version 1
takes a list of types, an empty one for all (KIP-1142). Topics and brokers are always listed,
groups and subscriptions only if something is set for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.handlers.in_slices import in_slices
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX
from kaa.model.kinds import ResourceType
from kaa.serving.metadata_view import reachable_brokers
from kaa.wire.errors import Errors
from kaa.wire.messages.k74_list_config_resources import (
    ConfigResource,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k74_list_config_resources import ListConfigResourcesRequest

# In the order of the answer.
_TYPES: Final = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


def handle(
    services: Services, request: ListConfigResourcesRequest, context: RequestContext
) -> Answer[ListConfigResourcesResponse]:
    wanted = set(request.resource_types)
    if context.api_version == 0:
        wanted = {ResourceType.CLIENT_METRICS}
    elif not wanted:
        wanted = set(_TYPES)
    if not wanted <= set(_TYPES):
        return ListConfigResourcesResponse(error_code=Errors.UNSUPPORTED_VERSION)
    return in_slices(
        [
            (kind, name)
            for kind in _TYPES
            if kind in wanted
            for name in _names(services, context, kind)
        ],
        lambda named: ConfigResource(resource_type=named[0], resource_name=named[1]),
        lambda resources: ListConfigResourcesResponse(config_resources=resources),
        slice_max=NAMES_ANSWERED_PER_SLICE_MAX,
    )


def _names(services: Services, context: RequestContext, kind: ResourceType) -> Iterable[str]:
    image = services.image
    if kind is ResourceType.TOPIC:
        return image.topics
    if kind in {ResourceType.BROKER, ResourceType.BROKER_LOGGER}:
        brokers = reachable_brokers(image, context.listener_name, fenced=True)
        return [str(broker.id) for broker, _ in brokers]
    return [name for resource_type, name in image.configs if resource_type == kind]
