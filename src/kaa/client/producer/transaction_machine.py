"""The life of a transactional producer: which calls are allowed when, and what an error means.

    UNINITIALIZED --init--> READY --begin--> IN_TRANSACTION --commit--> COMMITTING --> READY
                                                  |--abort--> ABORTING --> READY
                                                  |--error--> ABORTABLE --abort--> ABORTING
    any state --the producer was fenced, or may not--> FATAL

Under transaction version 2 (KIP-890) a broker adds a partition to the transaction when the first
batch for it comes, and the end of each transaction gives the producer a new epoch. Before that, the
coordinator has to know of each partition first: it is *new* until the request leaves, *pending*
until it is answered, then *added*, and only then batches for it may leave.

A batch that was given up leaves a gap in the numbers of its partition. Under version 2 the next
epoch starts them again; before that, the producer asks for one after the abort
(`needs_epoch`). A commit whose outcome is not known may be repeated, but not be aborted.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from kaa.client.errors import KafkaError, ProducerFencedError
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.client.errors import ClientError
    from kaa.model.topics import TopicPartition

IMPLICIT_VERSION: Final = 2
"""The transaction version since which brokers add partitions by themselves."""

_FATAL: Final = frozenset(
    {
        Errors.PRODUCER_FENCED,
        Errors.INVALID_PRODUCER_ID_MAPPING,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        Errors.TRANSACTION_COORDINATOR_FENCED,
        Errors.UNSUPPORTED_VERSION,
    }
)
_FENCED: Final = frozenset({Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_EPOCH})


class TransactionStage(Enum):
    """Where a transactional producer is between two calls, as the drawing above tells."""

    UNINITIALIZED = "not initialised"
    READY = "between transactions"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE = "in a transaction that must be aborted"
    FATAL = "unusable"


_S = TransactionStage
LEGAL_TRANSITIONS: Final = {
    _S.UNINITIALIZED: {_S.READY},
    _S.READY: {_S.IN_TRANSACTION},
    _S.IN_TRANSACTION: {_S.COMMITTING, _S.ABORTING, _S.ABORTABLE},
    _S.COMMITTING: {_S.READY, _S.COMMITTING, _S.ABORTABLE},
    _S.ABORTABLE: {_S.ABORTING, _S.ABORTABLE},
    _S.ABORTING: {_S.READY, _S.ABORTING},
    _S.FATAL: set(),
}


class TransactionMachine:
    """Decides which calls of a transactional producer are allowed, and what an error leaves
    possible. A call out of order raises, and changes nothing.
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = _S.UNINITIALIZED
        # What the cluster had agreed on when the transaction began.
        self.version = 0
        # Why the transaction must be aborted, or why nothing is possible any more.
        self.error: ClientError | None = None
        self.new: dict[TopicPartition, None] = {}
        self.pending: set[TopicPartition] = set()
        self.added: set[TopicPartition] = set()
        self.has_offsets = False
        # Numbers of a partition have a gap: the next transaction needs another epoch.
        self.needs_epoch = False

    @property
    def is_implicit(self) -> bool:
        return self.version >= IMPLICIT_VERSION

    @property
    def is_open(self) -> bool:
        """Whether batches of the transaction are still worth sending."""
        return self.state in {_S.IN_TRANSACTION, _S.COMMITTING}

    @property
    def is_begun_at_the_coordinator(self) -> bool:
        """Whether there is something to end."""
        return bool(self.added or self.pending or self.has_offsets)

    def _go(self, state: TransactionStage, what: str) -> None:
        if self.state is _S.FATAL:
            assert self.error is not None
            raise self.error
        if state not in LEGAL_TRANSITIONS[self.state]:
            raise KafkaError(
                Errors.INVALID_TXN_STATE, what, message=f"the producer is {self.state.value}"
            )
        self.state = state

    # --- steps

    def initialized(self) -> None:
        """The coordinator has given the producer its id and epoch."""
        self._go(_S.READY, "cannot initialise transactions")

    def check_uninitialized(self) -> None:
        """Raises if transactions were initialised before."""
        if self.state is not _S.UNINITIALIZED:
            self._go(_S.UNINITIALIZED, "cannot initialise transactions again")

    def begin(self, version: int) -> None:
        """Begins a transaction under the version that the cluster has now."""
        self._go(_S.IN_TRANSACTION, "cannot begin a transaction")
        self.version = version

    def check_open(self, what: str) -> None:
        """Records and offsets belong into a transaction that can still be committed."""
        if self.state is _S.IN_TRANSACTION:
            return
        if self.error is not None:
            raise self.error
        raise KafkaError(
            Errors.INVALID_TXN_STATE, what, message=f"the producer is {self.state.value}"
        )

    def commit(self) -> None:
        """Raises what keeps the transaction from being committed."""
        if self.state is _S.ABORTABLE:
            assert self.error is not None
            raise self.error
        self._go(_S.COMMITTING, "cannot commit")

    def abort(self) -> None:
        """Begins to abort; partitions that were not added yet are left out."""
        self._go(_S.ABORTING, "cannot abort")
        self.new.clear()

    def ended(self) -> None:
        """The coordinator ended the transaction, or there was nothing to end."""
        self._go(_S.READY, "cannot end the transaction")
        self.error = None
        self.new.clear()
        self.pending.clear()
        self.added.clear()
        self.has_offsets = False
        self.needs_epoch = False

    # --- partitions

    def maybe_add_partition(self, partition: TopicPartition) -> bool:
        """A record goes to it. True if the coordinator has to hear of the partition first."""
        if partition in self.added or partition in self.pending:
            return False
        if self.is_implicit:
            self.added.add(partition)
            return False
        self.new[partition] = None
        return True

    def may_send(self, partition: TopicPartition) -> bool:
        """Whether batches for a partition may leave."""
        return partition in self.added and self.is_open

    def take_new(self) -> list[TopicPartition]:
        """The partitions to tell the coordinator of; they are pending."""
        if not self.is_open:
            return []
        taken = list(self.new)
        self.new.clear()
        self.pending.update(taken)
        return taken

    def partitions_added(self, partitions: Iterable[TopicPartition]) -> None:
        """The coordinator knows of these partitions: their batches may leave."""
        for partition in partitions:
            self.pending.discard(partition)
            self.added.add(partition)

    # --- errors

    def failed(self, error: ClientError, *, is_of_coordinator: bool) -> ClientError:
        """Takes an error in, and returns the one that the application gets.

        An epoch that is out of date means that the producer was fenced if the coordinator says so;
        a partition may say so while the coordinator is about to raise the epoch.
        """
        code = error.error if isinstance(error, KafkaError) else None
        if code in _FENCED and (is_of_coordinator or code is Errors.PRODUCER_FENCED):
            assert isinstance(error, KafkaError)
            error = ProducerFencedError(code, error.what, message=error.message, node=error.node)
            return self._fatal(error)
        if code in _FATAL:
            return self._fatal(error)
        if self.is_open:
            self.state = _S.ABORTABLE
            self.error = error
        return error

    def batch_failed(self, error: ClientError) -> None:
        """Records were given up, so that the transaction cannot be committed."""
        self.needs_epoch = True
        self.failed(error, is_of_coordinator=False)

    def _fatal(self, error: ClientError) -> ClientError:
        self.state = _S.FATAL
        self.error = error
        return error
