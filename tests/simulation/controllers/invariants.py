"""What must be so at every moment in a quorum whose voters change.

| Name | What may not happen |
|---|---|
| one-leader | two replicas lead in one epoch |
| prefix | two replicas have different metadata, or another level of kraft.version, at one offset |
| voters | two replicas know different voters at a committed offset, from log or snapshot |
| steps | committed sets of voters that follow each other differ by more than one voter |
| one-change | a leader has two changes of the voters that are not committed |
| promises | what a client heard is done is not there in the end |
| stranger | a replica leads that is not a voter of its own set, once that set is committed |
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kaa.quorum.leader import Leader
from tests.simulation.world.committed import InvariantError

if TYPE_CHECKING:
    from kaa.quorum.driver import QuorumDriver
    from kaa.quorum.voters import ReplicaKey, VoterSet
    from tests.simulation.controllers.machines import Controller

# A leader that was removed resigns at once when that is committed.
_PATIENCE_SECONDS = 1.0


class Invariants:
    """Looks at the replicas again and again; keeps what all of them must agree on."""

    def __init__(self, controllers: list[Controller]) -> None:
        self._controllers = controllers
        self.looks = 0
        self.changes = 0
        self._leaders: dict[int, ReplicaKey] = {}
        self._images: dict[int, tuple[str, str]] = {}
        # The committed sets of voters by the offset of their record, and how far they are known.
        self._offsets: list[int] = []
        self._sets: list[VoterSet] = []
        self._covered = -1
        # By replica, the time at which it was first seen to lead without a vote.
        self._strangers: dict[tuple[int, int], float] = {}
        # What was compared last of each controller, voters and image, so that only news is.
        self._seen_voters: dict[str, tuple[object, ...]] = {}
        self._seen_images: dict[str, tuple[object, ...]] = {}

    def look(self) -> None:
        self.looks += 1
        covered = self._covered
        for controller in self._controllers:
            quorum = controller.quorum
            if quorum is None or controller.loop is None or controller.loop.is_dying:
                continue
            self._check_leader(controller, quorum)
            self._check_voters(controller, quorum)
            self._check_image(controller)
            covered = max(covered, quorum.applied_offset - 1)
        self._covered = covered

    def _check_leader(self, controller: Controller, quorum: QuorumDriver) -> None:
        state = quorum.machine.state
        if not isinstance(state, Leader) or quorum.is_stopped:
            return
        known = self._leaders.setdefault(state.epoch, controller.key)
        if known != controller.key:
            raise InvariantError("one-leader", f"{known}, {controller.key} in {state.epoch}")
        high_watermark, offsets = state.high_watermark, quorum._control.voters._offsets
        if high_watermark is not None:
            pending = [offset for offset in offsets if offset >= high_watermark]
            if len(pending) > 1:
                raise InvariantError("one-change", f"{controller.name}: at {pending}")
        last_offset = quorum._control.voters.last_offset()
        is_settled = last_offset is not None and last_offset < quorum.applied_offset
        if quorum.machine.voter_set.is_voter(controller.key) or not is_settled:
            return
        assert controller.loop is not None
        # A paused process has no chance to notice.
        now = max(controller.kernel.now, controller.loop.paused_until)
        since = self._strangers.setdefault((controller.id, state.epoch), now)
        if controller.kernel.now - since > _PATIENCE_SECONDS:
            raise InvariantError("stranger", f"{controller.key} leads {state.epoch}")

    def _check_voters(self, controller: Controller, quorum: QuorumDriver) -> None:
        history = quorum._control.voters
        seen = (quorum, quorum.applied_offset, *history._offsets, *map(id, history._sets))
        if self._seen_voters.get(controller.name) == seen:
            return
        self._seen_voters[controller.name] = seen
        for offset, voters in zip(history._offsets, history._sets, strict=True):
            if offset >= quorum.applied_offset:
                break
            index = bisect_right(self._offsets, offset)
            before = self._sets[index - 1] if index else None
            if offset <= self._covered and before is not None:
                # Of the log, the very set; of a snapshot, the one in force at its end.
                if voters != before:
                    detail = f"{controller.name} at {offset}: {voters}, not {before}"
                    raise InvariantError("voters", detail)
            elif voters != before:
                if before is not None and _distance(before, voters) > 1:
                    raise InvariantError("steps", f"{before}, then {voters}")
                self._offsets.insert(index, offset)
                self._sets.insert(index, voters)
                self.changes += 1

    def _check_image(self, controller: Controller) -> None:
        broker = controller.broker
        assert broker is not None
        metadata = broker.services.metadata
        offset = metadata.committed_offset
        seen = (broker, offset, metadata.image)
        if offset < 0 or self._seen_images.get(controller.name) == seen:
            return
        self._seen_images[controller.name] = seen
        level = broker.services.quorum._control.kraft_version_at(offset)
        told = repr((sorted(metadata.image.quotas.items()), level))
        other, known = self._images.setdefault(offset, (controller.name, told))
        if known != told:
            raise InvariantError("prefix", f"{other} and {controller.name} at offset {offset}")


def _distance(one: VoterSet, other: VoterSet) -> int:
    """How many voters are in one of the sets alone."""
    return len({voter.key for voter in one.voters} ^ {voter.key for voter in other.voters})
