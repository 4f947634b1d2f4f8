"""The way from a follower to its leader.

A link sends the fetches of one fetcher and asks for the bounds of the leader's logs. Here is the
one to another broker, over a connection that nodes keep to each other (`kaa.client.peer`). A
leader in the same process, as a move between directories has it, is another kind of link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from kaa.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kaa.wire.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.client.peer import Peer
    from kaa.model.nodes import HostPort
    from kaa.replication.follower.session import FetchPlan
    from kaa.wire.messages.k01_fetch import FetchResponse
    from kaa.wire.primitives import Uuid

LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
EARLIEST_PENDING_UPLOAD: Final = -6


class ReplicaFetchBounds(NamedTuple):
    """How long a fetch may wait, and how much it may bring (`replica.fetch.*`)."""

    wait_ms: int
    bytes_min: int
    bytes_max: int


class LeaderOffsets(NamedTuple):
    start: int
    end: int


class LocalStart(NamedTuple):
    """Where the disk of a leader begins, or what is not in remote storage yet."""

    offset: int
    # The leader epoch of the record before it.
    epoch_before: int
    log_start_offset: int


class _Listed(NamedTuple):
    offset: int
    epoch: int


class LeaderLink(Protocol):
    """A leader. ConnectionError if it does not answer."""

    async def fetch(self, plan: FetchPlan, bounds: ReplicaFetchBounds) -> FetchResponse: ...

    async def offsets(self, topic: str, number: int, leader_epoch: int) -> LeaderOffsets | Errors:
        """The bounds of the leader's log."""
        ...

    async def local_start(
        self, topic: str, number: int, leader_epoch: int, *, after_tier: bool
    ) -> LocalStart | Errors:
        """Where its disk begins; with `after_tier` where remote storage ends, if it knows."""
        ...

    def close(self) -> None: ...


class RemoteLeader:
    """A leader on another broker, over a connection of its own, since its fetches wait."""

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        address: Callable[[], HostPort | None],
        connect: Callable[[HostPort], Peer],
    ) -> None:
        """`address` is where the leader listens now; None if nobody knows."""
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._address = address
        self._connect = connect
        self._peer: Peer | None = None

    async def fetch(self, plan: FetchPlan, bounds: ReplicaFetchBounds) -> FetchResponse:
        replica = ReplicaState(replica_id=self._node_id, replica_epoch=self._broker_epoch())
        return await self.peer().request(make_request(plan, bounds, replica))

    async def offsets(self, topic: str, number: int, leader_epoch: int) -> LeaderOffsets | Errors:
        end = await self._offset(topic, number, leader_epoch, LATEST)
        if isinstance(end, Errors):
            return end
        start = await self._offset(topic, number, leader_epoch, EARLIEST)
        if isinstance(start, Errors):
            return start
        return LeaderOffsets(start.offset, end.offset)

    async def local_start(
        self, topic: str, number: int, leader_epoch: int, *, after_tier: bool
    ) -> LocalStart | Errors:
        start = await self._offset(topic, number, leader_epoch, EARLIEST)
        if isinstance(start, Errors):
            return start
        found: _Listed | Errors = _Listed(-1, -1)
        if after_tier:
            found = await self._offset(topic, number, leader_epoch, EARLIEST_PENDING_UPLOAD)
        if not isinstance(found, Errors) and found.offset < 0:
            found = await self._offset(topic, number, leader_epoch, EARLIEST_LOCAL)
        if isinstance(found, Errors):
            return found
        epoch = await self._epoch_before(topic, number, leader_epoch, found)
        return epoch if isinstance(epoch, Errors) else LocalStart(found.offset, epoch, start.offset)

    async def _epoch_before(
        self, topic: str, number: int, leader_epoch: int, found: _Listed
    ) -> int | Errors:
        """The epoch of the record before: the same one, unless that begins here. A leader that has
        not written in its epoch yet knows none for its end.
        """
        asked = OffsetForLeaderPartition(
            partition=number,
            current_leader_epoch=leader_epoch,
            leader_epoch=(leader_epoch if found.epoch < 0 else found.epoch) - 1,
        )
        if asked.leader_epoch < 0:
            return 0
        response = await self.peer().request(
            OffsetForLeaderEpochRequest(
                replica_id=self._node_id,
                topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])],
            )
        )
        for answered in response.topics:
            for end in answered.partitions:
                if end.error_code != Errors.NONE:
                    return Errors.of(end.error_code)
                is_earlier = end.end_offset >= found.offset and end.leader_epoch >= 0
                return end.leader_epoch if is_earlier else asked.leader_epoch + 1
        return Errors.UNKNOWN_SERVER_ERROR

    async def _offset(
        self, topic: str, number: int, leader_epoch: int, timestamp: int
    ) -> _Listed | Errors:
        asked = ListOffsetsPartition(
            partition_index=number, current_leader_epoch=leader_epoch, timestamp=timestamp
        )
        response = await self.peer().request(
            ListOffsetsRequest(
                replica_id=self._node_id, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
            )
        )
        for answered in response.topics:
            for found in answered.partitions:
                if found.error_code == Errors.NONE:
                    return _Listed(found.offset, found.leader_epoch)
                return Errors.of(found.error_code)
        return Errors.UNKNOWN_SERVER_ERROR

    def peer(self) -> Peer:
        """The leader where it is now. ConnectionError if that is not known."""
        address = self._address()
        if address is None:
            raise ConnectionError("the address of the leader is not known")
        if self._peer is None or self._peer.address != address:
            self.close()
            self._peer = self._connect(address)
        return self._peer

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None


def make_request(
    plan: FetchPlan, bounds: ReplicaFetchBounds, replica: ReplicaState
) -> FetchRequest:
    topics: dict[Uuid, FetchTopic] = {}
    for (topic_id, number), position in plan.partitions.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchTopic(topic_id=topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=number,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.fetch_offset,
                last_fetched_epoch=position.last_fetched_epoch,
                log_start_offset=position.log_start_offset,
                partition_max_bytes=position.bytes_max,
            )
        )
    forgotten: dict[Uuid, ForgottenTopic] = {}
    for topic_id, number in plan.forgotten:
        named = forgotten.get(topic_id)
        if named is None:
            named = forgotten[topic_id] = ForgottenTopic(topic_id=topic_id, partitions=[])
        named.partitions.append(number)
    return FetchRequest(
        replica_state=replica,
        max_wait_ms=bounds.wait_ms,
        min_bytes=bounds.bytes_min,
        max_bytes=bounds.bytes_max,
        session_id=plan.session_id,
        session_epoch=plan.session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=list(forgotten.values()),
    )
