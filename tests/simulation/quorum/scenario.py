"""One simulated run: a quorum of a random size, faults for a while, then peace, and it must
recover.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from kaa.quorum import QuorumConfig, Resign, Shutdown
from tests.simulation.quorum.cluster import Cluster, Network
from tests.simulation.quorum.invariants import InvariantError

FAULTS_MS = 20_000
"""How long there are faults."""
HEALING_MS = 20_000
"""How long the quorum may take to recover: a few elections."""
PROGRESS_RECORDS = 10
"""How many records must be committed everywhere after that."""

CALM = QuorumConfig(fetch_max_bytes=4, fetch_snapshot_max_bytes=9, fetch_max_wait_ms=300)
"""Kafka's times; small pieces, so that a snapshot or a log takes several fetches."""
NERVOUS = CALM.replace(
    election_timeout_ms=60, fetch_timeout_ms=200, request_timeout_ms=150, fetch_max_wait_ms=50
)
"""Times hardly above those of the network: elections all the time, many at once."""


class Result:
    """What a run did, to see that it did something."""

    def __init__(self, cluster: Cluster, faults: int) -> None:
        cluster.note_stories()
        self.events = cluster.events
        self.effects = cluster.effects
        self.transitions = cluster.transitions
        self.faults = faults
        self.epochs = max(node.machine.epoch for node in cluster.running())
        self.committed = cluster.invariants.committed_end
        self.acknowledged = cluster.invariants.acknowledgements
        self.simulated_ms = cluster.now_ms


