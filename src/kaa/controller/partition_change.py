"""How a partition changes: from a wish about its ISR or replicas to the record that grants it.

Every change goes through `PartitionChange.record`, in this order:

1. A reassignment whose adding replicas are all in the wished ISR is completed: removing replicas
   leave, adding and removing become empty.
2. With eligible leader replicas (KIP-966), replicas that leave the ISR while it is below
   min.insync.replicas are kept as eligible: they have everything committed. A replica whose broker
   ended uncleanly does not, and an ISR of sufficient size needs none.
3. A leader is elected: the present one if it may stay, else the first replica that is in the ISR
   (or, with an empty ISR, eligible) and alive; a preferred election tries the first replica before
   all. If none is left, the last known leader if it is alive, or, in an unclean election, any live
   replica; such a leader is alone in the ISR and recovering.
4. What differs from the present state is written; if nothing does, there is no record.

The leader epoch rises when the leader is written, even to the same id: when a replica is removed,
which must not be mistaken for one that is still in sync.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kaa.controller.directories import MIGRATING
from kaa.controller.feature_table import (
    DIRECTORY_ASSIGNMENT,
    NO_LEADER_EPOCH_BUMP_ON_ISR_SHRINK,
)
from kaa.model.nodes import NO_LEADER
from kaa.wire.messages.metadata_topics import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.controller.image import PartitionImage, TopicImage
    from kaa.controller.state import ControllerState
    from kaa.wire.primitives import Uuid

LEADER_UNCHANGED = -2
RECOVERED = 0
RECOVERING = 1


class Election(Enum):
    """Which replicas may be elected."""

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


class _Elected(NamedTuple):
    leader: int
    is_unclean: bool = False


class PartitionChange:
    """One partition, and what it is wished to become."""

    def __init__(
        self,
        state: ControllerState,
        topic: TopicImage,
        number: int,
        *,
        is_alive: Callable[[int], bool] | None = None,
    ) -> None:
        before = topic.partitions[number]
        self._state = state
        self._topic = topic
        self._number = number
        self._before = before
        self._is_alive = state.is_active if is_alive is None else is_alive
        self.isr = list(before.isr)
        self.replicas = list(before.replicas)
        self.removing = list(before.removing_replicas)
        self.adding = list(before.adding_replicas)
        self.leader_recovery_state = before.leader_recovery_state
        self.election = Election.ONLINE
        self.unclean_shutdown_broker: int | None = None
        self.directories = assigned_directories(before)
        self._elr = list(before.eligible_leader_replicas)

    def record(self) -> PartitionChangeRecord | None:
        before, state = self._before, self._state
        record = PartitionChangeRecord(partition_id=self._number, topic_id=self._topic.id)
        self._complete_reassignment()
        self._keep_eligible()
        self._elect(record)
        if record.leader == LEADER_UNCHANGED and set(before.replicas) - set(self.replicas):
            record.leader = before.leader
        self._write_eligible(record)
        if (
            record.isr is None
            and (self.isr or state.is_elr_enabled)
            and self.isr != list(before.isr)
        ):
            record.isr = list(self.isr)
        self._bump_epoch_if_isr_shrank(record)
        self._write_last_known_leader(record)
        self._write_assignment(record)
        if self.leader_recovery_state != before.leader_recovery_state:
            record.leader_recovery_state = self.leader_recovery_state
        unchanged = PartitionChangeRecord(partition_id=self._number, topic_id=self._topic.id)
        return None if record == unchanged else record

    # --- step by step

    def _complete_reassignment(self) -> None:
        if not self.removing and not self.adding:
            return
        isr = [replica for replica in self.isr if replica not in self.removing]
        replicas = [replica for replica in self.replicas if replica not in self.removing]
        if not isr or not replicas or not set(self.adding) <= set(isr):
            return
        if len(self.adding) < len(self.removing) and not set(replicas) <= set(isr):
            # The replication factor falls: first all that stay must be in sync.
            return
        self.isr, self.replicas, self.removing, self.adding = isr, replicas, [], []

    def _keep_eligible(self) -> None:
        if not self._state.is_elr_enabled:
            return
        if len(self.isr) >= self._state.min_isr(self._topic.name):
            self._elr = []
            return
        candidates = {*self._elr, *self._before.isr} - set(self.isr)
        # A replica that was removed would come back with an empty log.
        candidates &= set(self.replicas)
        if self.unclean_shutdown_broker is not None:
            candidates.discard(self.unclean_shutdown_broker)
        self._elr = sorted(candidates)

    def _elect(self, record: PartitionChangeRecord) -> None:
        before = self._before
        leader, is_unclean = self._choose()
        if leader == before.leader:
            return
        if leader in self._elr:
            self.isr = [leader]
            self._elr = [replica for replica in self._elr if replica != leader]
        record.leader = leader
        if is_unclean:
            record.isr = [leader]
            if before.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING

    def _choose(self) -> _Elected:
        before = self._before
        candidates = [before.leader, *self.replicas]
        if self.election is Election.PREFERRED:
            candidates.insert(0, self.replicas[0])
        for replica in candidates:
            if self._may_lead(replica):
                return _Elected(replica)
        if self._may_elect_last_known():
            return _Elected(before.last_known_elr[0], is_unclean=True)
        if self.election is Election.UNCLEAN:
            for replica in self.replicas:
                if self._is_reachable(replica):
                    return _Elected(replica, is_unclean=True)
        return _Elected(NO_LEADER)

    def _may_lead(self, replica: int) -> bool:
        in_sync = replica in self.isr or (not self.isr and replica in self._elr)
        return in_sync and self._is_reachable(replica)

    def _is_reachable(self, replica: int) -> bool:
        """Whether a replica's broker is alive and the directory that holds it works, or the one
        that it is assigned to now: a disk may be back under another id.
        """
        if not self._is_alive(replica):
            return False
        before = assigned_directories(self._before)
        return any(
            self._state.has_online_directory(replica, directories[replica])
            for directories in (before, self.directories)
            if replica in directories
        )

    def _may_elect_last_known(self) -> bool:
        last_known = self._before.last_known_elr
        return (
            self._state.is_elr_enabled
            and not self.isr
            and not self._elr
            and len(last_known) == 1
            and self._is_reachable(last_known[0])
        )

    def _write_eligible(self, record: PartitionChangeRecord) -> None:
        if record.isr is not None or not self._state.is_elr_enabled:
            self._elr = []
        if self._elr != list(self._before.eligible_leader_replicas):
            record.eligible_leader_replicas = list(self._elr)

    def _bump_epoch_if_isr_shrank(self, record: PartitionChangeRecord) -> None:
        """Old versions of the metadata had every shrink of an ISR raise the leader epoch."""
        if (
            self._state.metadata_version < NO_LEADER_EPOCH_BUMP_ON_ISR_SHRINK
            and record.leader == LEADER_UNCHANGED
            and record.isr is not None
            and set(self._before.isr) - set(record.isr)
        ):
            record.leader = self._before.leader

    def _write_last_known_leader(self, record: PartitionChangeRecord) -> None:
        if not self._state.is_elr_enabled:
            return
        if record.leader == NO_LEADER and not self._before.last_known_elr:
            record.last_known_elr = [self._before.leader]
        elif record.leader >= 0 and self._before.last_known_elr:
            record.last_known_elr = []

    def _write_assignment(self, record: PartitionChangeRecord) -> None:
        before = self._before
        if self._state.metadata_version >= DIRECTORY_ASSIGNMENT:
            directories = [
                self.directories.get(replica) or self._state.default_directory(replica)
                for replica in self.replicas
            ]
            if directories != list(assigned_directories(before).values()):
                record.directories = directories
        if self.replicas != list(before.replicas):
            record.replicas = list(self.replicas)
        if self.removing != list(before.removing_replicas):
            record.removing_replicas = list(self.removing)
        if self.adding != list(before.adding_replicas):
            record.adding_replicas = list(self.adding)


def assigned_directories(partition: PartitionImage) -> dict[int, Uuid]:
    """The directory of each replica; records of old versions do not tell it."""
    if not partition.directories:
        return dict.fromkeys(partition.replicas, MIGRATING)
    return dict(zip(partition.replicas, partition.directories, strict=True))
