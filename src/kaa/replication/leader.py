"""What the leader of a partition knows about its replicas, and what follows from it.

For every other replica the leader keeps how far it has come, by its fetches. From that it decides
three things:

**The high watermark** is the least end over the *maximal* in-sync set: the committed one plus a
replica that is about to be added. A shrink counts only once the controller has committed it. A
replica outside the set that has caught up and may join holds the high watermark back too, since it
may be in the set by the time the controller answers. While the committed set is smaller than
`min.insync.replicas` (or than the number of replicas, if that is less) the high watermark stays
where it is: eligible leader replicas (KIP-966) rest on it.

**The in-sync set** (ISR) changes only by the controller. The leader proposes; there is one proposal
at a time, made for one partition epoch, and until its answer or newer metadata arrives nothing else
is proposed. A replica joins when its end has reached the high watermark and the start of this
leader's epoch; it leaves when it has not been at the leader's end for `replica.lag.time.max.ms`.
Only a live broker joins, under the very epoch with which it fetched (KIP-903), so that a broker
that lost its disk and came back is not taken for its former self.

**The low watermark** is the least log start over all live replicas, which DeleteRecords waits for.

The end of a replica is what it fetched from last, and goes down when the replica truncated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kaa.controller.directories import LOST, UNASSIGNED, is_online
from kaa.log.properties import NO_BROKER_EPOCH
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.controller.image import BrokerImage, PartitionImage
    from kaa.wire.primitives import Uuid

UNKNOWN_OFFSET: Final = -1
RECOVERED: Final = 0

# The controller says that nothing was changed and the partition epoch is right.
_NOT_APPLIED: Final = frozenset({Errors.OPERATION_NOT_ATTEMPTED, Errors.INELIGIBLE_REPLICA})
# The controller knows more than this leader, who learns it with the metadata.
_OUTDATED: Final = frozenset(
    {
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.FENCED_LEADER_EPOCH,
        Errors.INVALID_UPDATE_VERSION,
        Errors.INVALID_REQUEST,
        Errors.NEW_LEADER_ELECTED,
    }
)


class ClusterView(Protocol):
    """What a leader has to know of the cluster around it."""

    @property
    def lag_ms_max(self) -> int:
        """`replica.lag.time.max.ms`."""
        ...

    def broker(self, broker_id: int) -> BrokerImage | None: ...

    def broker_epoch(self) -> int:
        """Of this broker itself."""
        ...


class IsrMember(NamedTuple):
    broker_id: int
    broker_epoch: int


class IsrProposal:
    """An in-sync set that this leader asks the controller for. Compared by identity."""

    __slots__ = ("added", "isr", "leader_epoch", "partition_epoch")

    def __init__(
        self,
        isr: tuple[IsrMember, ...],
        added: int | None,
        leader_epoch: int,
        partition_epoch: int,
    ) -> None:
        self.isr = isr
        # The replica that joins; None if replicas leave, or only the recovery is reported.
        self.added = added
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(member.broker_id for member in self.isr)


class RemoteReplica:
    """How far another replica has come, as its fetches tell."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "fetch_ms",
        "leader_end_offset",
        "start_offset",
    )

    def __init__(self) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.start_offset = UNKNOWN_OFFSET
        # The leader's end at the replica's last fetch, and when that was.
        self.leader_end_offset = UNKNOWN_OFFSET
        self.fetch_ms = 0
        # When the replica last had everything that the leader had.
        self.caught_up_ms = 0
        # None until it fetches.
        self.broker_epoch: int | None = None

    def begin(self, now_ms: int, end_offset: int, *, is_new: bool, is_in_sync: bool) -> None:
        """A leader epoch begins: a replica in the set has its time to catch up from now on."""
        self.caught_up_ms = now_ms if is_in_sync else 0
        if is_new:
            self.forget()
        else:
            self.leader_end_offset = end_offset
            self.fetch_ms = now_ms if is_in_sync else 0

    def forget(self) -> None:
        """The broker is another one now, and may have lost what it had."""
        self.end_offset = self.start_offset = self.leader_end_offset = UNKNOWN_OFFSET
        self.fetch_ms = 0
        self.broker_epoch = None

    def fetched(
        self,
        end_offset: int,
        start_offset: int,
        leader_end_offset: int,
        now_ms: int,
        broker_epoch: int,
    ) -> None:
        if end_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif end_offset >= self.leader_end_offset:
            # It has all that there was at its last fetch.
            self.caught_up_ms = max(self.caught_up_ms, self.fetch_ms)
        self.end_offset = end_offset
        self.start_offset = start_offset
        self.leader_end_offset = max(self.leader_end_offset, leader_end_offset)
        self.fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_ms_max: int) -> bool:
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_ms_max