class Scenario:
    """A run; everything in it follows from the seed."""

    def __init__(self, seed: int, voters: int | None = None, observers: int | None = None) -> None:
        self.rng = random.Random(seed)
        chosen_voters = self.rng.choice((3, 3, 5, 5, 1))
        chosen_observers = self.rng.randint(0, 2)
        self.cluster = Cluster(
            self.rng,
            chosen_voters if voters is None else voters,
            chosen_observers if observers is None else observers,
            self.rng.choice((CALM, CALM, NERVOUS)),
        )
        # Drivers that flush at once, soon, or take their time.
        self.cluster.flush_ms_max = self.rng.choice((0, 2, 10, 60))
        self.cluster.power_cut_chance = self.rng.choice((0.0, 0.0, 0.0005))
        self.cluster.power_cut_after_vote_chance = self.rng.choice((0.0, 0.5))
        self._append_interval_ms = self.rng.choice((20, 50, 100))
        self._snapshot_interval_ms = self.rng.choice((300, 1000, 3000, 10_000))
        self._next_number = 0
        self._is_healing = False
        self.faults = 0

    def run(self) -> Result:
        """Run to the end; an invariant that breaks raises."""
        cluster = self.cluster
        for node_id in cluster.disks:
            cluster.at(self.rng.randint(0, 300), partial(cluster.restart, node_id))
        cluster.after(self._append_interval_ms, self._append)
        cluster.after(self._snapshot_interval_ms, self._snapshot)
        cluster.after(self.rng.randint(0, 3000), self._fault)
        cluster.run_until(FAULTS_MS)
        self._heal()
        self._check_liveness()
        cluster.invariants.check_all_logs()
        return Result(cluster, self.faults)

    # --- load

    def _append(self) -> None:
        """Clients append wherever a state machine believes that it leads, a deposed leader
        included.
        """
        for node in self.cluster.running():
            if node.claimed_epoch is not None and node.paused_until_ms <= self.cluster.now_ms:
                count = self.rng.randint(1, 3)
                values = tuple(range(self._next_number + 1, self._next_number + count + 1))
                self._next_number += count
                self.cluster.append(node, self._next_number, values)
        self.cluster.after(self._append_interval_ms, self._append)

    def _snapshot(self) -> None:
        running = self.cluster.running()
        if running:
            node = self.rng.choice(running)
            node.take_snapshot(delete_log=self.rng.random() < 0.7)
            self.cluster.invariants.check(node)
        self.cluster.after(self.rng.randint(1, self._snapshot_interval_ms), self._snapshot)

    # --- faults

    def _fault(self) -> None:
        if self._is_healing:
            return
        self.faults += 1
        faults: tuple[Callable[[], None], ...] = (
            self._kill_one,
            self._kill_one,
            self._kill_leader,
            self._kill_leader,
            self._kill_many,
            self._kill_again_and_again,
            self._stop_one,
            self._pause_one,
            self._resign_leader,
            self._isolate_leader,
            self._partition,
            self._cut_one_way,
            self._bad_network,
            self._good_network,
            self._slow_disk,
        )
        self.rng.choice(faults)()
        self.cluster.after(self.rng.randint(50, 2500), self._fault)

    def _kill(self, node_id: int) -> None:
        if node_id in self.cluster.nodes:
            self.cluster.kill(node_id)
            delay_ms = self.rng.choice((1, 100, 1000, 5000))
            self.cluster.after(self.rng.randint(1, delay_ms), lambda: self.cluster.restart(node_id))

    def _kill_one(self) -> None:
        self._kill(self.rng.choice(sorted(self.cluster.disks)))

    def _kill_leader(self) -> None:
        leader = self.cluster.leader()
        if leader is not None:
            self._kill(leader.id)

    def _kill_many(self) -> None:
        for node_id in sorted(self.cluster.nodes):
            if self.rng.random() < 0.7:
                self._kill(node_id)

    def _kill_again_and_again(self) -> None:
        """Crashes in quick succession, so that some fall between a vote and what follows."""
        for _ in range(self.rng.randint(3, 20)):
            node_id = self.rng.choice(sorted(self.cluster.disks))
            self.cluster.after(self.rng.randint(0, 1500), partial(self._flap, node_id))

    def _flap(self, node_id: int) -> None:
        if node_id in self.cluster.nodes and not self._is_healing:
            self.cluster.kill(node_id)
            self.cluster.after(self.rng.randint(0, 20), lambda: self.cluster.restart(node_id))

    def _stop_one(self) -> None:
        """A clean stop: the leader hands over."""
        running = self.cluster.running()
        if running:
            node = self.rng.choice(running)
            self.cluster.handle(node, Shutdown(self.rng.choice((0, 500, 5000))))
            self.cluster.after(self.rng.randint(5000, 8000), lambda: self.cluster.restart(node.id))

    def _pause_one(self) -> None:
        running = self.cluster.running()
        if running:
            pause_ms = self.rng.choice((100, 1000, 4000))
            self.rng.choice(running).paused_until_ms = self.cluster.now_ms + pause_ms

    def _resign_leader(self) -> None:
        leader = self.cluster.leader()
        if leader is not None:
            self.cluster.handle(leader, Resign(leader.machine.epoch))

    def _isolate_leader(self) -> None:
        leader = self.cluster.leader()
        if leader is not None:
            self._separate({leader.id})

    def _partition(self) -> None:
        self._separate({node_id for node_id in self.cluster.disks if self.rng.random() < 0.5})

    def _separate(self, side: set[int]) -> None:
        ids = sorted(self.cluster.disks)
        self.cluster.network.cut = {
            (one, other) for one in ids for other in ids if (one in side) != (other in side)
        }

    def _cut_one_way(self) -> None:
        ids = sorted(self.cluster.disks)
        self.cluster.network.cut.add((self.rng.choice(ids), self.rng.choice(ids)))

    def _bad_network(self) -> None:
        network = self.cluster.network
        network.loss = self.rng.choice((0.0, 0.02, 0.1, 0.3))
        network.duplication = self.rng.choice((0.0, 0.05, 0.3))
        network.delay_ms_max = self.rng.choice((1, 10, 100, 400))
        network.straggler_ms_max = self.rng.choice((10, 500, 3000))

    def _good_network(self) -> None:
        self.cluster.network = Network()

    def _slow_disk(self) -> None:
        self.cluster.flush_ms_max = self.rng.choice((0, 2, 10, 60, 400))
        for node in self.cluster.running():
            node.flush_ms_max = self.cluster.flush_ms_max

    # --- peace

    def _heal(self) -> None:
        self._is_healing = True
        cluster = self.cluster
        cluster.network = Network()
        cluster.flush_ms_max = 2
        cluster.power_cut_chance = cluster.power_cut_after_vote_chance = 0.0
        for node in cluster.running():
            node.flush_ms_max = 2
            node.paused_until_ms = 0
        self._restart_all()
        # A clean stop that was under way may last a little longer.
        for delay_ms in (1000, 3000, 5500):
            cluster.after(delay_ms, self._restart_all)

    def _restart_all(self) -> None:
        for node_id in self.cluster.disks:
            self.cluster.restart(node_id)

    def _check_liveness(self) -> None:
        cluster = self.cluster
        target = cluster.invariants.committed_end + PROGRESS_RECORDS

        def is_live() -> bool:
            nodes = cluster.running()
            return (
                len(nodes) == len(cluster.disks)
                and len({(node.machine.epoch, node.machine.leader_id) for node in nodes}) == 1
                and all(node.applied_offset >= target for node in nodes)
            )

        if not cluster.run_until(cluster.now_ms + HEALING_MS, is_live):
            states = "; ".join(
                f"{node.id}: {type(node.machine.state).__name__} {node.machine.epoch}"
                f" leader {node.machine.leader_id} applied {node.applied_offset}"
                for node in cluster.running()
            )
            raise InvariantError("Liveness", f"{target} not reached everywhere: {states}")


