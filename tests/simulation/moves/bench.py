"""A broker whose replica moves between three directories, on virtual time, and its twin.

The logs, the replica manager, the moves and the follower machine are the real ones; files are the
twin in memory, and the kernel of the simulation has the time and the threads. A controller of two
methods keeps the metadata and takes its while to answer.

What the log has to be is not computed: a second broker, which never moves, fails or crashes, gets
every operation on the log as well, and afterwards the two are compared.
"""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from kaa.broker.duties import sync_folders
from kaa.controller.directories import UNASSIGNED
from kaa.controller.image import ClusterImage
from kaa.handlers.k34_alter_replica_log_dirs import handle
from kaa.log.config import LogConfig, LogManagerConfig
from kaa.log.manager import LogManager
from kaa.log.names import LOCK_FILE
from kaa.log.sim_files import SimFiles
from kaa.log.void import VOID_LOGS_FILE
from kaa.model.topics import TopicPartition
from kaa.net.pending import Pending
from kaa.replication.follower.fetcher import FetcherSettings
from kaa.replication.follower.link import ReplicaFetchBounds
from kaa.replication.manager import ReplicaManager
from kaa.replication.moves import UNLIMITED, LogDirectoryMoves, MoveSettings
from kaa.replication.partition import Partition
from kaa.serving.shared_flush import SharedFlush
from kaa.wire.errors import Errors
from kaa.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kaa.wire.messages.metadata_topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.simulation.world.executors import SimExecutor
from tests.simulation.world.kernel import Kernel
from tests.simulation.world.loop import SimLoop
from tests.support.ids import uuid

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from kaa.log.dirs import LogDirectory
    from kaa.log.log import UnifiedLog
    from kaa.log.sim_files import CrashMode
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import MetadataRecord
    from tests.simulation.world.network import SimNetwork

TWIN: Final = "/w"
PATHS: Final = ("/a", "/b", "/c")
METADATA_PATH: Final = "/m"
KEY: Final = TopicPartition("t", 0)
NODE, OTHER = 0, 1
PIECE_BYTES: Final = 700
SECONDS_MAX: Final = 60.0
TOPIC_CONFIG: Final = LogConfig(
    segment_bytes=900,
    index_interval_bytes=150,
    cleanup_policy=frozenset({"compact", "delete"}),
    min_cleanable_dirty_ratio=0.01,
    file_delete_delay_ms=1_000,
    retention_ms=-1,
)
MANAGER: Final = LogManagerConfig(transaction_partition_verification_enable=False)


def directory_id(path: str) -> Uuid:
    return uuid(100 + ord(path[1]))


