"""What must be so at every moment, over all nodes.

A node is looked at after each round of its loop, and only what has changed is looked at closely.

| Name | What may not happen |
|---|---|
| one-leader | two nodes lead a partition in one leader epoch |
| high-watermark | it goes down within a leader's life, or lies above the log end |
| too-few | it rises while fewer replicas are in sync than must be |
| uncounted | it rises above the end of a replica in the ISR, or in the one that is asked for |
| uncommitted-shown | a follower's high watermark lies above what any leader has committed |
| log-start | it goes down, but for an empty copy that begins with the batch it lies in |
| replica-sets | ISR, ELR and replicas are not nested or disjoint as they must be; an ELR beside |
| | an ISR that is large enough; a fenced broker in the ISR of a leader; a leader outside of it |
| maximal-isr | the controller's ISR has a member that the leader does not count |
| missing-committed | a running leader or member of an ISR or ELR lacks committed records |
| unacknowledged | a client was given an offset that is not committed |
| images | two nodes have different images at the same offset |
| epochs | the leader epoch or the partition epoch of a partition goes down |
| quorum-leader | two nodes lead the quorum in one epoch, or the leader lacks what is committed |
| quorum-majority | metadata is committed that fewer than most of the voters have |
| voter-steps | two committed sets of voters follow each other that differ by more than one voter, |
| | or nodes have different ones at one offset |
| removed-leader | a leader that was removed from the voters goes on committing |
| two-owners | two members of a group of the new protocol own a partition |
| outlived-leadership | a share partition is still there after the leadership it was loaded in |

What lies below the high watermarks is compared batch by batch (`committed`). What happened on the
way is counted (`seen`): a story without elections and without changes of ISRs proves little.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.log.truncation import PendingTruncation
from kaa.replication.leader import UNKNOWN_OFFSET
from kaa.tier.metadata.model import TopicIdPartition
from tests.simulation.world.committed import Committed, InvariantError, log_batches
from tests.simulation.world.voters import VoterSets, has_majority

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.controller.image import ClusterImage, PartitionImage
    from kaa.log.log import UnifiedLog
    from kaa.quorum.driver import QuorumDriver
    from kaa.quorum.voters import VoterSet
    from kaa.replication.partition import Partition
    from kaa.serving.share.led import LedSharePartition
    from kaa.serving.share.machine import SharePartition
    from kaa.wire.primitives import Uuid
    from tests.simulation.world.processes import Node
    from tests.simulation.world.store import SimStore

_Key = tuple[str, int]
METADATA: _Key = ("metadata", 0)


class Invariants:
    """See the module's text; keeps what it must not see go back."""

    def __init__(self, nodes: list[Node], store: SimStore, *, min_isr: int) -> None:
        self._brokers = [node for node in nodes if node.is_broker]
        self._store = store
        self._min_isr = min_isr
        self.looks = 0
        # What happened, by name.
        self.seen: Counter[str] = Counter()
        # By partition and leader epoch, who led it; by quorum epoch, who led that.
        self._leaders: dict[tuple[str, int, int], str] = {}
        self._quorum_leaders: dict[int, str] = {}
        self._quorum_epoch = -1
        # By name and disk of a node, where its log of the metadata ended when it was last seen.
        self._quorum_ends: dict[tuple[str, Uuid | None], int] = {}
        self._voter_sets = VoterSets(self.seen)
        self._high_watermarks: dict[tuple[str, int, str, int, int], int] = {}
        self._log_starts: dict[tuple[str, int, str, int], int] = {}
        self._local_starts: dict[tuple[str, int, str, int], int] = {}
        self._epochs: dict[tuple[str, int, str, int], tuple[int, int]] = {}
        # By offset of the metadata, the digest of the image there.
        self._images: dict[int, tuple[str, str]] = {}
        self._seen_offsets: dict[str, int] = {}
        self._committed: dict[_Key, Committed] = {}
        # By boot of a node and log: up to where it was compared; and what it was like then.
        self._compared: dict[tuple[str, int, _Key], int] = {}
        self._partition_states: dict[str, tuple[int, dict[Partition, tuple[Any, ...]]]] = {}
        self._quorum_states: dict[tuple[str, int], tuple[int, bool, int, int, VoterSet]] = {}
        # The newest partitions that any node knows of.
        self._newest_offset = -1
        self._newest: dict[_Key, PartitionImage] = {}
        # Names of topics to ids, for what clients say.
        self._topic_ids: dict[str, str] = {}

    # --- rounds

    def after_round(self, node: Node) -> None:
        """One round of the node's loop is over. A node on its way down still answers clients."""
        broker = node.watched
        if node.process is None or node.loop is None or node.loop.is_dying:
            return
        # A node takes part in the quorum before it serves.
        driver = node.process.quorum
        if driver is not None:
            self._check_quorum(node, driver)
        if broker is None:
            return
        self.looks += 1
        self._check_image(node)
        if not node.is_broker:
            return
        boots, states = self._partition_states.get(node.name, (0, {}))
        if boots != node.boots:
            states = {}
            self._partition_states[node.name] = (node.boots, states)
        # Not by iterating over them all, which makes those that were not needed yet.
        for partition in tuple(broker.services.replicas._partitions.values()):
            leadership, log = partition.leadership, partition.log
            state = (
                partition.image,
                leadership,
                -1 if log is None else log.high_watermark,
                -1 if log is None else log.log_end_offset,
                -1 if log is None else log.log_start_offset,
                -1 if log is None else log.local_log_start_offset,
                None if leadership is None else leadership.isr,
                None if leadership is None else leadership.proposal,
            )
            before = states.get(partition)
            if before != state:
                states[partition] = state
                key = (str(partition.topic_id), partition.number)
                if before is not None and leadership is not None and before[1] is leadership:
                    self._check_rise(node, partition, before[2], before[6])
                self._check(node, partition, key, -1 if before is None else before[3])

    def _check(self, node: Node, partition: Partition, key: _Key, end_before: int) -> None:
        where = f"{partition.topic}-{partition.number}"
        boot = (node.name, node.boots, *key)
        image = partition.image
        epochs = (image.leader_epoch, image.partition_epoch)
        known = self._epochs.get(boot, epochs)
        if epochs[0] < known[0] or epochs[1] < known[1]:
            raise InvariantError("epochs", f"{node.name} {where}: {epochs}")
        self._epochs[boot] = epochs
        if partition.is_leader:
            self._check_leader(node, partition, key, where)
        log = partition.log
        if log is None or log.is_closed or log.directory.offline_reason is not None:
            return
        high, end = log.high_watermark, log.log_end_offset
        if high > end:
            raise InvariantError("high-watermark", f"{node.name} {where}: {high} above {end}")
        start = log.log_start_offset
        before = self._log_starts.get(boot, start)
        if start < before and not (end_before == before and _begins_with(log, before)):
            raise InvariantError("log-start", f"{node.name} {where}: {before}, back to {start}")
        self._log_starts[boot] = start
        if log.is_tiered and self._local_starts.get(boot) != log.local_log_start_offset:
            self._local_starts[boot] = log.local_log_start_offset
            self._check_local_start(partition)
        self.seen["truncations"] += end < end_before
        self._compare(node, partition, key, log)

    def _check_local_start(self, partition: Partition) -> None:
        """Something left a disk because the store has it."""
        place = TopicIdPartition(partition.topic_id, partition.topic, partition.number)
        held = [
            other
            for node in self._brokers
            if node.broker is not None
            for other in node.broker.services.replicas._partitions.values()
            if (other.topic_id, other.number) == (partition.topic_id, partition.number)
        ]
        self.seen["local starts moved"] += 1
        self._store.check_local_start(place, held or [partition])

    def _check_leader(self, node: Node, partition: Partition, key: _Key, where: str) -> None:
        image, leadership = partition.image, partition.leadership
        assert leadership is not None
        led = (*key, image.leader_epoch)
        if led not in self._leaders:
            self.seen["partition leaders"] += 1
        leader = self._leaders.setdefault(led, node.name)
        if leader != node.name:
            raise InvariantError("one-leader", f"{where}: {leader} and {node.name}")
        newest = self._newest.get(key)
        if newest is not None and newest.leader_epoch > image.leader_epoch:
            self.seen["deposed leaders"] += 1
        # A leader that has the controller's answer may know of a set before any image has it.
        if (
            newest is not None
            and newest.leader_epoch == leadership.leader_epoch
            and newest.partition_epoch >= leadership.partition_epoch
        ):
            proposal = leadership.proposal
            counted = {*leadership.isr, *([] if proposal is None else proposal.broker_ids)}
            if not set(newest.isr) <= counted:
                detail = f"{node.name} {where}: {newest.isr}, counted are {sorted(counted)}"
                raise InvariantError("maximal-isr", detail)

    def _check_rise(
        self, node: Node, partition: Partition, high_before: int, isr_before: tuple[int, ...]
    ) -> None:
        """Whom a leader has to count before readers see more."""
        leadership, log = partition.leadership, partition.log
        if leadership is None or log is None or log.high_watermark <= max(high_before, 0):
            return
        where = f"{node.name} {partition.topic}-{partition.number}: {log.high_watermark}"
        enough = min(self._min_isr, len(partition.image.replicas))
        # The set may have changed in this round, before or after the rise.
        if max(len(leadership.isr), len(isr_before)) < enough:
            raise InvariantError("too-few", f"{where}, {leadership.isr}")
        proposal = leadership.proposal
        asked = () if proposal is None else proposal.broker_ids
        counted = {*leadership.isr, *asked} if leadership.isr == isr_before else set()
        for broker_id, replica in leadership.replicas.items():
            if broker_id in counted and UNKNOWN_OFFSET < replica.end_offset < log.high_watermark:
                raise InvariantError("uncounted", f"{where}, {broker_id}: {replica.end_offset}")

    def _compare(self, node: Node, partition: Partition, key: _Key, log: UnifiedLog) -> None:
        """Compares a log with what is committed; a leader may commit more."""
        committed = self._committed.get(key)
        if committed is None:
            name = f"{partition.topic}-{partition.number}"
            committed = self._committed[key] = Committed(name)
            self._topic_ids[partition.topic] = key[0]
        boot = (node.name, node.boots, key)
        high, end = log.high_watermark, log.log_end_offset
        if partition.is_leader:
            life = (*boot[:2], *key, partition.image.leader_epoch)
            if high < self._high_watermarks.get(life, high):
                detail = f"{node.name} {committed.name}: back to {high}"
                raise InvariantError("high-watermark", detail)
            self._high_watermarks[life] = high
        elif high > committed.end:
            detail = f"{node.name} {committed.name}: {high}, committed is {committed.end}"
            raise InvariantError("uncommitted-shown", detail)
        self._check_member(node, key, end)
        if isinstance(log.pending, PendingTruncation):
            return
        shown = high if partition.is_leader else -1
        self._read(boot, committed, log, shown, is_full=self._is_member(node, key))
        if partition.is_leader:
            committed.check_stable(log.last_stable_offset, node.name)

    def _read(
        self,
        boot: tuple[str, int, _Key],
        committed: Committed,
        log: UnifiedLog,
        shown: int,
        *,
        is_full: bool,
    ) -> None:
        """Above its high watermark a log may differ, unless it counts (`is_full`)."""
        end = log.log_end_offset
        compared = min(self._compared.get(boot, 0), end)
        compared = max(compared, log.local_log_start_offset)
        until = min(max(committed.end if is_full else log.high_watermark, shown), end)
        for batch in log_batches(log, compared, until) if compared < until else ():
            if batch.base_offset >= committed.end and batch.next_offset <= shown:
                committed.extend(batch, boot[0])
            elif batch.next_offset <= committed.end:
                committed.compare(batch, boot[0])
            else:
                break
            compared = batch.next_offset
        self._compared[boot] = compared

    def _is_member(self, node: Node, key: _Key) -> bool:
        newest = self._newest.get(key)
        return newest is not None and node.config.node_id in (
            *newest.isr,
            *newest.eligible_leader_replicas,
            newest.leader,
        )

    def _check_member(self, node: Node, key: _Key, end: int) -> None:
        """A replica that counts as in sync, or as eligible, has all that is committed."""
        committed = self._committed.get(key)
        if committed is not None and end < committed.end and self._is_member(node, key):
            newest = self._newest[key]
            detail = f"{node.name} {committed.name}: {end} of {committed.end}, {newest}"
            raise InvariantError("missing-committed", detail)

    # --- clients

    def acknowledged(self, topic: str, partition: int, offset: int) -> None:
        """An answer said that the client's record has this offset."""
        committed = self._committed.get((self._topic_ids.get(topic, ""), partition))
        if committed is None or committed.end <= offset:
            end = None if committed is None else committed.end
            detail = f"{topic}-{partition}: {offset}, committed is {end}"
            raise InvariantError("unacknowledged", detail)

    # --- metadata

    def _check_image(self, node: Node) -> None:
        broker = node.watched
        assert broker is not None
        offset = broker.services.metadata.committed_offset
        if self._seen_offsets.get(node.name) == offset:
            return
        self._seen_offsets[node.name] = offset
        image = broker.services.metadata.image
        told = repr(
            (
                sorted(
                    (name, str(topic.id), sorted(topic.partitions.items()))
                    for name, topic in image.topics.items()
                ),
                sorted(image.configs.items()),
                sorted(image.brokers),
            )
        )
        other, known = self._images.setdefault(offset, (node.name, told))
        if known != told:
            raise InvariantError("images", f"{other} and {node.name} at offset {offset}")
        if offset > self._newest_offset:
            self._newest_offset = offset
            self._take_newest(image)

    def _take_newest(self, image: ClusterImage) -> None:
        newest: dict[_Key, PartitionImage] = {}
        for name, topic in image.topics.items():
            for number, partition in topic.partitions.items():
                key = (str(topic.id), number)
                newest[key] = partition
                before = self._newest.get(key)
                if before != partition:
                    self._check_sets(image, f"{name}-{number}", partition)
                    self._count(before, partition)
        self._newest = newest
        for node in self._brokers:
            if node.broker is not None:
                for held in node.broker.services.replicas._partitions.values():
                    if held.log is not None:
                        key = (str(held.topic_id), held.number)
                        self._check_member(node, key, held.log.log_end_offset)

    def _check_sets(self, image: ClusterImage, where: str, partition: PartitionImage) -> None:
        replicas, isr = set(partition.replicas), set(partition.isr)
        eligible = set(partition.eligible_leader_replicas)
        enough = min(self._min_isr, len(replicas))
        is_fenced = any(
            broker not in image.brokers or image.brokers[broker].is_fenced for broker in isr
        )
        if (
            not isr <= replicas
            or not eligible <= replicas
            or isr & eligible
            or (eligible and len(isr) >= enough)
            or len(isr) != len(partition.isr)
            or (partition.leader >= 0 and partition.leader not in isr)
            # The last one stays in the set when it goes, and leads nothing then.
            or (is_fenced and partition.leader >= 0)
        ):
            raise InvariantError("replica-sets", f"{where}: {partition}, min ISR {enough}")

    def _count(self, before: PartitionImage | None, after: PartitionImage) -> None:
        if before is None:
            return
        self.seen["ISR shrinks"] += len(after.isr) < len(before.isr)
        self.seen["ISR growths"] += len(after.isr) > len(before.isr)
        self.seen["leader changes"] += after.leader != before.leader
        self.seen["ELR changes"] += (
            after.eligible_leader_replicas != before.eligible_leader_replicas
        )
        self.seen["reassignments"] += set(after.replicas) != set(before.replicas)

    def _check_quorum(self, node: Node, driver: QuorumDriver) -> None:
        machine, log = driver.machine, driver.log
        quorum = machine._replica
        if log._log.directory.offline_reason is not None:
            return
        high = machine.high_watermark or 0
        end = log._log.log_end_offset
        state = (machine.epoch, machine.is_leader, high, end, quorum.voter_set)
        before = self._quorum_states.get((node.name, node.boots))
        if before == state:
            return
        self._quorum_states[node.name, node.boots] = state
        boot = (node.name, node.boots, METADATA)
        committed = self._committed.setdefault(METADATA, Committed("metadata"))
        self._quorum_epoch = max(self._quorum_epoch, machine.epoch)
        self._quorum_ends[node.name, node.directory_id] = end
        self._voter_sets.look(node.name, quorum.voters, high)
        if machine.is_leader:
            self._voter_sets.look_at_leader(node.name, quorum.local, quorum.voters, high)
            if machine.epoch not in self._quorum_leaders:
                self.seen["quorum elections"] += 1
            leader = self._quorum_leaders.setdefault(machine.epoch, node.name)
            if leader != node.name:
                detail = f"epoch {machine.epoch}: {leader} and {node.name}"
                raise InvariantError("quorum-leader", detail)
            if machine.epoch == self._quorum_epoch and end < committed.end:
                detail = f"{node.name}: {end} of {committed.end}"
                raise InvariantError("quorum-leader", detail)
            if before is None or high > before[2]:
                self._check_majority(node, high, (before or state)[4], quorum.voter_set)
        if before is not None and end < before[3]:
            self.seen["metadata truncations"] += 1
        unified = log._log
        if high > committed.end or self._compared.get(boot, 0) < committed.end:
            if not committed.batches:
                # What lies before it is in a snapshot.
                committed.end = log.start_offset()
            is_newest = machine.is_leader and machine.epoch == self._quorum_epoch
            self._read(boot, committed, unified, min(high, end), is_full=is_newest)

    def _check_majority(self, node: Node, high: int, *sets: VoterSet) -> None:
        """More is committed: most of those who vote have it, by the set that was in force before
        the round or by the one that is now.
        """
        having = [disk for disk, known in self._quorum_ends.items() if known >= high]
        if not any(has_majority(voters, having) for voters in sets):
            detail = f"{node.name}: {high} is on {having} alone, of {sets[-1].ids()}"
            raise InvariantError("quorum-majority", detail)

    # --- groups

    def look_at_groups(self) -> None:
        for node in self._brokers:
            if node.broker is None:
                continue
            for shard in node.broker.services.groups.runtime:
                key = (self._topic_ids.get("__consumer_offsets", ""), shard.partition.number)
                newest = self._newest.get(key)
                if newest is None or newest.leader_epoch != shard.partition.leader_epoch:
                    continue
                machine: Any = shard.machine
                for group in tuple(machine.groups.values()):
                    if isinstance(group, ConsumerGroup):
                        self._check_group(node, group)

    def share_partitions(
        self, topic: str, group_id: str
    ) -> Iterator[tuple[str, int, SharePartition]]:
        """A group's share partitions of a topic at their leaders of the newest epoch: node, number
        and state, of those that are loaded, whenever that was.
        """
        topic_id = self._topic_ids.get(topic, "")
        for node in self._brokers:
            if node.broker is None:
                continue
            for led in node.broker.services.share_partitions:
                _check_led(node, led)
                newest = self._newest.get((topic_id, led.key.partition))
                if (
                    str(led.key.topic_id) == topic_id
                    and led.key.group_id == group_id
                    and led.is_loaded
                    and led.error is None
                    and newest is not None
                    and newest.leader == node.config.node_id
                    and newest.leader_epoch == led.partition.leader_epoch
                ):
                    self.seen["queues looked at"] += 1
                    yield node.name, led.key.partition, led.machine

    def _check_group(self, node: Node, group: ConsumerGroup) -> None:
        owners: dict[tuple[str, int], str] = {}
        for member in group.members.values():
            for topic_id, numbers in (*member.assigned.items(), *member.pending_revocation.items()):
                for number in numbers:
                    owner = owners.setdefault((str(topic_id), number), member.member_id)
                    if owner != member.member_id:
                        detail = f"{node.name} {group.group_id}: {owner}, {member.member_id}"
                        raise InvariantError("two-owners", detail)
        self.seen["groups looked at"] += 1


def _begins_with(log: UnifiedLog, offset: int) -> bool:
    """Whether the first batch of a log has the offset."""
    first = next(log_batches(log, log.log_start_offset, log.log_start_offset + 1), None)
    return first is not None and first.base_offset <= offset < first.next_offset


def _check_led(node: Node, led: LedSharePartition) -> None:
    partition = led.partition
    if not partition.is_leader or led.leader_epoch != partition.leader_epoch:
        detail = f"{node.name} {led.key} of epoch {led.leader_epoch}, now {partition.leader_epoch}"
        raise InvariantError("outlived-leadership", detail)
