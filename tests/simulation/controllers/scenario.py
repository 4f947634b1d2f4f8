"""One story of a quorum: real controllers on virtual time, whose voters change under faults.

1. The controllers start: static voters, or those that the disks were formatted with.
2. Safety: clients change metadata, an operator adds and removes voters at any time, faults come and
   go, and perhaps one disk is lost for good.
3. Everything is healed. Liveness: somebody leads, changes are taken again, a node that joins by
   itself is a voter, and all have the same metadata, with all that was promised.
"""

from __future__ import annotations

import gc
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from kaa.controller.port import ControllerRequestContext
from kaa.quorum.leader import Leader
from kaa.quorum.messages import AddVoterRequest, RemoveVoterRequest
from kaa.quorum.voters import ReplicaKey
from kaa.wire.errors import Errors
from kaa.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kaa.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.simulation.controllers.invariants import Invariants
from tests.simulation.controllers.machines import Controller
from tests.simulation.world.committed import InvariantError
from tests.simulation.world.copies import Copies
from tests.simulation.world.faults import Faults
from tests.simulation.world.kernel import Kernel
from tests.simulation.world.kinds import KINDS
from tests.simulation.world.network import SimNetwork
from tests.simulation.world.processes import CLUSTER_ID
from tests.support.quiet import quiet_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kaa.quorum.driver import QuorumDriver
    from kaa.quorum.voters import VoterSet
    from kaa.serving.services import Services
    from tests.simulation.world.kinds import Kind
    from tests.simulation.world.processes import Node

LOOK_ROUNDS = 25
START_SECONDS = 60.0
HEAL_SECONDS = 2.0
HEALED_SECONDS = 120.0
ACKNOWLEDGED_MIN = 5
_CHANGE_TIMEOUT_MS = 2_000
# Small pieces, so that snapshots are taken and the log is cleaned all the time.
SETTINGS = (
    "internal.metadata.log.segment.bytes=2000",
    "metadata.max.retention.bytes=4000",
)


_NOT_HERE = ("client killed", "client doubled", "power cut of all")
CONTROLLER_KINDS = tuple(kind for kind in KINDS if kind not in _NOT_HERE)


class Plan(NamedTuple):
    """What a story is made of; the rest is the seed's."""

    seed: int
    seconds: float = 25.0
    budget: int = 12
    kinds: tuple[Kind, ...] = CONTROLLER_KINDS
    # Of new records, after which each node takes a snapshot.
    snapshot_bytes: int = 1_500


class Result(NamedTuple):
    digest: str
    changes: int
    epochs: int
    counts: Counter[str]
    faults: Counter[str]


class _NoCopies(Copies):
    """Controllers hold no partitions, and their own log is not among what is lost."""

    def may_end(self, node: Node) -> bool:
        return True

    def may_lose(self, node: Node) -> bool:
        return True


