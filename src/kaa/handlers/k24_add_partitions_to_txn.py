"""AddPartitionsToTxn, key 24: makes partitions part of a transaction, or tells whether they are.

Versions 0 to 3 are for clients, which name one transaction. Version 4 is for brokers: many
transactions at once, and the verification of KIP-890. Version 2 brought PRODUCER_FENCED, version 5
TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.net.pending import Pending

if TYPE_CHECKING:
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k24_add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
    )


def handle(
    services: Services, request: AddPartitionsToTxnRequest, context: RequestContext
) -> Answer[AddPartitionsToTxnResponse]:
    return Pending(services.additions.answer(request, context.api_version))
