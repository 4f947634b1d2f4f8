"""The parts of a node, made from its settings."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from kaa.broker.directories import StartError
from kaa.broker.topic_configs import log_config, log_manager_config
from kaa.handlers.registry import (
    BROKER_APIS,
    CONTROLLER_APIS,
    Router,
    advertised_versions,
    load_handlers,
)
from kaa.limits import FETCH_SESSION_EVICTION_MS
from kaa.log.manager import LogManager
from kaa.net.listener import Listener, ListenerSettings
from kaa.quorum.config import QuorumConfig
from kaa.quorum.node import QuorumNode
from kaa.quorum.voters import Endpoint, ReplicaKey, VoterNode, VoterSet
from kaa.serving.fetch_sessions import FetchSessions
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from random import Random

    from kaa.config.addresses import Endpoint as ConfigEndpoint
    from kaa.config.server import BrokerConfig
    from kaa.log.config import LogConfig
    from kaa.log.dirs import LogDirectory
    from kaa.log.files import Files
    from kaa.serving.services import Services
    from kaa.wire.primitives import Uuid


def make_logs(
    config: BrokerConfig,
    files: Files,
    random: Random,
    topic_config: Callable[[str], LogConfig],
    on_offline: Callable[[LogDirectory], None],
) -> LogManager:
    settings = log_manager_config(config, log_config(config, {}))
    return LogManager(files, config.log_dirs, settings, random, topic_config, on_offline)


def make_fetch_sessions(config: BrokerConfig, random: Random) -> FetchSessions:
    return FetchSessions(
        config.get_int("max.incremental.fetch.session.cache.slots"),
        FETCH_SESSION_EVICTION_MS,
        lambda: random.randrange(1, 2**31),
    )


class Listeners:
    """The bound listeners of a node by name, and the routers behind them."""

    def __init__(
        self,
        services: Services,
        executor: Executor,
        tasks: asyncio.TaskGroup,
        report: Callable[[str], None],
    ) -> None:
        self._config = services.config
        self.by_name: dict[str, Listener] = {}
        unstable = self._config.get_boolean("unstable.api.versions.enable")
        is_two_phase = self._config.get_boolean("transaction.two.phase.commit.enable")
        opened = frozenset({ApiKey.INIT_PRODUCER_ID} if is_two_phase else ())
        served = load_handlers(BROKER_APIS, unstable=unstable, opened=opened)
        broker = Router(services, served, tasks, report)
        served = load_handlers(CONTROLLER_APIS, unstable=unstable)
        controller = Router(services, served, tasks, report)
        self.routers = (broker, controller)
        api_versions = {}
        for endpoint in self._config.listeners.all:
            is_controller = endpoint in self._config.listeners.controller
            router = controller if is_controller else broker
            api_versions[endpoint.listener] = advertised_versions(router.handlers)
            self.by_name[endpoint.listener] = Listener(
                self._settings(endpoint), router, loop=services.loop, executor=executor
            )
        services.api_versions = api_versions

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

    def start(self) -> None:
        for listener in self.by_name.values():
            listener.start()

    def stop_accepting(self) -> None:
        for listener in self.by_name.values():
            listener.stop_accepting()

    async def drain(self, seconds: float) -> int:
        """Lets requests finish; returns how many connections were cut off with one under way."""
        drains = [listener.drain(seconds) for listener in self.by_name.values()]
        cut_off = sum(await asyncio.gather(*drains))
        for router in self.routers:
            router.cancel()
        return cut_off

    def bound(self, endpoint: ConfigEndpoint) -> Endpoint:
        """An address as others are told it: a port that was 0 is the one that was bound."""
        port = endpoint.port or self.by_name[endpoint.listener].port
        return Endpoint(endpoint.listener, endpoint.host or socket.gethostname(), port)


def make_quorum_node(
    config: BrokerConfig, cluster_id: str, directory_id: Uuid, endpoints: tuple[Endpoint, ...]
) -> QuorumNode:
    listener = endpoints[0].listener
    voters = [
        VoterNode(ReplicaKey(voter.node_id), (Endpoint(listener, voter.host, voter.port),))
        for voter in config.quorum_voters
    ]
    timings = QuorumConfig(
        election_timeout_ms=config.get_int("controller.quorum.election.timeout.ms"),
        fetch_timeout_ms=config.get_int("controller.quorum.fetch.timeout.ms"),
        election_backoff_max_ms=config.get_int("controller.quorum.election.backoff.max.ms"),
        request_timeout_ms=config.get_int("controller.quorum.request.timeout.ms"),
        retry_backoff_ms=config.get_int("controller.quorum.retry.backoff.ms"),
    )
    return QuorumNode(
        cluster_id,
        config.node_id,
        directory_id,
        listener,
        endpoints,
        VoterSet.of(voters) if voters else VoterSet(),
        timings,
    )