class Broker:
    """One life of a broker."""

    def __init__(
        self,
        bench: Bench,
        files: SimFiles,
        paths: Sequence[str],
        records: Sequence[MetadataRecord],
        *,
        gone: Sequence[str] = (),
    ) -> None:
        self.bench, self.files, self.image = bench, files, ClusterImage()
        kernel = bench.kernel
        self.loop = SimLoop(
            kernel, paths[0], cast("SimNetwork", None), is_disk_dead=lambda: files.dead
        )
        self.executor = SimExecutor(kernel, self.loop, "files", 2, lambda: 1.0)
        self.logs = LogManager(
            files,
            paths,
            MANAGER,
            Random(bench.kernel.random.random()),
            lambda _: TOPIC_CONFIG,
            self._failed,
        )
        for directory in self.logs.directories:
            directory.directory_id = directory_id(directory.path)
            directory.writer = self.executor
        self.logs.void.path = f"{METADATA_PATH}/{VOID_LOGS_FILE}"
        self.logs.exclude(dict.fromkeys(gone, "gone"))
        for _ in self.logs.start(bench.wall_ms()):
            pass
        made = asyncio.Event()
        shared = SharedFlush(self.loop, self.executor, bench.wall_ms)
        self.replicas = ReplicaManager(
            NODE,
            self.logs,
            lambda _: TOPIC_CONFIG,
            bench.wall_ms,
            assigned=self._assigned,
            # The twin, to which nothing happens, need not wait for its disk.
            request_flush=shared.request if bench.is_group_committed and len(paths) > 1 else None,
            sync_folders=made.set,
        )
        self.moves = self.replicas.moves = LogDirectoryMoves(
            self.logs,
            self.replicas,
            self._settings,
            self.executor,
            bench,
            assigned=self._assigned,
            tells_controller=lambda: True,
            moved=self.replicas.moved,
            report=lambda text: kernel.say(paths[0], text),
        )
        for record in records:
            self.image.replay(record)
        self.image.take_delta()
        for _ in self.replicas.start(self.image):
            pass
        self.loop.create_task(self.moves.run())
        self.loop.create_task(sync_folders(self.replicas, made, bench, self.executor))

    def _settings(self) -> MoveSettings:
        bounds = ReplicaFetchBounds(500, 0, PIECE_BYTES)
        return MoveSettings(
            FetcherSettings(bounds, 200, PIECE_BYTES), 1, self.bench.bytes_per_second
        )

    def _assigned(self, topic_id: Uuid, _number: int, directory: Uuid | None) -> None:
        if self.bench.broker is self:
            self.bench.note_assignment(topic_id, directory)

    def _failed(self, _: LogDirectory) -> None:
        self.loop.call_soon(self._lose)

    def _lose(self) -> None:
        self.replicas.directory_failed()

    def publish(self, *records: MetadataRecord) -> None:
        for record in records:
            self.image.replay(record)
        self.replicas.apply(self.image, self.image.take_delta())

    def find(self) -> Partition | Errors:
        return self.replicas.find(*KEY)

    def partition(self) -> Partition:
        found = self.find()
        assert isinstance(found, Partition), found
        return found

    def log(self) -> UnifiedLog:
        log = self.partition().online_log()
        log.settle()
        return self.partition().online_log()

    def flush_rolled(self) -> None:
        """Closed segments are flushed soon after they are closed."""
        found = self.find()
        if isinstance(found, Partition):
            log = self.log()
            if log.recovery_point < log.segments.active.base_offset:
                log.flush(self.bench.wall_ms())
                found.flushed()

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        """Carries out what the broker does beside its moves."""
        task = self.loop.create_task(work)
        self.bench.kernel.run_until(
            lambda: task.done() or self.loop.is_dying, SECONDS_MAX, "an operation ends"
        )
        if not self.loop.is_dying:
            task.result()


