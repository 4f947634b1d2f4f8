from __future__ import annotations

from typing import Any

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.transaction.queries import list_transactions
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest
from tests.unit.coordinators.transaction.bench import FIRST_ID, NAME, TransactionBench


def listed(bench: TransactionBench, **fields: Any) -> set[str]:
    request = ListTransactionsRequest(**fields)
    found, unknown_states = finish(
        list_transactions([bench.machine], request, bench.now.wall_ms, lambda name, _: name)
    )
    assert unknown_states == []
    return set(found)


def test_only_what_is_committed_is_shown() -> None:
    bench = TransactionBench()
    bench.is_holding = True
    bench.init()
    assert bench.machine.transactions.committed(NAME) is None
    assert listed(bench) == set()
    bench.commit()
    assert listed(bench) == {NAME}


def test_filters_hold_together() -> None:
    bench = TransactionBench()
    bench.init("one")
    bench.init("two")
    bench.add((FIRST_ID + 1, 0), 0, name="two")
    bench.now_ms += 5_000
    assert listed(bench, duration_filter=4_999, state_filters=["Ongoing"]) == {"two"}
    assert listed(bench, duration_filter=5_000, state_filters=["Ongoing"]) == set()
    assert listed(bench, producer_id_filters=[FIRST_ID, FIRST_ID + 1]) == {"one", "two"}
    # The pattern is of the whole name.
    assert listed(bench, transactional_id_pattern="t.*") == {"two"}
    assert listed(bench, transactional_id_pattern="t") == set()


def test_a_pattern_that_is_none() -> None:
    request = ListTransactionsRequest(transactional_id_pattern="(")
    with pytest.raises(CoordinatorError) as refused:
        finish(list_transactions([], request, 0, lambda name, _: name))
    assert refused.value.error is Errors.INVALID_REGULAR_EXPRESSION
