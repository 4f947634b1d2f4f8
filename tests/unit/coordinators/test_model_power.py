"""What the models of coordinators would notice: each planted fault has to make one fail.

A model that passes says little unless it is known to fail. The faults are those that a slip in the
code would make; every one is looked for without a shrink, and so found in a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from kaa.coordinators.group.classic.group import ClassicGroup
from kaa.coordinators.group.classic.groups import ClassicGroups
from kaa.coordinators.group.consumer import reconcile
from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.offsets.committed import Offsets
from kaa.coordinators.machine import CoordinatorResult
from kaa.coordinators.timeline import TimelineDict
from kaa.coordinators.transaction import machine as transaction_machine
from kaa.coordinators.transaction import state as transaction_state
from kaa.coordinators.transaction.machine import Decision, DecisionWritten, TransactionMachine
from kaa.coordinators.transaction.state import BEFORE, Transaction, TransactionState
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.consumer.test_model import ConsumerGroupModel
from tests.unit.coordinators.group.offsets.test_transactional_model import TransactionalOffsetsModel
from tests.unit.coordinators.group.test_model import GroupModel
from tests.unit.coordinators.transaction.test_model import TransactionModel

# Many more than are needed, so that another order of examples finds the fault as well.
SEARCH = settings(
    max_examples=2_000,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)

Plant = Callable[[pytest.MonkeyPatch], None]


def _wrong_outcome(patch: pytest.MonkeyPatch) -> None:
    decided = Transaction.decided

    def wrong(self: Transaction, *, is_commit: bool, **fields: Any) -> Transaction:
        is_open = self.state is TransactionState.ONGOING
        return decided(self, is_commit=is_commit is not is_open, **fields)

    patch.setattr(Transaction, "decided", wrong)


def _no_epoch_bump(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_state, "EPOCH_BUMP_VERSION", 99)


def _time_ends_a_decided_commit(patch: pytest.MonkeyPatch) -> None:
    before = {
        **BEFORE,
        TransactionState.PREPARE_ABORT: BEFORE[TransactionState.PREPARE_ABORT]
        | {TransactionState.PREPARE_COMMIT},
    }
    patch.setattr(transaction_state, "BEFORE", before)

    def can_run_out(transaction: Transaction) -> bool:
        return transaction.state in {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT}

    patch.setattr(transaction_machine, "_can_run_out", can_run_out)


def _markers_before_the_decision_is_committed(patch: pytest.MonkeyPatch) -> None:
    store = TransactionMachine._store

    def early(
        self: TransactionMachine, name: str, transaction: Transaction, answer: Any, then: Any = None
    ) -> Any:
        result = store(self, name, transaction, answer)
        if isinstance(then, DecisionWritten):
            return result._replace(effects=[Decision(name, transaction)])
        return result

    patch.setattr(TransactionMachine, "_store", early)


def _a_partition_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    add = Transaction.with_partitions

    def only_new(
        self: Transaction, partitions: frozenset[Any], now_ms: int, version: int
    ) -> Transaction:
        return add(self, partitions, now_ms, version)._replace(partitions=partitions)

    patch.setattr(Transaction, "with_partitions", only_new)


def _decisions_are_not_sent_again_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    appended = TransactionMachine.appended

    def forgetful(self: TransactionMachine, then: Any, error: Errors, now: Any) -> Any:
        if isinstance(then, transaction_machine.Loaded):
            return CoordinatorResult()
        return appended(self, then, error, now)

    patch.setattr(TransactionMachine, "appended", forgetful)


def _old_producers_are_let_in(patch: pytest.MonkeyPatch) -> None:
    current = TransactionMachine._current

    def any_epoch(
        self: TransactionMachine, transaction: Any, producer_id: int, producer_epoch: int
    ) -> Transaction:
        if transaction is not None:
            producer_epoch = transaction.client_identity[1]
        return current(self, transaction, producer_id, producer_epoch)

    patch.setattr(TransactionMachine, "_current", any_epoch)


def _offsets_count_after_an_abort(patch: pytest.MonkeyPatch) -> None:
    end = Offsets.replay_end_transaction

    def always(self: Offsets, producer_id: int, *, is_commit: bool) -> Iterable[None]:
        return end(self, producer_id, is_commit=True)

    patch.setattr(Offsets, "replay_end_transaction", always)


def _an_end_overwrites_what_was_committed_later(patch: pytest.MonkeyPatch) -> None:
    def end(self: Offsets, producer_id: int, *, is_commit: bool) -> Iterable[None]:
        pending: Any = self._pending.get(producer_id) or {}
        for name in tuple(pending):
            found = pending.pop(name)
            if is_commit:
                self.put(name[0], name[1:], found)
        return ()

    patch.setattr(Offsets, "replay_end_transaction", end)


def _readers_see_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TimelineDict, "committed", TimelineDict.get)


def _a_failed_append_is_not_taken_back(patch: pytest.MonkeyPatch) -> None:
    def forget(self: TimelineDict[Any, Any], key: Any) -> None:
        history = self._history[key]
        history.pop()
        if not history:
            del self._history[key]

    patch.setattr(TimelineDict, "undo_newest", forget)


def _a_static_member_is_remembered_after_it_left(patch: pytest.MonkeyPatch) -> None:
    remove = ClassicGroup.remove

    def keep(self: ClassicGroup, member_id: str) -> None:
        static = dict(self.static_members)
        remove(self, member_id)
        self.static_members.update(static)

    patch.setattr(ClassicGroup, "remove", keep)


def _assignments_count_that_were_not_stored(patch: pytest.MonkeyPatch) -> None:
    stored = ClassicGroups.stored
    patch.setattr(
        ClassicGroups, "stored", lambda self, event, _, now: stored(self, event, Errors.NONE, now)
    )


def _partitions_are_given_while_somebody_has_them(patch: pytest.MonkeyPatch) -> None:
    advance = reconcile._advance
    patch.setattr(
        reconcile,
        "_advance",
        lambda member, situation, epoch: advance(member, situation._replace(owners={}), epoch),
    )


def _nobody_waits_for_a_revocation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile, "_owns", lambda _, __: False)


def _a_target_is_not_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "replay_target", lambda *_: iter(()))


FAULTS: list[tuple[type[RuleBasedStateMachine], Plant]] = [
    (TransactionModel, _wrong_outcome),
    (TransactionModel, _no_epoch_bump),
    (TransactionModel, _time_ends_a_decided_commit),
    (TransactionModel, _markers_before_the_decision_is_committed),
    (TransactionModel, _a_partition_is_forgotten),
    (TransactionModel, _decisions_are_not_sent_again_after_a_restart),
    (TransactionModel, _old_producers_are_let_in),
    (TransactionModel, _a_failed_append_is_not_taken_back),
    (TransactionalOffsetsModel, _offsets_count_after_an_abort),
    (TransactionalOffsetsModel, _an_end_overwrites_what_was_committed_later),
    (TransactionalOffsetsModel, _readers_see_what_is_not_committed),
    (TransactionalOffsetsModel, _a_failed_append_is_not_taken_back),
    (GroupModel, _a_static_member_is_remembered_after_it_left),
    (GroupModel, _assignments_count_that_were_not_stored),
    (ConsumerGroupModel, _partitions_are_given_while_somebody_has_them),
    (ConsumerGroupModel, _nobody_waits_for_a_revocation),
    (ConsumerGroupModel, _a_target_is_not_stored),
    (ConsumerGroupModel, _a_failed_append_is_not_taken_back),
]


@pytest.mark.parametrize(
    ("model", "plant"),
    FAULTS,
    ids=[f"{model.__name__}-{plant.__name__.strip('_')}" for model, plant in FAULTS],
)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, model: type[RuleBasedStateMachine], plant: Plant
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(model, settings=SEARCH)
