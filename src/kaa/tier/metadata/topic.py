"""The metadata topic through Kaa's own client: made if need be, read, written.

`run` is a task of its own beside everything else. It makes the topic once enough brokers are there,
asks how many partitions it really has, and then reads the metadata partitions that the user
partitions of this node need. Nothing here gives up: what fails is reported once and tried again,
and until it succeeds every question is refused as not ready (`machine`).

`publish` returns when its record was not only acknowledged but read back and applied here, so that
the next question sees it. It has a deadline, and ends at once if its partition is given up
meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.client.admin.admin import Admin, NewTopic
from kaa.client.consumer.consumer import Consumer
from kaa.client.consumer.offsets import EARLIEST, LATEST
from kaa.client.errors import ClientError, KafkaError
from kaa.client.producer.producer import Producer
from kaa.limits import (
    TIER_METADATA_ANSWER_SECONDS,
    TIER_METADATA_POLL_MS,
    TIER_METADATA_RECORDS_PER_TURN,
    TIER_METADATA_RETRY_SECONDS_MAX,
)
from kaa.log.files import read_whole, write_atomically
from kaa.model.topics import REMOTE_LOG_METADATA, TopicPartition
from kaa.model.turns import in_turns
from kaa.tier.metadata.machine import (
    MetadataMachine,
    NotAssignedError,
    NotReadyError,
    RemoteMetadataError,
    UserKey,
)
from kaa.tier.metadata.records import encode_event, metadata_partition
from kaa.tier.metadata.snapshot import SnapshotError, decode_snapshot, encode_snapshot
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Executor
    from random import Random

    from kaa.log.files import Files
    from kaa.model.seams import Clock
    from kaa.tier.metadata.machine import MetadataPartition, UserPartition
    from kaa.tier.metadata.model import TopicIdPartition
    from kaa.tier.metadata.records import RemoteLogEvent


TOPIC: Final = REMOTE_LOG_METADATA
SNAPSHOT_FILE: Final = "remote-log-metadata.snapshot"


class TopicSettings(NamedTuple):
    """Kafka's settings of the metadata topic, with its defaults."""

    # Where the brokers are, and how to speak with them.
    client: Mapping[str, str]
    partitions: int = 50
    replication_factor: int = 3
    retention_ms: int = -1
    min_insync_replicas: int = 2
    # How long a record of our own may take until it is applied.
    consume_wait_ms: int = 120_000
    retry_interval_ms: int = 100
    snapshot_interval_ms: int = 60_000


