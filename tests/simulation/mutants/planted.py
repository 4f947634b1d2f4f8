"""Faults that are planted into Kaa's source, one at a time: each must be found by stories.

A simulation that finds nothing proves nothing unless it is known what it would find. Each mutant
here replaces a few characters of one module, as a mistake of ours, or as one that others made:
elections of replicas that are not in sync (Kafka before `unclean.leader.election.enable`), progress
that is noted before the range check or never goes down, votes without a look at the log, leaders
that commit entries of earlier epochs by counting (Raft 5.4.2), answers before their records are
committed. The text that is replaced has to be in its module exactly once, which a test checks, so
that a change of the module takes its mutants along.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.world.kinds import Kind

LEADER = "kaa.replication.leader"
PARTITION = "kaa.replication.partition"
FOLLOWER = "kaa.replication.follower.machine"
FETCHER = "kaa.replication.follower.fetcher"
FETCHING = "kaa.serving.fetching"
CHANGE = "kaa.controller.partition_change"
LEADERSHIP = "kaa.controller.leadership"
BROKERS = "kaa.controller.brokers"
ISR = "kaa.controller.isr"
IMAGE = "kaa.controller.image"
QUORUM_LEADER = "kaa.quorum.leader"
BALLOT = "kaa.quorum.election"
STATES = "kaa.quorum.states"
SYNC = "kaa.quorum.shared_sync"
PRODUCERS = "kaa.log.producer_state"
EPOCHS = "kaa.log.leader_epochs"
ABORTED = "kaa.log.transaction_index"
LOG = "kaa.log.log"
SHARD = "kaa.coordinators.shard"
RUNTIME = "kaa.coordinators.runtime"
ENDING = "kaa.coordinators.transaction.ending"
MARKERS = "kaa.coordinators.transaction.markers"
SHARE_LED = "kaa.serving.share.led"
SHARE_MACHINE = "kaa.serving.share.machine"
SHARE_MANAGER = "kaa.serving.share.manager"
SHARE_STATES = "kaa.serving.share.in_flight"
SHARE_ACQUISITION = "kaa.serving.share.acquisition"
VOTERS = "kaa.quorum.voters"
VOTER_CHANGES = "kaa.quorum.voter_changes"
TIER = "kaa.tier.manager"
REMOTE_LOGS = "kaa.serving.remote_logs"
SHARE_COORDINATOR = "kaa.coordinators.share.machine"
GROUP_STATES = "kaa.coordinators.group.share.states"


class Mutant(NamedTuple):
    """One planted fault: in `module`, `old` becomes `new`."""

    name: str
    module: str
    old: str
    new: str
    # What else is replaced, where one guard stands behind another.
    also: tuple[tuple[str, str], ...] = ()
    # Only stories about a queue can find it, or those about voters, or about the tier.
    is_of_queues: bool = False
    is_of_voters: bool = False
    is_of_tier: bool = False
    # How many clients of a story about a queue come with new groups.
    visitors: int = 0

    def planted(self, source: str) -> str:
        """The module's source with the fault in it."""
        for old, new in ((self.old, self.new), *self.also):
            if source.count(old) != 1:
                raise ValueError(f"{self.name} does not fit any more: {old!r}")
            source = source.replace(old, new)
        return source