class Leadership:
    """The state of one partition's leader, from the first epoch it leads on until it stops."""

    __slots__ = (
        "_directories",
        "epoch_start_offset",
        "isr",
        "leader_epoch",
        "node_id",
        "partition_epoch",
        "proposal",
        "recovery_state",
        "replicas",
        "since_epoch",
        "view",
    )

    def __init__(
        self, node_id: int, view: ClusterView, image: PartitionImage, end_offset: int, now_ms: int
    ) -> None:
        self.node_id = node_id
        self.view = view
        # The other replicas, in the order of the assignment.
        self.replicas: dict[int, RemoteReplica] = {}
        # Where they are, if the metadata has it.
        self._directories: dict[int, Uuid] = {}
        # As the controller committed it, this broker included.
        self.isr: tuple[int, ...] = image.isr
        self.partition_epoch = -1
        self.leader_epoch = -1
        self.recovery_state = image.leader_recovery_state
        self.proposal: IsrProposal | None = None
        # Where the log ended when the current epoch began.
        self.epoch_start_offset = end_offset
        # The first epoch of this unbroken leadership: what was appended before may be gone.
        self.since_epoch = image.leader_epoch
        self.update(image, end_offset, now_ms)

    # --- metadata

    def update(self, image: PartitionImage, end_offset: int, now_ms: int) -> None:
        """Takes over metadata. What the controller answered to a proposal may be newer."""
        self._assign(image.replicas)
        assigned = zip(image.replicas, image.directories, strict=False)
        # An eligible leader replica that lost its log says so until it is in the set: see
        # `kaa.replication.log_placement`.
        refilled = {(broker_id, LOST) for broker_id in image.eligible_leader_replicas}
        self._directories = dict(each for each in assigned if each not in refilled)
        if image.leader_epoch > self.leader_epoch:
            is_new = self.leader_epoch < 0
            self.epoch_start_offset = end_offset
            for broker_id, replica in self.replicas.items():
                is_in_sync = broker_id in image.isr
                replica.begin(now_ms, end_offset, is_new=is_new, is_in_sync=is_in_sync)
        elif image.partition_epoch <= self.partition_epoch:
            return
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.isr = image.isr
        self.recovery_state = image.leader_recovery_state
        self.proposal = None

    def _assign(self, replicas: tuple[int, ...]) -> None:
        before = self.replicas
        self.replicas = {
            broker_id: before.get(broker_id) or RemoteReplica()
            for broker_id in replicas
            if broker_id != self.node_id
        }

    def brokers_changed(self) -> None:
        """Forgets the progress of brokers that registered again since they fetched."""
        for broker_id, replica in self.replicas.items():
            broker = self.view.broker(broker_id)
            known = replica.broker_epoch
            if broker is not None and known not in {None, NO_BROKER_EPOCH, broker.epoch}:
                replica.forget()

    # --- fetches

    def is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a fetch comes from a broker that has registered again since."""
        broker = self.view.broker(broker_id)
        return broker is not None and NO_BROKER_EPOCH < broker_epoch < broker.epoch

    # --- offsets

    def high_watermark(
        self, counted_end: int, end_offset: int, min_insync_replicas: int, now_ms: int
    ) -> int | None:
        """How far readers may see; None while too few replicas are in sync.

        This broker's own records count up to `counted_end`, its log ends at `end_offset`.
        """
        if not self.replicas:
            return counted_end
        if not self.has_enough(len(self.isr), min_insync_replicas):
            return None
        least = counted_end
        proposal = self.proposal
        joining = None if proposal is None else proposal.added
        for broker_id, replica in self.replicas.items():
            if replica.end_offset < least and (
                broker_id in self.isr
                or broker_id == joining
                or (
                    replica.is_caught_up(end_offset, now_ms, self.view.lag_ms_max)
                    and self._is_eligible(broker_id, replica)
                )
            ):
                least = replica.end_offset
        return least

    def low_watermark(self, start_offset: int) -> int:
        least = start_offset
        for broker_id, replica in self.replicas.items():
            broker = self.view.broker(broker_id)
            if broker is not None and not broker.is_fenced:
                least = min(least, replica.start_offset)
        return least

    def has_enough(self, count: int, min_insync_replicas: int) -> bool:
        return count >= min(min_insync_replicas, len(self.replicas) + 1)

    @property
    def maximal_isr_count(self) -> int:
        proposal = self.proposal
        is_growing = proposal is not None and proposal.added is not None
        return len(self.isr) + (1 if is_growing else 0)

    # --- the in-sync set

    def _is_eligible(self, broker_id: int, replica: RemoteReplica) -> bool:
        """Whether a replica may be in the set: nobody waits for one whose disk has failed."""
        broker = self.view.broker(broker_id)
        return (
            broker is not None
            and not broker.is_fenced
            and not broker.is_in_controlled_shutdown
            and replica.broker_epoch in {NO_BROKER_EPOCH, broker.epoch}
            and is_online(self._directories.get(broker_id, UNASSIGNED), broker.directories)
        )

    def expand(self, broker_id: int, high_watermark: int) -> IsrProposal | None:
        """A proposal with the replica in the set, if it may and does not wait for another one."""
        if self.proposal is not None or broker_id in self.isr:
            return None
        replica = self.replicas[broker_id]
        if replica.end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        if not self._is_eligible(broker_id, replica):
            return None
        return self._propose((*self.isr, broker_id), broker_id)

    def shrink(self, end_offset: int, now_ms: int) -> IsrProposal | None:
        """A proposal without the replicas that are too far behind, if there are any."""
        if self.proposal is not None or len(self.isr) <= 1:
            return None
        kept = tuple(
            broker_id
            for broker_id in self.isr
            if broker_id == self.node_id or self._is_caught_up(broker_id, end_offset, now_ms)
        )
        return None if len(kept) == len(self.isr) else self._propose(kept, None)

    def _is_caught_up(self, broker_id: int, end_offset: int, now_ms: int) -> bool:
        replica = self.replicas.get(broker_id)
        return replica is not None and replica.is_caught_up(
            end_offset, now_ms, self.view.lag_ms_max
        )

    def recover(self) -> IsrProposal | None:
        """Reports that the log was recovered after an election that may have lost records."""
        if self.recovery_state == RECOVERED or self.proposal is not None:
            return None
        return self._propose(self.isr, None)

    def _propose(self, isr: tuple[int, ...], added: int | None) -> IsrProposal:
        members = tuple(IsrMember(broker_id, self._epoch_of(broker_id)) for broker_id in isr)
        proposal = IsrProposal(members, added, self.leader_epoch, self.partition_epoch)
        self.proposal = proposal
        return proposal

    def _epoch_of(self, broker_id: int) -> int:
        if broker_id == self.node_id:
            return self.view.broker_epoch()
        replica = self.replicas.get(broker_id)
        # In the set, but it did not fetch from this leader yet.
        if replica is None or replica.broker_epoch is None:
            return NO_BROKER_EPOCH
        return replica.broker_epoch

    def accepted(
        self,
        proposal: IsrProposal,
        isr: tuple[int, ...],
        leader_epoch: int,
        partition_epoch: int,
        recovery_state: int,
    ) -> bool:
        """The controller's answer; whether it still tells something."""
        if self.proposal is not proposal:
            return False
        if leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return False
        # With an equal partition epoch the proposal was what is already there.
        self.proposal = None
        self.isr = isr
        self.partition_epoch = partition_epoch
        self.recovery_state = recovery_state
        return True

    def refused(self, proposal: IsrProposal, error: Errors) -> bool:
        """The controller's refusal; whether to ask again."""
        if self.proposal is not proposal:
            return False
        if error in _NOT_APPLIED:
            self.proposal = None
            return False
        # Otherwise the proposal may have been applied, and stands until metadata tells.
        return error not in _OUTDATED
