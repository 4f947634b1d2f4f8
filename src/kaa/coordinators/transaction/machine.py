"""The transaction coordinator of one partition of `__transaction_state`, as a machine.

Each command looks at the newest state of a transactional id and returns the record of its next
state (`state`), or a refusal. `ending` has the rules for the ends of transactions. A command that
needs an id for a producer and was not given one answers ID_NEEDED, and is run again with one.

When a decision is committed its markers are due: the machine says so to whoever sends them
(`Outbox`), and is told by `complete` that they are written. What was decided but not completed
when the partition was loaded is sent again.

Times: a transaction is as old as the wall clock says, since its start is in the log. How often
somebody looks is up to two timers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kaa.coordinators.machine import CoordinatorError, Result
from kaa.coordinators.records import RecordType, RecordTypes
from kaa.coordinators.timeline import Timeline, TimelineDict
from kaa.coordinators.timers import Timers
from kaa.coordinators.transaction.ending import end_verdict, is_id_needed
from kaa.coordinators.transaction.records import (
    tombstone,
    transaction_of_record,
    transaction_record,
)
from kaa.coordinators.transaction.state import (
    DECIDED,
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    EXPIRABLE,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Transaction,
    TransactionState,
)
from kaa.wire.errors import Errors
from kaa.wire.messages.transaction_log import TransactionLogKey, TransactionLogValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaa.coordinators.machine import Moment, NewRecord, Reply
    from kaa.coordinators.transaction.settings import TransactionSettings
    from kaa.coordinators.transaction.state import PartitionName
    from kaa.wire.schema import CoordinatorKey, CoordinatorValue

RECORD_TYPES: Final = RecordTypes([RecordType(TransactionLogKey, TransactionLogValue)])


class _IdNeeded:
    def __repr__(self) -> str:
        return "ID_NEEDED"


# The answer of a command that is to be run again with an id that no producer has.
ID_NEEDED: Final = _IdNeeded()


class Producer(NamedTuple):
    """An id and epoch, as clients are told them."""

    producer_id: int
    producer_epoch: int
    # Of a transaction that was taken over, those that its records have.
    ongoing_producer_id: int = NO_PRODUCER_ID
    ongoing_producer_epoch: int = NO_EPOCH


class Initialisation(NamedTuple):
    """What a producer asks for when it starts."""

    transactional_id: str
    timeout_ms: int
    # What the producer believes to have; -1 if it starts anew.
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    keeps_prepared: bool = False


class End(NamedTuple):
    """A wish to end a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    # The version that the client speaks, by that of its request.
    version: int


class Decision(NamedTuple):
    """A transaction that ends; every partition gets a marker."""

    transactional_id: str
    transaction: Transaction


class Outbox(Protocol):
    """What a machine cannot do itself."""

    def decided(self, decision: Decision) -> None:
        """The decision is committed: its markers may be written."""
        ...

    def out_of_time(self, transactional_id: str) -> None:
        """The transaction is to be aborted by `abort_overdue`, with an id for the producer."""
        ...


@dataclass(frozen=True, slots=True)
class DecisionWritten:
    """The record of a decision is committed, or will not be."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything that was in the log is committed."""


@dataclass(frozen=True, slots=True)
class AbortsDue:
    """It is time to look for transactions that ran out of time."""


@dataclass(frozen=True, slots=True)
class ExpiryDue:
    """It is time to look for ids that nobody used for long."""


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """This transaction ran out of time."""

    transactional_id: str


