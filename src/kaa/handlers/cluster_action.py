"""What only nodes of the cluster send, and the one place that asks whether the sender may
(CLUSTER_ACTION).

`NodeView.may_act_as_node` decides. Without an authorizer everybody may, as in Kafka; who can
connect at all is then a matter of the network. Clients fetch too: `k01_fetch` asks for itself where
the replica id says that a follower does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.controller.refusals import error_response
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages import k27_write_txn_markers
from kaa.wire.registry import ApiKey, api
from kaa.wire.schema import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.handlers.context import Answer, Handle, RequestContext
    from kaa.serving.services import NodeServices
    from kaa.wire.schema import Request, Response, Struct

_SHARE_STATE: Final = frozenset(
    {
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    }
)
# The first version that only nodes send, by module.
_SINCE: Final = {
    "k01_fetch_metadata": 0,
    "k24_add_partitions_to_txn": 4,
    "k27_write_txn_markers": 0,
    "k52_vote": 0,
    "k53_begin_quorum_epoch": 0,
    "k54_end_quorum_epoch": 0,
    "k56_alter_partition": 0,
    "k58_envelope": 0,
    "k59_fetch_snapshot": 0,
    "k62_broker_registration": 0,
    "k63_broker_heartbeat": 0,
    "k67_allocate_producer_ids": 0,
    "k70_controller_registration": 0,
    "k73_assign_replicas_to_dirs": 0,
    "k82_update_raft_voter": 0,
    "k83_initialize_share_group_state": 0,
    "k84_read_share_group_state": 0,
    "k85_write_share_group_state": 0,
    "k86_delete_share_group_state": 0,
    "k87_read_share_group_state_summary": 0,
}


def guarded(module: str, handle: Handle) -> Handle:
    """The handler of a module; if only nodes may send what it serves, they are checked first."""
    since = _SINCE.get(module)
    if since is None:
        return handle

    def ask_first(
        services: NodeServices, request: Request, context: RequestContext
    ) -> Answer[Response]:
        if context.api_version >= since and not may_act_as_node(services, context):
            return _refusal(request, context.api_version)
        return handle(services, request, context)

    return ask_first


def may_act_as_node(services: NodeServices, context: RequestContext) -> bool:
    return services.view.may_act_as_node(context.listener_name, context.connection.peer)


def _refusal(request: Request, version: int) -> Response:
    error = Errors.CLUSTER_AUTHORIZATION_FAILED
    if isinstance(request, k27_write_txn_markers.WriteTxnMarkersRequest):
        return _unmarked(request, error)
    if request.api_key in _SHARE_STATE:
        return _by_partition(request, error)
    # They have one place for it, so that there is nothing to take turns for.
    response: Response = finish(error_response(request, version, error, error.message))
    return response


def _unmarked(request: k27_write_txn_markers.WriteTxnMarkersRequest, error: Errors) -> Response:
    module = k27_write_txn_markers
    return module.WriteTxnMarkersResponse(
        markers=[
            module.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    module.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            module.WritableTxnMarkerPartitionResult(
                                partition_index=number, error_code=error
                            )
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _by_partition(request: Any, error: Errors) -> Response:
    """The five answers about share state have one shape."""
    response: Any = api(request.api_key).response()
    topic_result = _element(type(response), "results")
    result = _element(topic_result, "partitions")
    facts = {"error_code": error, "error_message": error.message}
    response.results = [
        topic_result(
            topic_id=topic.topic_id,
            partitions=[result(partition=one.partition, **facts) for one in topic.partitions],
        )
        for topic in request.topics
    ]
    found: Response = response
    return found


def _element(struct: type[Struct], name: str) -> Any:
    fields: Iterable[Any] = fields_of(struct)
    return next(each.element for each in fields if each.name == name)