class Scenario:
    """See the module's text."""

    def __init__(self, plan: Plan, *, is_traced: bool = False) -> None:
        self.plan = plan
        self.kernel = Kernel(plan.seed, is_traced=is_traced)
        self.network = SimNetwork(self.kernel)
        self.random = random = Random(plan.seed)
        self.is_static = random.random() < 0.2
        machines = tuple(range(1, random.choice((3, 4, 5)) + 1))
        first = None if self.is_static else machines[: random.choice((1, 2, 3))]
        self.joins_by_itself = not self.is_static and random.random() < 0.5
        auto_join = "true" if self.joins_by_itself else "false"
        self.controllers = [
            Controller(
                self.kernel,
                self.network,
                node_id,
                machines,
                first,
                random.randrange(2**31),
                *SETTINGS,
                f"metadata.log.max.record.bytes.between.snapshots={plan.snapshot_bytes}",
                f"controller.quorum.auto.join.enable={auto_join}",
            )
            for node_id in machines
        ]
        self.invariants = Invariants(self.controllers)
        self.counts: Counter[str] = Counter()
        self.promised: list[str] = []
        self._number = 0
        self._is_over = False
        self._may_change_voters = True
        # All that was promised is before this offset.
        self._promised_end = 0
        self._may_lose_disk = self.joins_by_itself
        self.faults = Faults(
            self.kernel,
            self.network,
            list(self.controllers),
            _NoCopies(self.controllers),
            list,
            lambda: None,
            lambda: None,
            kinds=plan.kinds,
            budget=plan.budget,
            crash_modes=("kill", "lost", "torn"),
            # What is acknowledged here is on disk, whatever is cut.
            has_group_commit=True,
        )

    # What nodes and clients have to say about faults is in the trace.
    @quiet_logs()
    def run(self) -> Result:
        try:
            return self._tell()
        finally:
            self.kernel.end()

    def _tell(self) -> Result:
        gc.freeze()
        for controller in self.controllers:
            controller.boot()
        self._expect(lambda: self._leader() is not None, START_SECONDS, "nobody leads")
        self.kernel.after(0.1, self._change_metadata)
        self.kernel.after(1.0, self._change_voters)
        self.faults.begin()
        self._step_until(self._after(self.plan.seconds))
        self._may_change_voters = False
        self.faults.heal()
        # A process that is still on its way down is started a moment later.
        self._step_until(self._after(HEAL_SECONDS))
        self._expect(
            # One that is paused may have been asked to stop, and not know it yet.
            lambda: all(one.is_ready and not one.is_stopping for one in self.controllers),
            HEALED_SECONDS,
            "not all started",
        )
        before = len(self.promised)
        self._expect(
            lambda: len(self.promised) > before, HEALED_SECONDS, "nothing could be changed"
        )
        self._is_over = True
        self._expect(self._is_settled, HEALED_SECONDS, "the quorum did not settle")
        self._check_promises()
        for controller in self.controllers:
            controller.begin_stop()
        self._expect(
            lambda: not any(one.is_up for one in self.controllers), HEALED_SECONDS, "not stopped"
        )
        left = [found for one in self.controllers for found in one.left]
        assert not left, f"leftovers: {left}"
        assert len(self.promised) >= ACKNOWLEDGED_MIN, f"too little was done: {self.counts}"
        epochs = len(self.invariants._leaders)
        return Result(
            self.kernel.digest(), self.invariants.changes, epochs, self.counts, self.faults.counts
        )

    # --- time

    def _after(self, seconds: float) -> Callable[[], bool]:
        end = self.kernel.now + seconds
        return lambda: self.kernel.now >= end

    def _step_until(self, is_done: Callable[[], bool]) -> None:
        kernel = self.kernel
        next_look = kernel.rounds
        while not is_done():
            kernel.step()
            if kernel.rounds >= next_look:
                next_look = kernel.rounds + LOOK_ROUNDS
                self.invariants.look()
                for one in self.controllers:
                    one.tick()
                    if one.failure is not None and one.name not in self.faults.failing:
                        raise AssertionError(f"{one.name} ended by itself: {one.failure!r}")

    def _expect(self, is_so: Callable[[], bool], seconds: float, what: str) -> None:
        is_late = self._after(seconds)
        self._step_until(lambda: is_so() or is_late())
        assert is_so(), f"liveness: {what} within {seconds:g} s"

    # --- what is so

    def _leader(self) -> Controller | None:
        """The leader of the newest epoch."""
        found = [
            one
            for one in self.controllers
            if (quorum := one.quorum) is not None and isinstance(quorum.machine.state, Leader)
        ]
        return max(found, key=_epoch, default=None)

    def _is_settled(self) -> bool:
        leader = self._leader()
        if leader is None or leader.broker is None:
            return False
        quorum = leader.broker.services.quorum
        voters = quorum.machine.voter_set
        if self.joins_by_itself and [voter.key for voter in voters.voters] != [
            one.key for one in self.controllers
        ]:
            return False
        ends = {one.quorum.applied_offset for one in self.controllers if one.quorum is not None}
        sets = {one.quorum.machine.voter_set for one in self.controllers if one.quorum is not None}
        return len(sets) == 1 and max(ends) - min(ends) <= 5 and min(ends) >= self._promised_end

    def _check_promises(self) -> None:
        for one in self.controllers:
            assert one.broker is not None
            quotas = one.broker.services.metadata.image.quotas
            known = {name for entity in quotas for _, name in entity}
            lost = [name for name in self.promised if name not in known]
            if lost:
                raise InvariantError("promises", f"{one.name} has lost {lost[:5]}")

    # --- what people do

    def _begin(self, controller: Controller, work: Coroutine[Any, Any, Any]) -> None:
        """Work in the process of a controller, which may be killed meanwhile: work must not ask the
        controller for its parts later.
        """
        if controller.loop is None or controller.loop.is_dying:
            work.close()
        else:
            controller.loop.create_task(work)

    def _change_metadata(self) -> None:
        if self._is_over:
            return
        for one in self.controllers:
            if one.broker is not None and one.broker.services.metadata.active is not None:
                self._number += 1
                self._begin(one, self._set_quota(one.broker.services, f"user-{self._number}"))
        self.kernel.after(self.random.uniform(0.02, 0.3), self._change_metadata)

    async def _set_quota(self, services: Services, user: str) -> None:
        entity = [EntityData(entity_type="user", entity_name=user)]
        ops = [OpData(key="producer_byte_rate", value=1000.0)]
        request = AlterClientQuotasRequest(entries=[RequestEntryData(entity=entity, ops=ops)])
        answer = await services.controller.submit(
            request, ControllerRequestContext(1, timeout_ms=_CHANGE_TIMEOUT_MS)
        )
        error = Errors.of(answer.entries[0].error_code)
        self.counts[f"quota {error.name}"] += 1
        if error is Errors.NONE:
            self.promised.append(user)
            # The leader has it; the one that was asked may have passed it on.
            quorums = [one.quorum for one in self.controllers]
            ends = [quorum.applied_offset for quorum in quorums if quorum is not None]
            self._promised_end = max([self._promised_end, *ends])

    def _change_voters(self) -> None:
        if not self._may_change_voters:
            return
        leader = self._leader()
        if self._may_lose_disk and self.random.random() < 0.3:
            # Not together with a change: a voter that is gone must not be half of what is left.
            self._lose_disk()
        elif leader is not None:
            # A second request at once is what the leader must refuse.
            for _ in range(self.random.choice((1, 1, 1, 2, 3))):
                self._change_one_voter(leader)
        self.kernel.after(self.random.uniform(0.2, 3.0), self._change_voters)

    def _change_one_voter(self, leader: Controller) -> None:
        quorum = leader.quorum
        assert quorum is not None
        voters = quorum.machine.voter_set
        if quorum.kraft_version == 0:
            assert leader.broker is not None
            self._begin(leader, self._raise_kraft_version(leader.broker.services))
            return
        one = self.random.choice(self.controllers)
        known = voters.get(one.id)
        if known is None:
            self._begin(leader, self._add(quorum, one.key, one))
        elif not self._has_dead_voter(voters):
            # Sometimes the replica on the newest disk is meant, which may not be the voter.
            key = known.key if self.random.random() < 0.9 else one.key
            self._begin(leader, self._remove(quorum, key))

    def _has_dead_voter(self, voters: VoterSet) -> bool:
        """Whether one of the voters will never come back: no time to remove others."""
        keys = {one.key for one in self.controllers}
        return any(voter.key not in keys for voter in voters.voters if voter.key.directory_id)

    async def _add(self, quorum: QuorumDriver, key: ReplicaKey, one: Controller) -> None:
        request = AddVoterRequest(CLUSTER_ID, key, (one.endpoint,), _CHANGE_TIMEOUT_MS, True)
        answer: Any = await quorum.serve(request)
        self.counts[f"add {answer.error.name}"] += 1

    async def _remove(self, quorum: QuorumDriver, key: ReplicaKey) -> None:
        answer: Any = await quorum.serve(RemoveVoterRequest(CLUSTER_ID, key))
        self.counts[f"remove {answer.error.name}"] += 1

    async def _raise_kraft_version(self, services: Services) -> None:
        update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
        answer = await services.controller.submit(
            UpdateFeaturesRequest(feature_updates=[update]),
            ControllerRequestContext(2, timeout_ms=_CHANGE_TIMEOUT_MS),
        )
        self.counts[f"kraft.version {Errors.of(answer.error_code).name}"] += 1

    def _lose_disk(self) -> None:
        """One machine, once, and only where the others are a majority without it."""
        up = [one for one in self.controllers if one.is_ready]
        leader = self._leader()
        if len(up) < len(self.controllers) or leader is None or leader.quorum is None:
            return
        quorum = leader.quorum
        last_offset = quorum._control.voters.last_offset()
        is_settled = last_offset is not None and last_offset < quorum.applied_offset
        state = quorum.machine.state
        is_settled &= isinstance(state, Leader) and state.voter_change is None
        if len(quorum.machine.voter_set) < 3 or not is_settled:
            return
        self._may_lose_disk = False
        victim = self.random.choice([one for one in up if one is not leader])
        victim.crash("kill")
        victim.replace_disk()
        self.counts["disk lost"] += 1
        self.kernel.after(self.random.uniform(0.5, 4), self._boot, victim)

    def _boot(self, controller: Controller) -> None:
        if not controller.is_up:
            controller.boot()


def _epoch(controller: Controller) -> int:
    assert controller.quorum is not None
    return controller.quorum.machine.epoch
