"""The parts of a node, made from its settings."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from kaa.broker.directories import StartError
from kaa.broker.topic_configs import log_config, log_manager_config
from kaa.client.peer import Peer, Peers, peer_settings
from kaa.controller.feature_table import DIRECTORY_ASSIGNMENT, METADATA_VERSION
from kaa.handlers.registry import (
    BROKER_APIS,
    CONTROLLER_APIS,
    Router,
    advertised_versions,
    find_handlers,
)
from kaa.limits import FETCH_SESSION_EVICTION_MS, MOVE_PIECE_BYTES
from kaa.log.manager import LogManager
from kaa.log.void import VOID_LOGS_FILE
from kaa.model.kinds import ResourceType
from kaa.model.nodes import Endpoint, HostPort, SecurityProtocol
from kaa.net.listener import Listener, ListenerSettings
from kaa.quorum.config import QuorumConfig
from kaa.quorum.node import QuorumNode
from kaa.quorum.voters import Node, ReplicaKey, VoterNode, VoterSet
from kaa.replication.follower.fetcher import FetcherSettings
from kaa.replication.follower.fetchers import ReplicaFetchers
from kaa.replication.follower.link import RemoteLeader, ReplicaFetchBounds
from kaa.replication.moves import UNLIMITED, LogDirectoryMoves, MoveSettings
from kaa.replication.throttle import ReplicationThrottle
from kaa.serving.fetch_sessions import FetchSessions
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor
    from random import Random

    from kaa.config.listeners import Listeners
    from kaa.config.server import BrokerConfig
    from kaa.controller.image import ClusterImage
    from kaa.handlers.registry import Served
    from kaa.log.config import LogConfig
    from kaa.log.dirs import LogDirectory
    from kaa.log.files import Files
    from kaa.model.nodes import Endpoint as ConfigEndpoint
    from kaa.net.network import Network
    from kaa.replication.manager import ReplicaManager
    from kaa.serving.remote_logs import RemoteLogs
    from kaa.serving.services import NodeServices
    from kaa.serving.view import NodeView
    from kaa.wire.messages.k18_api_versions import ApiVersion
    from kaa.wire.primitives import Uuid


def make_logs(
    config: BrokerConfig,
    files: Files,
    random: Random,
    topic_config: Callable[[str], LogConfig],
    on_offline: Callable[[LogDirectory], None],
    monotonic_ms: Callable[[], int] | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> LogManager:
    settings = log_manager_config(config, log_config(config, {}))
    logs = LogManager(
        files, config.log_dirs, settings, random, topic_config, on_offline, monotonic_ms
    )
    for directory in logs.directories:
        directory.report = report
    logs.void.path = f"{config.metadata_log_dir}/{VOID_LOGS_FILE}"
    logs.cordon(config.cordoned_log_dirs)
    return logs


def make_peers(config: BrokerConfig, random: Random) -> Peers:
    """The other brokers, over the listener on which brokers talk."""
    settings = peer_settings(
        _inter_broker_protocol(config),
        client_id=f"broker-{config.node_id}",
        request_timeout_ms=config.get_int("request.timeout.ms"),
    )
    return Peers(settings, random)


def _inter_broker_protocol(config: BrokerConfig) -> SecurityProtocol:
    protocols = {point.listener: point.security_protocol for point in config.listeners.broker}
    return SecurityProtocol(protocols[config.listeners.inter_broker_name])


def make_fetch_sessions(config: BrokerConfig, random: Random) -> FetchSessions:
    return FetchSessions(
        config.get_int("max.incremental.fetch.session.cache.slots"),
        FETCH_SESSION_EVICTION_MS,
        lambda: random.randrange(1, 2**31),
    )


def make_moves(
    view: NodeView,
    logs: LogManager,
    replicas: ReplicaManager,
    executor: Executor,
    assigned: Callable[[Uuid, int, Uuid | None], None],
    report: Callable[[str], None],
) -> LogDirectoryMoves:
    """What moves replicas between directories, with settings that may change meanwhile."""

    def settings() -> MoveSettings:
        config = view.config
        bounds = ReplicaFetchBounds(
            config.get_int("replica.fetch.wait.max.ms"), 0, MOVE_PIECE_BYTES
        )
        backoff_ms = config.get_int("replica.fetch.backoff.ms")
        threads = config.get_optional_int("num.replica.alter.log.dirs.threads")
        return MoveSettings(
            FetcherSettings(bounds, backoff_ms, MOVE_PIECE_BYTES),
            threads or len(config.log_dirs),
            _move_rate(view.image, view.node_id),
        )

    def tells_controller() -> bool:
        return view.image.features.get(METADATA_VERSION, 0) >= DIRECTORY_ASSIGNMENT

    return LogDirectoryMoves(
        logs,
        replicas,
        settings,
        executor,
        view.clock,
        assigned=assigned,
        tells_controller=tells_controller,
        moved=replicas.moved,
        report=report,
    )


def _move_rate(image: ClusterImage, node_id: int) -> int:
    """`replica.alter.log.dirs.io.max.bytes.per.second`, which lives in the metadata alone."""
    for name in (str(node_id), ""):
        stored = image.configs.get((ResourceType.BROKER, name), {})
        value = stored.get("replica.alter.log.dirs.io.max.bytes.per.second")
        if value is not None and value.isdigit():
            return int(value)
    return UNLIMITED


def make_fetchers(
    view: NodeView,
    replicas: ReplicaManager,
    remote_logs: RemoteLogs | None,
    random: Random,
    broker_epoch: Callable[[], int],
    report: Callable[[str], None],
) -> ReplicaFetchers:
    """Those who copy partitions from their leaders, with settings that may change meanwhile."""

    def settings() -> FetcherSettings:
        config = view.config
        bounds = ReplicaFetchBounds(
            wait_ms=config.get_int("replica.fetch.wait.max.ms"),
            bytes_min=config.get_int("replica.fetch.min.bytes"),
            bytes_max=config.get_int("replica.fetch.response.max.bytes"),
        )
        return FetcherSettings(
            bounds,
            backoff_ms=config.get_int("replica.fetch.backoff.ms"),
            partition_bytes_max=config.get_int("replica.fetch.max.bytes"),
            begins_at_last_tiered=config.get_boolean("follower.fetch.last.tiered.offset.enable"),
        )

    def connect(leader_id: int, number: int) -> RemoteLeader:
        def address() -> HostPort | None:
            broker = view.image.brokers.get(leader_id)
            name = view.config.listeners.inter_broker_name
            endpoint = None if broker is None else broker.endpoint(name)
            return None if endpoint is None else HostPort(endpoint.host, endpoint.port)

        def peer(address: HostPort) -> Peer:
            config = view.config
            settings = peer_settings(
                _inter_broker_protocol(config),
                client_id=f"broker-{view.node_id}-fetcher-{number}",
                request_timeout_ms=config.get_int("replica.socket.timeout.ms"),
            )
            received = config.get_int("replica.socket.receive.buffer.bytes")
            return Peer(address, settings._replace(receive_buffer_bytes=received), random)

        return RemoteLeader(view.node_id, broker_epoch, address, peer)

    return ReplicaFetchers(
        connect,
        settings,
        lambda: view.config.get_int("num.replica.fetchers"),
        view.clock,
        report,
        remote_logs,
        replicas,
    )


def set_throttles(view: NodeView, replicas: ReplicaManager) -> None:
    """Hands the rates of replication, which the cluster may set at any time, to its throttles."""

    def throttle(name: str) -> ReplicationThrottle:
        def rate() -> int | None:
            config = view.config
            text = config.dynamic_broker.get(name, config.dynamic_default.get(name))
            return None if text is None else int(text)

        config = view.config
        return ReplicationThrottle(
            view.clock.monotonic_ms,
            rate,
            config.get_int("replication.quota.window.num"),
            config.get_int("replication.quota.window.size.seconds") * 1000,
        )

    replicas.leader_throttle = throttle("leader.replication.throttled.rate")
    replicas.follower_throttle = throttle("follower.replication.throttled.rate")


class ServedApis(NamedTuple):
    """What a node serves on listeners for clients and brokers, and on those of its controller."""

    broker: dict[int, Served]
    controller: dict[int, Served]

    def advertised(self, listeners: Listeners) -> dict[str, list[ApiVersion]]:
        """What ApiVersions says, by the name of the listener."""
        broker, controller = map(advertised_versions, self)
        return {
            endpoint.listener: controller if endpoint in listeners.controller else broker
            for endpoint in listeners.all
        }


def find_apis(config: BrokerConfig) -> ServedApis:
    unstable = config.get_boolean("unstable.api.versions.enable")
    is_two_phase = config.get_boolean("transaction.two.phase.commit.enable")
    opened = frozenset({ApiKey.INIT_PRODUCER_ID} if is_two_phase else ())
    return ServedApis(
        find_handlers(BROKER_APIS, unstable=unstable, opened=opened),
        find_handlers(CONTROLLER_APIS, unstable=unstable),
    )


class BoundListeners:
    """The bound listeners of a node by name, and the routers that `route` gives them."""

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        network: Network,
        report: Callable[[str], None],
    ) -> None:
        self._config = config
        self._network = network
        self.routers: tuple[Router, ...] = ()
        self.by_name = {
            endpoint.listener: Listener(
                self._settings(endpoint),
                loop=loop,
                executor=executor,
                network=network,
                report=report,
            )
            for endpoint in config.listeners.all
        }

    def route(
        self,
        services: NodeServices,
        apis: ServedApis,
        tasks: asyncio.TaskGroup,
        report: Callable[[str], None],
    ) -> None:
        """Makes the routers of requests, of which the first is that of clients."""
        self.routers = tuple(Router(services, served, tasks, report) for served in apis)

    def _settings(self, endpoint: ConfigEndpoint) -> ListenerSettings:
        values = self._config.listener_values(endpoint.listener)
        return ListenerSettings(
            name=endpoint.listener,
            host=endpoint.host,
            port=endpoint.port,
            frame_bytes_max=values.get_int("socket.request.max.bytes"),
            backlog=values.get_int("socket.listen.backlog.size"),
            connections_max=values.get_int("max.connections"),
            connections_per_second_max=values.get_int("max.connection.creation.rate"),
            connections_per_address_max=values.get_int("max.connections.per.ip"),
            connections_per_address_overrides=self._config.max_connections_per_ip_overrides,
            idle_seconds_max=values.get_int("connections.max.idle.ms") / 1000,
            send_buffer_bytes=self._send_buffer_bytes(),
            receive_buffer_bytes=self._receive_buffer_bytes(),
        )

    def _send_buffer_bytes(self) -> int | None:
        """Small by default, as in Kafka: a client takes what there is while the loop sends the
        next piece. With what the system finds out, megabytes, the two take turns, and reading a
        topic is slower by a third (docs/performance.md).
        """
        size = self._config.get_int("socket.send.buffer.bytes")
        return size if size >= 0 else None

    def _receive_buffer_bytes(self) -> int | None:
        """A size that somebody chose; the default would be far below what the system finds out."""
        name = "socket.receive.buffer.bytes"
        size = self._config.get_int(name)
        return size if name in self._config.settings and size >= 0 else None

    def bind(self) -> None:
        """Binds every socket, or none; StartError names the address that cannot be had."""
        for listener in self.by_name.values():
            try:
                listener.bind()
            except OSError as error:
                self.stop_accepting()
                settings = listener.settings
                raise StartError(
                    f"cannot listen on {settings.host or '*'}:{settings.port} "
                    f"({error.strerror or error}); set listeners to another address or port"
                ) from None

    def of(self, endpoints: Iterable[Endpoint]) -> list[Listener]:
        return [self.by_name[endpoint.listener] for endpoint in endpoints]

    def start(self, endpoints: Iterable[Endpoint]) -> None:
        """Accepts connections on some of them."""
        broker, controller = self.routers
        for endpoint in endpoints:
            is_controller = endpoint in self._config.listeners.controller
            self.by_name[endpoint.listener].start(controller if is_controller else broker)

    def stop_accepting(self) -> None:
        for listener in self.by_name.values():
            listener.stop_accepting()

    async def drain(self, endpoints: Iterable[Endpoint], seconds: float) -> int:
        """Stops accepting on some of them and lets requests finish; returns how many connections
        were cut off with one under way.
        """
        listeners = self.of(endpoints)
        for listener in listeners:
            listener.stop_accepting()
        return sum(await asyncio.gather(*(listener.drain(seconds) for listener in listeners)))

    def cancel(self) -> None:
        """Ends requests that are still under way; the node is stopping."""
        for router in self.routers:
            router.cancel()

    def bound(self, endpoint: ConfigEndpoint) -> Endpoint:
        """An address as others learn it: a port that was 0 is the one that was bound."""
        port = endpoint.port or self.by_name[endpoint.listener].port
        host = endpoint.host or self._network.host_name()
        return Endpoint(endpoint.listener, host, port, endpoint.security_protocol)


def make_quorum_node(
    config: BrokerConfig, cluster_id: str, directory_id: Uuid, endpoints: tuple[Endpoint, ...]
) -> QuorumNode:
    """The node in the quorum; `endpoints` are those of its controller, none for a broker alone."""
    listener = config.get_list("controller.listener.names")[0]
    voters = [
        VoterNode(ReplicaKey(voter.node_id), (Endpoint(listener, voter.host, voter.port),))
        for voter in config.quorum_voters
    ]
    lingering = "controller.quorum.append.linger.ms"
    timings = QuorumConfig(
        election_timeout_ms=config.get_int("controller.quorum.election.timeout.ms"),
        fetch_timeout_ms=config.get_int("controller.quorum.fetch.timeout.ms"),
        election_backoff_max_ms=config.get_int("controller.quorum.election.backoff.max.ms"),
        request_timeout_ms=config.get_int("controller.quorum.request.timeout.ms"),
        retry_backoff_ms=config.get_int("controller.quorum.retry.backoff.ms"),
        append_linger_ms=config.get_int(lingering) if lingering in config.settings else 0,
        fetch_max_bytes=config.get_int("controller.quorum.fetch.max.bytes"),
        fetch_snapshot_max_bytes=config.get_int("controller.quorum.fetch.snapshot.max.bytes"),
    )
    return QuorumNode(
        cluster_id,
        config.node_id,
        directory_id,
        listener,
        # As the log has them: voters are written without a protocol.
        tuple(Endpoint(point.listener, point.host, point.port) for point in endpoints),
        VoterSet.of(voters) if voters else VoterSet(),
        timings,
        _bootstrap_nodes(config),
        bool(endpoints),
        config.get_boolean("controller.quorum.auto.join.enable"),
    )


def _bootstrap_nodes(config: BrokerConfig) -> tuple[Node, ...]:
    """Voters have ids; of other servers only the address is known, so they count down from -2."""
    if config.quorum_voters:
        return tuple(Node(voter.node_id, voter.host, voter.port) for voter in config.quorum_voters)
    # A development node has no address of its own before it is bound, and nobody else to ask.
    servers = [server for server in config.quorum_bootstrap_servers if server.port]
    return tuple(Node(-2 - place, host, port) for place, (host, port) in enumerate(servers))
