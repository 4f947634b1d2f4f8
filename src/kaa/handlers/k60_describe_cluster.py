"""DescribeCluster, key 60: the nodes of the cluster.

A broker listener tells about brokers, a controller listener about controllers; the request says
which of the two it wants, so that a client that was given the wrong address finds out (KIP-919).

| version | what is new |
|---|---|
| 1 | the kind of endpoint that is wanted; version 0 wants brokers |
| 2 | fenced brokers on demand (KIP-1073) |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.handlers import authorized_operations
from kaa.handlers.forwarding import is_controller_listener
from kaa.serving.metadata_view import controller_for_clients, reachable_brokers
from kaa.wire.errors import Errors
from kaa.wire.messages.k60_describe_cluster import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.messages.k60_describe_cluster import DescribeClusterRequest

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_NAMES: Final = {_BROKERS: "brokers", _CONTROLLERS: "controllers"}


def handle(
    services: NodeServices, request: DescribeClusterRequest, context: RequestContext
) -> Answer[DescribeClusterResponse]:
    served = _CONTROLLERS if is_controller_listener(services, context) else _BROKERS
    if request.endpoint_type not in _NAMES:
        return DescribeClusterResponse(
            error_code=Errors.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"endpoint type {request.endpoint_type} is unknown",
        )
    if request.endpoint_type != served:
        return DescribeClusterResponse(
            # Version 0 cannot have meant the other kind, so that the error is older than the kinds.
            error_code=(
                Errors.INVALID_REQUEST
                if context.api_version == 0
                else Errors.MISMATCHED_ENDPOINT_TYPE
            ),
            error_message=f"this listener is for {_NAMES[served]}",
        )
    response = DescribeClusterResponse(endpoint_type=served, cluster_id=services.cluster_id)
    if served == _BROKERS:
        _add_brokers(services, request, context, response)
    else:
        _add_controllers(services, context, response)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations.CLUSTER
    return response


def _add_brokers(
    services: NodeServices,
    request: DescribeClusterRequest,
    context: RequestContext,
    response: DescribeClusterResponse,
) -> None:
    fenced = request.include_fenced_brokers
    for broker, endpoint in reachable_brokers(services.image, context.listener_name, fenced=fenced):
        response.brokers.append(
            DescribeClusterBroker(
                broker_id=broker.id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.is_fenced,
            )
        )
    alive = [broker.broker_id for broker in response.brokers if not broker.is_fenced]
    response.controller_id = controller_for_clients(services.node_id, alive)


def _add_controllers(
    services: NodeServices, context: RequestContext, response: DescribeClusterResponse
) -> None:
    leader_id = services.metadata.leader.node_id
    response.controller_id = -1 if leader_id is None else leader_id
    for controller in services.image.controllers.values():
        for endpoint in controller.endpoints:
            if endpoint.listener == context.listener_name:
                response.brokers.append(
                    DescribeClusterBroker(
                        broker_id=controller.id, host=endpoint.host, port=endpoint.port
                    )
                )
