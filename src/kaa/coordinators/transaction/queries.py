"""DescribeTransactions and ListTransactions: answers from committed state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import re2

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.transaction.state import TransactionState, by_topic_in_pieces
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.k65_describe_transactions import TopicData
from kaa.wire.messages.k65_describe_transactions import TransactionState as DescribedTransaction
from kaa.wire.messages.k66_list_transactions import TransactionState as ListedTransaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.coordinators.transaction.machine import TransactionMachine
    from kaa.coordinators.transaction.state import Transaction
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest


def describe(machine: TransactionMachine, transactional_id: str) -> Pieces[DescribedTransaction]:
    """CoordinatorError if there is none."""
    transaction = machine.transactions.committed(transactional_id)
    if transaction is None:
        raise CoordinatorError(Errors.TRANSACTIONAL_ID_NOT_FOUND)
    producer_id, producer_epoch = transaction.client_identity
    numbers = yield from by_topic_in_pieces(transaction.partitions)
    topics = yield from mapped(
        lambda item: TopicData(topic=item[0], partitions=item[1]), numbers.items()
    )
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=topics,
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
) -> Pieces[ListedTransactions]:
    """CoordinatorError for a pattern that is not one."""
    wanted, unknown_states = _filter(request)
    found: list[ListedTransaction] = []
    looked_at = 0
    for machine in machines:
        found += yield from _listed(machine, wanted, now_ms)
        looked_at += len(machine.transactions)
        if looked_at >= RECORDS_PER_PIECE:
            looked_at = 0
            yield
    return ListedTransactions(found, unknown_states)


def _listed(
    machine: TransactionMachine, wanted: Filter, now_ms: int
) -> Pieces[list[ListedTransaction]]:
    """One that comes meanwhile is left out, as is one that goes."""
    transactions = machine.transactions

    def listed(transactional_id: str) -> ListedTransaction | None:
        transaction = transactions.committed(transactional_id)
        if transaction is None or not wanted.accepts(transactional_id, transaction, now_ms):
            return None
        return ListedTransaction(
            transactional_id=transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.title,
        )

    found = yield from mapped(listed, transactions.committed_keys())
    return [one for one in found if one is not None]