MUTANTS = (
    # --- how leaders count their replicas
    Mutant(
        "high watermark without the ISR",
        LEADER,
        "broker_id in self.isr\n                or",
        "0 or",
    ),
    Mutant(
        "high watermark below min.insync.replicas",
        LEADER,
        "if not self.has_enough(len(self.isr), min_insync_replicas):\n            return None",
        "",
    ),
    Mutant("a joining replica does not count", LEADER, "or broker_id == joining", "or False"),
    Mutant(
        "a shrink counts before it is committed",
        LEADER,
        "return None if len(kept) == len(self.isr) else self._propose(kept, None)",
        "if len(kept) == len(self.isr):\n            return None\n"
        "        proposal = self._propose(kept, None)\n"
        "        self.isr = kept\n        return proposal",
    ),
    Mutant(
        "a follower's end only rises",
        LEADER,
        "self.end_offset = end_offset\n        self.start_offset = start_offset\n",
        "self.end_offset = max(self.end_offset, end_offset)\n"
        "        self.start_offset = start_offset\n",
        # Otherwise the end is forgotten with the life in which it was reached.
        (
            (
                "broker.epoch}:\n                replica.forget()",
                "broker.epoch}:\n                pass",
            ),
        ),
    ),
    Mutant(
        "progress outlives a registration",
        LEADER,
        "broker.epoch}:\n                replica.forget()",
        "broker.epoch}:\n                pass",
    ),
    Mutant(
        "fetches of a former life count",
        LEADER,
        "return broker is not None and NO_BROKER_EPOCH < broker_epoch < broker.epoch",
        "return False",
    ),
    Mutant(
        "a replica joins without being caught up",
        LEADER,
        "if replica.end_offset < max(high_watermark, self.epoch_start_offset):",
        "if replica.end_offset < 0:",
    ),
    Mutant(
        "an unknown outcome is taken for a refusal",
        LEADER,
        "        return error not in _OUTDATED",
        "        self.proposal = None\n        return False",
    ),
    Mutant(
        "two proposals at a time",
        LEADER,
        "if self.proposal is not None or broker_id in self.isr:",
        "if broker_id in self.isr:",
    ),
    # --- partitions
    Mutant(
        "acks=all is answered after the append",
        PARTITION,
        "        if log.high_watermark < offset:\n            return None\n",
        "",
    ),
    Mutant(
        "a follower shows all it has",
        PARTITION,
        "if log.update_high_watermark(high_watermark) > before:",
        "if log.update_high_watermark(log.log_end_offset) > before:",
    ),
    Mutant(
        "nothing is cut",
        PARTITION,
        "truncation = begin_truncation(log, offset, now_ms)",
        "truncation = None",
    ),
    Mutant(
        "a follower appends what an old leader sent",
        PARTITION,
        "if self.leadership is not None or self.leader_epoch != leader_epoch:",
        "if False:",
    ),
    Mutant(
        "a leader does not note its epoch",
        PARTITION,
        "log.leader_epochs.assign(image.leader_epoch, log.log_end_offset)",
        "pass",
    ),
    Mutant(
        "a follower fetches on before it has synced",
        PARTITION,
        "if self.request_flush is None:\n            return\n        self.request_flush(self)",
        "return",
    ),
    Mutant(
        "a leader counts what it has not synced",
        PARTITION,
        "end_offset if self.request_flush is None else log.recovery_point",
        "end_offset",
    ),
    Mutant(
        "a leader does not step down",
        PARTITION,
        "if leadership is not None or not is_same_epoch:",
        "if False:",
    ),
    Mutant(
        "old leader epochs are served",
        PARTITION,
        "            return Errors.FENCED_LEADER_EPOCH",
        "            return Errors.NONE",
    ),
    # --- followers
    Mutant(
        "divergence is not reported",
        FETCHING,
        "        if diverging is not None:",
        "        if False:",
    ),
    Mutant(
        "followers cut to their high watermark",
        FETCHER,
        "            )\n        return offset",
        "            )\n        return log.high_watermark",
    ),
    Mutant(
        "answers to an older fetch are taken",
        FOLLOWER,
        "                    and followed.stamp <= self._asked_stamp\n",
        "",
    ),
    Mutant(
        "progress is noted before the read",
        FETCHING,
        "        log = partition.online_log()\n        diverging = _diverging(partition, position)",
        "        log = partition.online_log()\n"
        "        if replica_id >= 0:\n"
        "            partition.replica_fetched(replica_id, log.log_end_offset,"
        " position.log_start_offset, replica_epoch)\n"
        "        diverging = _diverging(partition, position)",
    ),
    # --- the controller
    Mutant(
        "replicas outside the ISR are elected",
        CHANGE,
        "return in_sync and self._is_reachable(replica)",
        "return self._is_reachable(replica)",
    ),
    Mutant(
        "an unclean stop keeps a replica eligible",
        CHANGE,
        "candidates.discard(self.unclean_shutdown_broker)",
        "pass",
    ),
    Mutant(
        "eligible replicas stay beside a full ISR",
        CHANGE,
        "            self._elr = []\n            return\n        candidates",
        "            return\n        candidates",
    ),
    Mutant(
        "fenced brokers stay in the ISR",
        LEADERSHIP,
        "change.isr = [replica for replica in change.isr if replica != broker_id]",
        "pass",
    ),
    Mutant(
        "every stop is clean",
        BROKERS,
        "was_unclean = state.is_elr_enabled and not is_clean",
        "was_unclean = False",
    ),
    Mutant(
        "AlterPartition of an old partition epoch",
        ISR,
        "    if data.partition_epoch < partition.partition_epoch:\n",
        "    if False:\n",
    ),
    Mutant(
        "AlterPartition of an old leader",
        ISR,
        "    if data.leader_epoch < partition.leader_epoch:\n"
        "        return Errors.FENCED_LEADER_EPOCH\n"
        "    if broker_id != partition.leader:\n"
        "        return Errors.INVALID_REQUEST\n"
        "    if data.partition_epoch < partition.partition_epoch:\n"
        "        return Errors.INVALID_UPDATE_VERSION\n",
        "",
    ),
    Mutant(
        "any life of a broker joins an ISR",
        ISR,
        "    if not state.is_active(replica.broker_id):\n        return False\n",
        "    return True\n",
    ),
    Mutant(
        "a reassignment is complete at once",
        CHANGE,
        "or not set(self.adding) <= set(isr):",
        "or False:",
    ),
    Mutant(
        "an election keeps the leader epoch",
        IMAGE,
        'changes["leader_epoch"] = self.leader_epoch + 1',
        'changes["leader_epoch"] = self.leader_epoch',
    ),
    # --- the quorum
    Mutant(
        "the leader commits alone",
        QUORUM_LEADER,
        "majority_end = ends[len(ends) // 2]",
        "majority_end = ends[0]",
    ),
    Mutant(
        "entries of old epochs are committed by counting",
        QUORUM_LEADER,
        "if majority_end <= self.epoch_start_offset:",
        "if majority_end < 0:",
    ),
    Mutant(
        "half of the votes are enough",
        BALLOT,
        "return len(self._votes) // 2 + 1",
        "return max(1, len(self._votes) // 2)",
    ),
    Mutant(
        "metadata counts before it is synced",
        SYNC,
        "if not needs_sync and not self._is_syncing and self._timer is None:",
        "if True:",
    ),
    # --- producers and transactions in the log
    Mutant(
        "a retry is appended again",
        PRODUCERS,
        "return entry.find_duplicate(batch) if entry is not None else None",
        "return None",
    ),
    Mutant(
        "gaps in sequences are let through",
        PRODUCERS,
        "if not in_sequence and self._current.epoch != NO_PRODUCER_EPOCH:",
        "if False:",
    ),
    Mutant(
        "old epochs of producers write",
        PRODUCERS,
        '        if epoch < updated.epoch:\n            self._refuse_epoch(epoch, "older than")\n'
        "        if self._origin is AppendOrigin.CLIENT:",
        "        if self._origin is AppendOrigin.CLIENT:",
    ),
    Mutant(
        "open transactions are read",
        PRODUCERS,
        "        first = next(iter(ongoing), None)\n        if self.unreplicated:",
        "        first = None\n        if self.unreplicated:",
    ),
    Mutant(
        "aborted transactions are not synced",
        ABORTED,
        "if self._file is None and self.changes > self.durable_changes and self._entries:",
        "if False:",
    ),
    Mutant(
        "aborted transactions are not listed",
        LOG,
        "aborted = self._aborted_in(start_offset, region) if region is not None else []",
        "aborted = []",
    ),
    Mutant(
        "epochs outlive a cut",
        EPOCHS,
        "while self._starts and self._starts[-1] >= end_offset >= 0:",
        "while False:",
    ),
    # --- coordinators
    Mutant(
        "coordinators answer before the commit",
        SHARD,
        "if not result.records and is_committed:",
        "if True:",
    ),
    Mutant(
        "a coordinator loads what is below the high watermark",
        "kaa.coordinators.loading",
        "while not is_closed() and offset < partition.online_log().log_end_offset:",
        "while not is_closed() and offset < partition.online_log().high_watermark:",
    ),
    Mutant(
        "a coordinator goes on after its leadership",
        RUNTIME,
        "                del self._shards[partition.number]\n                shard.close()\n",
        "                pass\n",
    ),
    Mutant(
        "a commit is reported of a transaction that was aborted",
        ENDING,
        "        raise CoordinatorError(Errors.INVALID_TXN_STATE)\n    return False",
        "        return False\n    return False",
    ),
    Mutant(
        "markers go to one partition of a transaction",
        MARKERS,
        "        for name in sorted(partitions):\n",
        "        for extra in sorted(partitions)[1:]:\n            self._done(sending, extra)\n"
        "        for name in sorted(partitions)[:1]:\n",
    ),
    # --- queues
    Mutant(
        "acknowledgements are answered before they are written",
        SHARE_LED,
        "        self._enqueue(_Unwritten(change, done))\n        return done",
        "        self._enqueue(_Unwritten(change, done))\n"
        "        done.set_result(Errors.NONE)\n        return done",
        is_of_queues=True,
    ),
    Mutant(
        "share state that could not be read counts as none",
        SHARE_LED,
        "                error = Errors.REPLICA_NOT_AVAILABLE\n            self.drop(error)\n",
        "                error = Errors.REPLICA_NOT_AVAILABLE\n"
        "            self.machine.load(0, ())\n"
        "            self.is_loaded = True\n            self.wake()\n",
        is_of_queues=True,
    ),
    Mutant(
        "a snapshot of share state has only what changed",
        SHARE_COORDINATOR,
        "            batches=(yield from combine(state.batches, reported, start)),\n",
        "            batches=(yield from combine((), reported, start)),\n",
        is_of_queues=True,
    ),
    Mutant(
        "records are delivered without a limit",
        SHARE_STATES,
        "if state is RecordState.AVAILABLE and self.delivery_count >= count_max:",
        "if False:",
        is_of_queues=True,
    ),
    Mutant(
        "aborted records are delivered",
        SHARE_ACQUISITION,
        "            if not batch.is_aborted:\n",
        "            if True:\n",
        is_of_queues=True,
    ),
    Mutant(
        "a share partition outlives leadership",
        SHARE_MANAGER,
        "if not partition.is_leader or partition.leader_epoch != led.leader_epoch:\n",
        "if False:\n",
        is_of_queues=True,
    ),
    Mutant(
        "a share partition keeps its first leader epoch",
        SHARE_MANAGER,
        "if not partition.is_leader or partition.leader_epoch != led.leader_epoch:\n",
        "if not partition.is_leader:\n",
        is_of_queues=True,
    ),
    Mutant(
        "anybody may acknowledge what a member holds",
        SHARE_MACHINE,
        "                if whole.member_id != member_id:\n",
        "                if False:\n",
        also=(("                    or state.member_id != member_id\n", ""),),
        is_of_queues=True,
        visitors=1,
    ),
    Mutant(
        "how much is done with is not written",
        SHARE_LED,
        "            machine.delivery_complete_count,\n",
        "            0,\n",
        is_of_queues=True,
    ),
    Mutant(
        "fenced share state is kept",
        SHARE_LED,
        "        if outcome in _FENCED:\n",
        "        if False:\n",
        is_of_queues=True,
        visitors=2,
    ),
    Mutant(
        "share state is begun twice at once",
        GROUP_STATES,
        "                if key not in self._begun:\n                    self._begun[key] = ",
        "                if effect:\n                    self._begun[key] = ",
        also=(
            (
                "                self._begun.pop(key).set_result(None)\n",
                "                self._begun.pop(key, None)\n",
            ),
        ),
        is_of_queues=True,
        visitors=2,
    ),
    Mutant(
        "state is begun for a group that is elsewhere",
        GROUP_STATES,
        "key, state_epoch, UNKNOWN_START_OFFSET, partial(self._is_awaited, key)\n",
        "key, state_epoch, UNKNOWN_START_OFFSET\n",
        is_of_queues=True,
        visitors=4,
    ),
    # --- voters that change
    Mutant(
        "a new disk votes for the one that is gone",
        VOTERS,
        "return self.directory_id is None or self.directory_id == other.directory_id",
        "return True",
        is_of_voters=True,
    ),
    Mutant(
        "a new set of voters does not count",
        QUORUM_LEADER,
        "        self.voters = new_voters\n",
        "        new_voters = old_voters\n",
        is_of_voters=True,
    ),
    Mutant(
        "a removed leader leads on",
        VOTER_CHANGES,
        "        if not replica.is_voter:\n",
        "        if False:\n",
        is_of_voters=True,
    ),
    # --- the tier
    Mutant(
        "a copy counts before it is made",
        TIER,
        "            self.counters.copy_requests += 1\n",
        "            self.counters.copy_requests += 1\n"
        "            log.copied_offset = max(log.copied_offset, closed.next_offset - 1)\n",
        is_of_tier=True,
    ),
    Mutant(
        "objects go while they are named",
        TIER,
        "        if segment.state != SegmentState.DELETE_SEGMENT_STARTED:\n",
        "        if False:\n",
        is_of_tier=True,
    ),
    Mutant(
        "aborted transactions of the tier are not listed",
        REMOTE_LOGS,
        "        return RemoteRead(found.data, aborted)\n",
        "        return RemoteRead(found.data, [])\n",
        is_of_tier=True,
    ),
    Mutant(
        "deleted topics stay in the store",
        REMOTE_LOGS,
        "        if is_deleted and is_tiered and partition.is_leader:\n",
        "        if False:\n",
        is_of_tier=True,
    ),
)


