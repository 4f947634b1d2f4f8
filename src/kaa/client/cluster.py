"""The connections of one client: bootstrap, metadata, and requests that find their broker.

`Cluster` opens at most one connection per node, when it is first asked for, and again after it
broke. Every call has a deadline; within it, failures that may pass are tried again with growing
pauses. It decides nothing about records: producer, consumer and admin do.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

from kaa.client.arguments import names_of
from kaa.client.backoff import Backoff
from kaa.client.complaints import Complaints
from kaa.client.connection import Connection, ConnectionSettings
from kaa.client.coordinator import COORDINATOR_NODES_FIRST, Coordinators, coordinator_node
from kaa.client.errors import (
    PARTITION_HINT,
    ClientError,
    ClosedError,
    DisconnectedError,
    KafkaError,
    RequestTimeoutError,
    UnreachableError,
    UnsupportedApiError,
    check,
)
from kaa.client.leaders import ELECTION_ATTEMPTS, Leaders
from kaa.client.metadata import NO_NODE, Metadata
from kaa.client.security.sasl import credentials
from kaa.client.security.tls import tls_context
from kaa.clock import SystemClock
from kaa.config.addresses import parse_host_port
from kaa.wire.errors import Errors
from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kaa.wire.messages.k60_describe_cluster import DescribeClusterRequest
from kaa.wire.primitives import UUID_ZERO
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kaa.client.metadata import Topic
    from kaa.config.definition import ConfigValues
    from kaa.model.seams import Clock
    from kaa.wire.schema import Request

# Nodes of the bootstrap list have no ids yet; they are counted down from here.
_BOOTSTRAP_FIRST_ID: Final = -2
# How often a topic may be missing that is being created, in silence.
_CREATION_ATTEMPTS: Final = 4
CONTROLLER_ENDPOINTS: Final = 2
"""The kind of endpoints that DescribeCluster tells of at controllers."""
_ELECTING: Final = frozenset({Errors.LEADER_NOT_AVAILABLE, Errors.NOT_LEADER_OR_FOLLOWER})

_log = logging.getLogger(__name__)


class Cluster:
    """The connections and the metadata of one client. A context that closes the connections at its
    end. A call that cannot succeed before its deadline raises a KafkaError.
    """

    def __init__(
        self, values: ConfigValues, random: Random | None = None, clock: Clock | None = None
    ) -> None:
        self.values = values
        self.random = random or Random()
        self.clock: Clock = clock or SystemClock()
        self.metadata = Metadata()
        self.coordinators = Coordinators(self)
        self.complaints = Complaints(_log, self.clock)
        self.leaders = Leaders(self.metadata, self.clock)
        # Whether nodes are asked at their listeners for controllers (KIP-919).
        self.asks_controllers = bool(
            "bootstrap.controllers" in values and values.get_list("bootstrap.controllers")
        )
        name = "bootstrap.controllers" if self.asks_controllers else "bootstrap.servers"
        self._bootstrap = {
            _BOOTSTRAP_FIRST_ID - index: parse_host_port(name, entry, entry, "host:port")
            for index, entry in enumerate(values.get_list(name))
        }
        self._settings = ConnectionSettings(
            client_id=values.get_string("client.id"),
            request_timeout_ms=values.get_int("request.timeout.ms"),
            setup_timeout_ms=values.get_int("socket.connection.setup.timeout.ms"),
            send_buffer_bytes=values.get_int("send.buffer.bytes"),
            receive_buffer_bytes=values.get_int("receive.buffer.bytes"),
            tls=tls_context(values),
            credentials=credentials(values),
        )
        self._connections: dict[int, Connection] = {}
        self._opening: dict[int, asyncio.Lock] = {}
        # When nodes were tried that could not be reached; a success forgets it.
        self._tried: dict[int, float] = {}
        strategy = values.get_string("metadata.recovery.strategy").lower()
        self._rebootstraps = strategy == "rebootstrap"
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes every connection for good; requests under way fail."""
        self._is_closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def backoff(self) -> Backoff:
        """The pauses of one call that is repeated."""
        return Backoff(
            self.values.get_int("retry.backoff.ms"),
            self.values.get_int("retry.backoff.max.ms"),
            self.random,
        )

    def reconnect_backoff(self) -> Backoff:
        """The pauses before a node is connected to again."""
        return Backoff(
            self.values.get_int("reconnect.backoff.ms"),
            self.values.get_int("reconnect.backoff.max.ms"),
            self.random,
        )

    # --- connections

    async def connection(self, node_id: int) -> Connection:
        """The open connection to a node; raises UnreachableError."""
        found = self._connections.get(node_id)
        if found is not None and found.is_open and not found.is_to_be_renewed:
            return found
        async with self._opening.setdefault(node_id, asyncio.Lock()):
            found = self._connections.get(node_id)
            if found is not None and found.is_open:
                if not found.is_to_be_renewed or found.in_flight_count:
                    return found
                found.close()
            self._check_open()
            self._tried[node_id] = self.clock.monotonic_ms()
            opened = await self._open(*self._address(node_id))
            del self._tried[node_id]
            self._connections[node_id] = opened
            try:
                self._check_open()
            except ClosedError:
                opened.close()
                raise
            return opened

    async def _open(self, host: str, port: int) -> Connection:
        about = ("connection", host, port)
        try:
            opened = await Connection.open(host, port, self._settings)
        except ClientError as error:
            self.complaints.warn(about, "%s", error)
            raise
        self.complaints.settle(about, "%s:%d is reachable again", host, port)
        return opened

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the client is closed")

    def open_connection(self, node_id: int) -> Connection | None:
        """The connection to a node if it is open now."""
        found = self._connections.get(node_id)
        return found if found is not None and found.is_open else None

    def _address(self, node_id: int) -> tuple[str, int]:
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            broker = self.metadata.brokers.get(coordinator_node(node_id))
        if broker is not None:
            return broker.host, broker.port
        if node_id in self._bootstrap:
            return self._bootstrap[node_id]
        raise UnreachableError(f"node {node_id}", "its address is not known")

    def address_of(self, node_id: int) -> str:
        """The address of a node for messages; its number if it is not known."""
        broker = self.metadata.brokers.get(node_id)
        return f"node {node_id}" if broker is None else broker.address

    async def any_connection(self) -> Connection:
        """The open connection with the least to do, else one to any broker that is known.

        Brokers that could not be reached come last, so that the bootstrap list has its turn when
        all that were known are gone (KIP-899), however long each of them takes to fail.
        """
        usable = [
            connection
            for node_id, connection in self._connections.items()
            if connection.is_open and node_id < COORDINATOR_NODES_FIRST
        ]
        if usable:
            return min(usable, key=lambda connection: connection.in_flight_count)
        failure: ClientError = UnreachableError("bootstrap.servers", "the list is empty")
        for node_id in self._candidates():
            try:
                return await self.connection(node_id)
            except UnreachableError as error:
                failure = error
        raise failure

    def _candidates(self) -> list[int]:
        """Nodes in the order in which to try them."""
        known = list(self.metadata.brokers)
        self.random.shuffle(known)
        bootstrap = list(self._bootstrap)
        self.random.shuffle(bootstrap)
        if known and not self._rebootstraps:
            bootstrap = []
        return sorted([*known, *bootstrap], key=lambda node_id: self._tried.get(node_id, -1.0))

    # --- calls

    async def repeat(
        self,
        attempt: Callable[[], Awaitable[Any]],
        what: str,
        timeout_ms: int,
        *,
        refresh: Iterable[str] = (),
    ) -> Any:
        """Runs `attempt` until it gives a result, fails for good or time is up.

        Before another attempt, metadata of the topics of `refresh` is fetched again.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        # Made at the first failure, of which most calls have none.
        backoff: Backoff | None = None
        topics = list(refresh)
        failure: ClientError | None = None
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    if backoff is not None and topics:
                        await self.fetch_metadata(topics)
                    return await attempt()
            except TimeoutError:
                # What failed before says more than that time is up.
                late = RequestTimeoutError(f"{what}: not done within {timeout_ms} ms")
                raise failure or late from None
            except ClientError as error:
                failure = error
                backoff = backoff or self.backoff()
                pause = backoff.next_ms() / 1000
                if not error.retriable or loop.time() + pause >= deadline:
                    raise
            await asyncio.sleep(pause)

    async def call(
        self, request: Request, what: str, timeout_ms: int, *, node_id: int | None = None
    ) -> Any:
        """One request to any broker, or to one of them, repeated while no answer comes."""

        async def attempt() -> Any:
            if node_id is None:
                connection = await self.any_connection()
            else:
                if node_id not in self.metadata.brokers:
                    # A broker that is just starting is named by later answers.
                    await self.fetch_metadata([])
                connection = await self.connection(node_id)
            return await connection.request(request)

        return await self.repeat(attempt, what, timeout_ms)

    async def controller_connection(self) -> Connection:
        """Where requests that change the cluster go: brokers pass them on to the controller."""
        if not self.metadata.brokers:
            await self.fetch_metadata([])
        if self.metadata.controller_id in self.metadata.brokers:
            # One that cannot be reached is named until its session is over.
            with suppress(UnreachableError):
                return await self.connection(self.metadata.controller_id)
        return await self.any_connection()

    # --- metadata

    async def fetch_metadata(
        self, topics: Iterable[str] | None, *, create: bool = False
    ) -> Metadata:
        """One metadata request about these topics, or all (None)."""
        connection = await self.any_connection()
        if self.asks_controllers:
            return await self._fetch_controllers(connection)
        if ApiKey.METADATA not in connection.versions:
            raise UnsupportedApiError(
                f"{connection.address} is the listener of a controller, which has no topics; name "
                "a broker with -b, or ask about the quorum with -X "
                f"bootstrap.controllers={connection.address}"
            )
        wanted = None
        if topics is not None:
            wanted = [MetadataRequestTopic(topic_id=UUID_ZERO, name=name) for name in topics]
        version = connection.version_of(ApiKey.METADATA)
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create or version < 4)
        response = await connection.request(request, version=version)
        if response.error_code == Errors.REBOOTSTRAP_REQUIRED and self._rebootstraps:
            self._forget_brokers()
            raise DisconnectedError(
                connection.address, "it asks clients to start from bootstrap.servers again"
            )
        check(response.error_code, "metadata", node=connection.address)
        self.metadata.update(response, is_complete=topics is None)
        return self.metadata

    async def _fetch_controllers(self, connection: Connection) -> Metadata:
        request = DescribeClusterRequest(endpoint_type=CONTROLLER_ENDPOINTS)
        response = await connection.request(request)
        check(
            response.error_code,
            "controllers",
            message=response.error_message,
            node=connection.address,
        )
        self.metadata.update_nodes(response)
        return self.metadata

    def _forget_brokers(self) -> None:
        """Starts from the bootstrap list again, because a broker wants it so (KIP-1102)."""
        _log.warning("the cluster asks its clients to start from bootstrap.servers again")
        self.metadata.brokers.clear()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def topic(self, name: str, timeout_ms: int, *, create: bool = False) -> Topic:
        """A topic with its partitions, fetched if it is not known; raises KafkaError."""
        if name not in self.metadata.topics:
            (name,) = names_of([name])

        async def attempt() -> Topic:
            found = self.metadata.topics.get(name)
            if found is None:
                await self.fetch_metadata([name], create=create)
                self.complain_of_topics([name], after=_CREATION_ATTEMPTS if create else 1)
                found = self.metadata.topics.get(name)
            if found is None:
                raise self.metadata.error_of(name)
            return found

        topic: Topic = await self.repeat(attempt, f"metadata of topic {name!r}", timeout_ms)
        return topic

    def complain_of_topics(self, names: Iterable[str], *, after: int = 1) -> None:
        """Tells the user of topics that the last answer did not have, once until they are there.

        For those who go on asking; who gives an error to its caller need not speak of it.
        """
        for name in names:
            error = self.metadata.topic_errors.get(name)
            about = ("topic", name)
            self.leaders.complain_of_topic(name)
            if self.metadata.is_deleted(name):
                continue
            if error is None:
                self.complaints.settle(about, "topic %r exists now", name)
            else:
                # An election is over in a moment, or it is worth a word.
                needed = max(after, ELECTION_ATTEMPTS) if error in _ELECTING else after
                self.complaints.warn(about, "%s", self.metadata.error_of(name), after=needed)

    def leader_or_raise(self, topic: str, partition: int) -> int:
        """The leader of a partition; raises a retriable KafkaError if there is none."""
        known = self.metadata.partition(topic, partition)
        what = f"partition {topic}-{partition}"
        if known is None and topic not in self.metadata.topics:
            raise self.metadata.error_of(topic, what)
        if known is None:
            raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION, what, hint=PARTITION_HINT)
        leader = self.metadata.leader_of(topic, partition)
        if leader == NO_NODE:
            raise KafkaError(Errors.LEADER_NOT_AVAILABLE, what)
        return leader