class TransactionMachine:
    """See the module's text."""

    def __init__(self, settings: Callable[[], TransactionSettings], outbox: Outbox) -> None:
        self.timeline = Timeline()
        self.timers: Timers[object] = Timers()
        self.settings = settings
        self._outbox = outbox
        self.transactions: TimelineDict[str, Transaction] = TimelineDict(self.timeline)
        # By transactional id, the epoch before the last raise, which records do not have.
        self._last_epochs: TimelineDict[str, int] = TimelineDict(self.timeline)
        # Every open transaction, and some that were: so that few are looked at for their time.
        self._maybe_open: set[str] = set()

    # --- replay

    def replay(
        self,
        offset: int,
        key: CoordinatorKey,
        value: CoordinatorValue | None,
        producer_id: int,
        producer_epoch: int,
    ) -> None:
        assert isinstance(key, TransactionLogKey)
        name = key.transactional_id
        if value is None:
            self.transactions.pop(name)
            self._last_epochs.pop(name)
            return
        assert isinstance(value, TransactionLogValue)
        last_epoch = self._last_epochs.get(name)
        transaction = transaction_of_record(value, NO_EPOCH if last_epoch is None else last_epoch)
        self.transactions[name] = transaction
        if transaction.state is TransactionState.ONGOING:
            self._maybe_open.add(name)

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Nothing in this topic is part of a transaction."""

    # --- life

    def loaded(self, now: Moment) -> Result:
        settings = self.settings()
        self._schedule(AbortsDue(), settings.abort_interval_ms, now)
        self._schedule(ExpiryDue(), settings.expiration_interval_ms, now)
        return Result(then=Loaded())

    def unloaded(self) -> Sequence[Reply]:
        return ()

    def appended(self, then: Any, error: Errors, now: Moment) -> Result:
        if error is Errors.REQUEST_TIMED_OUT:
            # The record is in the log and will be committed, or this broker will not lead.
            return Result(then=then)
        if error is not Errors.NONE:
            return Result()
        if isinstance(then, Loaded):
            for transactional_id in tuple(self.transactions):
                self._send_markers(transactional_id)
        elif isinstance(then, DecisionWritten):
            self._send_markers(then.transactional_id)
        return Result()

    def _send_markers(self, transactional_id: str) -> None:
        transaction = self.transactions.get(transactional_id)
        if transaction is not None and transaction.state in DECIDED:
            self._outbox.decided(Decision(transactional_id, transaction))

    # --- deadlines

    @property
    def next_deadline_ms(self) -> int | None:
        return self.timers.next_deadline_ms

    def _schedule(self, event: AbortsDue | ExpiryDue, interval_ms: int, now: Moment) -> None:
        self.timers.schedule(event, now.monotonic_ms + interval_ms, event)

    def expire(self, now: Moment) -> Result | None:
        event = self.timers.take_due(now.monotonic_ms)
        if event is None:
            return None
        settings = self.settings()
        if isinstance(event, AbortsDue):
            self._schedule(event, settings.abort_interval_ms, now)
            self._find_overdue(now)
        elif isinstance(event, ExpiryDue):
            self._schedule(event, settings.expiration_interval_ms, now)
            return Result(self._expired(now.wall_ms), is_atomic=False)
        elif isinstance(event, OutOfTime):
            return self._run_out(event.transactional_id, now)
        return Result()

    def _find_overdue(self, now: Moment) -> None:
        for name in tuple(self._maybe_open):
            newest, committed = self.transactions.get(name), self.transactions.committed(name)
            if newest is not None and _is_overdue(newest, now.wall_ms):
                overdue = OutOfTime(name)
                self.timers.schedule(overdue, now.monotonic_ms, overdue)
            elif not _is_open(newest) and not _is_open(committed):
                # An end that is not committed may be taken back.
                self._maybe_open.discard(name)

    def _expired(self, now_ms: int) -> list[NewRecord]:
        oldest_ms = now_ms - self.settings().id_expiration_ms
        return [
            tombstone(transactional_id)
            for transactional_id, transaction in self.transactions.items()
            if transaction.state in EXPIRABLE and transaction.update_timestamp_ms <= oldest_ms
        ]

    def _run_out(self, transactional_id: str, now: Moment) -> Result:
        result = self.abort_overdue(transactional_id, NO_PRODUCER_ID, now)
        if result.response is ID_NEEDED:
            self._outbox.out_of_time(transactional_id)
            return Result()
        return result

    def abort_overdue(self, transactional_id: str, new_producer_id: int, now: Moment) -> Result:
        """Aborts a transaction that ran out of time, unless it ended in the meantime."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None or not _is_overdue(transaction, now.wall_ms):
            return Result(response=())
        return self._fence(transactional_id, transaction, new_producer_id, now, ())

    # --- producers

    def init_producer(self, wish: Initialisation, new_producer_id: int, now: Moment) -> Result:
        """Gives a producer its id and epoch, and ends what an earlier instance left open."""
        transactional_id = wish.transactional_id
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            if new_producer_id == NO_PRODUCER_ID:
                return Result(response=ID_NEEDED)
            # An epoch of -1 says that there never was a producer.
            transaction = Transaction(new_producer_id, NO_EPOCH, wish.timeout_ms)
        if transaction.state in DECIDED:
            raise CoordinatorError(Errors.CONCURRENT_TRANSACTIONS)
        _check_expected(transaction, wish)
        if transaction.state is TransactionState.ONGOING:
            if wish.keeps_prepared:
                return self._take_over(transactional_id, transaction, new_producer_id, now)
            # The client asks again, and finds the transaction aborted.
            told = Errors.CONCURRENT_TRANSACTIONS
            return self._fence(transactional_id, transaction, new_producer_id, now, told)
        return self._start(wish, transaction, new_producer_id, now)

    def _start(
        self, wish: Initialisation, transaction: Transaction, new_producer_id: int, now: Moment
    ) -> Result:
        epoch, expected = transaction.producer_epoch, wish.producer_epoch
        producer_id = transaction.producer_id
        if transaction.is_epoch_exhausted and expected in {NO_EPOCH, epoch}:
            if new_producer_id == NO_PRODUCER_ID:
                return Result(response=ID_NEEDED)
            producer_id, next_epoch, last_epoch = new_producer_id, 0, expected
        elif expected == NO_EPOCH:
            next_epoch, last_epoch = epoch + 1, NO_EPOCH
        elif epoch in {NO_EPOCH, expected}:
            next_epoch, last_epoch = epoch + 1, epoch
        elif expected == transaction.last_producer_epoch:
            # The answer to this request was lost.
            next_epoch, last_epoch = epoch, expected
        else:
            raise CoordinatorError(Errors.PRODUCER_FENCED)
        started = transaction.initialised(
            producer_id, next_epoch, last_epoch, wish.timeout_ms, now.wall_ms
        )
        response = Producer(started.producer_id, started.producer_epoch)
        return self._store(wish.transactional_id, started, response)

    def _take_over(
        self, transactional_id: str, transaction: Transaction, new_producer_id: int, now: Moment
    ) -> Result:
        """The open transaction goes on under a higher epoch of its producer (KIP-939)."""
        producer_id, epoch = transaction.client_identity
        if epoch + 1 >= EPOCH_MAX - 1:
            if new_producer_id == NO_PRODUCER_ID:
                return Result(response=ID_NEEDED)
            producer_id, epoch = new_producer_id, -1
        taken = transaction.taken_over(producer_id, epoch + 1, now.wall_ms)
        response = Producer(
            *taken.client_identity, transaction.producer_id, transaction.producer_epoch
        )
        return self._store(transactional_id, taken, response)

    def _fence(
        self,
        transactional_id: str,
        transaction: Transaction,
        new_producer_id: int,
        now: Moment,
        response: Any,
    ) -> Result:
        """Aborts the open transaction; its producer can go on no more."""
        version = self.settings().transaction_version
        if is_id_needed(transaction, version) and new_producer_id == NO_PRODUCER_ID:
            return Result(response=ID_NEEDED)
        if not is_id_needed(transaction, version):
            new_producer_id = NO_PRODUCER_ID
        fenced = transaction.fenced(
            version=version, new_producer_id=new_producer_id, now_ms=now.wall_ms
        )
        return self._store(transactional_id, fenced, response, DecisionWritten(transactional_id))

    # --- transactions

    def add_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: frozenset[PartitionName],
        version: int,
        now: Moment,
    ) -> Result:
        """Makes partitions part of the transaction, which begins with the first of them."""
        transaction = self._current(self.transactions.get(transactional_id), *producer)
        if transaction.is_taken_over:
            raise CoordinatorError(Errors.INVALID_TXN_STATE)
        is_open = transaction.state is TransactionState.ONGOING
        if is_open and partitions <= transaction.partitions:
            return Result(response=Errors.NONE)
        added = transaction.with_partitions(partitions, now.wall_ms, version)
        return self._store(transactional_id, added, Errors.NONE)

    def verify_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: frozenset[PartitionName],
    ) -> Result:
        """Tells which partitions are part of the open transaction."""
        transaction = self._current(self.transactions.get(transactional_id), *producer)
        return Result(
            response={
                name: Errors.NONE
                if name in transaction.partitions
                else Errors.TRANSACTION_ABORTABLE
                for name in partitions
            }
        )

    def _current(
        self, transaction: Transaction | None, producer_id: int, producer_epoch: int
    ) -> Transaction:
        """The transaction, of which this producer must be the current one."""
        if transaction is None or transaction.client_identity[0] != producer_id:
            raise CoordinatorError(Errors.INVALID_PRODUCER_ID_MAPPING)
        if transaction.client_identity[1] != producer_epoch:
            raise CoordinatorError(Errors.PRODUCER_FENCED)
        if transaction.state in DECIDED:
            raise CoordinatorError(Errors.CONCURRENT_TRANSACTIONS)
        return transaction

    def end(self, wish: End, new_producer_id: int, now: Moment) -> Result:
        """Decides about the transaction; the answer is what its producer is from then on."""
        transaction = self.transactions.get(wish.transactional_id)
        if transaction is None:
            raise CoordinatorError(Errors.INVALID_PRODUCER_ID_MAPPING)
        is_bumped = wish.version >= EPOCH_BUMP_VERSION
        is_due = end_verdict(
            transaction,
            wish.producer_id,
            wish.producer_epoch,
            is_commit=wish.is_commit,
            version=wish.version,
        )
        if not is_due:
            # A retry: it was done before.
            known = Producer(transaction.producer_id, transaction.producer_epoch)
            return Result(response=known if is_bumped else Producer(NO_PRODUCER_ID, NO_EPOCH))
        if not is_id_needed(transaction, wish.version):
            new_producer_id = NO_PRODUCER_ID
        elif new_producer_id == NO_PRODUCER_ID:
            return Result(response=ID_NEEDED)
        decided = transaction.decided(
            is_commit=wish.is_commit,
            version=wish.version,
            new_producer_id=new_producer_id,
            now_ms=now.wall_ms,
        )
        response = Producer(NO_PRODUCER_ID, NO_EPOCH)
        if is_bumped:
            complete = decided.completed(now.wall_ms)
            response = Producer(complete.producer_id, complete.producer_epoch)
        then = DecisionWritten(wish.transactional_id)
        return self._store(wish.transactional_id, decided, response, then)

    def complete(self, decision: Decision, now: Moment) -> Result:
        """Every marker of the decision is written. Nothing happens if that was known before."""
        transaction = self.transactions.get(decision.transactional_id)
        if transaction is None or transaction != decision.transaction:
            return Result(response=Errors.NONE)
        return self._store(
            decision.transactional_id, transaction.completed(now.wall_ms), Errors.NONE
        )

    # --- records

    def _store(
        self, transactional_id: str, transaction: Transaction, response: Any, then: Any = None
    ) -> Result:
        self._last_epochs[transactional_id] = transaction.last_producer_epoch
        version = self.settings().transaction_version
        return Result(
            [transaction_record(transactional_id, transaction, version)], response, then=then
        )


def _is_open(transaction: Transaction | None) -> bool:
    return transaction is not None and transaction.state is TransactionState.ONGOING


def _is_overdue(transaction: Transaction, now_ms: int) -> bool:
    return (
        transaction.state is TransactionState.ONGOING
        and transaction.timeout_ms != NO_TIMEOUT_MS
        and transaction.start_timestamp_ms + transaction.timeout_ms < now_ms
    )


def _check_expected(transaction: Transaction, wish: Initialisation) -> None:
    """A producer that says who it was must be the one that is known, or was replaced last."""
    if wish.producer_id == NO_PRODUCER_ID or transaction.producer_epoch == NO_EPOCH:
        return
    is_current = wish.producer_id in {transaction.producer_id, transaction.client_identity[0]}
    is_previous = (
        wish.producer_id == transaction.previous_producer_id
        and wish.producer_epoch >= EPOCH_MAX - 1
    )
    if not is_current and not is_previous:
        raise CoordinatorError(Errors.PRODUCER_FENCED)