def by_name(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


_POWER: tuple[Kind, ...] = ("power cut of all", "power cut", "kill")
_DOUBLED: tuple[Kind, ...] = ("client doubled", "client killed", "pause")
_LINKS: tuple[Kind, ...] = ("reset", "cut", "one-way cut", "isolation", "slow link", "pause")
_LEADERS: tuple[Kind, ...] = ("isolation", "kill", "kill of all", "pause", "restart")
_CUT_OFF: tuple[Kind, ...] = ("isolation", "cut", "one-way cut", "pause", "slow link", "kill")
_LOST: tuple[Kind, ...] = ("power cut", "lost fsync", "kill", "isolation")
_DISKS: tuple[Kind, ...] = ("disk replaced", "isolation", "pause")
_VOTERS: tuple[Kind, ...] = ("isolation", "kill", "pause", "cut")
_STORE: tuple[Kind, ...] = ("store down", "uploads cut", "answers lost")
# Which faults bring a mutant out, where all of them together seldom do.
BROUGHT_OUT_BY: dict[str, tuple[Kind, ...]] = {
    "a leader counts what it has not synced": _POWER,
    "a follower fetches on before it has synced": _POWER,
    "metadata counts before it is synced": _POWER,
    "aborted transactions are not synced": _POWER,
    "old epochs of producers write": _DOUBLED,
    "gaps in sequences are let through": _LINKS,
    "AlterPartition of an old partition epoch": _LINKS,
    "AlterPartition of an old leader": _LINKS,
    "an unknown outcome is taken for a refusal": _LINKS,
    "two proposals at a time": _LINKS,
    "a joining replica does not count": _LINKS,
    "answers to an older fetch are taken": _LINKS,
    "a follower appends what an old leader sent": _LINKS,
    "coordinators answer before the commit": _LEADERS,
    "a coordinator loads what is below the high watermark": _LEADERS,
    "a coordinator goes on after its leadership": _LEADERS,
    "followers cut to their high watermark": _LEADERS,
    "a leader does not note its epoch": _LEADERS,
    "epochs outlive a cut": _LEADERS,
    "entries of old epochs are committed by counting": _LEADERS,
    "a follower's end only rises": _LOST,
    "progress outlives a registration": _LOST,
    "fetches of a former life count": _LOST,
    "any life of a broker joins an ISR": _LOST,
    "share state is begun twice at once": _CUT_OFF,
    "state is begun for a group that is elsewhere": _LEADERS,
    "a new disk votes for the one that is gone": _DISKS,
    "a new set of voters does not count": _VOTERS,
    "a removed leader leads on": _VOTERS,
    "a copy counts before it is made": _STORE,
    "objects go while they are named": _STORE,
    "aborted transactions of the tier are not listed": _STORE,
    "deleted topics stay in the store": _STORE,
}
