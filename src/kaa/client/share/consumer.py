"""The share consumer: one of many that work off the same partitions, record by record.

    settings = {"bootstrap.servers": "localhost:9092", "group.id": "mail"}
    async with ShareConsumer(settings) as consumer:
        consumer.subscribe(["letters"])
        async for record in consumer:
            await send(record.value)

Records are held for a while (`share.record.lock.duration.ms` of the group). Each is accepted when
the loop asks for the next one, or with the next `poll`; with `share.acknowledgement.mode=explicit`
the application says by `acknowledge` what became of it. What was said leaves with the next fetch,
or by `commit`, which waits until it is stored. What was not said when the consumer ends is handed
to others at once.

A task fetches from each broker that leads assigned partitions, one request at a time, and only
while somebody polls: what is fetched is held, and nobody else can have it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kaa.client.arguments import names_of, wait_ms_of
from kaa.client.cluster import Cluster
from kaa.client.consumer.records import ConsumerRecord, deserialized
from kaa.client.errors import (
    ClientError,
    ClosedError,
    KafkaError,
    NotSubscribedError,
    SerializationError,
)
from kaa.client.life import ClientLife
from kaa.client.serialization import serde_of
from kaa.client.settings import client_values
from kaa.client.share.fetched import ShareRecord, held
from kaa.client.share.member import ShareMembership
from kaa.client.share.session import (
    GAP,
    AcknowledgeType,
    NodeSession,
    ShareFetchLimits,
    has_renewals,
)
from kaa.client.waiting import wait_for_event
from kaa.config.client import CONSUMER, share_consumer_values
from kaa.model.topics import TopicPartition
from kaa.model.words import count_text
from kaa.records.errors import RecordsError
from kaa.wire.errors import Errors
from kaa.wire.primitives import PartitionId, random_uuid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from random import Random

    from kaa.client.share.session import Acknowledged
    from kaa.model.seams import Clock
    from kaa.wire.messages.k78_share_fetch import ShareFetchResponse

    Committed = Callable[[TopicPartition, frozenset[int], KafkaError | None], object]

__all__ = ["AcknowledgeType", "ShareConsumer", "ShareRecord"]

_EXPLICIT: Final = "explicit"
_RECORD_LIMIT: Final = "record_limit"
_LOST_SESSION: Final = frozenset(
    {Errors.SHARE_SESSION_NOT_FOUND, Errors.INVALID_SHARE_SESSION_EPOCH}
)


class ShareConsumer(ClientLife):
    """Takes records of topics together with its share group. Settings are those of Java's.

    Use it inside `async with`, or call `start()` and `close()`: its end sends what was said of
    records, gives back the rest and leaves the group.
    """

    _noun = "consumer"

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        random: Random | None = None,
        clock: Clock | None = None,
        **named: object,
    ) -> None:
        values, functions = client_values(CONSUMER, share_consumer_values, settings, named)
        self.values = values
        self._key_deserializer = serde_of("key.deserializer", values, functions)
        self._value_deserializer = serde_of("value.deserializer", values, functions)
        super().__init__(Cluster(values, random, clock))
        self._group_id = values.get_string("group.id")
        self.member_id = str(random_uuid(self.cluster.random.randbytes))
        rack = values.get_string("client.rack") or None
        self._membership = ShareMembership(self.cluster, self._group_id, self.member_id, rack)
        self._is_explicit = values.get_string("share.acknowledgement.mode").lower() == _EXPLICIT
        self._limits = ShareFetchLimits(
            values.get_int("fetch.max.wait.ms"),
            values.get_int("fetch.min.bytes"),
            values.get_int("fetch.max.bytes"),
            values.get_int("max.poll.records"),
            values.get_string("share.acquire.mode").lower() == _RECORD_LIMIT,
        )
        self._checks_crcs = values.get_boolean("check.crcs")
        self._topics: tuple[str, ...] = ()
        self._sessions: dict[int, NodeSession] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        # Records that were fetched and not handed out yet, with their delivery counts and the nodes
        # that they came from.
        self._ready: deque[tuple[ConsumerRecord, int, int]] = deque()
        # What the application holds and has said nothing of, by where it came from.
        self._held: dict[tuple[str, int, int], int] = {}
        self._committed: Committed | None = None
        self._is_metadata_due = False
        self._error: ClientError | None = None
        # How long records are held, in milliseconds, as last heard.
        self.lock_timeout_ms = 0

    # --- life

    async def _finish(self, kind: type[BaseException] | None) -> None:
        for task in tuple(self._fetches.values()):
            task.cancel()
        if self._fetches:
            await asyncio.wait(self._fetches.values())
        await asyncio.gather(*(self._send(node, is_last=True) for node in self._sessions))
        await self._membership.leave()

    def _stop(self) -> None:
        self._membership.error = ClosedError("the consumer is closed")
        self._membership.subscribe(())

    def subscribe(self, topics: Iterable[str]) -> None:
        """Takes records of these topics together with the rest of the group."""
        tasks = self._running()
        wanted = tuple(names_of(topics))
        if not wanted:
            raise ValueError("name at least one topic")
        is_first = not self._topics
        self._topics = wanted
        self._membership.subscribe(wanted)
        if is_first:
            tasks.create_task(self._membership.run())

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        return frozenset(self._topics)

    # --- records

    async def poll(self, timeout_ms: int | None = None) -> list[ShareRecord]:
        """The next records; waits at most `timeout_ms` (None: for ever).

        With implicit acknowledgement the records of the poll before are accepted.
        """
        await self._wait_for_records(wait_ms_of(timeout_ms))
        return self._take(self._limits.records_max)

    async def _wait_for_records(self, timeout_ms: int | None) -> None:
        tasks = self._running()
        if not self._topics:
            raise NotSubscribedError("the consumer is not subscribed yet; call subscribe([topic])")
        self._finish_last_poll()
        loop = asyncio.get_running_loop()
        deadline = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        while not self._ready:
            error = self._error or self._membership.error
            if error is not None:
                self._error = None
                raise error
            self._membership.changed.clear()
            await self._begin_fetches(tasks)
            left_ms = None if deadline is None else (deadline - loop.time()) * 1000
            if left_ms is not None and left_ms <= 0:
                return
            if left_ms is None:
                await self._membership.changed.wait()
            else:
                await wait_for_event(self._membership.changed, left_ms)

    def _finish_last_poll(self) -> None:
        if self._is_explicit:
            if self._held:
                raise ClientError(
                    f"the last poll gave {count_text(len(self._held), 'record')} that were "
                    "not acknowledged; call acknowledge() for each of them before the next poll"
                )
            return
        self._accept_all()

    def _accept_all(self) -> None:
        for place in tuple(self._held):
            self._tell(place, AcknowledgeType.ACCEPT)

    def _take(self, count_max: int) -> list[ShareRecord]:
        """Hands records out, which the application holds from now on.

        One that cannot be read is given back, and raised if it is the first, as in Java.
        """
        taken: list[ShareRecord] = []
        while self._ready and len(taken) < count_max:
            plain, count, node_id = self._ready[0]
            place = (plain.topic, plain.partition, plain.offset)
            try:
                record = deserialized(plain, self._key_deserializer, self._value_deserializer)
            except SerializationError:
                if taken:
                    break
                self._ready.popleft()
                self._held[place] = node_id
                self._tell(place, AcknowledgeType.RELEASE)
                raise
            self._ready.popleft()
            self._held[place] = node_id
            taken.append(ShareRecord(*record[:7], count))
        return taken

    async def __aiter__(self) -> AsyncIterator[ShareRecord]:
        """Records one by one, for ever; leave the loop to end.

        Those that the loop did not hand out are neither held nor accepted: the next loop or poll
        gives them.
        """
        while True:
            if not self._ready:
                await self._wait_for_records(None)
            for record in self._take(1):
                yield record
                place = (record.topic, record.partition, record.offset)
                if not self._is_explicit and place in self._held:
                    self._tell(place, AcknowledgeType.ACCEPT)

    # --- acknowledgements

    def acknowledge(
        self, record: ShareRecord, kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Says what became of a record; it leaves with the next poll, commit or close."""
        self._running()
        place = (record.topic, record.partition, record.offset)
        if place not in self._held:
            raise ClientError(
                f"record {record.offset} of {record.topic}-{record.partition} is not held: it was "
                "acknowledged before, or it is not of the last poll"
            )
        self._tell(place, AcknowledgeType(kind))

    def _tell(self, place: tuple[str, int, int], kind: AcknowledgeType) -> None:
        topic, number, offset = place
        node_id = self._held[place]
        if kind is not AcknowledgeType.RENEW:
            del self._held[place]
        known = self.cluster.metadata.topics.get(topic)
        session = self._sessions.get(node_id)
        if known is None or session is None:
            return
        session.tell(PartitionId(known.topic_id, number), offset, kind)

    async def commit(self) -> dict[TopicPartition, KafkaError | None]:
        """Sends what was said and waits until it is stored; the error where it was not.

        With implicit acknowledgement the records of the last poll are accepted.
        """
        self._running()
        if not self._is_explicit:
            self._accept_all()
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        for node_id in tuple(self._sessions):
            task = self._fetches.get(node_id)
            if task is not None:
                # One request at a time: the broker serves them in order.
                await asyncio.wait([task])
            outcomes |= await self._send(node_id)
        return outcomes

    def set_acknowledgement_commit_callback(self, callback: Committed | None) -> None:
        """Called with a partition, the offsets and the error, None if it is stored, whenever
        acknowledgements were answered.
        """
        self._committed = callback

    async def _send(
        self, node_id: int, *, is_last: bool = False
    ) -> dict[TopicPartition, KafkaError | None]:
        session = self._sessions[node_id]
        if not session.is_open or not (session.pending or is_last):
            return {}
        request, sent = session.acknowledge(is_last=is_last)
        try:
            connection = await self.cluster.connection(node_id)
            response = await connection.request(request)
        except ClientError as error:
            lost = KafkaError(Errors.NETWORK_EXCEPTION, "acknowledgements", message=str(error))
            return self._lose(node_id, sent, lost)
        if response.error_code:
            what = Errors.of(response.error_code)
            return self._lose(node_id, sent, KafkaError(what, "acknowledgements"))
        session.answered()
        codes = {
            PartitionId(topic.topic_id, one.partition_index): (one.error_code, one.error_message)
            for topic in response.responses
            for one in topic.partitions
        }
        return self._note(sent, codes)

    def _lose(
        self, node_id: int, sent: dict[PartitionId, Acknowledged], error: KafkaError
    ) -> dict[TopicPartition, KafkaError | None]:
        """The session is gone, what was said in it, and what was held: others get it now."""
        self._ready = deque(one for one in self._ready if one[2] != node_id)
        lost = self._sessions[node_id].reset() | sent
        return self._note(lost, dict.fromkeys(lost, (error.error, error.message)))

    def _note(
        self,
        sent: Mapping[PartitionId, Acknowledged],
        codes: Mapping[PartitionId, tuple[int, str | None]],
    ) -> dict[TopicPartition, KafkaError | None]:
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        for one, acknowledged in sent.items():
            name = self.cluster.metadata.topic_names.get(one.topic_id, "")
            partition = TopicPartition(name, one.number)
            code, message = codes.get(one, (Errors.NONE, None))
            error = None
            if code:
                what = f"acknowledgements of {name}-{one.number}"
                error = KafkaError(Errors.of(code), what, message=message)
            outcomes[partition] = error
            offsets = frozenset(offset for offset, kind in acknowledged.items() if kind != GAP)
            if self._committed is not None and offsets:
                self._committed(partition, offsets, error)
        return outcomes

    # --- fetches

    async def _begin_fetches(self, tasks: asyncio.TaskGroup) -> None:
        """Fetches from each leader that is not asked already."""
        try:
            by_node = await self._assigned_by_leader()
        except ClientError as error:
            if not error.retriable:
                raise
            await asyncio.sleep(self.values.get_int("retry.backoff.ms") / 1000)
            self._membership.changed.set()
            return
        idle = [key for key, one in self._sessions.items() if one.is_open and key not in by_node]
        for node_id in (*by_node, *idle):
            if node_id in self._fetches:
                continue
            wanted = by_node.get(node_id)
            work = self._end(node_id) if wanted is None else self._fetch(node_id, wanted)
            task = self._fetches[node_id] = tasks.create_task(work)
            task.add_done_callback(partial(self._fetched, node_id))

    def _fetched(self, node_id: int, _: asyncio.Task[None]) -> None:
        del self._fetches[node_id]

    async def _end(self, node_id: int) -> None:
        """Nothing is assigned any more that this broker leads."""
        await self._send(node_id, is_last=True)
        self._sessions[node_id].reset()

    async def _assigned_by_leader(self) -> dict[int, list[PartitionId]]:
        metadata = self.cluster.metadata
        names = metadata.topic_names
        is_unknown = any(one.topic_id not in names for one in self._membership.assigned)
        if is_unknown or self._is_metadata_due:
            self._is_metadata_due = False
            await self.cluster.fetch_metadata(self._topics)
        found: dict[int, list[PartitionId]] = {}
        for one in self._membership.assigned:
            name = names.get(one.topic_id)
            leader = -1 if name is None else metadata.leader_of(name, one.number)
            if leader >= 0:
                found.setdefault(leader, []).append(one)
            else:
                self._is_metadata_due = True
        return found

    async def _fetch(self, node_id: int, wanted: list[PartitionId]) -> None:
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = NodeSession(self._group_id, self.member_id)
        sent: dict[PartitionId, Acknowledged] = {}
        try:
            if session.is_open and has_renewals(session.pending):
                await self._send(node_id)
            if not session.is_open:
                self._note_lost(node_id, session)
            connection = await self.cluster.connection(node_id)
            request, sent = session.fetch(wanted, self._limits)
            response = await connection.request(request)
        except ClientError as error:
            lost = KafkaError(Errors.NETWORK_EXCEPTION, "share fetch", message=str(error))
            self._lose(node_id, sent, lost)
            self._is_metadata_due = True
            await self._pause()
        else:
            await self._answered(session, node_id, response, sent)
        self._membership.changed.set()

    def _note_lost(self, node_id: int, session: NodeSession) -> None:
        """What was said before the session was lost cannot go with the request that opens one."""
        if session.pending:
            self._lose(node_id, {}, KafkaError(Errors.SHARE_SESSION_NOT_FOUND, "acknowledgements"))

    async def _answered(
        self,
        session: NodeSession,
        node_id: int,
        response: ShareFetchResponse,
        sent: dict[PartitionId, Acknowledged],
    ) -> None:
        if response.error_code:
            error = KafkaError(
                Errors.of(response.error_code), "share fetch", message=response.error_message
            )
            self._lose(node_id, sent, error)
            if error.error not in _LOST_SESSION and not error.retriable:
                self._error = error
            else:
                await self._pause()
            return
        session.answered()
        self.lock_timeout_ms = response.acquisition_lock_timeout_ms
        codes = {}
        for topic in response.responses:
            for one in topic.partitions:
                place = PartitionId(topic.topic_id, one.partition_index)
                codes[place] = (one.acknowledge_error_code, one.acknowledge_error_message)
                if one.error_code:
                    self._is_metadata_due = True
                self._receive(session, node_id, place, one)
        self._note(sent, codes)
        if self._is_metadata_due:
            await self._pause()

    def _receive(self, session: NodeSession, node_id: int, place: PartitionId, one: Any) -> None:
        name = self.cluster.metadata.topic_names.get(place.topic_id)
        if name is None or not one.acquired_records:
            return
        try:
            found = held(one.records or b"", one.acquired_records, checks_crcs=self._checks_crcs)
        except RecordsError as error:
            # Their locks run out, and another consumer may have more luck.
            self._error = ClientError(f"records of {name}-{place.number} are damaged: {error}")
            return
        for offset in found.gaps:
            session.tell(place, offset, GAP)
        for record, count in found.records:
            plain = ConsumerRecord(
                name,
                place.number,
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                tuple(record.headers),
            )
            self._ready.append((plain, count, node_id))

    async def _pause(self) -> None:
        await asyncio.sleep(self.values.get_int("retry.backoff.ms") / 1000)
