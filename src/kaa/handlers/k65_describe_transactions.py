"""DescribeTransactions, key 65: transactions that this broker coordinates, by transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.transaction.state import by_topic_in_pieces
from kaa.handlers.in_slices import asked_in_slices
from kaa.limits import GROUPS_DESCRIBED_PER_SLICE_MAX
from kaa.model.pieces import mapped
from kaa.wire.messages.k65_describe_transactions import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    import asyncio

    from kaa.coordinators.transaction.state import Transaction
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest


def handle(
    services: Services, request: DescribeTransactionsRequest, _: RequestContext
) -> Answer[DescribeTransactionsResponse]:
    def ask(name: str) -> asyncio.Future[TransactionState]:
        return services.transactions.describe(
            name,
            lambda transaction: describe(name, transaction),
            lambda refusal: TransactionState(
                transactional_id=name, error_code=refusal.error, topics=[]
            ),
        )

    return asked_in_slices(
        request.transactional_ids,
        ask,
        lambda states: DescribeTransactionsResponse(transaction_states=states),
        slice_max=GROUPS_DESCRIBED_PER_SLICE_MAX,
    )


def describe(transactional_id: str, transaction: Transaction) -> Pieces[TransactionState]:
    producer_id, producer_epoch = transaction.client_identity
    numbers = yield from by_topic_in_pieces(transaction.partitions)
    topics = yield from mapped(
        lambda item: TopicData(topic=item[0], partitions=item[1]), numbers.items()
    )
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=topics,
    )
