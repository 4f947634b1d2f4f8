"""The part of a consumer that fetches: partitions with positions, and one task per broker.

Each task keeps fetching the partitions that its broker leads, as long as the partition has room for
another answer; `take` decodes what has come. Each partition has two offsets: the *position* is
that of the next record that is handed out, the *fetch offset* is that of the next fetch and runs
ahead of it. A seek changes both and drops what was fetched before.

A partition without a position gets one from what its group committed, if it is read by a group,
and else as `auto.offset.reset` says.

A leader may send a consumer with a `client.rack` to a replica that is nearer (KIP-392): then the
partition is fetched there until metadata is too old, the replica fails, or it does not have the
offset.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from kaa.client.broker_tasks import STALE_METADATA, BrokerTasks
from kaa.client.consumer.assigned_partition import AssignedPartition
from kaa.client.consumer.fetched import FetchedRecords, next_fetch_offset
from kaa.client.consumer.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    duration_ms,
    find_offsets,
    list_offsets,
)
from kaa.client.consumer.records import records_of
from kaa.client.consumer.requests import FetchBounds, aborted_of, fetch_request, fetch_version
from kaa.client.errors import ClientError, KafkaError
from kaa.client.metadata import NO_NODE
from kaa.client.waiting import wait_for_event
from kaa.limits import CLIENT_FETCHED_CHUNKS_MAX
from kaa.model.topics import TopicPartition
from kaa.records.errors import RecordsError
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from kaa.client.cluster import Cluster
    from kaa.client.consumer.offsets import FoundOffsets, OffsetAndTimestamp
    from kaa.client.consumer.records import ConsumerRecord
    from kaa.config.definition import ConfigValues

    FindCommitted = Callable[[list[TopicPartition]], Awaitable[Mapping[TopicPartition, int]]]

_log = logging.getLogger(__name__)


class Fetcher(BrokerTasks):
    """Fetches records for a consumer in the background. `assign` says what is read; `take` hands
    out what has come, and raises what `fail` has noted.
    """

    def __init__(
        self, values: ConfigValues, cluster: Cluster, find_committed: FindCommitted | None
    ) -> None:
        super().__init__(cluster)
        self.values = values
        self._find_committed = find_committed
        committed = values.get_string("isolation.level") == "read_committed"
        self.isolation_level = READ_COMMITTED if committed else READ_UNCOMMITTED
        self._checks_crcs = values.get_boolean("check.crcs")
        self._timeout_ms = values.get_int("default.api.timeout.ms")
        self._bounds = FetchBounds(
            partition_bytes_max=values.get_int("max.partition.fetch.bytes"),
            bytes_max=values.get_int("fetch.max.bytes"),
            wait_ms=values.get_int("fetch.max.wait.ms"),
            bytes_min=values.get_int("fetch.min.bytes"),
            isolation_level=self.isolation_level,
            rack_id=values.get_string("client.rack"),
        )
        self.assigned: dict[TopicPartition, AssignedPartition] = {}
        # Where the next poll starts, so that a busy partition does not starve the others.
        self._turns: deque[TopicPartition] = deque()
        # Something came that a poll may wait for.
        self.arrived = asyncio.Event()
        self._failure: Exception | None = None

    # --- partitions and positions

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on; those that stay keep their position."""
        wanted = [TopicPartition(*partition) for partition in partitions]
        wants_committed = self._find_committed is not None
        for partition in self.assigned.keys() - wanted:
            # A loop may still hold records of it.
            self.assigned[partition].forget_position()
        self.assigned = {
            partition: self.assigned.get(partition)
            or AssignedPartition(wants_committed=wants_committed)
            for partition in wanted
        }
        self._turns = deque(wanted)
        self.wake()

    def state(self, partition: TopicPartition) -> AssignedPartition:
        """The state of an assigned partition; ClientError if it is not assigned."""
        state = self.assigned.get(partition)
        if state is None:
            raise ClientError(
                f"partition {TopicPartition(*partition)} is not assigned; assign it, or wait for "
                "the group to do so"
            )
        return state

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The offsets at times, or at the ends, of partitions, as this consumer may read them."""
        return await list_offsets(self.cluster, wanted, self._timeout_ms, self.isolation_level)

    async def find_offsets(self, wanted: Mapping[TopicPartition, int]) -> FoundOffsets:
        """As `list_offsets`, where one partition may fail and the others be found."""
        return await find_offsets(self.cluster, wanted, self._timeout_ms, self.isolation_level)

    # --- records

    def take(self, count_max: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        """At most `count_max` records that have come, by partition, in turns. Raises a failure
        once.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        freed = False
        for _ in range(len(self._turns)):
            partition = self._turns[0]
            self._turns.rotate(-1)
            state = self.assigned[partition]
            if state.is_paused:
                continue
            chunk_count = len(state.chunks)
            try:
                records = _take_of(partition, state, count_max)
            except KafkaError:
                if taken:
                    # Those count; the damage is met again when it is this partition's turn.
                    break
                raise
            freed |= len(state.chunks) < chunk_count
            if records:
                taken[partition] = records
                count_max -= len(records)
            if count_max <= 0:
                break
        if freed:
            self.wake()
        return taken

    # --- one task per broker

    def wake(self) -> None:
        """Something about the assignment changed: everybody looks again."""
        if any(state.position is None for state in self.assigned.values()):
            self._housekeeping.set()
        if self._leaders_are_missing():
            self._housekeeping.set()
        self._wake_fetchers()

    def _wake_fetchers(self) -> None:
        """Lets the fetcher of every leader look again; starts those that are missing."""
        if self._tasks is None:
            return
        leaders = {self._node_of(one, state): None for one, state in self.assigned.items()}
        for node_id in {**leaders, **self._brokers}:
            if node_id != NO_NODE:
                self._wake_broker(node_id)

    async def _serve(self, node_id: int, event: asyncio.Event) -> None:
        backoff = self.cluster.reconnect_backoff()
        wanted: dict[TopicPartition, int] = {}
        while not self._is_closed:
            event.clear()
            if self._has_moved(wanted, node_id):
                self._wake_fetchers()
            wanted = self._fetchable(node_id)
            if not wanted:
                await event.wait()
                continue
            try:
                connection = await self.cluster.connection(node_id)
                request = fetch_request(self.cluster.metadata, wanted, self._bounds)
                version = fetch_version(connection, self.cluster.metadata, wanted)
                response = await connection.request(request, version=version)
                if self._take_response(wanted, response, connection.address):
                    backoff.reset()
                    continue
            except ClientError as error:
                if not error.retriable:
                    self.fail(error)
                for partition in wanted:
                    if partition in self.assigned:
                        self.assigned[partition].leave_replica()
            self._refresh_metadata()
            await asyncio.sleep(backoff.next_ms() / 1000)

    def _node_of(self, partition: TopicPartition, state: AssignedPartition) -> int:
        """Where to fetch a partition: the replica that its leader named, or the leader."""
        metadata = self.cluster.metadata
        replica = state.replica(asyncio.get_running_loop().time(), metadata.brokers)
        return metadata.leader_of(*partition) if replica == NO_NODE else replica

    def _has_moved(self, partitions: Iterable[TopicPartition], node_id: int) -> bool:
        """Whether another task has to fetch one of these from now on."""
        return any(
            partition in self.assigned
            and self._node_of(partition, self.assigned[partition]) != node_id
            for partition in partitions
        )

    def _fetchable(self, node_id: int) -> dict[TopicPartition, int]:
        """The partitions to fetch from a broker, and from which offset."""
        return {
            partition: state.fetch_offset
            for partition, state in self.assigned.items()
            if state.position is not None
            and not state.is_paused
            and len(state.chunks) < CLIENT_FETCHED_CHUNKS_MAX
            and self._node_of(partition, state) == node_id
        }

    def _take_response(
        self, wanted: Mapping[TopicPartition, int], response: Any, address: str
    ) -> bool:
        """Keeps what came; False if something failed, so that the fetcher pauses."""
        if response.error_code:
            raise KafkaError(Errors.of(response.error_code), "fetch", node=address)
        self._take_endpoints(response.node_endpoints)
        is_well = True
        for topic in response.responses:
            name = topic.topic or self.cluster.metadata.topic_names.get(topic.topic_id, "")
            for answer in topic.partitions:
                partition = TopicPartition(name, answer.partition_index)
                state = self.assigned.get(partition)
                # A seek or a new assignment made this answer worthless.
                if state is None or state.fetch_offset != wanted.get(partition):
                    continue
                if answer.error_code and self._take_hint(partition, answer):
                    state.leave_replica()
                    self._wake_fetchers()
                elif answer.error_code:
                    is_well = False
                    self._take_error(partition, state, Errors.of(answer.error_code), address)
                elif answer.preferred_read_replica != NO_NODE:
                    self._go_to_replica(state, answer.preferred_read_replica)
                elif answer.records:
                    self._keep(partition, state, answer)
                state.high_watermark = max(state.high_watermark, answer.high_watermark)
        return is_well

    def _go_to_replica(self, state: AssignedPartition, node_id: int) -> None:
        max_age_ms = self.values.get_int("metadata.max.age.ms")
        state.go_to_replica(node_id, asyncio.get_running_loop().time() + max_age_ms / 1000)
        if node_id not in self.cluster.metadata.brokers:
            self._refresh_metadata()
        self._wake_fetchers()

    def _keep(self, partition: TopicPartition, state: AssignedPartition, answer: Any) -> None:
        offset = state.fetch_offset
        try:
            state.fetch_offset = next_fetch_offset(answer.records, offset)
        except RecordsError as error:
            self.fail(damaged(partition, offset, error))
            return
        state.chunks.append(
            FetchedRecords(
                answer.records,
                offset,
                aborted=aborted_of(answer, self.isolation_level),
                checks_crcs=self._checks_crcs,
            )
        )
        self.arrived.set()

    def _take_error(
        self, partition: TopicPartition, state: AssignedPartition, error: Errors, address: str
    ) -> None:
        is_of_replica = state.leave_replica()
        if error is Errors.OFFSET_OUT_OF_RANGE and is_of_replica:
            # The replica may lag behind; its leader knows better.
            self._wake_fetchers()
        elif error is Errors.OFFSET_OUT_OF_RANGE and self._reset_time() is not None:
            _log.warning(
                "offset %d of %s no longer exists; resetting the position (auto.offset.reset=%s)",
                state.fetch_offset,
                partition,
                self.values.get_string("auto.offset.reset"),
            )
            state.position = None
        elif error not in STALE_METADATA:
            what = f"fetch of {partition} at offset {state.fetch_offset}"
            self.fail(KafkaError(error, what, node=address))

    def fail(self, error: Exception) -> None:
        """Has the next `take` raise the error."""
        self._failure = error
        self.arrived.set()

    # --- housekeeping

    async def _keep_house(self) -> None:
        """Metadata, and positions that are not known."""
        backoff = self.cluster.backoff()
        while not self._is_closed:
            self._housekeeping.clear()
            try:
                if self.assigned and (self._metadata_is_stale or self._leaders_are_missing()):
                    self._metadata_is_stale = False
                    topics = {name.topic: None for name in self.assigned}
                    await self.cluster.fetch_metadata(topics)
                    self.cluster.complain_of_topics(topics)
                    self.cluster.leaders.complain(self.assigned)
                    self._raise_forbidden(topics)
                await self.resolve([name for name in self.assigned if self._has_no_position(name)])
            except ClientError as error:
                if not error.retriable:
                    self.fail(error)
                self._metadata_is_stale = True
            self._wake_fetchers()
            if self._metadata_is_stale or self._leaders_are_missing():
                await asyncio.sleep(backoff.next_ms() / 1000)
                continue
            backoff.reset()
            # New leaders are looked for at the latest when metadata is too old.
            if not await wait_for_event(
                self._housekeeping, self.values.get_int("metadata.max.age.ms")
            ):
                self._metadata_is_stale = True

    def _raise_forbidden(self, topics: Iterable[str]) -> None:
        """A poll raises, as in Java, what is not a matter of waiting: no permission, a bad name."""
        for name in topics:
            error = self.cluster.metadata.topic_errors.get(name)
            if error is not None and not error.retriable:
                raise self.cluster.metadata.error_of(name)

    def _leaders_are_missing(self) -> bool:
        leader_of = self.cluster.metadata.leader_of
        return any(leader_of(*partition) == NO_NODE for partition in self.assigned)

    async def resolve(self, partitions: Iterable[TopicPartition]) -> None:
        """Looks up where to begin: what the group committed, else `auto.offset.reset`."""
        wanted = list(partitions)
        if self._find_committed is not None:
            asked = [one for one in wanted if self.state(one).wants_committed]
            found = await self._find_committed(asked) if asked else {}
            for partition in asked:
                state = self.assigned.get(partition)
                if state is None:
                    continue
                state.wants_committed = False
                if state.position is None and partition in found:
                    state.move(found[partition])
        left = [one for one in wanted if one in self.assigned and self._has_no_position(one)]
        if not left:
            return
        reset_to = self._reset_time()
        if reset_to is None:
            raise ClientError(
                f"{left[0]} has no position and auto.offset.reset is none; seek first, or set it "
                "to earliest or latest"
            )
        answers, failures = await self.find_offsets(dict.fromkeys(left, reset_to))
        for partition, answer in answers.items():
            state = self.assigned.get(partition)
            if state is not None and state.position is None:
                state.move(max(0, answer.offset))
        for error in failures.values():
            raise error

    def _has_no_position(self, partition: TopicPartition) -> bool:
        return self.assigned[partition].position is None

    def _reset_time(self) -> int | None:
        policy = self.values.get_string("auto.offset.reset").lower()
        if policy == "earliest":
            return EARLIEST
        if policy == "latest":
            return LATEST
        if policy == "none":
            return None
        return self.cluster.clock.wall_ms() - duration_ms(policy.partition(":")[2])


def _take_of(
    partition: TopicPartition, state: AssignedPartition, count_max: int
) -> list[ConsumerRecord]:
    """The next records of a partition: what a loop still holds, and then what was fetched."""
    held = state.held
    records = [held.popleft() for _ in range(min(count_max, len(held)))]
    while state.chunks and len(records) < count_max:
        chunk = state.chunks[0]
        try:
            found = records_of(*partition, chunk.take(count_max - len(records)))
        except RecordsError as error:
            if records:
                break
            raise damaged(partition, chunk.next_offset, error) from error
        state.position = chunk.next_offset
        if found:
            records = records + found if records else found
        else:
            state.chunks.popleft()
    return records


def damaged(partition: TopicPartition, offset: int, error: RecordsError) -> KafkaError:
    """The error for records that cannot be decoded."""
    what = f"records of {partition} from offset {offset} on cannot be read"
    return KafkaError(Errors.CORRUPT_MESSAGE, what, message=str(error))
