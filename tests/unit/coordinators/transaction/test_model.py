"""Any order of requests, deadlines, markers, slow commits, failed appends and lost leadership.

Partitions are kept beside the machine as brokers would: what is open, and how it was ended. After
every step they agree with what the machine decided, and what was acknowledged stays.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kaa.coordinators.transaction.machine import Decision, End, ProducerIdAndEpoch
from kaa.coordinators.transaction.records import transaction_of_record
from kaa.coordinators.transaction.state import DECIDED, EPOCH_MAX, TransactionState
from kaa.wire.errors import Errors
from kaa.wire.messages.transaction_log import TransactionLogValue
from tests.unit.coordinators.transaction.bench import NAME, TransactionBench

NUMBERS = st.sets(st.integers(0, 2), min_size=1)
# An id, an epoch, and how many transactions were completed before.
Key = tuple[int, int, int]
TIMEOUT_MS = 60_000


class TransactionModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = TransactionBench()
        # Ids and epochs that clients were given, the newest last.
        self.producers: list[tuple[int, int]] = []
        self.version = 2
        self.completed = 0
        # By partition, the open transaction.
        self.open: dict[int, Key] = {}
        self.outcomes: dict[Key, set[bool]] = {}
        # Acknowledged wishes, and those whose answer is under way, by the name of the request: a
        # refusal may come before the answer to an earlier one.
        self.acknowledged: dict[Key, bool] = {}
        self.wishes: dict[str, tuple[Key, bool]] = {}
        self.ends = 0

    @initialize(version=st.sampled_from([0, 2, 2]))
    def start(self, version: int) -> None:
        """Clients of one version; the first of them starts."""
        self.version = version
        self.init_producer()

    # --- what clients do

    def take(self, answers_before: int) -> None:
        """Clients learn what the answers say."""
        for kind, answer in self.bench.answered[answers_before:]:
            if kind in self.wishes:
                key, is_commit = self.wishes.pop(kind)
                if isinstance(answer, ProducerIdAndEpoch):
                    self.acknowledged.setdefault(key, is_commit)
                    if answer.producer_id >= 0:
                        self.know(answer)
            elif kind == "init" and isinstance(answer, ProducerIdAndEpoch):
                self.know(answer)

    def know(self, answer: ProducerIdAndEpoch) -> None:
        identity = (answer.producer_id, answer.producer_epoch)
        assert answer.producer_epoch < EPOCH_MAX
        if identity not in self.producers:
            # What comes later is newer, or a retry of what was said before.
            assert all(
                identity[0] != known[0] or identity[1] > known[1] for known in self.producers
            ), (identity, self.producers)
            self.producers.append(identity)

    def pick(self, data: st.DataObject) -> tuple[int, int]:
        if not self.producers:
            return 1, 0
        newest = self.producers[-1]
        if data.draw(st.integers(0, 9)):
            return newest
        return data.draw(st.sampled_from(self.producers[-3:]))

    def init_producer(self, **fields: Any) -> None:
        before = len(self.bench.answered)
        self.bench.init(timeout_ms=TIMEOUT_MS, **fields)
        self.take(before)

    @rule(data=st.data(), kind=st.sampled_from(["new", "new", "recovery", "prepared"]))
    def init(self, data: st.DataObject, kind: str) -> None:
        fields: dict[str, Any] = {"keeps_prepared": kind == "prepared"}
        if kind == "recovery":
            fields["producer_id"], fields["producer_epoch"] = self.pick(data)
        self.init_producer(**fields)

    @rule(data=st.data(), numbers=NUMBERS)
    def add(self, data: st.DataObject, numbers: set[int]) -> None:
        producer = self.pick(data)
        before = len(self.bench.answered)
        answer = self.bench.add(producer, *numbers, version=self.version)
        self.take(before)
        if answer is Errors.NONE:
            assert producer == self.producers[-1], "a producer that was replaced may still write"
            # The client writes at once.
            for number in numbers:
                self.open.setdefault(number, (*producer, self.completed))

    @rule(data=st.data(), numbers=NUMBERS)
    def add_more(self, data: st.DataObject, numbers: set[int]) -> None:
        self.add(data=data, numbers=numbers)

    @rule(data=st.data(), is_commit=st.booleans())
    def end(self, data: st.DataObject, is_commit: bool) -> None:
        producer = self.pick(data)
        before = len(self.bench.answered)
        transaction = self.bench.machine.transactions.get(NAME)
        is_open = transaction is not None and transaction.state is TransactionState.ONGOING
        # Before version 2 a success may be that of the transaction before, and says nothing of the
        # next one of the same epoch.
        number = self.completed if is_open or self.version >= 2 else -1
        self.ends += 1
        name = f"end {self.ends}"
        self.wishes[name] = ((*producer, number), is_commit)
        wish = End(NAME, *producer, is_commit, self.version)
        self.bench.run(name, lambda machine, new_id, now: machine.end(wish, new_id, now))
        self.take(before)

    @rule(data=st.data(), numbers=NUMBERS, is_commit=st.booleans())
    def whole_transaction(self, data: st.DataObject, numbers: set[int], is_commit: bool) -> None:
        self.add(data=data, numbers=numbers)
        self.end(data=data, is_commit=is_commit)

    @rule(data=st.data(), numbers=NUMBERS, is_commit=st.booleans(), is_stored=st.booleans())
    def slow_transaction(
        self, data: st.DataObject, numbers: set[int], is_commit: bool, is_stored: bool
    ) -> None:
        """Its end is committed late or not at all, and markers are later than its timeout."""
        self.add(data=data, numbers=numbers)
        self.disturb(kind="hold")
        self.end(data=data, is_commit=is_commit)
        self.disturb(kind="commit" if is_stored else "fail")
        self.advance(milliseconds=2 * TIMEOUT_MS)

    @precondition(lambda self: NAME in self.bench.machine.transactions)
    @rule()
    def exhaust(self) -> None:
        """The next epochs are the last of their id."""
        machine, known = self.bench.machine, self.bench.transaction
        if known.state is TransactionState.EMPTY and known.producer_epoch < EPOCH_MAX - 3:
            before = len(self.bench.answered)
            changed = known._replace(producer_epoch=EPOCH_MAX - 3)
            self.bench.run("exhaust", lambda *_: machine._store(NAME, changed, "done"))
            self.take(before)

    @rule()
    def settle(self) -> None:
        """What is under way ends, and a producer starts anew."""
        self.disturb(kind="commit")
        for _ in range(2):
            for decision in tuple(self.bench.decisions):
                self.write_some(decision, len(decision.transaction.partitions))
            self.init_producer()

    # --- what the world does

    @precondition(lambda self: self.bench.decisions)
    @rule(data=st.data(), share=st.integers(0, 6))
    def write_markers(self, data: st.DataObject, share: int) -> None:
        """Some markers of a decision, or all of them and its completion."""
        self.write_some(data.draw(st.sampled_from(self.bench.decisions)), share)

    def write_some(self, decision: Decision, share: int) -> None:
        transaction = decision.transaction
        # Nobody may hear of a decision that can still be taken back.
        assert self.bench.machine.transactions.committed(NAME) == transaction
        is_commit = transaction.state is TransactionState.PREPARE_COMMIT
        for _, number in sorted(transaction.partitions)[:share]:
            self.mark(number, transaction.producer_id, transaction.producer_epoch, is_commit)
        if share >= len(transaction.partitions):
            before = len(self.bench.answered)
            self.bench.complete(decision)
            self.take(before)
            self.completed += 1

    def mark(self, number: int, producer_id: int, epoch: int, is_commit: bool) -> None:
        found = self.open.get(number)
        if found is None:
            return
        assert (found[0], found[1]) <= (producer_id, epoch), "a marker older than what it ends"
        assert self.version < 2 or epoch > found[1]
        self.outcomes.setdefault(found, set()).add(is_commit)
        del self.open[number]

    @rule(milliseconds=st.sampled_from([1_000, 20_000, TIMEOUT_MS * 2]))
    def advance(self, milliseconds: int) -> None:
        before = len(self.bench.answered)
        self.bench.advance(milliseconds)
        self.take(before)

    @rule(kind=st.sampled_from(["hold", "commit", "commit", "fail", "lose", "lose with log"]))
    def disturb(self, kind: str) -> None:
        before = len(self.bench.answered)
        if kind == "hold":
            self.bench.is_holding = True
        elif kind == "commit":
            self.bench.commit()
        elif kind == "fail":
            self.bench.fail()
        else:
            self.wishes.clear()
            self.bench.lose_leadership(keeps_log=kind == "lose with log")
        self.take(before)

    # --- what must be so

    @invariant()
    def a_transaction_ends_in_one_way(self) -> None:
        for key, found in self.outcomes.items():
            assert len(found) == 1, f"{key} was committed and aborted"
            wish = self.acknowledged.get(key)
            assert wish is None or found == {wish}

    @invariant()
    def anyone_who_is_open_has_somebody_to_end_it(self) -> None:
        transaction = self.bench.machine.transactions.get(NAME)
        for number in self.open:
            assert transaction is not None
            assert ("p", number) in transaction.partitions
            assert transaction.state in DECIDED | {TransactionState.ONGOING}

    @invariant()
    def the_log_says_the_same(self) -> None:
        """There is one transactional id: its newest record is its state."""
        transaction = self.bench.machine.transactions.get(NAME)
        if self.bench.log:
            value = self.bench.log[-1].value
            assert isinstance(value, TransactionLogValue)
            assert transaction is not None
            assert transaction_of_record(value, transaction.last_producer_epoch) == transaction
        else:
            assert transaction is None

    def teardown(self) -> None:
        """In the end everything can be ended."""
        self.wishes.clear()
        self.bench.fail()
        for _ in range(3):
            for decision in tuple(self.bench.decisions):
                self.write_some(decision, len(decision.transaction.partitions))
            self.bench.init()
        assert self.open == {}
        self.a_transaction_ends_in_one_way()


TestTransactionModel = TransactionModel.TestCase
TestTransactionModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
