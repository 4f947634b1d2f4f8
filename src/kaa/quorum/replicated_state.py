"""What a driver of the quorum needs around it: state machine, network, clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kaa.records.record import iter_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.quorum.log_view import OffsetAndEpoch
    from kaa.quorum.messages import Request
    from kaa.quorum.snapshots import SnapshotContent
    from kaa.quorum.voters import Node
    from kaa.records.batch import RecordBatch


class CommittedBatch(NamedTuple):
    """Records that are committed for ever; ``values`` is empty for control records."""

    base_offset: int
    last_offset: int
    epoch: int
    append_timestamp: int
    size_in_bytes: int
    values: Iterable[bytes]
    """Read from the batch while they are iterated, once."""


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

    None of them may call ``QuorumDriver.append``: the driver is in the middle of its effects.
    """

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, content: SnapshotContent) -> None:
        """Replaces the whole state."""

    def commit(self, batch: CommittedBatch) -> None:
        """Applies what follows the state."""

    def committed_up_to(self, offset: int) -> None:
        """Everything below ``offset`` that is committed has been applied, and more is not known."""

    def lead(self, epoch: int) -> None:
        """This replica leads, and everything that earlier leaders committed is applied."""

    def follow(self, epoch: int, leader_id: int | None) -> None:
        """Another replica leads the epoch, or none is known to. Uncommitted records may be lost."""

    def stopped(self, error: BaseException | None) -> None:
        """There will be no more calls; with an error the node must end."""


class QuorumNetwork(Protocol):
    """The way to other replicas."""

    def send(self, node: Node, correlation_id: int, request: Request) -> None:
        """Sends; the answer comes back by ``QuorumDriver.received_response``, whatever it is."""


class Clock(Protocol):
    """Wall time, for what is written into records."""

    def now_ms(self) -> int: ...
