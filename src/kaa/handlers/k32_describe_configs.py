"""DescribeConfigs, key 32: the settings of topics, brokers, loggers, groups and metrics
subscriptions.

Each resource is answered by itself, with one exception: a type that does not exist spoils the whole
request. A broker tells about itself and about the defaults of all brokers, but not about another
one. An empty list of names stands for all names, and a name without a setting is left out.

| version | what is new |
|---|---|
| 1 | synonyms and sources (KIP-226) |
| 3 | types and documentation (KIP-569) |
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from kaa.config.describe import (
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_loggers,
    describe_topic,
)
from kaa.controller.names import topic_name_problem
from kaa.controller.result import ControllerError
from kaa.handlers.in_slices import in_slices, in_slices_and_pieces
from kaa.limits import CONFIG_RESOURCES_PER_SLICE_MAX, NAMES_ANSWERED_PER_SLICE_MAX
from kaa.model.kinds import ConfigSource, ResourceType
from kaa.serving.logger_levels import logger_levels
from kaa.serving.node_ids import check_node_id
from kaa.wire.errors import Errors
from kaa.wire.messages.k32_describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from kaa.config.describe import ConfigEntry
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k32_describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )

_TYPES: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN}


def handle(
    services: NodeServices, request: DescribeConfigsRequest, _: RequestContext
) -> Answer[DescribeConfigsResponse]:
    if any(resource.resource_type not in _TYPES for resource in request.resources):
        error, message = Errors.INVALID_REQUEST, "a resource has a type that does not exist"
        return in_slices(
            request.resources,
            lambda resource: _failed(resource, error, message),
            lambda results: DescribeConfigsResponse(results=results),
            slice_max=NAMES_ANSWERED_PER_SLICE_MAX,
        )
    return in_slices_and_pieces(
        request.resources,
        lambda resource: _described(services, request, resource),
        lambda results: DescribeConfigsResponse(results=results),
        slice_max=CONFIG_RESOURCES_PER_SLICE_MAX,
        cost=lambda resource: (
            1 + len(resource.configuration_keys or ()) // NAMES_ANSWERED_PER_SLICE_MAX
        ),
    )


def _described(
    services: NodeServices, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> Pieces[DescribeConfigsResult]:
    keys = yield from _distinct(resource.configuration_keys)
    try:
        entries = _entries(services, resource, keys)
    except ControllerError as refusal:
        return _failed(resource, refusal.error, refusal.message)
    if entries is None:
        return _failed(resource, Errors.UNKNOWN_TOPIC_OR_PARTITION, "")
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            _result(
                entry,
                synonyms=request.include_synonyms,
                documentation=request.include_documentation,
            )
            for entry in entries
        ],
    )


def _distinct(keys: list[str] | None) -> Pieces[set[str]]:
    found: set[str] = set()
    rest = iter(keys or ())
    while some := list(islice(rest, NAMES_ANSWERED_PER_SLICE_MAX)):
        found.update(some)
        if len(some) == NAMES_ANSWERED_PER_SLICE_MAX:
            yield
    return found


def _entries(
    services: NodeServices, resource: DescribeConfigsResource, keys: set[str]
) -> list[ConfigEntry] | None:
    """The settings asked for; None if there is no such topic."""
    name, config = resource.resource_name, services.config
    kind = ResourceType(resource.resource_type)
    overrides = services.image.configs.get((kind, name), {})
    match kind:
        case ResourceType.TOPIC:
            problem = topic_name_problem(name)
            if problem is not None:
                raise ControllerError(Errors.INVALID_TOPIC_EXCEPTION, problem)
            if name not in services.image.topics:
                return None
            return describe_topic(config, overrides, keys)
        case ResourceType.BROKER if not name:
            return describe_broker_defaults(config, keys)
        case ResourceType.BROKER:
            check_node_id(name, services.node_id)
            return describe_broker(config, keys)
        case _ if not name:
            raise ControllerError(Errors.INVALID_REQUEST, "the resource has no name")
        case ResourceType.BROKER_LOGGER:
            check_node_id(name, services.node_id)
            return describe_loggers(logger_levels(), keys)
        case ResourceType.GROUP:
            return describe_group(config, overrides, keys)
        case _:
            return describe_client_metrics(overrides, keys)


def _result(
    entry: ConfigEntry, *, synonyms: bool, documentation: bool
) -> DescribeConfigsResourceResult:
    text = entry.documentation if documentation else None
    if entry.source is ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG:
        text = ""  # Loggers have none, and Kafka leaves the field as it is.
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in (entry.synonyms if synonyms else ())
        ],
        config_type=entry.type,
        documentation=text,
    )


def _failed(
    resource: DescribeConfigsResource, error: Errors, message: str | None
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
