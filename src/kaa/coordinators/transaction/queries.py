"""DescribeTransactions and ListTransactions: answers from committed state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import re2

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.transaction.state import TransactionState, by_topic
from kaa.wire.errors import Errors
from kaa.wire.messages.k65_describe_transactions import TopicData
from kaa.wire.messages.k65_describe_transactions import TransactionState as DescribedTransaction
from kaa.wire.messages.k66_list_transactions import TransactionState as ListedTransaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.coordinators.transaction.machine import TransactionMachine
    from kaa.coordinators.transaction.state import Transaction
    from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest


def describe(machine: TransactionMachine, transactional_id: str) -> DescribedTransaction:
    """CoordinatorError if there is none."""
    transaction = machine.transactions.committed(transactional_id)
    if transaction is None:
        raise CoordinatorError(Errors.TRANSACTIONAL_ID_NOT_FOUND)
    producer_id, producer_epoch = transaction.client_identity
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(transaction.partitions).items()
        ],
    )


class Filter(NamedTuple):
    """Which transactions are asked for."""

    # None if every state will do.
    states: frozenset[TransactionState] | None
    producer_ids: frozenset[int]
    # Only those open for longer; -1 for all.
    duration_ms: int
    # Of the whole transactional id; None for every one.
    pattern: Any

    def accepts(self, transactional_id: str, transaction: Transaction, now_ms: int) -> bool:
        return (
            (self.states is None or transaction.state in self.states)
            and (not self.producer_ids or transaction.producer_id in self.producer_ids)
            and (self.duration_ms < 0 or now_ms - transaction.start_timestamp_ms > self.duration_ms)
            and (self.pattern is None or self.pattern.fullmatch(transactional_id) is not None)
        )


def _filter(request: ListTransactionsRequest) -> tuple[Filter, list[str]]:
    """The filter, and the names of states that there are not. CoordinatorError for a pattern that
    is not one.
    """
    by_title = {state.title: state for state in TransactionState}
    known = frozenset(by_title[name] for name in request.state_filters if name in by_title)
    unknown = [name for name in request.state_filters if name not in by_title]
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = re2.compile(request.transactional_id_pattern)
        except re2.error as error:
            raise CoordinatorError(Errors.INVALID_REGULAR_EXPRESSION, str(error)) from None
    found = Filter(
        known if request.state_filters else None,
        frozenset(request.producer_id_filters),
        request.duration_filter,
        pattern,
    )
    return found, unknown


class ListedTransactions(NamedTuple):
    """What was found, and the names of states asked for that there are not."""

    transactions: list[ListedTransaction]
    unknown_states: list[str]


def list_transactions(
    machines: Iterable[TransactionMachine], request: ListTransactionsRequest, now_ms: int
) -> ListedTransactions:
    """CoordinatorError for a pattern that is not one."""
    wanted, unknown_states = _filter(request)
    found = [
        ListedTransaction(
            transactional_id=transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.title,
        )
        for machine in machines
        for transactional_id, transaction in machine.transactions.committed_items()
        if wanted.accepts(transactional_id, transaction, now_ms)
    ]
    return ListedTransactions(found, unknown_states)