def _first(group: BaseExceptionGroup[Exception]) -> BaseException:
    """The first error within nested groups."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Waiting(NamedTuple):
    offset: int
    applied: asyncio.Future[None]


class TopicMetadata:
    """The metadata of remote segments, kept in a topic. `folder` has the snapshot; `run` has to be
    running, and questions are refused until it has caught up.
    """

    def __init__(
        self,
        settings: TopicSettings,
        folder: str,
        files: Files,
        executor: Executor,
        random: Random,
        report: Callable[[str], None],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._snapshot_path = f"{folder}/{SNAPSHOT_FILE}"
        self._files = files
        self._executor = executor
        self._random = random
        self._report = report
        self._clock = clock
        # None until the topic's own number of partitions is known.
        self._machine: MetadataMachine | None = None
        self._wanted: dict[UserKey, TopicIdPartition] = {}
        self._producer: Producer | None = None
        self._waiting: dict[int, deque[_Waiting]] = {}
        # What was reported last, so that a fault that lasts is said once.
        self._said = ""
        self._saved: dict[int, int] = {}

    # --- which user partitions

    def assign(self, partitions: Iterable[TopicIdPartition]) -> None:
        """This node leads or follows these too."""
        chosen = list(partitions)
        self._wanted |= {UserKey(one.topic_id, one.partition): one for one in chosen}
        if self._machine is not None:
            self._machine.assign(chosen)

    def unassign(self, partitions: Iterable[TopicIdPartition]) -> None:
        """And these not any more."""
        chosen = list(partitions)
        for one in chosen:
            self._wanted.pop(UserKey(one.topic_id, one.partition), None)
        if self._machine is not None:
            for number in self._machine.unassign(chosen).removed:
                self._end_waiting(number, NotAssignedError("the partition was given up"))

    # --- questions and changes

    def user(self, partition: TopicIdPartition) -> UserPartition:
        """What is known of a user partition; raises RemoteMetadataError while that is not all."""
        return self._ready_machine().user(partition)

    def is_ready(self, partition: TopicIdPartition) -> bool:
        return self._machine is not None and self._machine.is_ready(partition)

    def _ready_machine(self) -> MetadataMachine:
        if self._machine is None:
            reason = f": {self._said}" if self._said else ""
            raise NotReadyError(f"the topic {TOPIC} is not known yet{reason}")
        return self._machine

    async def publish(self, event: RemoteLogEvent) -> None:
        """Writes an event and waits until it counts here; raises RemoteMetadataError."""
        machine = self._ready_machine()
        machine.user(event.partition)
        number = metadata_partition(event.partition, machine.partitions)
        producer = self._producer
        if producer is None:
            raise NotReadyError(f"the topic {TOPIC} cannot be written now")
        try:
            async with asyncio.timeout(self._settings.consume_wait_ms / 1000):
                delivery = await producer.send(TOPIC, encode_event(event), partition=number)
                offset = (await delivery).offset
                if not machine.is_applied(number, offset):
                    machine.user(event.partition)
                    applied = asyncio.get_running_loop().create_future()
                    self._waiting.setdefault(number, deque()).append(_Waiting(offset, applied))
                    await applied
        except TimeoutError:
            raise NotReadyError(f"a record of {TOPIC}-{number} was not read back in time") from None
        except ClientError as error:
            raise RemoteMetadataError(f"{TOPIC}-{number} cannot be written: {error}") from error

    # --- the task

    async def run(self) -> None:
        """Until it is cancelled."""
        pause = self._settings.retry_interval_ms / 1000
        while True:
            try:
                await self._connected()
            except* ClientError as errors:
                self._say(f"remote log metadata: {_first(errors)}")
            await asyncio.sleep(pause)
            pause = min(2 * pause, TIER_METADATA_RETRY_SECONDS_MAX)

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._report(text)

    async def _connected(self) -> None:
        common = dict(self._settings.client)
        reading = {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}
        async with (
            Admin(common, random=self._random, clock=self._clock) as admin,
            Consumer(common | reading, random=self._random, clock=self._clock) as consumer,
            Producer(common, random=self._random, clock=self._clock) as producer,
            asyncio.TaskGroup() as tasks,
        ):
            if self._machine is None:
                self._machine = MetadataMachine(await self._find_topic(admin))
                self._machine.assign(self._wanted.values())
                await self._load_snapshot()
            self._producer = producer
            self._said = ""
            # The end of a partition is asked over another connection than that of the reader, on
            # which every question waits for the fetch before it.
            targets = tasks.create_task(self._find_targets(admin))
            try:
                await self._read(consumer)
            finally:
                targets.cancel()
                self._producer = None

    async def _find_topic(self, admin: Admin) -> int:
        """How many partitions the topic has; makes it if there is none."""
        try:
            return len((await admin.describe_topic(TOPIC)).partitions)
        except KafkaError as error:
            if error.error is not Errors.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        settings = self._settings
        topic = NewTopic(
            TOPIC,
            settings.partitions,
            settings.replication_factor,
            {
                "cleanup.policy": "delete",
                "retention.ms": str(settings.retention_ms),
                "remote.storage.enable": "false",
                "min.insync.replicas": str(
                    min(settings.min_insync_replicas, settings.replication_factor)
                ),
            },
        )
        failure = (await admin.create_topics([topic]))[TOPIC]
        if failure is not None and failure.error is not Errors.TOPIC_ALREADY_EXISTS:
            hint = ""
            if failure.error is Errors.INVALID_REPLICATION_FACTOR:
                hint = (
                    "; start more brokers, or lower "
                    "rlmm.config.remote.log.metadata.topic.replication.factor"
                )
            raise ClientError(f"{failure}{hint}")
        return len((await admin.describe_topic(TOPIC)).partitions)

    # --- reading

    async def _read(self, consumer: Consumer) -> None:
        assert self._machine is not None
        loop = asyncio.get_running_loop()
        save_at = loop.time() + self._settings.snapshot_interval_ms / 1000
        placed: dict[int, MetadataPartition] = {}
        while True:
            self._place(consumer, placed)
            polled = await consumer.poll(timeout_ms=TIER_METADATA_POLL_MS)
            count = 0
            for name, records in polled.items():
                for record in records:
                    self._apply(name.partition, record.offset, record.value)
                    count += 1
                    if count % TIER_METADATA_RECORDS_PER_TURN == 0:
                        await asyncio.sleep(0)
                self._settle(name.partition)
            if loop.time() >= save_at:
                await self.save_snapshot()
                save_at = loop.time() + self._settings.snapshot_interval_ms / 1000

    def _place(self, consumer: Consumer, placed: dict[int, MetadataPartition]) -> None:
        """Reads what is assigned now; what is new from the position it has."""
        assert self._machine is not None
        wanted = dict(self._machine.reading())
        if wanted.keys() == placed.keys() and all(
            placed[number] is state for number, state in wanted.items()
        ):
            return
        consumer.assign(TopicPartition(TOPIC, number) for number in wanted)
        for number, state in wanted.items():
            # One that was given up and taken again starts over.
            if placed.get(number) is not state:
                consumer.seek(TopicPartition(TOPIC, number), state.position)
        placed.clear()
        placed.update(wanted)

    async def _find_targets(self, admin: Admin) -> None:
        """Asks for the ends of partitions that have none yet, each by itself: one without a leader
        must not keep the others from being ready.
        """
        assert self._machine is not None
        while True:
            numbers = [number for number, state in self._machine.reading() if state.target is None]
            await asyncio.gather(*(self._find_target(admin, number) for number in numbers))
            await asyncio.sleep(self._settings.retry_interval_ms / 1000)

    async def _find_target(self, admin: Admin, number: int) -> None:
        assert self._machine is not None
        name = TopicPartition(TOPIC, number)
        try:
            async with asyncio.timeout(TIER_METADATA_ANSWER_SECONDS):
                start = (await admin.list_offsets({name: EARLIEST}))[name]
                end = (await admin.list_offsets({name: LATEST}))[name]
        except (ClientError, TimeoutError) as error:
            self._say(f"remote log metadata: the end of {name} is not known: {error!r}")
            return
        # Where all was trimmed there is no record that would tell.
        self._note_start(number, start.offset)
        self._machine.set_target(number, end.offset)

    def _apply(self, number: int, offset: int, value: bytes | None) -> None:
        assert self._machine is not None
        self._note_start(number, offset)
        why = self._machine.apply(number, offset, value)
        if why:
            self._report(why)
            self._end_waiting(number, RemoteMetadataError(why))

    def _note_start(self, number: int, offset: int) -> None:
        assert self._machine is not None
        if self._machine.trimmed(number, offset):
            self._report(f"remote log metadata: {TOPIC}-{number} was trimmed up to {offset}")

    def _settle(self, number: int) -> None:
        assert self._machine is not None
        waiting = self._waiting.get(number)
        while waiting and self._machine.is_applied(number, waiting[0].offset):
            applied = waiting.popleft().applied
            if not applied.done():
                applied.set_result(None)

    def _end_waiting(self, number: int, error: RemoteMetadataError) -> None:
        for waiting in self._waiting.pop(number, ()):
            if not waiting.applied.done():
                waiting.applied.set_exception(error)

    # --- the snapshot

    async def _load_snapshot(self) -> None:
        assert self._machine is not None
        loop = asyncio.get_running_loop()
        try:
            data = await loop.run_in_executor(
                self._executor, read_whole, self._files, self._snapshot_path
            )
            states = await in_turns(decode_snapshot(data, self._machine.partitions))
        except FileNotFoundError:
            return
        except (OSError, SnapshotError) as error:
            self._report(f"{self._snapshot_path} is not used: {error}; the topic is read whole")
            return
        for number, state in states.items():
            self._machine.restore(number, state)

    async def save_snapshot(self) -> None:
        """Writes what is known, if any partition has moved since."""
        if self._machine is None:
            return
        positions = {number: state.position for number, state in self._machine.reading()}
        if positions == self._saved:
            return
        # Only the caller applies records, so that nothing changes meanwhile.
        encoding = encode_snapshot(self._machine.partitions, self._machine.reading())
        data = bytes(await in_turns(encoding))
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(
                self._executor, write_atomically, self._files, self._snapshot_path, data
            )
        except OSError as error:
            self._report(f"cannot write {self._snapshot_path}: {error}")
        else:
            self._saved = positions
