"""A node: everything put together, started and stopped in order.

Start, each step only if the one before it succeeded:

1. the sockets are bound, so that a port clash is known before anything is written, and port 0 has
become a number; 2. the identities of the directories are compared, and the directories locked; 3.
the metadata log is recovered and the controller is active: the image of the cluster is there; 4.
the logs of the partitions are loaded with the settings of their topics; 5. the broker registers
with the ports it has, and the partitions take over what the image says; 6. listeners accept,
heartbeats unfence the broker, and the node is ready.

Stop is the same backwards: no new clients, requests under way finish, the broker leaves the
cluster, logs are flushed and marked clean, the controller writes a snapshot, and the locks go.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final

from kaa.broker.assembly import (
    Listeners,
    make_fetch_sessions,
    make_logs,
    make_quorum_node,
)
from kaa.broker.clock import SystemClock
from kaa.broker.coordinators import make_group_coordinator, make_transaction_coordinator
from kaa.broker.development import format_if_empty
from kaa.broker.directories import StartError, read_identity
from kaa.broker.duties import clean_logs, keep_logs, sweep_connections
from kaa.broker.lifecycle import BrokerLifecycle, register_controller
from kaa.broker.topic_configs import LogConfigs, log_config, log_manager_config
from kaa.config.addresses import HostPort
from kaa.config.dynamic import apply_dynamic, usable_update
from kaa.controller.image import ClusterImage
from kaa.controller.local import LocalController
from kaa.log.dirs import LogDirectory
from kaa.log.errors import CorruptFileError, StorageError
from kaa.log.files import RealFiles
from kaa.quorum.node import NotAVoterError
from kaa.replication.manager import RESOURCE_TOPIC, ReplicaManager
from kaa.serving.brokers import Brokers
from kaa.serving.delayed import LongPolls
from kaa.serving.group_commit import GroupCommit
from kaa.serving.producer_ids import ProducerIds
from kaa.serving.services import Services
from kaa.serving.topic_creation import TopicCreation
from kaa.serving.verification import Verification
from kaa.wire.primitives import Uuid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from random import Random

    from kaa.broker.directories import Identity
    from kaa.config.server import BrokerConfig
    from kaa.controller.image import Delta
    from kaa.log.config import LogConfig
    from kaa.log.files import Files
    from kaa.log.manager import LogManager
    from kaa.replication.partition import Partition

RESOURCE_BROKER: Final = 4
DRAIN_SECONDS: Final = 10.0
LEAVE_SECONDS: Final = 5.0


class Broker:
    """One node of a cluster; `running` starts and stops it."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        files: Files | None = None,
        clock: SystemClock | None = None,
        report: Callable[[str], None] = lambda _: None,
        formats_empty: bool = False,
    ) -> None:
        """With `formats_empty` directories that were never formatted become a cluster of one."""
        self.config = config
        self.clock = clock or SystemClock()
        self.report = report
        self._formats_empty = formats_empty
        self.cluster_id = ""
        self.services = Services()
        self._files = files or RealFiles()
        self._random: Random = SystemRandom()
        self._executors: list[ThreadPoolExecutor] = []
        self._duties: list[asyncio.Task[None]] = []
        self._log_duties: list[asyncio.Task[None]] = []
        self._log_configs = LogConfigs()
        self._logs: LogManager | None = None
        self._listeners: Listeners | None = None
        self._controller: LocalController | None = None
        self._lifecycle: BrokerLifecycle | None = None
        self._are_logs_loaded = False
        self._are_replicas_started = False

    @property
    def bootstrap_servers(self) -> str:
        """The first listener for clients, as clients name it."""
        endpoint = self.listeners.bound(self.config.listeners.advertised_broker[0])
        return str(HostPort(endpoint.host, endpoint.port))

    @property
    def listeners(self) -> Listeners:
        assert self._listeners is not None, "the node was not started"
        return self._listeners

    # --- start

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Serves when it returns; StartError says why it cannot. Duties run in `tasks`."""
        self.services.loop, self.services.config = asyncio.get_running_loop(), self.config
        executor = self._executor("read", 2)
        self._listeners = Listeners(self.services, executor, tasks, self.report)
        self._listeners.bind()
        identity = self._identify()
        logs = self._take_directories(identity)
        self._fill_services(logs)
        try:
            await self._start_controller(logs, identity.metadata_directory_id)
            self._begin(tasks, self._controller_duty())
            await self._load(logs)
        except (CorruptFileError, NotAVoterError, StorageError) as error:
            raise StartError(str(error)) from error
        await self._join(logs, tasks)

    def _identify(self) -> Identity:
        config = self.config
        if self._formats_empty:
            try:
                format_if_empty(config, self._files, self._random, self.clock.wall_ms())
            except OSError as error:
                raise StartError(
                    f"cannot use {error.filename or 'the data directory'} ({error.strerror}); "
                    "name another directory"
                ) from None
        return read_identity(self._files, config.log_dirs, config.metadata_log_dir, config.node_id)

    def _take_directories(self, identity: Identity) -> LogManager:
        logs = make_logs(
            self.config, self._files, self._random, self._topic_config, self._directory_failed
        )
        try:
            logs.lock()
        except BlockingIOError as error:
            raise StartError(
                f"{Path(error.filename).parent} is in use by another process; stop that one, "
                "or name another directory in log.dirs"
            ) from None
        self._logs = logs
        for directory in logs.directories:
            found = identity.directories.get(directory.path)
            directory.directory_id = None if found is None else found.directory_id
            directory.writer = self._executor("writer", 1)
        self.cluster_id = identity.cluster_id
        return logs

    def _fill_services(self, logs: LogManager) -> None:
        services, config = self.services, self.config
        services.clock = self.clock
        services.node_id = config.node_id
        services.cluster_id = self.cluster_id
        services.image = ClusterImage()
        services.image_offset = -1
        services.logs = logs
        services.batch_work = self._executor("batches", 1)
        appended = None
        if config.get_boolean("kaa.log.group.commit.enable"):
            executor = self._executor("flush", len(config.log_dirs))
            appended = GroupCommit(services.loop, executor, self.clock.wall_ms).appended
        services.replicas = ReplicaManager(
            config.node_id,
            logs,
            self._topic_config,
            self.clock.wall_ms,
            appended=appended,
            leadership_changed=self._leadership_changed,
            call_soon=services.loop.call_soon,
        )
        services.fetch_sessions = make_fetch_sessions(config, self._random)
        services.polls = LongPolls(services.loop)
        services.topic_creation = TopicCreation(services)
        executor = self._executor("coordinators", 1)
        services.groups = make_group_coordinator(services, executor, self._random, self.report)
        services.brokers = Brokers(services)
        services.verification = Verification(services)
        services.transactions = make_transaction_coordinator(services, executor, self.report)

    async def _start_controller(self, logs: LogManager, directory_id: Uuid) -> None:
        path = self.config.metadata_log_dir
        directory = next((found for found in logs.directories if found.path == path), None)
        if directory is not None and not directory.is_online:
            raise StartError(f"the directory of the metadata log is unusable: {path}")
        advertised = self.config.listeners.advertised_controller
        endpoints = tuple(self.listeners.bound(endpoint) for endpoint in advertised)
        self._controller = LocalController(
            config=self.config,
            node=make_quorum_node(self.config, self.cluster_id, directory_id, endpoints),
            directory=directory or LogDirectory(self._files, path),
            executor=self._executor("metadata", 1),
            clock=self.clock,
            random=self._random,
            on_image=self._image_changed,
            report=self.report,
        )
        self.services.controller = self._controller
        await self._controller.start()
        self.services.quorum = self._controller.driver
        incarnation_id = Uuid(self._random.randbytes(16))
        await register_controller(self.config.node_id, self._controller, incarnation_id, endpoints)

    async def _load(self, logs: LogManager) -> None:
        """Loads the logs off the loop; nobody else touches them yet."""
        now_ms = self.clock.wall_ms()
        executor = self._executor("storage", 1)
        await self.services.loop.run_in_executor(executor, _exhaust, logs.start(now_ms))
        self._are_logs_loaded = True

    async def _join(self, logs: LogManager, tasks: asyncio.TaskGroup) -> None:
        assert self._controller is not None
        epochs = logs.clean_broker_epochs.values()
        known = [epoch for epoch in epochs if epoch is not None]
        self._lifecycle = BrokerLifecycle(
            self.config, self._controller, Uuid(self._random.randbytes(16)), self._offline
        )
        self.services.producer_ids = ProducerIds(
            self._controller, self.config.node_id, self._broker_epoch
        )
        await self._lifecycle.register(
            self.cluster_id,
            [self.listeners.bound(point) for point in self.config.listeners.advertised_broker],
            [found.directory_id for found in logs.directories if found.directory_id is not None],
            min(known) if len(known) == len(epochs) and known else -1,
        )
        self._are_replicas_started = True
        self.services.replicas.start(self.services.image)
        await self._lifecycle.unfence()
        await self._lifecycle.report_recovered(self.services.replicas)
        self.listeners.start()
        self._begin(tasks, self._lifecycle.keep_alive())
        self._begin(tasks, self.services.groups.runtime.run())
        self._begin(tasks, self.services.transactions.runtime.run())
        self._begin(tasks, self.services.transactions.run())
        storage = self._executors[-1]
        self._upkeep(tasks, keep_logs(logs, self.clock, storage))
        if self.config.get_boolean("log.cleaner.enable"):
            executor = self._executor("cleaner", 1)
            config = partial(getattr, self.services, "config")
            self._upkeep(tasks, clean_logs(logs.cleaner, self.clock, executor, config))
        self._begin(tasks, sweep_connections(tuple(self.listeners.by_name.values())))

    def _executor(self, name: str, threads: int) -> ThreadPoolExecutor:
        executor = ThreadPoolExecutor(threads, thread_name_prefix=f"kaa-{name}")
        self._executors.append(executor)
        return executor

    def _begin(self, tasks: asyncio.TaskGroup, duty: Coroutine[Any, Any, None]) -> None:
        self._duties.append(tasks.create_task(duty))

    def _upkeep(self, tasks: asyncio.TaskGroup, duty: Coroutine[Any, Any, None]) -> None:
        """Begins a duty that works on logs, and must have ended before they are closed."""
        self._log_duties.append(tasks.create_task(duty))

    async def _controller_duty(self) -> None:
        assert self._controller is not None
        await self._controller.run()

    # --- while running

    def _topic_config(self, topic: str) -> LogConfig:
        overrides = self.services.image.configs.get((RESOURCE_TOPIC, topic), {})
        return self._log_configs.get(self.services.config, overrides)

    def _image_changed(self, image: ClusterImage, delta: Delta) -> None:
        services = self.services
        services.image = image
        if self._controller is not None:
            services.image_offset = self._controller.committed_offset
        if any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            self._apply_dynamic_config(image)
        services.groups.topics.update(image, delta, services.image_offset)
        # Before they have taken over a whole image, logs of another topic may lie in their places.
        if self._are_replicas_started:
            services.replicas.apply(image, delta)
            if delta.deleted_topics:
                services.groups.topics_deleted(
                    topic.name for topic in delta.deleted_topics.values()
                )

    def _leadership_changed(self, partition: Partition) -> None:
        self.services.groups.leadership_changed(partition)
        self.services.transactions.leadership_changed(partition)

    def _apply_dynamic_config(self, image: ClusterImage) -> None:
        layers = []
        for name in ("", str(self.config.node_id)):
            stored = image.configs.get((RESOURCE_BROKER, name), {})
            usable, problems = usable_update(stored, per_broker=bool(name))
            for problem in problems:
                self.report(f"a stored setting is left out: {problem.message}")
            layers.append(usable)
        config = self.services.config = apply_dynamic(self.config, *layers)
        if self._logs is not None:
            self._logs.reconfigure(log_manager_config(config, log_config(config, {})))

    def _directory_failed(self, directory: LogDirectory) -> None:
        self.report(f"log directory {directory.path} is offline: {directory.offline_reason}")
        self.services.loop.call_soon_threadsafe(self.services.replicas.directory_failed)

    def _broker_epoch(self) -> int:
        return -1 if self._lifecycle is None else self._lifecycle.epoch

    def _offline(self) -> list[Uuid]:
        assert self._logs is not None
        return [
            directory.directory_id
            for directory in self._logs.directories
            if not directory.is_online and directory.directory_id is not None
        ]

    # --- stop

    async def stop(self) -> None:
        """Ends what was started, however far the start came."""
        if self._listeners is not None:
            self._listeners.stop_accepting()
            if self._logs is not None:
                self.services.polls.end()
            cut_off = await self._listeners.drain(DRAIN_SECONDS)
            if cut_off:
                self.report(f"{cut_off} connections were closed with a request under way")
        if self._are_logs_loaded:
            self.services.groups.runtime.stop()
            self.services.transactions.runtime.stop()
            self.services.brokers.close()
        controller, lifecycle = self._controller, self._lifecycle
        is_asked_for = self.config.get_boolean("controlled.shutdown.enable")
        if is_asked_for and lifecycle is not None and lifecycle.epoch >= 0:
            await lifecycle.leave(LEAVE_SECONDS)
        await self._close_logs()
        if controller is not None:
            await controller.stop()
        for duty in self._duties:
            duty.cancel()
        for executor in self._executors:
            executor.shutdown()

    async def _close_logs(self) -> None:
        logs = self._logs
        if logs is None:
            return
        if not self._are_logs_loaded:
            logs.release_locks()
            return
        self._are_logs_loaded = self._are_replicas_started = False
        for duty in self._log_duties:
            duty.cancel()
        if self._log_duties:
            await asyncio.wait(self._log_duties)
        for log in logs.logs.values():
            log.settle()
        stopping = logs.shutdown(self.clock.wall_ms(), self._broker_epoch())
        await self.services.loop.run_in_executor(None, _exhaust, stopping)


def _exhaust(steps: Any) -> None:
    for _ in steps:
        pass


@asynccontextmanager
async def running(broker: Broker) -> AsyncIterator[Broker]:
    """Starts the broker and stops it at the end; a failed duty ends the block too."""
    async with asyncio.TaskGroup() as tasks:
        try:
            await broker.start(tasks)
            yield broker
        finally:
            await broker.stop()
