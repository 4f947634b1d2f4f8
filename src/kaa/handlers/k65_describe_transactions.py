"""DescribeTransactions, key 65: transactions that this broker coordinates, by transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.handlers.in_slices import asked_in_slices
from kaa.limits import GROUPS_DESCRIBED_PER_SLICE_MAX
from kaa.wire.messages.k65_describe_transactions import (
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    import asyncio

    from kaa.handlers.context import Answer, Encoded, RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest
    from kaa.wire.schema import Response


def handle(
    services: Services, request: DescribeTransactionsRequest, context: RequestContext
) -> Answer[Response | Encoded]:
    def ask(name: str) -> asyncio.Future[TransactionState]:
        return services.transactions.describe(
            name,
            lambda refusal: TransactionState(
                transactional_id=name, error_code=refusal.error, topics=[]
            ),
        )

    return asked_in_slices(
        services,
        context,
        request.transactional_ids,
        ask,
        lambda states: DescribeTransactionsResponse(transaction_states=states),
        slice_max=GROUPS_DESCRIBED_PER_SLICE_MAX,
    )
