"""ListTransactions, key 66: the transactions that this broker coordinates.

They can be asked for by state and producer id, from version 1 on by how long they are open, from
version 2 on by a pattern of the transactional id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.net.pending import Pending
from kaa.wire.messages.k66_list_transactions import ListTransactionsResponse, TransactionState

if TYPE_CHECKING:
    from kaa.coordinators.machine import CoordinatorError
    from kaa.coordinators.transaction.state import Transaction
    from kaa.handlers.context import Answer, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest


def handle(
    services: Services, request: ListTransactionsRequest, _context: RequestContext
) -> Answer[ListTransactionsResponse]:
    return Pending(_listed(services, request))


async def _listed(services: Services, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """As a coroutine, so that a thread encodes what is long."""
    return await services.transactions.list_transactions(request, listed, _refused, _respond)


def listed(transactional_id: str, transaction: Transaction) -> TransactionState:
    return TransactionState(
        transactional_id=transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.title,
    )


def _refused(refusal: CoordinatorError) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        error_code=refusal.error, unknown_state_filters=[], transaction_states=[]
    )


def _respond(found: tuple[list[TransactionState], list[str]]) -> ListTransactionsResponse:
    transactions, unknown_states = found
    return ListTransactionsResponse(
        unknown_state_filters=unknown_states, transaction_states=transactions
    )
