"""AddOffsetsToTxn, key 25: makes the offsets of a group part of a transaction.

To the coordinator that is one more partition, that of the group in the offsets topic. Clients of
transaction version 2 do not ask: TxnOffsetCommit 5 does it for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.model.topics import CONSUMER_OFFSETS
from kaa.net.pending import Pending
from kaa.serving.transactions.additions import fenced_for_client
from kaa.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest

_FENCED_VERSION: Final = 2


def handle(
    services: Services, request: AddOffsetsToTxnRequest, context: RequestContext
) -> Answer[AddOffsetsToTxnResponse]:
    is_known = context.api_version >= _FENCED_VERSION
    return Pending(
        services.transactions.add_partitions(
            request.transactional_id,
            (request.producer_id, request.producer_epoch),
            frozenset({(CONSUMER_OFFSETS, services.groups.partition_for(request.group_id))}),
            0,
            lambda error: AddOffsetsToTxnResponse(
                error_code=fenced_for_client(error, is_known=is_known)
            ),
        )
    )
