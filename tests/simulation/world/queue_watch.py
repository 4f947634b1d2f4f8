"""What nodes do with share groups, watched where it is decided.

Most of what can go wrong with a queue is seen by its workers, sooner or later. Some of it is seen
by nobody for as long as nothing else goes wrong, or as a number that an operator wonders about:

| Name | What may not happen |
|---|---|
| stranger-acknowledged | an acknowledgement counts of records that its member does not hold |
| miscounted | share state says of fewer or more records that they are done with than are |
| fenced-kept | a share partition is still there after its state turned out to be another's |
| begun-twice | a broker begins the state of a share partition while it is beginning it |
| begun-elsewhere | a broker begins state for a group that it does not coordinate |

Nothing in a story changes the state of a share partition under its leader: a group that has members
is not altered or deleted. So that is done here, to some writes of visitors' groups, right before
they arrive. Of such groups nobody remembers what became of their records.

Calls are watched on their way to the share coordinator. What is wrong is noted there, since nodes
outlive what goes wrong in a task, and raised with the next look at the queue.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.shard import ShardState
from kaa.coordinators.share.state import UNKNOWN_START_OFFSET, SharePartitionKey
from kaa.serving.share.in_flight import RecordState
from kaa.wire.errors import Errors
from kaa.wire.registry import ApiKey
from tests.simulation.world.committed import InvariantError
from tests.simulation.world.queues import VISITORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaa.coordinators.share.machine import StateChange
    from kaa.serving.services import Services
    from kaa.serving.share.machine import Acknowledgement, SharePartition
    from kaa.serving.share.persister import ShareStatePersister
    from kaa.wire.primitives import PartitionId
    from tests.simulation.world.processes import Node

_ANOTHERS = (Errors.FENCED_LEADER_EPOCH, Errors.FENCED_STATE_EPOCH)
# Before every so many-th write of a visitors' group somebody else begins its state anew.
CHANGED_EVERY = 4


class QueueWatch:
    """See the module's text. `see` is called after each round of a node, `check` now and then."""

    def __init__(self) -> None:
        # What happened, by name.
        self.seen: Counter[str] = Counter()
        self._boots: dict[str, int] = {}
        self._violation: InvariantError | None = None

    def see(self, node: Node) -> None:
        if node.broker is not None and self._boots.get(node.name) != node.boots:
            self._boots[node.name] = node.boots
            _Watched(node.name, node.broker.services, self.seen, self._note)

    def _note(self, name: str, detail: str) -> None:
        if self._violation is None:
            self._violation = InvariantError(name, detail)

    def check(self) -> None:
        if self._violation is not None:
            raise self._violation


class _Watched:
    """The share groups of one life of a node."""

    def __init__(
        self,
        name: str,
        services: Services,
        seen: Counter[str],
        note: Callable[[str, str], None],
    ) -> None:
        self._name = name
        self._services = services
        self._seen = seen
        self._note = note
        # The share partitions whose state is being begun.
        self._begun: set[SharePartitionKey] = set()
        # Those whose state is begun by somebody else.
        self._changed: set[SharePartitionKey] = set()
        self._writes = 0
        shares: Any = services.share_partitions
        persister: ShareStatePersister = shares.persister
        self._acknowledge = shares.acknowledge
        self._write, self._initialise = persister.write, persister.initialise
        self._ask = persister._ask
        stand_in: Any = persister
        shares.acknowledge = self.acknowledge
        stand_in.write, stand_in.initialise = self.write, self.initialise
        stand_in._ask = self.ask

    # --- what members say

    def acknowledge(
        self,
        group_id: str,
        member_id: str,
        one: PartitionId,
        acknowledgements: Iterable[Acknowledgement],
    ) -> Any:
        some = list(acknowledgements)
        key = SharePartitionKey(group_id, one.topic_id, one.number)
        led = self._services.share_partitions._led.get(key)
        strange = [] if led is None else _of_others(led.machine, member_id, some)
        outcome = self._acknowledge(group_id, member_id, one, some)
        # It was not refused.
        if strange:
            self._note("stranger-acknowledged", f"{self._name} {key}: {member_id}, {strange}")
        return outcome

    # --- what is written

    async def write(self, key: SharePartitionKey, change: StateChange) -> None:
        led = self._services.share_partitions._led.get(key)
        if led is not None:
            least, most = _done_with(led.machine)
            if not least <= change.delivery_complete_count <= most:
                told = f"{change.delivery_complete_count}, which are {least} to {most}"
                self._note("miscounted", f"{self._name} {key}: {told}")
        await self._change(key, change)
        try:
            await self._write(key, change)
        except CoordinatorError as refusal:
            if refusal.error in _ANOTHERS:
                self._seen["fenced writes of share state"] += 1
                # After the leader has seen it.
                self._services.loop.call_soon(self._services.loop.call_soon, self._is_gone, led)
            raise

    async def _change(self, key: SharePartitionKey, change: StateChange) -> None:
        if not key.group_id.startswith(VISITORS) or key in self._changed:
            return
        self._writes += 1
        if self._writes % CHANGED_EVERY:
            return
        self._changed.add(key)
        try:
            await self._initialise(key, change.state_epoch + 1, UNKNOWN_START_OFFSET)
            self._seen["share states changed by others"] += 1
        except CoordinatorError:
            pass
        finally:
            self._changed.discard(key)

    def _is_gone(self, led: Any) -> None:
        if led is not None and led.error is None:
            self._note("fenced-kept", f"{self._name} {led.key} of epoch {led.leader_epoch}")

    # --- what is begun

    async def initialise(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._seen["share states begun"] += 1
        if key in self._begun:
            self._note("begun-twice", f"{self._name} {key}")
        self._begun.add(key)
        try:
            await self._initialise(key, state_epoch, start_offset, is_wanted)
        finally:
            self._begun.discard(key)

    async def ask(self, key: SharePartitionKey, local: Any, request: Any) -> Any:
        is_begun = request.api_key == ApiKey.INITIALIZE_SHARE_GROUP_STATE
        if is_begun and key not in self._changed:
            groups = self._services.groups
            shard = groups.runtime.shard(groups.partition_for(key.group_id))
            if shard is None or shard.state is not ShardState.ACTIVE:
                self._note("begun-elsewhere", f"{self._name} {key}")
        return await self._ask(key, local, request)


def _of_others(
    machine: SharePartition, member_id: str, acknowledgements: Iterable[Acknowledgement]
) -> list[str]:
    """The records that a member does not hold, of those that it tells something of."""
    found = []
    for one in acknowledgements:
        begin = max(one.first_offset, machine.start_offset)
        for batch in machine.window.since(begin):
            for first, last, state in batch.states(begin, one.last_offset):
                is_held = state.state is RecordState.ACQUIRED and state.member_id == member_id
                if not is_held and last >= begin and first <= one.last_offset:
                    found.append(f"{first}-{last} {state.state.name} {state.member_id}")
    return found


def _done_with(machine: SharePartition) -> tuple[int, int]:
    """How many records of the window are done with, without and with what is being written."""
    least = most = 0
    for batch in machine.window:
        for first, last, state in batch.states():
            count = max(0, last - max(first, machine.start_offset) + 1)
            if state.state.is_terminal:
                most += count
                least += 0 if state.is_ongoing else count
    return least, most
