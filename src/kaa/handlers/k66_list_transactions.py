"""ListTransactions, key 66: the transactions that this broker coordinates.

They can be asked for by state and producer id, from version 1 on by how long they are open, from
version 2 on by a pattern of the transactional id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k66_list_transactions import (
        ListTransactionsRequest,
        ListTransactionsResponse,
    )


def handle(
    services: Services, request: ListTransactionsRequest, _context: RequestContext
) -> ListTransactionsResponse:
    return services.transactions.list_transactions(request)
