"""Share state over the brokers: each call goes to the leader of the partition that keeps its key.

To this broker it is a call of its share coordinator; another is asked over the kept connection of
brokers, by keys 83 to 87. Where the coordinator is loading, moving or not there yet, the call is
tried again a few times. The state topic is made when it is first needed.

A group with thousands of partitions has thousands of calls to make at the same time, when it begins
and whenever its members come, go, or acknowledge. Some of them begin in each round of the loop, by
turns of groups and kinds of calls, so that others are heard meanwhile; those for one partition of
the state topic go together, and share an append.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.share.state import ShareState, batch_as, batches_of
from kaa.limits import (
    SHARE_BATCHES_PER_PIECE,
    SHARE_STATE_ATTEMPTS_MAX,
    SHARE_STATE_CALLS_PER_TURN_MAX,
    SHARE_STATE_RETRY_SECONDS_MAX,
    SHARE_STATE_RETRY_SECONDS_MIN,
)
from kaa.model.pieces import mapped
from kaa.model.topics import SHARE_GROUP_STATE
from kaa.model.turns import Admission, in_turns
from kaa.wire.errors import Errors
from kaa.wire.messages import k83_initialize_share_group_state as k83
from kaa.wire.messages import k84_read_share_group_state as k84
from kaa.wire.messages import k85_write_share_group_state as k85
from kaa.wire.messages import k86_delete_share_group_state as k86
from kaa.wire.messages import k87_read_share_group_state_summary as k87

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaa.coordinators.share.coordinator import ShareCoordinator
    from kaa.coordinators.share.machine import StateChange
    from kaa.coordinators.share.state import SharePartitionKey
    from kaa.replication.manager import ReplicaManager
    from kaa.serving.topic_creation import TopicCreation
    from kaa.serving.transactions.peers import RemoteBrokers
    from kaa.serving.view import NodeView
    from kaa.wire.schema import Request

    LocalCall = Callable[[ShareCoordinator], Awaitable[Any]]

_RETRIED: Final = (
    Errors.NOT_COORDINATOR,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.NETWORK_EXCEPTION,
)


class ShareStatePersister:
    """The `Persister` of a broker: finds the coordinator of each key and calls it, here or on
    another node.
    """

    def __init__(
        self,
        view: NodeView,
        local: ShareCoordinator,
        replicas: ReplicaManager,
        topic_creation: TopicCreation,
        brokers: RemoteBrokers,
    ) -> None:
        self._view = view
        self._local = local
        self._replicas = replicas
        self._topic_creation = topic_creation
        self._brokers = brokers
        self._admission = Admission(SHARE_STATE_CALLS_PER_TURN_MAX)
        # How the share coordinator of this broker is called; a test may stand in front of it.
        self.here: Callable[[LocalCall, Request[Any]], Awaitable[Any]] = self._here

    async def initialise(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        one = k83.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = k83.InitializeStateData(topic_id=key.topic_id, partitions=[one])
        await self._call(
            key,
            lambda local: local.initialise(key, state_epoch, start_offset),
            k83.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
            is_wanted,
        )

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        one = k84.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topic = k84.ReadStateData(topic_id=key.topic_id, partitions=[one])
        found = await self._call(
            key,
            lambda local: local.read(key, leader_epoch),
            k84.ReadShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
        )
        if isinstance(found, ShareState):
            return found
        batches = tuple(await in_turns(batches_of(found.state_batches)))
        return ShareState(0, found.state_epoch, leader_epoch, found.start_offset, -1, batches)

    async def write(self, key: SharePartitionKey, change: StateChange) -> None:
        one = k85.PartitionData(
            partition=key.partition,
            state_epoch=change.state_epoch,
            leader_epoch=change.leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.delivery_complete_count,
            state_batches=await in_turns(
                mapped(partial(batch_as, k85.StateBatch), change.batches, SHARE_BATCHES_PER_PIECE)
            ),
        )
        topic = k85.WriteStateData(topic_id=key.topic_id, partitions=[one])
        await self._call(
            key,
            lambda local: local.write(key, change),
            k85.WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
        )

    async def delete(self, key: SharePartitionKey) -> None:
        one = k86.PartitionData(partition=key.partition)
        topic = k86.DeleteStateData(topic_id=key.topic_id, partitions=[one])
        await self._call(
            key,
            lambda local: local.delete(key),
            k86.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
        )

    async def summary(self, key: SharePartitionKey) -> ShareState:
        one = k87.PartitionData(partition=key.partition, leader_epoch=-1)
        topic = k87.ReadStateSummaryData(topic_id=key.topic_id, partitions=[one])
        found = await self._call(
            key,
            lambda local: local.summary(key),
            k87.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[topic]),
        )
        if isinstance(found, ShareState):
            return found
        return ShareState(
            0,
            found.state_epoch,
            found.leader_epoch,
            found.start_offset,
            found.delivery_complete_count,
            (),
        )

    # --- finding the coordinator

    async def _call(
        self,
        key: SharePartitionKey,
        local: LocalCall,
        request: Request[Any],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Any:
        pause = SHARE_STATE_RETRY_SECONDS_MIN
        for _ in range(SHARE_STATE_ATTEMPTS_MAX - 1):
            await self._have_turn(key, request, is_wanted)
            try:
                return await self._ask(key, local, request)
            except CoordinatorError as refusal:
                if refusal.error not in _RETRIED:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, SHARE_STATE_RETRY_SECONDS_MAX)
        await self._have_turn(key, request, is_wanted)
        return await self._ask(key, local, request)

    async def _have_turn(
        self, key: SharePartitionKey, request: Request[Any], is_wanted: Callable[[], bool]
    ) -> None:
        place = self._local.partition_for(key)
        await self._admission.next((key.group_id, request.api_key), place)
        if not is_wanted():
            raise CoordinatorError(Errors.NOT_COORDINATOR, "This broker no longer needs the state.")

    def _here(self, call: LocalCall, _: Request[Any]) -> Awaitable[Any]:
        return call(self._local)

    async def _ask(
        self,
        key: SharePartitionKey,
        local: LocalCall,
        request: Request[Any],
    ) -> Any:
        if SHARE_GROUP_STATE not in self._view.image.topics:
            await self._topic_creation.create([SHARE_GROUP_STATE])
            raise CoordinatorError(Errors.COORDINATOR_NOT_AVAILABLE)
        number = self._local.partition_for(key)
        leader = self._brokers.leader((SHARE_GROUP_STATE, number))
        if leader == self._view.node_id:
            self._replicas.find(SHARE_GROUP_STATE, number)
            return await self.here(local, request)
        if leader is None or leader < 0:
            raise CoordinatorError(Errors.COORDINATOR_NOT_AVAILABLE)
        try:
            response = await self._brokers.at(leader).ask(request)
        except ConnectionError:
            raise CoordinatorError(Errors.NETWORK_EXCEPTION) from None
        result = response.results[0].partitions[0]
        if result.error_code != Errors.NONE:
            raise CoordinatorError(Errors.of(result.error_code), result.error_message)
        return result
