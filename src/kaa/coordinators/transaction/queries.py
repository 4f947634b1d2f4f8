"""Which transactions are asked for, and found in committed state."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kaa.coordinators.regex import compile_regex
from kaa.coordinators.transaction.state import TransactionState
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX, RECORDS_PER_PIECE
from kaa.model.pieces import mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.coordinators.transaction.machine import TransactionMachine
    from kaa.coordinators.transaction.state import Transaction
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest

Shown = TypeVar("Shown")


class Filter(NamedTuple):
    """Which transactions are asked for."""

    # None if every state will do.
    states: set[TransactionState] | None
    producer_ids: set[int]
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


def _filter(request: ListTransactionsRequest) -> Pieces[tuple[Filter, list[str]]]:
    """The filter, and the names of states that there are not. CoordinatorError for a pattern that
    is not one.
    """
    by_title = {state.title: state for state in TransactionState}
    known: set[TransactionState] = set()
    unknown: list[str] = []
    for number, name in enumerate(request.state_filters, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        if name in by_title:
            known.add(by_title[name])
        else:
            unknown.append(name)
    producer_ids: set[int] = set()
    rest = iter(request.producer_id_filters)
    while some := list(islice(rest, NAMES_ANSWERED_PER_SLICE_MAX)):
        producer_ids.update(some)
        if len(some) == NAMES_ANSWERED_PER_SLICE_MAX:
            yield
    text = request.transactional_id_pattern
    pattern = compile_regex(text) if text else None
    found = Filter(
        known if request.state_filters else None,
        producer_ids,
        request.duration_filter,
        pattern,
    )
    return found, unknown


def list_transactions(
    machines: Iterable[TransactionMachine],
    request: ListTransactionsRequest,
    now_ms: int,
    show: Callable[[str, Transaction], Shown],
) -> Pieces[tuple[list[Shown], list[str]]]:
    """What `show` makes of each that is asked for, and the names of states that there are not.
    CoordinatorError for a pattern that is not one.
    """
    wanted, unknown_states = yield from _filter(request)
    found: list[Shown] = []
    looked_at = 0
    for machine in machines:
        found += yield from _listed(machine, wanted, now_ms, show)
        looked_at += len(machine.transactions)
        if looked_at >= RECORDS_PER_PIECE:
            looked_at = 0
            yield
    return found, unknown_states


def _listed(
    machine: TransactionMachine,
    wanted: Filter,
    now_ms: int,
    show: Callable[[str, Transaction], Shown],
) -> Pieces[list[Shown]]:
    """One that comes meanwhile is left out, as is one that goes."""
    transactions = machine.transactions

    def shown(transactional_id: str) -> Shown | None:
        transaction = transactions.committed(transactional_id)
        if transaction is None or not wanted.accepts(transactional_id, transaction, now_ms):
            return None
        return show(transactional_id, transaction)

    found = yield from mapped(shown, transactions.committed_keys())
    return [one for one in found if one is not None]