class Bench:
    """See the module's text. As a clock it has the kernel's time."""

    def __init__(self, seed: int) -> None:
        self.kernel = Kernel(seed)
        # Whether appends count when they are on stable storage, and not before.
        self.is_group_committed = self.kernel.random.random() < 0.4
        self.bytes_per_second = UNLIMITED
        self._records: list[MetadataRecord] = []
        self._assignment: tuple[Uuid, Uuid] | None = None
        self._topics = 0
        self.leader_epoch = 0
        self.files = _disks(SimFiles(seed=seed), (*PATHS, METADATA_PATH))
        self.broker = Broker(self, self.files, PATHS, ())
        self.twin = Broker(self, _disks(SimFiles(), (TWIN,)), (TWIN,), ())
        self.create_topic()

    def wall_ms(self) -> int:
        return 1_000_000 + int(self.kernel.now * 1000)

    monotonic_ms = wall_ms

    # --- the controller

    def create_topic(self) -> None:
        self._topics += 1
        self.topic_id = uuid(200 + self._topics)
        self.leader_epoch = 0
        self._publish(
            TopicRecord(name=KEY.topic, topic_id=self.topic_id),
            PartitionRecord(
                partition_id=0,
                topic_id=self.topic_id,
                replicas=[NODE, OTHER],
                isr=[NODE],
                leader=NODE,
                leader_epoch=0,
                partition_epoch=0,
                directories=[UNASSIGNED, UNASSIGNED],
            ),
        )

    def delete_topic(self) -> None:
        self._assignment = None
        self._publish(RemoveTopicRecord(topic_id=self.topic_id))

    def lead(self, leader: int) -> None:
        """Another broker leads, and alone has what was acknowledged."""
        self.leader_epoch += 1
        self._change(leader=leader, isr=[leader])

    def _change(self, **fields: Any) -> None:
        self._publish(PartitionChangeRecord(partition_id=0, topic_id=self.topic_id, **fields))

    def _publish(self, *records: MetadataRecord) -> None:
        self._records += records
        for broker in (self.broker, self.twin):
            if not broker.loop.is_dying:
                broker.publish(*records)

    def note_assignment(self, topic_id: Uuid, directory: Uuid | None) -> None:
        """The broker tells a directory; None takes back what is not yet written."""
        self._assignment = None if directory is None else (topic_id, directory)
        if directory is not None:
            self.kernel.after(self.kernel.random.uniform(0, 0.05), self._assign)

    def _assign(self) -> None:
        noted, self._assignment = self._assignment, None
        if noted is not None and noted[0] in self.twin.image.topics_by_id:
            self._change(directories=[noted[1], UNASSIGNED])

    @property
    def assigned(self) -> Uuid | None:
        topic = self.broker.image.topics.get(KEY.topic)
        return None if topic is None else topic.partitions[0].directories[0]

    # --- what clients ask for

    def alter(self, *paths: str) -> Errors:
        """AlterReplicaLogDirs, with these directories for the same partition."""
        topics = [AlterReplicaLogDirTopic(name=KEY.topic, partitions=[KEY.partition])]
        request = AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path=path, topics=topics) for path in paths]
        )
        services = SimpleNamespace(replicas=self.broker.replicas)
        answer: Any = handle(cast("Any", services), request, None)  # type: ignore[arg-type]
        while isinstance(answer, Pending):
            # There is no loop, and nothing that it would wait for.
            try:
                cast("Any", answer.response).send(None)
            except StopIteration as done:
                answer = done.value
        response = cast("AlterReplicaLogDirsResponse", answer)
        ((result,),) = [topic.partitions for topic in response.results]
        return Errors.of(result.error_code)

    # --- disks

    def restart(self, mode: CrashMode, *, gone: Sequence[str] = ()) -> None:
        """A new process on what the crash left, without the disks that are gone. Only disks that
        failed may leave two logs.
        """
        self._assignment = None
        self.broker.loop.kill()
        self.files = self.files.restart(mode, seed=self.kernel.random.randrange(2**31))
        plain = [folder for folder in self.folders() if folder.endswith(f"/{KEY}")]
        have_failed = any(not each.is_online for each in self.broker.logs.directories)
        assert len(plain) <= 1 or have_failed, f"a crash left two logs: {plain}"
        self.broker = Broker(self, self.files, PATHS, self._records, gone=gone)

    def renew_twin(self) -> None:
        """The twin has the files of the log as they are now, after a crash."""
        self.twin.loop.kill()
        log = self.broker.log()
        directory = log.directory
        directory.checkpoint_recovery_points()
        directory.checkpoint_log_start_offsets()
        directory.checkpoint_high_watermarks()
        files = _disks(SimFiles(), (TWIN,))
        files.make_directory(f"{TWIN}/{KEY}")
        pairs = [(directory.path, TWIN), (log.folder, f"{TWIN}/{KEY}")]
        for source, target in pairs:
            for name in self.files.list_directory(source):
                if not self.files.is_directory(f"{source}/{name}") and name != LOCK_FILE:
                    _copy(self.files, f"{source}/{name}", files, f"{target}/{name}")
        self.twin = Broker(self, files, (TWIN,), self._records)
        # Both lead anew, so that both know the high watermark.
        self.lead(NODE)

    def folders(self) -> list[str]:
        """Folders of the partition in all directories, without those on their way out."""
        return [
            f"{path}/{name}"
            for path in PATHS
            for name in self.files.list_directory(path)
            if name.startswith(f"{KEY}") and not name.endswith(("-delete", "-stray"))
        ]


def _disks(files: SimFiles, paths: Sequence[str]) -> SimFiles:
    for path in paths:
        files.make_directory(path)
    files.sync_directory("")
    return files


def _copy(source: SimFiles, source_path: str, target: SimFiles, target_path: str) -> None:
    opened, made = source.open(source_path), target.create(target_path)
    made.write([opened.read(opened.size(), 0)], 0)
    opened.close()
    made.close()
