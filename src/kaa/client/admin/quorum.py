"""The quorum of the metadata for the admin client: who votes, and changes of that (KIP-853)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.client.admin.base import AdminBase
from kaa.client.errors import ClientError, KafkaError, RequestTimeoutError, check
from kaa.model.nodes import Endpoint
from kaa.model.topics import CLUSTER_METADATA
from kaa.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kaa.wire.messages.k80_add_raft_voter import AddRaftVoterRequest, Listener
from kaa.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaa.client.connection import Connection
    from kaa.wire.primitives import Uuid

# So many brokers at least are asked within the time of a call, if the first do not answer.
_ATTEMPTS_MIN: Final = 4
_ATTEMPT_MS_MIN: Final = 1_000


class QuorumReplica(NamedTuple):
    """A voter or observer; times are milliseconds since 1970, -1 where they are not known."""

    node_id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    # All zeros where it is not known: with static voters, or from an old broker.
    directory_id: Uuid = UUID_ZERO
    # Of voters, where the broker tells.
    endpoints: tuple[Endpoint, ...] = ()


class QuorumDescription(NamedTuple):
    """The quorum of the cluster's metadata."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class QuorumAdmin(AdminBase):
    """The part of the admin client that is about the quorum."""

    async def describe_quorum(self) -> QuorumDescription:
        """Who votes on the metadata, who leads, and how far each voter and observer is."""
        topic = RequestTopicData(
            topic_name=CLUSTER_METADATA, partitions=[RequestPartitionData(partition_index=0)]
        )
        what = "description of the quorum"
        tries = count()
        # Brokers that were reached and found no leader to ask.
        silent: list[str] = []

        async def attempt() -> Any:
            connection = await self._connection_to_try(next(tries))
            request = DescribeQuorumRequest(topics=[topic])
            timeout_ms = max(_ATTEMPT_MS_MIN, self._timeout_ms // _ATTEMPTS_MIN)
            node = connection.address
            try:
                response = await connection.request(request, timeout_ms=timeout_ms)
                check(response.error_code, what, message=response.error_message, node=node)
                answer = response.topics[0].partitions[0]
                check(answer.error_code, what, message=answer.error_message, node=node)
            except (RequestTimeoutError, KafkaError) as error:
                if error.retriable:
                    silent.append(node)
                raise
            return response

        # A controller that has just lost the leadership says so, and another try finds the next.
        try:
            response = await self.cluster.repeat(attempt, what, self._timeout_ms)
        except ClientError as error:
            if not error.retriable or not silent:
                raise
            raise RequestTimeoutError(
                f"the quorum has no leader that {silent[-1]} could ask in {self._timeout_ms} ms; "
                "see that a majority of the controllers runs, and what their logs say"
            ) from error
        answer = response.topics[0].partitions[0]
        endpoints = {
            node.node_id: tuple(Endpoint(one.name, one.host, one.port) for one in node.listeners)
            for node in response.nodes
        }
        return QuorumDescription(
            answer.leader_id,
            answer.leader_epoch,
            answer.high_watermark,
            _replicas(answer.current_voters, endpoints),
            _replicas(answer.observers, {}),
        )

    async def _connection_to_try(self, number: int) -> Connection:
        """One broker after the other: each passes the question on to the leader it knows of, and
        one that asks a former leader may do so until its own time is up.
        """
        if self.cluster.asks_controllers:
            # Only the one that leads can tell.
            await self.cluster.fetch_metadata([])
            return await self.cluster.controller_connection()
        if number and not self.cluster.metadata.brokers:
            try:
                await self.cluster.fetch_metadata([])
            except ClientError as error:
                if not error.retriable:
                    raise
        node_ids = sorted(self.cluster.metadata.brokers)
        if number == 0 or not node_ids:
            return await self.cluster.any_connection()
        return await self.cluster.connection(node_ids[number % len(node_ids)])

    async def add_raft_voter(
        self, voter_id: int, directory_id: Uuid, endpoints: Sequence[Endpoint]
    ) -> None:
        """Makes a controller that follows the quorum a voter of it."""
        what = f"cannot add the voter {voter_id}"
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=self._timeout_ms,
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=[
                Listener(name=one.listener, host=one.host, port=one.port) for one in endpoints
            ],
        )
        response, node = await self._change(request, what)
        check(response.error_code, what, message=response.error_message, node=node)

    async def remove_raft_voter(self, voter_id: int, directory_id: Uuid) -> None:
        """Takes the vote from a controller; it may go on as an observer."""
        what = f"cannot remove the voter {voter_id}"
        request = RemoveRaftVoterRequest(
            cluster_id=None, voter_id=voter_id, voter_directory_id=directory_id
        )
        response, node = await self._change(request, what)
        check(response.error_code, what, message=response.error_message, node=node)


def _replicas(
    rows: Iterable[Any], endpoints: Mapping[int, tuple[Endpoint, ...]]
) -> tuple[QuorumReplica, ...]:
    return tuple(
        QuorumReplica(
            row.replica_id,
            row.log_end_offset,
            row.last_fetch_timestamp,
            row.last_caught_up_timestamp,
            row.replica_directory_id,
            endpoints.get(row.replica_id, ()),
        )
        for row in rows
    )
