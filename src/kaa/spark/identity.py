"""Producer ids of tasks without transactions: kept by the process, and used again.

A worker of Spark runs task after task. One id for each of them would be hundreds of thousands a
day, and brokers remember every id for a day. So a task whose rows were all acknowledged gives its
id back, with the sequence number that each partition has got to, and the next one goes on from
there. A task that failed does not: what became of its last batches is not known.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kaa.client.errors import check
from kaa.limits import SPARK_PRODUCERS_IDLE_MAX
from kaa.spark.brokers import brokers_of
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from kaa.client.cluster import Cluster
    from kaa.model.topics import TopicPartition
    from kaa.spark.options import ClientSettings

_TRANSACTION_TIMEOUT_MS = 60_000


@dataclass(slots=True)
class TaskProducer:
    """A producer id and epoch, and the next sequence number of each partition."""

    producer_id: int
    producer_epoch: int
    sequences: dict[TopicPartition, int] = field(default_factory=dict)


class _Idle:
    """The ids that no task uses; written under the lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._states: OrderedDict[int, tuple[ClientSettings, TaskProducer]] = OrderedDict()

    def take(self, settings: ClientSettings) -> TaskProducer | None:
        with self._lock:
            if self._pid != os.getpid():
                # A copy of another process, which goes on using them.
                self._pid = os.getpid()
                self._states.clear()
            for key, (others, state) in self._states.items():
                if others == settings:
                    del self._states[key]
                    return state
        return None

    def give(self, settings: ClientSettings, state: TaskProducer) -> None:
        with self._lock:
            self._states[state.producer_id] = settings, state
            while len(self._states) > SPARK_PRODUCERS_IDLE_MAX:
                self._states.popitem(last=False)


_IDLE: Final = _Idle()


def take_producer(settings: ClientSettings) -> TaskProducer:
    """An id that another task has given back, or a new one."""
    found = _IDLE.take(settings)
    if found is not None:
        return found
    brokers = brokers_of(settings)
    return brokers.call(_new_producer(brokers.cluster, brokers.timeout_ms))


def give_producer(settings: ClientSettings, state: TaskProducer) -> None:
    """For the next task of this process; all that was sent must have been acknowledged."""
    _IDLE.give(settings, state)


async def _new_producer(cluster: Cluster, timeout_ms: int) -> TaskProducer:
    """Any broker gives ids."""

    async def attempt() -> TaskProducer:
        connection = await cluster.any_connection()
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
        )
        response = await connection.request(request)
        check(response.error_code, "cannot get a producer id", node=connection.address)
        return TaskProducer(response.producer_id, response.producer_epoch)

    identity: TaskProducer = await cluster.repeat(attempt, "producer id", timeout_ms)
    return identity
