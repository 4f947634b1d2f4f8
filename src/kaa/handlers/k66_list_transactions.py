"""ListTransactions, key 66: the transactions that this broker coordinates.

They can be asked for by state and producer id, from version 1 on by how long they are open, from
version 2 on by a pattern of the transactional id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.net.pending import Pending
from kaa.wire.messages.k66_list_transactions import ListTransactionsResponse

if TYPE_CHECKING:
    from kaa.coordinators.machine import CoordinatorError
    from kaa.coordinators.transaction.queries import ListedTransactions
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest


def handle(
    services: Services, request: ListTransactionsRequest, _context: RequestContext
) -> Answer[ListTransactionsResponse]:
    return Pending(services.transactions.list_transactions(request, _refused, _respond))


def _refused(refusal: CoordinatorError) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        error_code=refusal.error, unknown_state_filters=[], transaction_states=[]
    )


def _respond(listed: ListedTransactions) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        unknown_state_filters=listed.unknown_states, transaction_states=listed.transactions
    )
