"""The state of a transactional id, and the changes that it can go through.

    Empty ---------+--> Ongoing ---+--> PrepareCommit --> CompleteCommit --+
      ^  ^---------|      ^ ^------|                                       |
      |            |      |        +--> PrepareAbort ---> CompleteAbort ---+
      |            |      |             ^                                  |
      |            |      +-- next transaction ----------------------------+
      |            +-- abort of nothing (version 2) --^                    |
      +-- another producer takes over -------------------------------------+

A decision is made when Prepare is in the log. Then every partition gets a marker, and when the last
one is written Complete follows; a coordinator that reads Prepare after a crash writes the markers
again.

What this machine prepares is at once its newest state, which is taken back if it cannot be written.
So there is no state between two states, and none is stored for a producer that is being fenced
(PrepareEpochFence): it goes straight to PrepareAbort.

A producer is known by an id and an epoch. With transaction version 2 (KIP-890) each end of a
transaction raises the epoch, before that only a new instance of the producer does. Epochs end at
32767, which no client gets: the last marker of an id may need it.

A transaction of two-phase commit (KIP-939) can be taken over by a new instance of its producer. The
records it has stay those of the old id and epoch; the new ones stand as the next ones beside it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.limits import TRANSACTION_PARTITIONS_PER_TURN_MAX
from kaa.model.pieces import finish
from kaa.model.topics import NO_EPOCH, NO_TIMESTAMP
from kaa.records.batch import NO_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.model.pieces import Pieces
    from kaa.model.topics import PartitionName

EPOCH_MAX: Final = 2**15 - 1
# The timeout of a transaction that takes part in two-phase commit: it has none.
NO_TIMEOUT_MS: Final = 2**31 - 1
# From this version on every end of a transaction raises the epoch.
EPOCH_BUMP_VERSION: Final = 2


def by_topic(names: Iterable[PartitionName]) -> dict[str, list[int]]:
    """The numbers of the partitions, in order, by topic, in order."""
    return finish(by_topic_in_pieces(names))


def by_topic_in_pieces(names: Iterable[PartitionName]) -> Pieces[dict[str, list[int]]]:
    """The same of a transaction that may have thousands of them. It takes half the time of sorting
    the names.
    """
    found: dict[str, list[int]] = {}
    for count, (topic, number) in enumerate(names, 1):
        numbers = found.get(topic)
        if numbers is None:
            found[topic] = [number]
        else:
            numbers.append(number)
        if count % TRANSACTION_PARTITIONS_PER_TURN_MAX == 0:
            yield
    in_order: dict[str, list[int]] = {}
    for count, topic in enumerate(sorted(found), 1):
        in_order[topic] = sorted(found[topic])
        if count % TRANSACTION_PARTITIONS_PER_TURN_MAX == 0:
            yield
    return in_order


class TransactionState(IntEnum):
    """Values as in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name as tools show it."""
        return self.name.title().replace("_", "")


_RESTING: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
# What may come before each state.
BEFORE: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _RESTING,
    TransactionState.ONGOING: _RESTING | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _RESTING | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _RESTING,
}
DECIDED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
EXPIRABLE: Final = _RESTING


class IllegalTransactionStateError(Exception):
    """A fault of this program: the table of transitions does not have this one."""


class Transaction(NamedTuple):
    """What is known of a transactional id. Values are replaced, never changed."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    # Those with records of the open transaction, or with markers to come.
    partitions: frozenset[PartitionName] = frozenset()
    start_timestamp_ms: int = NO_TIMESTAMP
    update_timestamp_ms: int = NO_TIMESTAMP
    # The id before the last change, by which a retry after an exhausted epoch is known.
    previous_producer_id: int = NO_PRODUCER_ID
    # Taken over when the transaction is complete: the epoch of the id is exhausted.
    next_producer_id: int = NO_PRODUCER_ID
    # Set while an open transaction was taken over by a new instance of its producer.
    next_producer_epoch: int = NO_EPOCH
    # The epoch before the last raise, by which a retry of InitProducerId is known. Not in the log.
    last_producer_epoch: int = NO_EPOCH
    client_transaction_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= EPOCH_MAX - 1

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def is_taken_over(self) -> bool:
        return self.next_producer_epoch != NO_EPOCH

    @property
    def client_identity(self) -> tuple[int, int]:
        """The id and epoch that the current instance of the producer has."""
        if not self.is_taken_over:
            return self.producer_id, self.producer_epoch
        producer_id = self.next_producer_id
        if producer_id == NO_PRODUCER_ID:
            producer_id = self.producer_id
        return producer_id, self.next_producer_epoch

    def moved(self, state: TransactionState) -> Transaction:
        if self.state not in BEFORE.get(state, ()):
            raise IllegalTransactionStateError(f"{self.state.title} does not become {state.title}")
        return self._replace(state=state, previous_producer_id=self.producer_id)

    # --- a producer begins

    def initialised(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """A producer starts under this id and epoch, with nothing open."""
        return self.moved(TransactionState.EMPTY)._replace(
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_timestamp_ms=NO_TIMESTAMP,
            update_timestamp_ms=now_ms,
        )

    def taken_over(self, producer_id: int, epoch: int, now_ms: int) -> Transaction:
        """A new instance of the producer goes on with the open transaction (KIP-939)."""
        return self.moved(TransactionState.ONGOING)._replace(
            next_producer_id=NO_PRODUCER_ID if producer_id == self.producer_id else producer_id,
            next_producer_epoch=epoch,
            update_timestamp_ms=now_ms,
        )

    # --- a transaction

    def with_partitions(
        self, partitions: frozenset[PartitionName], now_ms: int, version: int
    ) -> Transaction:
        is_open = self.state is TransactionState.ONGOING
        return self.moved(TransactionState.ONGOING)._replace(
            partitions=self.partitions | partitions,
            start_timestamp_ms=self.start_timestamp_ms if is_open else now_ms,
            update_timestamp_ms=now_ms,
            client_transaction_version=version,
        )

    def decided(
        self, *, is_commit: bool, version: int, new_producer_id: int, now_ms: int
    ) -> Transaction:
        """The transaction is to be committed or aborted; markers follow."""
        prepared = self.moved(
            TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        )
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        next_epoch = self.next_producer_epoch
        if self.is_taken_over and self.next_producer_id == NO_PRODUCER_ID:
            # Markers have to be newer than every epoch that was handed out.
            epoch, last_epoch, next_epoch = min(next_epoch + 1, EPOCH_MAX), next_epoch, NO_EPOCH
        elif version >= EPOCH_BUMP_VERSION:
            epoch, last_epoch = min(epoch + 1, EPOCH_MAX), epoch
        if new_producer_id == NO_PRODUCER_ID:
            new_producer_id = self.next_producer_id
        is_open = self.state is TransactionState.ONGOING
        return prepared._replace(
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=new_producer_id,
            next_producer_epoch=next_epoch,
            start_timestamp_ms=self.start_timestamp_ms if is_open else now_ms,
            update_timestamp_ms=now_ms,
            client_transaction_version=version,
        )

    def fenced(self, *, version: int, new_producer_id: int, now_ms: int) -> Transaction:
        """The open transaction is aborted without its producer, whose epoch no longer counts."""
        fenced = self
        if version < EPOCH_BUMP_VERSION and not self.is_taken_over:
            epoch = min(self.producer_epoch + 1, EPOCH_MAX)
            fenced = self._replace(producer_epoch=epoch, last_producer_epoch=NO_EPOCH)
        return fenced.decided(
            is_commit=False, version=version, new_producer_id=new_producer_id, now_ms=now_ms
        )

    def completed(self, now_ms: int) -> Transaction:
        """Every marker is written."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        complete = self.moved(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        )
        if self.next_producer_id != NO_PRODUCER_ID:
            epoch = self.next_producer_epoch + 1 if self.is_taken_over else 0
            complete = complete._replace(producer_id=self.next_producer_id, producer_epoch=epoch)
        return complete._replace(
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
            partitions=frozenset(),
            update_timestamp_ms=now_ms,
        )
