"""A node: everything put together, started and stopped in order.

A node has the role of a broker, of a controller, or both (`process.roles`); every role has a
replica of the metadata. Start, each step only if the one before it succeeded:

1. the sockets are bound, so that a port clash is known before anything is written, and port 0 has
   become a number;
2. the identities of the directories are compared, and the directories locked;
3. the metadata log is recovered; a controller accepts on its listeners, because nobody could be
   elected otherwise; then the replica joins the quorum, no matter who leads it;
4. a broker registers with the ports it has, and follows the metadata to its own registration;
5. it loads the logs of its partitions, with the settings that their topics have in the metadata,
   and the partitions take over what the image says;
6. heartbeats unfence it, its listeners accept, and the node is ready.

Stop: the broker leaves the cluster while it still serves, so that leaderships move first; then no
new clients, requests under way finish, logs are flushed and marked clean. The quorum is last: a
controller writes a snapshot, hands its leadership over, and then closes its listeners.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING, Any, cast

from kaa.broker.assembly import (
    BoundListeners,
    find_apis,
    make_fetchers,
    make_logs,
    make_moves,
    set_throttles,
)
from kaa.broker.assignments import AssignmentReporter
from kaa.broker.development import format_if_empty
from kaa.broker.directories import StartError, StorageLostError, read_identity, take_lock
from kaa.broker.duties import (
    clean_logs,
    close_logs,
    free_names,
    keep_isr,
    keep_logs,
    persist,
    sweep_connections,
    sync_folders,
)
from kaa.broker.executors import thread_pool
from kaa.broker.image_changes import BrokerChanges, NodeChanges
from kaa.broker.lifecycle.driver import BrokerIdentity, BrokerLifecycle
from kaa.broker.metadata import NodeMetadata
from kaa.broker.remedies import remedy
from kaa.broker.services import make_services
from kaa.broker.topic_configs import LogConfigs
from kaa.broker.untiered import is_tiering, refuse_tiered_topics
from kaa.clock import SystemClock
from kaa.controller.feature_table import CORDONED_LOG_DIRS, DIRECTORY_ASSIGNMENT, METADATA_VERSION
from kaa.limits import LOG_CLOSING_THREADS, NODE_DRAIN_SECONDS_MAX, NODE_LEAVE_SECONDS_MAX
from kaa.log.dirs import LogDirectory
from kaa.log.errors import CorruptFileError, StorageError
from kaa.log.files import RealFiles
from kaa.model.errands import Errands
from kaa.model.kinds import ResourceType
from kaa.model.nodes import HostPort
from kaa.model.topics import NEVER_TIERED
from kaa.model.words import count_text
from kaa.net.network import SystemNetwork
from kaa.quorum.node import NotAVoterError
from kaa.replication.isr_changes import IsrChanges
from kaa.replication.manager import ReplicaManager, has_replica
from kaa.serving.producer_ids import ProducerIds
from kaa.serving.services import NodeServices
from kaa.serving.shared_flush import SharedFlush
from kaa.serving.view import NodeView
from kaa.wire.primitives import Uuid, random_uuid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
    from concurrent.futures import Executor
    from random import Random

    from kaa.broker.directories import Identity
    from kaa.broker.executors import Executors
    from kaa.broker.tiering import Tiering
    from kaa.config.server import BrokerConfig
    from kaa.log.config import LogConfig
    from kaa.log.files import Files
    from kaa.log.manager import LogManager
    from kaa.model.nodes import Endpoint
    from kaa.model.seams import Clock
    from kaa.net.network import Network
    from kaa.quorum.driver import QuorumDriver
    from kaa.replication.follower.fetchers import ReplicaFetchers
    from kaa.replication.moves import LogDirectoryMoves
    from kaa.replication.partition import Partition
    from kaa.serving.services import Services
    from kaa.tier.store.objects import ObjectStore

    Duty = Callable[[], Coroutine[Any, Any, None]]


class Broker:
    """One node of a cluster; `running` starts and stops it."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        executors: Executors = thread_pool,
        random: Random | None = None,
        report: Callable[[str], None] = lambda _: None,
        formats_empty: bool = False,
        store: ObjectStore | None = None,
    ) -> None:
        """Files, clocks, network, executors and chance are those of the machine unless handed in,
        and the store of remote segments is the one that the settings name.

        With `formats_empty` directories that were never formatted become a cluster of one.
        """
        self.config = config
        roles = config.get_list("process.roles")
        self.is_broker = "broker" in roles
        self.is_controller = "controller" in roles
        self.clock: Clock = clock or SystemClock()
        self.report = report
        self._formats_empty = formats_empty
        self.cluster_id = ""
        self._services: NodeServices | None = None
        self._view: NodeView
        self._files = files or RealFiles()
        self._network = network or SystemNetwork()
        self._random: Random = random or SystemRandom()
        self._make_executor = executors
        self._store = store
        self._executors: list[Executor] = []
        # Where logs are loaded, kept and closed; None before they are loaded.
        self._storage: Executor | None = None
        # Set while partitions wait for the names of logs that were deleted.
        self._names_wanted = asyncio.Event()
        # Set while there are new partitions whose folders are not durable.
        self._folders_made = asyncio.Event()
        self._duties: list[asyncio.Task[None]] = []
        self._log_duties: list[asyncio.Task[None]] = []
        self._log_configs = LogConfigs()
        self._logs: LogManager | None = None
        # That of the metadata log, where it is none of log.dirs.
        self._metadata_directory: LogDirectory | None = None
        self._listeners: BoundListeners | None = None
        self._metadata: NodeMetadata | None = None
        self._lifecycle: BrokerLifecycle | None = None
        self._tiering: Tiering | None = None
        self._isr_changes: IsrChanges
        self._assignments: AssignmentReporter
        self._fetchers: ReplicaFetchers
        self._moves: LogDirectoryMoves
        self._are_logs_loaded = False
        self._are_replicas_started = False
        # The task that starts the node, until it has.
        self._starter: asyncio.Task[Any] | None = None
        self._is_start_interrupted = False
        # What the node cannot go on without, if that is lost.
        self._lost: asyncio.Future[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The first listener for clients, as clients name it."""
        endpoint = self.listeners.bound(self.config.listeners.advertised_broker[0])
        return str(HostPort(endpoint.host, endpoint.port))

    @property
    def listeners(self) -> BoundListeners:
        assert self._listeners is not None, "the node was not started"
        return self._listeners

    @property
    def services(self) -> Services:
        """Those of a broker; a node without that role has no more of them than `NodeServices`."""
        assert self._services is not None, "the node was not started"
        return cast("Services", self._services)

    @property
    def offline_log_dirs(self) -> list[str]:
        """Those of the log directories that cannot be used."""
        directories = () if self._logs is None else self._logs.directories
        return [one.path for one in directories if one.offline_reason is not None]

    @property
    def quorum(self) -> QuorumDriver | None:
        """Its part in the quorum; None until the metadata log is recovered."""
        if self._metadata is None or not self._metadata.replica.is_open:
            return None
        return self._metadata.replica.driver

    # --- start

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Serves when it returns; StartError says why it cannot. Duties run in `tasks`."""
        self._starter = asyncio.current_task()
        try:
            await self._start(tasks)
        finally:
            self._starter = None

    def interrupt_start(self) -> None:
        """Cancels a start that is under way, however long it waits for others."""
        if self._starter is not None and not self._is_start_interrupted:
            self._is_start_interrupted = True
            self._starter.cancel()

    async def _start(self, tasks: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        self._lost = loop.create_future()
        self._begin(tasks, _fail_when(self._lost))
        executor = self._executor("read", 2)
        self._listeners = BoundListeners(self.config, loop, executor, self._network, self.report)
        self._listeners.bind()
        identity = self._identify()
        self.cluster_id = identity.cluster_id
        errands = Errands(tasks.create_task, self.report)
        self._view = NodeView(
            self.config.node_id, self.cluster_id, loop, self.clock, errands, self.config
        )
        logs = self._take_directories(identity)
        self._metadata = metadata = self._make_metadata(logs, identity.metadata_directory_id)
        self._services = self._make_services(metadata, logs, tasks)
        self._follow_metadata(metadata, logs)
        try:
            await metadata.open(tasks)
            self._listeners.start(self.config.listeners.controller)
            metadata.start(tasks)
            if self.is_broker:
                await self._join(metadata, logs, tasks)
        except NotAVoterError as error:
            raise StartError(str(error)) from error
        except (CorruptFileError, StorageError) as error:
            raise StartError(f"{error}; {remedy(error)}") from error
        listeners = tuple(self.listeners.by_name.values())
        self._keep(tasks, "watching connections", lambda: sweep_connections(listeners))

    def _identify(self) -> Identity:
        config = self.config
        if self._formats_empty:
            try:
                format_if_empty(config, self._files, self._random, self.clock.wall_ms())
            except OSError as error:
                place = error.filename or ", ".join(config.log_dirs)
                raise StartError(
                    f"cannot use {place} ({error.strerror}); {remedy(error)}, or name another "
                    "directory"
                ) from None
        return read_identity(
            self._files,
            config.log_dirs,
            config.metadata_log_dir,
            config.node_id,
            partial(random_uuid, self._random.randbytes),
            may_vote=self.is_controller and not config.quorum_voters,
        )

    def _take_directories(self, identity: Identity) -> LogManager:
        logs = make_logs(
            self.config,
            self._files,
            self._random,
            self._topic_config,
            self._directory_failed,
            self.clock.monotonic_ms,
            self.report,
        )
        logs.exclude(identity.unusable)
        take_lock(logs.lock, "log.dirs")
        self._logs = logs
        for directory in logs.directories:
            found = identity.directories.get(directory.path)
            directory.directory_id = None if found is None else found.directory_id
            directory.writer = self._executor("writer", 1)
        return logs

    def _make_services(
        self, metadata: NodeMetadata, logs: LogManager, tasks: asyncio.TaskGroup
    ) -> NodeServices:
        apis = find_apis(self.config)
        services = NodeServices(
            view=self._view,
            controller=metadata.forwarding,
            metadata=metadata.replica,
            logs=logs,
            batch_work=self._executor("batches", 1),
            api_versions=apis.advertised(self.config.listeners),
        )
        if self.is_broker:
            services = self._make_broker_services(services, metadata)
        self.listeners.route(services, apis, tasks, self.report)
        return services

    def _follow_metadata(self, metadata: NodeMetadata, logs: LogManager) -> None:
        NodeChanges(
            self.config,
            self._view,
            logs,
            directories_changed=self._directories_changed,
            report=self.report,
        ).subscribe_to(metadata.replica)
        if self.is_broker:
            changes = BrokerChanges(self.services, lambda: self._are_replicas_started)
            changes.subscribe_to(metadata.replica)

    def _make_broker_services(self, node: NodeServices, metadata: NodeMetadata) -> Services:
        view, node_id = node.view, node.node_id
        if is_tiering(self.config):
            self._tiering = self._make_tiering()
        remote_logs = None if self._tiering is None else self._tiering.remote_logs
        self._isr_changes = IsrChanges(
            node_id, self._broker_epoch, metadata.isr_changes, self.report
        )
        self._assignments = AssignmentReporter(view)
        replicas = self._make_replicas(node.logs)
        replicas.remote = remote_logs
        set_throttles(view, replicas)
        self._fetchers = replicas.followers = make_fetchers(
            view, replicas, remote_logs, self._random, self._broker_epoch, self.report
        )
        self._moves = replicas.moves = make_moves(
            view,
            node.logs,
            replicas,
            self._executor("moves", 2),
            self._assignments.note,
            self.report,
        )
        return make_services(
            node,
            replicas,
            ProducerIds(metadata.forwarding, node_id, self._broker_epoch),
            self._executor("coordinators", 1),
            self._random,
            self.report,
            remote_logs,
        )

    def _make_replicas(self, logs: LogManager) -> ReplicaManager:
        view, request_flush = self._view, None
        if self.config.get_boolean("kaa.log.group.commit.enable"):
            executor = self._executor("flush", len(self.config.log_dirs))
            request_flush = SharedFlush(view.loop, executor, self.clock.wall_ms).request
        return ReplicaManager(
            view.node_id,
            logs,
            self._topic_config,
            self.clock.wall_ms,
            request_flush=request_flush,
            leadership_changed=self._leadership_changed,
            call_soon=view.loop.call_soon,
            forget_deleted=self._names_wanted.set,
            sync_folders=self._folders_made.set,
            assigned=self._assignments.note,
            report=self.report,
            monotonic_ms=self.clock.monotonic_ms,
            lag_ms_max=lambda: view.config.get_int("replica.lag.time.max.ms"),
            broker_epoch=self._broker_epoch,
            propose=self._isr_changes.propose,
        )

    def _make_metadata(self, logs: LogManager, directory_id: Uuid) -> NodeMetadata:
        path = self.config.metadata_log_dir
        directory = next((found for found in logs.directories if found.path == path), None)
        if directory is None:
            directory = LogDirectory(
                self._files, path, None, self._directory_failed, self.clock.monotonic_ms
            )
            directory.report = self.report
            self._metadata_directory = directory
            take_lock(directory.take_lock, "metadata.log.dir")
        elif not directory.is_online:
            raise StartError(
                f"the directory of the metadata log is unusable: {directory.offline_reason}; "
                f"{remedy(directory.offline_error)}"
            )
        advertised = self.config.listeners.advertised_controller if self.is_controller else ()
        return NodeMetadata(
            self.config,
            cluster_id=self.cluster_id,
            directory=directory,
            directory_id=directory_id,
            endpoints=tuple(self.listeners.bound(endpoint) for endpoint in advertised),
            executor=self._executor("metadata", 1),
            clock=self.clock,
            random=self._random,
            report=self.report,
        )

    async def _load(self, logs: LogManager) -> None:
        """Loads the logs off the loop; nobody else touches them yet."""
        self._storage = self._executor("storage", 1)
        is_ours = partial(has_replica, self._view.image, self.config.node_id)
        steps = logs.start(self.clock.wall_ms(), is_ours)
        loading = self._view.loop.run_in_executor(self._storage, self._take_steps, steps)
        try:
            await asyncio.shield(loading)
        except asyncio.CancelledError:
            # Locks are not given up, nor threads waited for by the loop, while a log is loaded.
            self._is_start_interrupted = True
            await asyncio.wait([loading])
            loading.exception()
            raise
        self._are_logs_loaded = True

    def _take_steps(self, steps: Iterable[object]) -> None:
        for _ in steps:
            if self._is_start_interrupted:
                return

    async def _join(
        self, metadata: NodeMetadata, logs: LogManager, tasks: asyncio.TaskGroup
    ) -> None:
        services = self.services
        self._lifecycle = lifecycle = self._make_lifecycle(metadata, logs)
        metadata.replica.on_published = lifecycle.published
        self._begin(tasks, lifecycle.run())
        await metadata.replica.published(await lifecycle.registered())
        if self._tiering is None:
            refuse_tiered_topics(self._view.image)
        else:
            self._tiering.start(tasks)
        # Not before: until then no topic has settings of its own.
        await self._load(logs)
        self._are_replicas_started = True
        for _ in services.replicas.start(services.image):
            await asyncio.sleep(0)
        await lifecycle.unfenced()
        # At once: others send clients here from now on.
        self.listeners.start(self.config.listeners.broker)
        if self._tiering is not None:
            self._tiering.serving()
        assignments = partial(self._assignments.run, metadata.directories, self._broker_epoch)
        self._keep(tasks, "reporting log directories", assignments)
        self._keep(tasks, "changing in-sync replicas", self._isr_changes.run)
        self._keep(tasks, "watching replicas", partial(keep_isr, services.replicas))
        self._keep(tasks, "loading groups", services.groups.runtime.run)
        self._keep(tasks, "loading transactions", services.transactions.runtime.run)
        # It only begins tasks, each of which is tried again by itself.
        self._begin(tasks, services.transactions.markers.run())
        self._keep(tasks, "loading share states", services.shares.runtime.run)
        self._keep(tasks, "pruning share states", services.shares.run)
        self._upkeep(tasks, "following leaders", self._fetchers.run)
        self._upkeep(tasks, "moving replicas", self._moves.run)
        assert self._storage is not None
        upkeep = partial(keep_logs, logs, self.clock, self._storage)
        self._upkeep(tasks, "the upkeep of logs", upkeep)
        upkeep = partial(
            free_names, services.replicas, self._names_wanted, self.clock, self._storage
        )
        self._upkeep(tasks, "forgetting deleted logs", upkeep)
        upkeep = partial(
            sync_folders, services.replicas, self._folders_made, self.clock, self._storage
        )
        self._upkeep(tasks, "syncing new folders", upkeep)
        if self.config.get_boolean("log.cleaner.enable"):
            executor = self._executor("cleaner", 1)
            config = partial(getattr, self._view, "config")
            cleaning = partial(clean_logs, logs.cleaner, self.clock, executor, config)
            self._upkeep(tasks, "compaction", cleaning)

    def _make_tiering(self) -> Tiering:
        from kaa.broker.tiering import Tiering

        return Tiering(
            self._view,
            [self.listeners.bound(point) for point in self.config.listeners.advertised_broker],
            files=self._files,
            executor=self._executor("tier", 2),
            random=self._random,
            report=self.report,
            store=self._store,
        )

    def _make_lifecycle(self, metadata: NodeMetadata, logs: LogManager) -> BrokerLifecycle:
        previous_epoch = logs.read_clean_shutdowns()
        replica = metadata.replica
        return BrokerLifecycle(
            self.config,
            metadata.heartbeats,
            BrokerIdentity(
                self.cluster_id,
                Uuid(self._random.randbytes(16)),
                [self.listeners.bound(point) for point in self.config.listeners.advertised_broker],
                [
                    found.directory_id
                    for found in logs.online_directories
                    if found.directory_id is not None
                ],
                previous_epoch,
            ),
            self._random,
            published_offset=lambda: replica.published_offset,
            trouble=lambda: replica.trouble,
            offline_directories=self._offline,
            cordoned_directories=self._cordoned,
            lacks_directories=self._lacks_directories,
            report=self.report,
        )

    def _executor(self, name: str, threads: int) -> Executor:
        executor = self._make_executor(name, threads)
        self._executors.append(executor)
        return executor

    def _begin(self, tasks: asyncio.TaskGroup, duty: Coroutine[Any, Any, None]) -> None:
        """Begins a duty whose failure ends the node."""
        self._duties.append(tasks.create_task(duty))

    def _keep(self, tasks: asyncio.TaskGroup, what: str, duty: Duty) -> None:
        """Begins a duty that is begun again if it fails."""
        self._begin(tasks, persist(what, duty, self.report))

    def _upkeep(self, tasks: asyncio.TaskGroup, what: str, duty: Duty) -> None:
        """As `_keep`, for one that works on logs, and must have ended before they are closed."""
        self._log_duties.append(tasks.create_task(persist(what, duty, self.report)))

    # --- while running

    def _topic_config(self, topic: str) -> LogConfig:
        overrides = self._view.image.configs.get((ResourceType.TOPIC, topic), {})
        if topic in NEVER_TIERED:
            overrides = {**overrides, "remote.storage.enable": "false"}
        return self._log_configs.get(self._view.config, overrides)

    def _leadership_changed(self, partition: Partition) -> None:
        self.services.groups.runtime.leadership_changed(partition)
        self.services.transactions.runtime.leadership_changed(partition)
        self.services.shares.leadership_changed(partition)
        self.services.share_partitions.leadership_changed(partition)

    def _directories_changed(self) -> None:
        if self._lifecycle is not None:
            self._lifecycle.directories_changed()

    def _directory_failed(self, directory: LogDirectory) -> None:
        why, error = directory.offline_reason, directory.offline_error
        # An error of ours says by itself what to do.
        step = "" if error is None or error.errno is None else f"; {remedy(error)}"
        self.report(f"log directory {directory.path} is offline: {why}{step}")
        self._view.loop.call_soon_threadsafe(self._lose_directory, directory)

    def _lose_directory(self, directory: LogDirectory) -> None:
        logs, reason = self._logs, directory.offline_reason
        if directory.path == self.config.metadata_log_dir:
            self._lose(
                f"{directory.path}, the directory of the metadata log, has failed: {reason}; a "
                f"node cannot go on without its metadata: {remedy(directory.offline_error)}"
            )
        elif self.is_broker and logs is not None and not logs.online_directories:
            self._lose(
                f"all log directories have failed, {directory.path} last: {reason}; there is "
                f"nothing left to serve: {remedy(directory.offline_error)}"
            )
        if self._lifecycle is not None and directory.directory_id is not None:
            self._lifecycle.directory_failed(directory.directory_id)
        if self._are_replicas_started:
            self.services.replicas.directory_failed()
        if self._lost is not None and not self._lost.done():
            # Its disk can be unmounted and replaced while the others serve.
            directory.release_lock()

    def _lose(self, what: str) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(what)

    def _broker_epoch(self) -> int:
        return -1 if self._lifecycle is None else self._lifecycle.epoch

    def _offline(self) -> list[Uuid]:
        assert self._logs is not None
        return [
            directory.directory_id
            for directory in self._logs.directories
            if not directory.is_online and directory.directory_id is not None
        ]

    def _lacks_directories(self) -> bool:
        image = self._view.image
        own = image.brokers.get(self.config.node_id)
        is_known = own is not None and own.epoch == self._broker_epoch() and not own.directories
        return is_known and image.features.get(METADATA_VERSION, 0) >= DIRECTORY_ASSIGNMENT

    def _cordoned(self) -> list[Uuid] | None:
        if self._view.image.features.get(METADATA_VERSION, 0) < CORDONED_LOG_DIRS:
            return None
        assert self._logs is not None
        return [
            directory.directory_id
            for directory in self._logs.online_directories
            if directory.is_cordoned and directory.directory_id is not None
        ]

    # --- stop

    async def stop(self) -> None:
        """Ends what was started, however far the start came."""
        async with AsyncExitStack() as steps:
            # The last step first; one that fails does not keep the others from happening. The
            # metadata log is written until then, and a thread may still finish a snapshot.
            steps.callback(self._release_locks)
            steps.callback(self._end)
            steps.push_async_callback(self._close_listeners, self.config.listeners.controller)
            if self._metadata is not None:
                steps.push_async_callback(self._metadata.stop)
            steps.push_async_callback(self._close_logs)
            steps.callback(self._stop_coordinators)
            steps.push_async_callback(self._close_listeners, self.config.listeners.broker)
            if self._tiering is not None:
                # It is a client of this broker.
                steps.push_async_callback(self._tiering.stop)
            lifecycle = self._lifecycle
            is_asked_for = self.config.get_boolean("controlled.shutdown.enable")
            if is_asked_for and lifecycle is not None and lifecycle.epoch >= 0:
                await lifecycle.leave(NODE_LEAVE_SECONDS_MAX)

    def sever(self) -> None:
        """Ends every connection, to others and from them, without a word: what the rest of a
        cluster sees when a process is killed. `stop` then has nobody to say goodbye to.
        """
        self.listeners.stop_accepting()
        for listener in self.listeners.by_name.values():
            listener.close_connections("severed")
        if self._metadata is not None:
            self._metadata.sever()
        if self._lifecycle is not None:
            self._lifecycle.abandon()

    def _stop_coordinators(self) -> None:
        if self._services is not None:
            self._view.errands.cancel()
        if self._are_logs_loaded:
            self.services.groups.runtime.stop()
            self.services.transactions.runtime.stop()
            self.services.share_partitions.stop()
            self.services.shares.runtime.stop()
            self.services.brokers.close()

    def _release_locks(self) -> None:
        if self._logs is not None:
            self._logs.release_locks()
        if self._metadata_directory is not None:
            self._metadata_directory.release_lock()

    def _end(self) -> None:
        if self._listeners is not None:
            self._listeners.cancel()
        if self._metadata is not None:
            self._metadata.close()
        for duty in self._duties:
            duty.cancel()
        for executor in self._executors:
            executor.shutdown()

    async def _close_listeners(self, endpoints: Iterable[Endpoint]) -> None:
        if self._listeners is None:
            return
        if self.is_broker and self._services is not None:
            self.services.polls.end()
        cut_off = await self._listeners.drain(endpoints, NODE_DRAIN_SECONDS_MAX)
        if cut_off:
            self.report(f"{count_text(cut_off, 'connection')} closed with a request under way")

    async def _close_logs(self) -> None:
        logs = self._logs
        if logs is None or not self._are_logs_loaded:
            return
        self._are_logs_loaded = self._are_replicas_started = False
        for duty in self._log_duties:
            duty.cancel()
        if self._log_duties:
            await asyncio.wait(self._log_duties)
        await close_logs(
            logs, self.clock, self._executor("close", LOG_CLOSING_THREADS), self._broker_epoch()
        )


async def _fail_when(lost: asyncio.Future[str]) -> None:
    raise StorageLostError(await lost)


@asynccontextmanager
async def running(broker: Broker) -> AsyncIterator[Broker]:
    """Starts the broker and stops it at the end; a lost storage ends the block too."""
    async with asyncio.TaskGroup() as tasks:
        try:
            await broker.start(tasks)
            yield broker
        finally:
            await broker.stop()