class ElectionStorm(Scenario):
    """Elections one after the other on a slow network, with power cuts right after votes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, voters=3, observers=0)
        self.cluster.config = NERVOUS
        self.cluster.flush_ms_max = 0
        self.cluster.power_cut_after_vote_chance = 0.5
        self._append_interval_ms = 1000
        self._snapshot_interval_ms = FAULTS_MS

    def _fault(self) -> None:
        if self._is_healing:
            return
        self.faults += 1
        network = self.cluster.network
        network.delay_ms_max = self.rng.choice((20, 60, 120))
        network.straggler_ms_max = 300
        self.rng.choice((self._kill_leader, self._isolate_leader, self._clear_cuts))()
        self.cluster.after(self.rng.randint(50, 400), self._fault)

    def _clear_cuts(self) -> None:
        self.cluster.network.cut.clear()


class LeaderCrashes(Scenario):
    """Leaders with slow disks lose power again and again, and are back before others notice."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, voters=3, observers=0)
        self.cluster.flush_ms_max = 60
        self._append_interval_ms = 20
        self._snapshot_interval_ms = FAULTS_MS

    def _fault(self) -> None:
        if self._is_healing:
            return
        self.faults += 1
        leader = self.cluster.leader()
        if leader is not None:
            self._flap(leader.id)
        self.cluster.after(self.rng.randint(50, 1500), self._fault)


class LostDisk(Scenario):
    """One voter loses its disk and comes back empty, after the others have elected a leader.

    That is the most that the protocol survives: a majority of the voters still remembers.
    """

    def run(self) -> Result:
        cluster = self.cluster
        cluster.power_cut_chance = cluster.power_cut_after_vote_chance = 0.0
        # The empty replica starts over, which these two would call a breach.
        cluster.invariants.ignored = {"MonotonicEpoch", "MajorityReachedHighWatermark"}
        cluster.after(0, self._restart_all)
        cluster.after(self._append_interval_ms, self._append)
        cluster.after(self._snapshot_interval_ms, self._snapshot)
        cluster.run_until(5000)
        victim = self.rng.choice(cluster.voters.ids())
        cluster.kill(victim)
        cluster.replace_disk(victim)
        others_agree = cluster.run_until(
            cluster.now_ms + HEALING_MS,
            lambda: (
                {node.machine.leader_id for node in cluster.running()} != {None, victim}
                and len({node.machine.leader_id for node in cluster.running()}) == 1
                and cluster.leader() is not None
            ),
        )
        if not others_agree:
            raise InvariantError("Liveness", "the others found no leader")
        self._heal()
        self._check_liveness()
        cluster.invariants.check_all_logs()
        return Result(cluster, 1)
