"""One task per broker, and one that keeps house: the frame of the producer's sender and of the
consumer's fetcher.

A slow broker holds up nobody else. The task of a broker sleeps until its event is set, which
happens whenever something may have changed for it. The housekeeper does what belongs to no broker:
above all it fetches metadata when what is known turned out to be wrong.

A refusal of a broker may name the leader that it should have been sent to, with its address
(KIP-951). Such a hint is taken over at once, and no metadata has to be fetched.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from kaa.client.metadata import NO_NODE, Broker
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.client.cluster import Cluster
    from kaa.model.topics import TopicPartition

STALE_METADATA: Final = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.INCONSISTENT_TOPIC_ID,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.REPLICA_NOT_AVAILABLE,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.OFFSET_NOT_AVAILABLE,
        Errors.NETWORK_EXCEPTION,
    }
)
"""Errors after which the leader has to be looked up again."""


class BrokerTasks(ABC):
    """The tasks of a sender or a fetcher: `start` them, wake them when something changed, `stop`
    them. A subclass says what the task of one broker does.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        # The event of each broker that has a task.
        self._brokers: dict[int, asyncio.Event] = {}
        self._housekeeping = asyncio.Event()
        self._metadata_is_stale = False
        self._tasks: asyncio.TaskGroup | None = None
        self._running: list[asyncio.Task[None]] = []
        self._is_closed = False

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begins to keep house in `tasks`, where the tasks of brokers are started too."""
        self._tasks = tasks
        self._running.append(tasks.create_task(self._keep_house()))

    def stop(self) -> None:
        """Cancels every task; what they were about to do is not done."""
        self._is_closed = True
        for task in self._running:
            task.cancel()

    @abstractmethod
    async def _keep_house(self) -> None:
        """What belongs to no broker, until the end."""

    @abstractmethod
    async def _serve(self, node_id: int, event: asyncio.Event) -> None:
        """Does what there is to do at one broker, until the end."""

    def _wake_broker(self, node_id: int) -> None:
        """Lets the task of a broker look again; starts it if there is none."""
        event = self._brokers.get(node_id)
        if event is None:
            assert self._tasks is not None
            event = self._brokers[node_id] = asyncio.Event()
            self._running.append(self._tasks.create_task(self._serve(node_id, event)))
        event.set()

    def _refresh_metadata(self) -> None:
        self._metadata_is_stale = True
        self._housekeeping.set()

    def _take_endpoints(self, endpoints: Iterable[Any] | None) -> None:
        """Brokers that an answer names beside its hints."""
        for one in endpoints or ():
            self.cluster.metadata.learn(Broker(one.node_id, one.host, one.port, one.rack))

    def _take_hint(self, partition: TopicPartition, answer: Any) -> bool:
        """Takes over the leader that a refusal names; whether that is news."""
        hint = answer.current_leader
        if hint is None or hint.leader_id == NO_NODE:
            return False
        return self.cluster.metadata.learn_leader(*partition, hint.leader_id, hint.leader_epoch)
