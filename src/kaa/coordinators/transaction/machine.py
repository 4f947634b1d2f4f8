"""The transaction coordinator of one partition of `__transaction_state`, as a machine.

Each command looks at the newest state of a transactional id and returns the record of its next
state (`state`), or a refusal. `ending` has the rules for the ends of transactions. A command that
needs an id for a producer and was not given one answers ID_NEEDED, and is run again with one.

When a decision is committed its markers are due: the result of that event has the decision among
its effects, and `complete` says that the markers are written. What was decided but not completed
when the partition was loaded is sent again.

Times: a transaction is as old as the wall clock says, since its start is in the log. How often
somebody looks is up to two timers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.coordinators.machine import CoordinatorError, CoordinatorResult
from kaa.coordinators.records import RecordType, RecordTypes
from kaa.coordinators.timeline import Timeline, TimelineDict
from kaa.coordinators.timers import Timers
from kaa.coordinators.transaction.ending import end_verdict, is_id_needed
from kaa.coordinators.transaction.records import (
    partitions_of_record,
    tombstone,
    transaction_of_record,
    transaction_record,
)
from kaa.coordinators.transaction.state import (
    DECIDED,
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    EXPIRABLE,
    NO_TIMEOUT_MS,
    Transaction,
    TransactionState,
)
from kaa.limits import TRANSACTION_PARTITIONS_PER_TURN_MAX
from kaa.model.ordered import OrderedSet
from kaa.model.steady_date import SteadyDate
from kaa.model.topics import NO_EPOCH
from kaa.records.batch import NO_PRODUCER_ID
from kaa.wire.errors import Errors
from kaa.wire.messages.transaction_log import TransactionLogKey, TransactionLogValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kaa.coordinators.machine import Moment, NewRecord, Reply
    from kaa.coordinators.transaction.settings import TransactionSettings
    from kaa.model.pieces import Pieces
    from kaa.model.topics import PartitionName
    from kaa.wire.messages.transaction_log import PartitionsSchema
    from kaa.wire.schema import CoordinatorKey, CoordinatorValue

RECORD_TYPES: Final = RecordTypes([RecordType(TransactionLogKey, TransactionLogValue)])


class _IdNeeded:
    def __repr__(self) -> str:
        return "ID_NEEDED"


# The answer of a command that is to be run again with an id that no producer has.
ID_NEEDED: Final = _IdNeeded()


class ProducerIdAndEpoch(NamedTuple):
    """An id and epoch, as clients get them."""

    producer_id: int
    producer_epoch: int
    # Of a transaction that was taken over, those that its records have.
    ongoing_producer_id: int = NO_PRODUCER_ID
    ongoing_producer_epoch: int = NO_EPOCH


class Initialisation(NamedTuple):
    """What a producer asks for when it starts."""

    transactional_id: str
    timeout_ms: int
    # What the producer believes to have; -1 if it starts over.
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
    """A transaction that ends. As an effect: its record is committed, and its markers may be
    written, one to each partition.
    """

    transactional_id: str
    transaction: Transaction


@dataclass(frozen=True, slots=True)
class AbortWithId:
    """An effect: the transaction is to be aborted by `abort_overdue`, with an id for the
    producer.
    """

    transactional_id: str


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
    """Decides for the transactional ids of one shard. A command returns the record of the next
    state with an answer; markers to be sent are among its effects.
    """

    def __init__(self, settings: Callable[[], TransactionSettings]) -> None:
        self.timeline = Timeline()
        self.timers: Timers[object] = Timers()
        self.settings = settings
        self.transactions: TimelineDict[str, Transaction] = TimelineDict(self.timeline)
        # By transactional id, the epoch before the last raise, which records do not have.
        self._last_epochs: TimelineDict[str, int] = TimelineDict(self.timeline)
        # The last value that was made, and the partitions in it. It is replayed at once, and the
        # next one of a transaction with thousands of partitions often has the same.
        self._made: tuple[TransactionLogValue, frozenset[PartitionName]] | None = None
        # Every open transaction, and some that were: so that few are looked at for their time.
        self._maybe_open: OrderedSet[str] = OrderedSet()
        # When those began that have a timeout: by the date of their records, and by the clock that
        # never jumps.
        self._begun: dict[str, tuple[int, int]] = {}
        self._steady_date = SteadyDate()

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
        made = self._made
        transaction = transaction_of_record(
            value,
            NO_EPOCH if last_epoch is None else last_epoch,
            made[1] if made is not None and made[0] is value else None,
        )
        self.transactions[name] = transaction
        if transaction.state is TransactionState.ONGOING:
            self._maybe_open.add(name)

    def replay_end_transaction(self, producer_id: int, *, is_commit: bool) -> Iterable[None]:
        """Nothing in this topic is part of a transaction."""
        return ()

    # --- life

    def loaded(self, now: Moment) -> CoordinatorResult:
        settings = self.settings()
        self._schedule(AbortsDue(), settings.abort_interval_ms, now)
        self._schedule(ExpiryDue(), settings.expiration_interval_ms, now)
        self._steady_date.at(now.wall_ms, now.monotonic_ms, settings.id_expiration_ms)
        for name in self._maybe_open:
            transaction = self.transactions.get(name)
            if transaction is not None and _can_run_out(transaction):
                self._note_begin(name, transaction, now)
        return CoordinatorResult(then=Loaded())

    def unloaded(self) -> Sequence[Reply]:
        return ()

    def appended(self, then: Any, error: Errors, now: Moment) -> CoordinatorResult:
        if error is Errors.REQUEST_TIMED_OUT:
            # The record is in the log and will be committed, or this broker will not lead.
            return CoordinatorResult(then=then)
        if error is not Errors.NONE:
            return CoordinatorResult()
        names = tuple(self.transactions) if isinstance(then, Loaded) else (then.transactional_id,)
        found = ((name, self.transactions.get(name)) for name in names)
        # Those whose markers may be written.
        decisions = [
            Decision(name, transaction)
            for name, transaction in found
            if transaction is not None and transaction.state in DECIDED
        ]
        return CoordinatorResult(effects=decisions)

    # --- deadlines

    def _schedule(self, event: AbortsDue | ExpiryDue, interval_ms: int, now: Moment) -> None:
        self.timers.schedule(event, now.monotonic_ms + interval_ms, event)

    def expire(self, now: Moment) -> CoordinatorResult | None:
        event = self.timers.take_due(now.monotonic_ms)
        if event is None:
            return None
        settings = self.settings()
        if isinstance(event, AbortsDue):
            self._schedule(event, settings.abort_interval_ms, now)
            self._find_overdue(now)
        elif isinstance(event, ExpiryDue):
            self._schedule(event, settings.expiration_interval_ms, now)
            return CoordinatorResult(self._expired(now), is_atomic=False)
        elif isinstance(event, OutOfTime):
            return self._run_out(event.transactional_id, now)
        return CoordinatorResult()

    def _find_overdue(self, now: Moment) -> None:
        for name in tuple(self._maybe_open):
            newest, committed = self.transactions.get(name), self.transactions.committed(name)
            if newest is not None and self._is_overdue(name, newest, now):
                overdue = OutOfTime(name)
                self.timers.schedule(overdue, now.monotonic_ms, overdue)
            elif not _is_open(newest) and not _is_open(committed):
                # An end that is not committed may be taken back.
                self._maybe_open.discard(name)
                self._begun.pop(name, None)

    def _is_overdue(self, name: str, transaction: Transaction, now: Moment) -> bool:
        if not _can_run_out(transaction):
            return False
        begun_ms = self._note_begin(name, transaction, now)
        return now.monotonic_ms - begun_ms > transaction.timeout_ms

    def _note_begin(self, name: str, transaction: Transaction, now: Moment) -> int:
        """When an open transaction began by the clock that never jumps.

        The record has the date, which somebody may set meanwhile; therefore it is looked at once,
        as soon as this broker knows of the transaction. For one that was begun before a restart,
        or by another broker, the date is all there is. If it lies in the future, the transaction
        gets its whole time once more; if it is too long ago, none.
        """
        started_ms = transaction.start_timestamp_ms
        known = self._begun.get(name)
        if known is None or known[0] != started_ms:
            age_ms = min(max(0, now.wall_ms - started_ms), transaction.timeout_ms + 1)
            known = self._begun[name] = (started_ms, now.monotonic_ms - age_ms)
        return known[1]

    def _expired(self, now: Moment) -> list[NewRecord]:
        expiration_ms = self.settings().id_expiration_ms
        date_ms = self._steady_date.at(now.wall_ms, now.monotonic_ms, expiration_ms)
        oldest_ms = date_ms - expiration_ms
        return [
            tombstone(transactional_id)
            for transactional_id, transaction in self.transactions.items()
            if transaction.state in EXPIRABLE and transaction.update_timestamp_ms <= oldest_ms
        ]

    def _run_out(self, transactional_id: str, now: Moment) -> CoordinatorResult:
        result = self.abort_overdue(transactional_id, NO_PRODUCER_ID, now)
        if result.response is ID_NEEDED:
            return CoordinatorResult(effects=[AbortWithId(transactional_id)])
        return result

    def abort_overdue(
        self, transactional_id: str, new_producer_id: int, now: Moment
    ) -> CoordinatorResult:
        """Aborts a transaction that ran out of time, unless it ended in the meantime."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None or not self._is_overdue(transactional_id, transaction, now):
            return CoordinatorResult(response=())
        return self._fence(transactional_id, transaction, new_producer_id, now, ())

    # --- producers

    def init_producer(
        self, wish: Initialisation, new_producer_id: int, now: Moment
    ) -> CoordinatorResult:
        """Gives a producer its id and epoch, and ends what an earlier instance left open."""
        transactional_id = wish.transactional_id
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            if new_producer_id == NO_PRODUCER_ID:
                return CoordinatorResult(response=ID_NEEDED)
            # An epoch of -1 says that there never was a producer.
            transaction = Transaction(new_producer_id, NO_EPOCH, wish.timeout_ms)
        if transaction.state in DECIDED:
            raise CoordinatorError(Errors.CONCURRENT_TRANSACTIONS)
        _check_expected(transaction, wish)
        if transaction.state is TransactionState.ONGOING:
            if wish.keeps_prepared:
                return self._take_over(transactional_id, transaction, new_producer_id, now)
            # The client asks again, and finds the transaction aborted.
            answer = Errors.CONCURRENT_TRANSACTIONS
            return self._fence(transactional_id, transaction, new_producer_id, now, answer)
        return self._start(wish, transaction, new_producer_id, now)

    def _start(
        self, wish: Initialisation, transaction: Transaction, new_producer_id: int, now: Moment
    ) -> CoordinatorResult:
        epoch, expected = transaction.producer_epoch, wish.producer_epoch
        producer_id = transaction.producer_id
        if transaction.is_epoch_exhausted and expected in {NO_EPOCH, epoch}:
            if new_producer_id == NO_PRODUCER_ID:
                return CoordinatorResult(response=ID_NEEDED)
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
        response = ProducerIdAndEpoch(started.producer_id, started.producer_epoch)
        return self._store(wish.transactional_id, started, response)

    def _take_over(
        self, transactional_id: str, transaction: Transaction, new_producer_id: int, now: Moment
    ) -> CoordinatorResult:
        """The open transaction goes on under a higher epoch of its producer (KIP-939)."""
        producer_id, epoch = transaction.client_identity
        if epoch + 1 >= EPOCH_MAX - 1:
            if new_producer_id == NO_PRODUCER_ID:
                return CoordinatorResult(response=ID_NEEDED)
            producer_id, epoch = new_producer_id, -1
        taken = transaction.taken_over(producer_id, epoch + 1, now.wall_ms)
        response = ProducerIdAndEpoch(
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
    ) -> CoordinatorResult:
        """Aborts the open transaction; its producer cannot go on."""
        version = self.settings().transaction_version
        if is_id_needed(transaction, version) and new_producer_id == NO_PRODUCER_ID:
            return CoordinatorResult(response=ID_NEEDED)
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
    ) -> CoordinatorResult | Pieces[CoordinatorResult]:
        """Makes partitions part of the transaction, which begins with the first of them."""
        transaction = self._current(self.transactions.get(transactional_id), *producer)
        if transaction.is_taken_over:
            raise CoordinatorError(Errors.INVALID_TXN_STATE)
        is_open = transaction.state is TransactionState.ONGOING
        if is_open and partitions <= transaction.partitions:
            return CoordinatorResult(response=Errors.NONE)
        added = transaction.with_partitions(partitions, now.wall_ms, version)
        if _can_run_out(added):
            self._note_begin(transactional_id, added, now)
        if len(added.partitions) > TRANSACTION_PARTITIONS_PER_TURN_MAX:
            return self._store_in_pieces(transactional_id, added, Errors.NONE)
        return self._store(transactional_id, added, Errors.NONE)

    def verify_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: frozenset[PartitionName],
    ) -> CoordinatorResult:
        """Tells which partitions are part of the open transaction."""
        transaction = self._current(self.transactions.get(transactional_id), *producer)
        return CoordinatorResult(
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

    def end(self, wish: End, new_producer_id: int, now: Moment) -> CoordinatorResult:
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
            known = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
            return CoordinatorResult(
                response=known if is_bumped else ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)
            )
        if not is_id_needed(transaction, wish.version):
            new_producer_id = NO_PRODUCER_ID
        elif new_producer_id == NO_PRODUCER_ID:
            return CoordinatorResult(response=ID_NEEDED)
        decided = transaction.decided(
            is_commit=wish.is_commit,
            version=wish.version,
            new_producer_id=new_producer_id,
            now_ms=now.wall_ms,
        )
        response = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)
        if is_bumped:
            complete = decided.completed(now.wall_ms)
            response = ProducerIdAndEpoch(complete.producer_id, complete.producer_epoch)
        then = DecisionWritten(wish.transactional_id)
        return self._store(wish.transactional_id, decided, response, then)

    def complete(self, decision: Decision, now: Moment) -> CoordinatorResult:
        """Every marker of the decision is written. Nothing happens if that was known before."""
        transaction = self.transactions.get(decision.transactional_id)
        if transaction is None or transaction != decision.transaction:
            return CoordinatorResult(response=Errors.NONE)
        return self._store(
            decision.transactional_id, transaction.completed(now.wall_ms), Errors.NONE
        )

    # --- records

    def _store_in_pieces(
        self, transactional_id: str, transaction: Transaction, response: Any
    ) -> Pieces[CoordinatorResult]:
        known = yield from partitions_of_record(transaction)
        # To store it is enough for a turn.
        yield
        return self._store(transactional_id, transaction, response, known=known)

    def _store(
        self,
        transactional_id: str,
        transaction: Transaction,
        response: Any,
        then: Any = None,
        known: list[PartitionsSchema] | None = None,
    ) -> CoordinatorResult:
        """`known` are the partitions as the record has them, if somebody has made them already."""
        self._last_epochs[transactional_id] = transaction.last_producer_epoch
        version = self.settings().transaction_version
        partitions, made = transaction.partitions, self._made
        if known is None and made and made[1] is partitions:
            known = made[0].transaction_partitions
        record = transaction_record(transactional_id, transaction, version, known)
        assert isinstance(record.value, TransactionLogValue)
        # Nothing of a transaction without a state of its own is in its record.
        is_kept = record.value.transaction_partitions is not None
        self._made = (record.value, partitions if is_kept else frozenset())
        return CoordinatorResult([record], response, then=then)


def _is_open(transaction: Transaction | None) -> bool:
    return transaction is not None and transaction.state is TransactionState.ONGOING


def _can_run_out(transaction: Transaction) -> bool:
    return transaction.state is TransactionState.ONGOING and transaction.timeout_ms != NO_TIMEOUT_MS


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
