"""What must hold at every moment of a simulated quorum: Kafka's seven invariants, and three more.

| Invariant                    | Holds when                                                      |
|------------------------------|-----------------------------------------------------------------|
| MonotonicEpoch               | a replica's epoch never falls, and is the one on its disk       |
| SingleLeader                 | no two replicas believe in different leaders of one epoch       |
| MajorityReachedHighWatermark | all before it is on the disks of a majority of the voters       |
| MonotonicHighWatermark       | no leader's is below one of an earlier epoch or of its own      |
| SnapshotAtLogStart           | a log that starts above 0 starts at its earliest snapshot       |
| LeaderNeverLoadSnapshot      | a state machine that knows it leads never loads a snapshot      |
| ConsistentCommittedData      | a committed offset holds the same record everywhere, for ever   |
| AcknowledgedData             | what a leader acknowledged is committed, and once               |
| PersistBeforeSend            | no message leaves before its epoch and vote are on disk         |
| Liveness                     | after the last fault everyone follows one leader, which commits |

Each event can only break them for the replica that handled it, so only that one is looked at, which
keeps a check cheap enough to run after every event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.quorum import OffsetAndEpoch
from kaa.quorum.log_view import Validity, validate_fetch_position
from tests.simulation.quorum.disk import Batch, Snapshot

if TYPE_CHECKING:
    from tests.simulation.quorum.cluster import Cluster
    from tests.simulation.quorum.node import SimulatedNode


class InvariantError(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: str, message: str) -> None:
        self.invariant = invariant
        super().__init__(f"{invariant}: {message}")


class Invariants:
    """The checks of one run and what they remember."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._epochs: dict[int, int] = {}
        self._leaders: dict[int, int] = {}
        # Of each log, the version that was looked at.
        self._log_versions: dict[int, int] = {}
        # Of each epoch's leader, the highest high watermark seen.
        self._high_watermarks: dict[int, int] = {}
        # By offset: the epoch and content of the committed record.
        self.committed: dict[int, tuple[int, int | str]] = {}
        # By offset after it: the last number committed before that offset.
        self._last_numbers: dict[int, int] = {0: 0}
        self.committed_end = 0
        self.acknowledgements = 0
        # Those that a scenario breaks on purpose.
        self.ignored: set[str] = set()

    def _broken(self, invariant: str, message: str) -> None:
        if invariant not in self.ignored:
            raise InvariantError(invariant, message)

    def disk_replaced(self, node_id: int) -> None:
        self._log_versions.pop(node_id, None)

    def check(self, node: SimulatedNode) -> None:
        self._monotonic_epoch(node)
        self._single_leader(node)
        self._high_watermark(node)
        self._snapshot_at_log_start(node)

    def _monotonic_epoch(self, node: SimulatedNode) -> None:
        epoch = node.machine.epoch
        before = self._epochs.get(node.id, 0)
        if epoch < before:
            self._broken("MonotonicEpoch", f"node {node.id} fell from {before} to {epoch}")
        stored = node.disk.election
        if stored is not None and stored.epoch != epoch:
            self._broken(
                "MonotonicEpoch", f"node {node.id} is in {epoch}, its disk in {stored.epoch}"
            )
        self._epochs[node.id] = epoch

    def _single_leader(self, node: SimulatedNode) -> None:
        epoch, leader_id = node.machine.epoch, node.machine.leader_id
        if leader_id is None:
            return
        known = self._leaders.setdefault(epoch, leader_id)
        if known != leader_id:
            self._broken("SingleLeader", f"epoch {epoch} has the leaders {known} and {leader_id}")

    def _high_watermark(self, node: SimulatedNode) -> None:
        machine = node.machine
        high_watermark = machine.high_watermark
        if not machine.is_leader or high_watermark is None:
            return
        voters = self._cluster.voters
        reached = [
            voter_id
            for voter_id in voters.ids()
            if self._cluster.disks[voter_id].log.durable_end_offset() >= high_watermark
        ]
        if len(reached) < voters.majority():
            self._broken(
                "MajorityReachedHighWatermark",
                f"leader {node.id} of epoch {machine.epoch} says {high_watermark},"
                f" only {reached} have that on disk",
            )
        if self._high_watermarks.get(machine.epoch) == high_watermark:
            return
        before = max(
            (value for epoch, value in self._high_watermarks.items() if epoch <= machine.epoch),
            default=0,
        )
        if high_watermark < before:
            self._broken(
                "MonotonicHighWatermark",
                f"leader {node.id} of epoch {machine.epoch} says {high_watermark},"
                f" {before} was known",
            )
        self._high_watermarks[machine.epoch] = high_watermark

    def _snapshot_at_log_start(self, node: SimulatedNode) -> None:
        log = node.disk.log
        if self._log_versions.get(node.id) == log.version:
            return
        self._log_versions[node.id] = log.version
        earliest = log.earliest_snapshot_id()
        start_offset = log.start_offset()
        if earliest is None:
            if start_offset > 0:
                self._broken(
                    "SnapshotAtLogStart", f"node {node.id} starts at {start_offset} without one"
                )
            return
        fits = start_offset == earliest.offset or (start_offset == 0 < earliest.offset)
        validity, _ = validate_fetch_position(log, earliest.offset, earliest.epoch)
        if not fits or validity is not Validity.VALID:
            self._broken(
                "SnapshotAtLogStart",
                f"node {node.id} starts at {start_offset},"
                f" its earliest snapshot {earliest} is {validity.value}",
            )

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        if node.claimed_epoch is not None:
            self._broken(
                "LeaderNeverLoadSnapshot",
                f"node {node.id} leads epoch {node.claimed_epoch} and loads {snapshot_id}",
            )
        expected = self._last_numbers.get(snapshot_id.offset)
        if expected != snapshot.value:
            self._broken(
                "ConsistentCommittedData",
                f"node {node.id} loads {snapshot.value} in {snapshot_id}, committed was {expected}",
            )

    def applied(self, node: SimulatedNode, batch: Batch) -> None:
        for index, value in enumerate(batch.values):
            offset = batch.base_offset + index
            record = (batch.epoch, value)
            known = self.committed.setdefault(offset, record)
            if known != record:
                self._broken(
                    "ConsistentCommittedData",
                    f"node {node.id} applies {record} at {offset}, committed was {known}",
                )
        if batch.end_offset not in self._last_numbers:
            numbers = [value for value in batch.values if isinstance(value, int)]
            before = self._last_numbers[batch.base_offset]
            self._last_numbers[batch.end_offset] = numbers[-1] if numbers else before
        self.committed_end = max(self.committed_end, batch.end_offset)

    def acknowledged(self, batch: Batch) -> None:
        self.acknowledgements += 1
        for index, value in enumerate(batch.values):
            record = self.committed.get(batch.base_offset + index)
            if record != (batch.epoch, value):
                self._broken("AcknowledgedData", f"{batch} was acknowledged, not committed")

    def check_all_logs(self) -> None:
        """At the end of a run: every log agrees with what was committed, and nothing was committed
        twice.
        """
        for node in self._cluster.running():
            for batch in node.disk.log.batches:
                if batch.end_offset <= (node.machine.high_watermark or 0):
                    self.applied(node, batch)
        numbers = [value for _, value in self.committed.values() if isinstance(value, int)]
        if len(numbers) != len(set(numbers)):
            self._broken("AcknowledgedData", "a record was committed twice")
