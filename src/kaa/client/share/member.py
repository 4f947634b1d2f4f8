"""Membership in a share group: heartbeats that say what is wanted and bring what is assigned.

Nothing is revoked in a share group, so what is assigned counts at once. A member that the group
does not know any more joins again under its old id.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kaa.client.coordinator import CoordinatorType, ask_coordinator
from kaa.client.errors import ClientError, KafkaError
from kaa.client.waiting import wait_for_event
from kaa.wire.errors import Errors
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kaa.wire.primitives import PartitionId

if TYPE_CHECKING:
    from kaa.client.cluster import Cluster
    from kaa.client.connection import Connection

_JOIN: Final = 0
_LEAVE: Final = -1
_AGAIN: Final = frozenset({Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_MEMBER_EPOCH})
_INTERVAL_MS_FIRST: Final = 1_000


class ShareMembership:
    """The membership of a share consumer in its group. `run` sends heartbeats until `leave`."""

    def __init__(self, cluster: Cluster, group_id: str, member_id: str, rack: str | None) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self.member_id = member_id
        self._rack = rack
        self._timeout_ms = cluster.values.get_int("default.api.timeout.ms")
        self._topics: tuple[str, ...] = ()
        self._is_subscription_known = False
        self._epoch = _JOIN
        self._interval_ms = _INTERVAL_MS_FIRST
        self._due = asyncio.Event()
        self.assigned: tuple[PartitionId, ...] = ()
        # Set when something is assigned, or nothing ever will be.
        self.changed = asyncio.Event()
        # What ended the membership for good.
        self.error: ClientError | None = None

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Replaces the topics; the next heartbeat, which is due at once, says so."""
        self._topics = topics
        self._is_subscription_known = False
        self._due.set()

    async def run(self) -> None:
        """Sends heartbeats until an error that only the application can handle."""
        while self.error is None:
            self._due.clear()
            try:
                await self._beat()
            except KafkaError as error:
                if error.error in _AGAIN:
                    self._epoch, self._is_subscription_known, self.assigned = _JOIN, False, ()
                    continue
                if not error.retriable:
                    self.error = error
            except ClientError as error:
                if not error.retriable:
                    self.error = error
            self.changed.set()
            await wait_for_event(self._due, self._interval_ms)

    async def leave(self) -> None:
        """Leaves the group, if it was joined; failures do not matter."""
        if self._epoch > _JOIN:
            # The group finds out by itself if this fails.
            with suppress(ClientError):
                await self._ask(_LEAVE, self._interval_ms)

    async def _beat(self) -> None:
        answer = await self._ask(self._epoch, self._timeout_ms)
        self._epoch, self._is_subscription_known = answer.member_epoch, True
        self._interval_ms = answer.heartbeat_interval_ms
        if answer.assignment is not None:
            self.assigned = tuple(
                PartitionId(topic.topic_id, number)
                for topic in answer.assignment.topic_partitions
                for number in topic.partitions
            )

    async def _ask(self, epoch: int, timeout_ms: int) -> Any:
        is_whole = epoch == _JOIN or (not self._is_subscription_known and epoch != _LEAVE)
        request = ShareGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=self._rack if is_whole else None,
            subscribed_topic_names=sorted(self._topics) if is_whole else None,
        )
        what = f"heartbeat in share group {self._group_id!r}"

        async def ask(connection: Connection) -> Any:
            response = await connection.request(request)
            if response.error_code:
                return KafkaError(
                    Errors.of(response.error_code),
                    what,
                    message=response.error_message,
                    node=connection.address,
                )
            return response

        return await ask_coordinator(
            self._cluster, CoordinatorType.GROUP, self._group_id, what, timeout_ms, ask
        )
