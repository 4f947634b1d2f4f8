"""What a driver of the quorum needs around it: state machine, network, clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kaa.records.record import iter_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kaa.model.pieces import Pieces
    from kaa.quorum.log_view import OffsetAndEpoch
    from kaa.quorum.messages import Request, Response
    from kaa.quorum.snapshots import SnapshotContent
    from kaa.quorum.voters import Node
    from kaa.records.batch import RecordBatch


class CommittedBatch(NamedTuple):
    """Records that are committed for ever; `values` is empty for control records."""

    base_offset: int
    last_offset: int
    epoch: int
    append_timestamp: int
    size_in_bytes: int
    # Read from the batch while they are iterated, once.
    values: Iterable[bytes]


def committed_batch(batch: RecordBatch) -> CommittedBatch:
    return CommittedBatch(
        batch.base_offset,
        batch.last_offset,
        batch.partition_leader_epoch,
        batch.max_timestamp,
        batch.size_in_bytes,
        _values(batch),
    )


def _values(batch: RecordBatch) -> Iterator[bytes]:
    if not batch.is_control:
        for record in iter_records(batch):
            yield record.value or b""


class ReplicatedState(Protocol):
    """The local state machine that the log feeds. Calls come in the order of the log.

    None of them may call `QuorumDriver.append`: the driver is in the middle of its effects.
    """

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, content: SnapshotContent) -> Pieces[None]:
        """Replaces the whole state; nothing of it counts before the last piece is done."""
        ...

    def commit(self, batch: CommittedBatch) -> Pieces[None]:
        """Applies what follows the state; nothing of it counts before the last piece is done."""
        ...

    def committed_up_to(self, offset: int) -> None:
        """Everything below `offset` that is committed has been applied, and more is not known."""

    def lead(self, epoch: int) -> None:
        """This replica leads, and everything that earlier leaders committed is applied."""

    def follow(self, epoch: int, leader_id: int | None) -> None:
        """Another replica leads the epoch, or none is known to. Uncommitted records may be lost."""

    def voters_changed(self) -> None:
        """Another voter set is in force."""

    def stopped(self, error: BaseException | None) -> None:
        """There will be no more calls; with an error the node must end."""


class QuorumNetwork(Protocol):
    """The way to other replicas."""

    def send(
        self,
        node: Node,
        correlation_id: int,
        request: Request,
        deliver: Callable[[int, int, Response], None],
    ) -> None:
        """Sends; `deliver` gets the node's id, the correlation id and the answer, whatever it
        is, in a later turn of the loop.
        """
