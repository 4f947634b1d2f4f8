"""A share group on a bench: a group machine with topics, whose effects the test looks at."""

from __future__ import annotations

from functools import partial
from typing import Any

from kaa.coordinators.group.machine import GroupMachine
from kaa.coordinators.group.outcome import Client
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.group.share.groups import InitialiseState
from kaa.coordinators.machine import CoordinatorResult, Moment
from kaa.model.pieces import Pieces, finish, in_pieces
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.coordinators.group.bench import GROUP
from tests.unit.coordinators.group.consumer.bench import ConsumerBench

CLIENT = Client("client", "/host", 1)


def _initialised(
    effect: InitialiseState, machine: GroupMachine, _: Moment
) -> Pieces[CoordinatorResult]:
    return machine.share.initialised(effect.group_id, effect.partitions)


class ShareBench(ConsumerBench):
    """See the module's text."""

    def heartbeat_share(self, member: str = "m", epoch: int = 0, **fields: Any) -> Any:
        """The response; a member that joins subscribes to t."""
        if epoch == 0:
            fields.setdefault("subscribed_topic_names", ["t"])
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=member, member_epoch=epoch, **fields
        )
        self.effects: list[Any] = []

        def command(machine: GroupMachine, now: Any) -> CoordinatorResult:
            result = finish(in_pieces(machine.share.heartbeat(request, CLIENT, now)))
            self.effects += result.effects
            return result

        return self.run("share", command)

    def initialised(self) -> None:
        """The share coordinator has done what the last heartbeat asked for."""
        for effect in self.effects:
            self.run("initialised", partial(_initialised, effect))

    @property
    def share_group(self) -> ShareGroup:
        found = self.machine.groups[GROUP]
        assert isinstance(found, ShareGroup)
        return found
