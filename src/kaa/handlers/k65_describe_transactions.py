"""DescribeTransactions, key 65: transactions that this broker coordinates, by transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsResponse

if TYPE_CHECKING:
    from kaa.handlers.context import RequestContext
    from kaa.serving.services import Services
    from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest


def handle(
    services: Services, request: DescribeTransactionsRequest, _context: RequestContext
) -> DescribeTransactionsResponse:
    described = [services.transactions.describe(name) for name in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=described)
