"""EndTxn, key 26: commits or aborts a transaction.

The answer leaves when the decision is durable; markers are written afterwards. With version 5 every
end raises the epoch of the producer, which learns the new one (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.transaction.machine import End
from kaa.net.pending import Pending
from kaa.serving.transactions.additions import fenced_for_client
from kaa.wire.errors import Errors
from kaa.wire.messages.k26_end_txn import EndTxnResponse

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k26_end_txn import EndTxnRequest

_FENCED_VERSION: Final = 2
_EPOCH_BUMP_VERSION: Final = 5


def handle(
    services: Services, request: EndTxnRequest, context: RequestContext
) -> Answer[EndTxnResponse]:
    version = context.api_version
    if not request.transactional_id:
        return EndTxnResponse(error_code=Errors.INVALID_REQUEST)
    wish = End(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        2 if version >= _EPOCH_BUMP_VERSION else 0,
    )
    is_known = version >= _FENCED_VERSION
    return Pending(
        services.transactions.end(
            wish,
            lambda refusal: EndTxnResponse(
                error_code=fenced_for_client(refusal.error, is_known=is_known)
            ),
            lambda producer: EndTxnResponse(
                producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
            ),
        )
    )
