"""FindCoordinator, key 10: which broker coordinates a group or a transactional id.

The coordinator is the leader of a partition of an internal topic. The topic is created when it is
first asked for; until it is there, and while its partition has no leader that the client can reach,
the answer is COORDINATOR_NOT_AVAILABLE, and the client asks again. Of a new topic the partition
that somebody asked for is made before the others, so that the next request finds its coordinator.

Groups have key type 0, transactions key type 1, and the state of share partitions key type 2, from
version 6 on; their keys are `group:topic id:partition`. Version 4 asks for many keys at once
(KIP-699).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.limits import OFFSETS_LISTED_PER_SLICE_MAX
from kaa.model.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kaa.model.turns import Turns
from kaa.net.pending import Pending
from kaa.serving.applied import until_applied
from kaa.serving.metadata_view import visible_leader
from kaa.wire.errors import Errors
from kaa.wire.messages.k10_find_coordinator import Coordinator, FindCoordinatorResponse
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from kaa.coordinators.group.coordinator import GroupCoordinator
    from kaa.coordinators.share.coordinator import ShareCoordinator
    from kaa.coordinators.transaction.coordinator import TransactionCoordinator
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_BATCH_VERSION: Final = 4
_SHARE_VERSION: Final = 6


def handle(
    services: Services, request: FindCoordinatorRequest, context: RequestContext
) -> Answer[FindCoordinatorResponse]:
    return Pending(_find_all(services, request, context))


async def _find_all(
    services: Services, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    version = context.api_version
    keys = request.coordinator_keys if version >= _BATCH_VERSION else [request.key]
    found = []
    turns = Turns(OFFSETS_LISTED_PER_SLICE_MAX)
    for key in keys:
        await turns.next()
        found.append(await _find(services, key, request.key_type, context))
    if version >= _BATCH_VERSION:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(
    services: Services, key: str, key_type: int, context: RequestContext
) -> Coordinator:
    if key_type not in {_GROUP, _TRANSACTION, _SHARE}:
        return _refused(key, Errors.INVALID_REQUEST)
    if key_type == _SHARE and (context.api_version < _SHARE_VERSION or not _is_share_key(key)):
        return _refused(key, Errors.INVALID_REQUEST)
    coordinator: GroupCoordinator | TransactionCoordinator | ShareCoordinator
    if key_type == _GROUP:
        name, coordinator = CONSUMER_OFFSETS, services.groups
    elif key_type == _TRANSACTION:
        name, coordinator = TRANSACTION_STATE, services.transactions
    else:
        name, coordinator = SHARE_GROUP_STATE, services.shares
    image = services.image
    topic = image.topics.get(name)
    if topic is None:
        await services.topic_creation.create([name])
        return _refused(key, Errors.COORDINATOR_NOT_AVAILABLE)
    number = coordinator.partition_for(key)
    # So that a coordinator that is asked next does not have to be made first.
    await until_applied(services.replicas, [(name, number)])
    partition = topic.partitions[number]
    leader = image.brokers.get(visible_leader(image, partition, context.listener_name))
    endpoint = None if leader is None else leader.endpoint(context.listener_name)
    if leader is None or endpoint is None:
        return _refused(key, Errors.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(
        key=key,
        node_id=leader.id,
        host=endpoint.host,
        port=endpoint.port,
        error_message="" if context.api_version >= _BATCH_VERSION else Errors.NONE.name,
    )


def _is_share_key(key: str) -> bool:
    """Group, topic id and partition, with colons between them; a group may have colons too."""
    group, _, rest = key.rpartition(":")[0].rpartition(":")
    partition = key.rpartition(":")[2]
    try:
        Uuid.parse(rest)
    except ValueError:
        return False
    return bool(group.strip()) and partition.removeprefix("-").isdecimal()


def _refused(key: str, error: Errors) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=error.message
    )
