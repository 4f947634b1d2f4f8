"""The part of a producer that sends: one task per broker, and one for what belongs to none.

A slow broker holds up nobody else. The accumulator decides which records travel together, the
tasks act: they send, take answers in, fetch metadata and the producer id, and give up what took too
long. In a transaction, batches wait until their partition belongs to it, and one that is given up
means that the transaction must be aborted.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kaa.client.broker_tasks import STALE_METADATA, BrokerTasks
from kaa.client.errors import (
    BufferExhaustedError,
    ClientError,
    ClosedError,
    KafkaError,
    RequestTimeoutError,
    check,
)
from kaa.client.metadata import NO_NODE
from kaa.client.producer.accumulator import PRODUCER_EPOCH_MAX, Accumulator, AccumulatorSettings
from kaa.client.producer.requests import answers_of, produce_request, produce_version
from kaa.client.waiting import release, wait_for_event
from kaa.limits import CLIENT_EXPIRY_INTERVAL_MS
from kaa.model.words import count_text
from kaa.records.batch import CompressionType
from kaa.wire.errors import Errors
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaa.client.cluster import Cluster
    from kaa.client.connection import Connection
    from kaa.client.producer.accumulator import ProducerBatch
    from kaa.client.producer.transaction_machine import TransactionMachine
    from kaa.config.definition import ConfigValues
    from kaa.model.topics import TopicPartition

# Moves of leaders and restarts of brokers take a few attempts; then the user hears of it.
_RETRIES_IN_SILENCE: Final = 5

# Offset and time of a batch that a broker has without saying where.
_SOMEWHERE: Final = (-1, -1)


class Sender(BrokerTasks):
    """Sends what the accumulator has gathered. A record's future ends when its batch is
    acknowledged or given up; `flush` waits for all of them.
    """

    def __init__(
        self, values: ConfigValues, cluster: Cluster, transaction: TransactionMachine | None
    ) -> None:
        super().__init__(cluster)
        self.values = values
        self.transaction = transaction
        # Tells the coordinator of new partitions of the transaction.
        self.add_partitions: Callable[[], Awaitable[None]]
        self.accumulator = Accumulator(accumulator_settings(values))
        self._acks = int(values.get_string("acks"))
        self._in_flight_max = values.get_int("max.in.flight.requests.per.connection")
        self._request_bytes_max = values.get_int("max.request.size")
        self._buffer_bytes_max = values.get_int("buffer.memory")
        self._max_block_ms = values.get_int("max.block.ms")
        self._request_timeout_ms = values.get_int("request.timeout.ms")
        # Callers that wait for memory, and those that wait for everything to be sent.
        self._memory_waiters: list[asyncio.Future[None]] = []
        self._idle_waiters: list[asyncio.Future[None]] = []
        # What last kept batches from leaving; named when one of them runs out of time.
        self._trouble: ClientError | None = None

    @property
    def is_full(self) -> bool:
        return self.accumulator.buffered_bytes > self._buffer_bytes_max

    def fail_rest(self) -> None:
        """Tells those whose records were not delivered before the end."""
        for batch in self.accumulator.abort():
            tell(batch, ClosedError("the producer was closed before the record was delivered"))
            # Who left the block by an exception knows; nobody has to ask for this one too.
            batch.delivery.exception()

    async def wait_for_memory(self) -> None:
        """Sends what waits without lingering, and waits until enough of it is answered."""
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                while self.accumulator.buffered_bytes > self._buffer_bytes_max:
                    waiter = asyncio.get_running_loop().create_future()
                    self._memory_waiters.append(waiter)
                    self.accumulator.is_exhausted = True
                    self._wake_all()
                    await waiter
        except TimeoutError:
            raise BufferExhaustedError(
                f"no memory came free within max.block.ms={self._max_block_ms}; brokers are slower "
                "than this producer, or not reachable"
            ) from None

    async def flush(self) -> None:
        """Waits until every record that was handed over is delivered or given up."""
        while not self.accumulator.is_idle:
            self.accumulator.is_flushing = True
            self._wake_all()
            waiter = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            try:
                await waiter
            finally:
                self.accumulator.is_flushing = False

    # --- one task per broker

    def wake_sender(self, partition: TopicPartition) -> None:
        """Something may be sent to this partition now."""
        if self.transaction is not None and self.transaction.new:
            self._housekeeping.set()
        leader = self.cluster.metadata.leader_of(*partition)
        if leader == NO_NODE or not self.accumulator.has_producer:
            self._housekeeping.set()
            return
        self._wake_broker(leader)

    def _wake_all(self) -> None:
        for partition in list(self.accumulator.waiting_partitions()):
            self.wake_sender(partition)
        self._housekeeping.set()

    async def _serve(self, node_id: int, event: asyncio.Event) -> None:
        """Sends the batches of the partitions that a broker leads, as long as there are any."""
        backoff = self.cluster.reconnect_backoff()
        while not self._is_closed:
            event.clear()
            wait_ms = self._next_ms(node_id)
            if wait_ms is None or wait_ms > 0:
                await wait_for_event(event, wait_ms)
                continue
            try:
                connection = await self.cluster.connection(node_id)
            except ClientError as error:
                self._trouble = error
                self._refresh_metadata()
                await asyncio.sleep(backoff.next_ms() / 1000)
                continue
            backoff.reset()
            if connection.in_flight_count >= self._in_flight_max:
                await event.wait()
            else:
                self._send_batches(node_id, connection)

    def _led_by(self, node_id: int) -> list[TopicPartition]:
        leader_of = self.cluster.metadata.leader_of
        waiting = self.accumulator.waiting_partitions()
        led = [partition for partition in waiting if leader_of(*partition) == node_id]
        if self.transaction is not None:
            led = [partition for partition in led if self.transaction.may_send(partition)]
        return led

    def _next_ms(self, node_id: int) -> float | None:
        """How long until a batch for this broker may leave; None if nothing is known to."""
        now_ms = self.cluster.clock.monotonic_ms()
        ready = [
            ready_ms
            for partition in self._led_by(node_id)
            if (ready_ms := self.accumulator.ready_ms(partition, now_ms)) is not None
        ]
        return max(0.0, min(ready) - now_ms) if ready else None

    def _send_batches(self, node_id: int, connection: Connection) -> None:
        now_ms = self.cluster.clock.monotonic_ms()
        batches = self.accumulator.drain(self._led_by(node_id), self._request_bytes_max, now_ms)
        for batch in batches:
            if batch.failure is not None:
                # A codec that is not installed, for one.
                self._failed([batch], _unsendable(batch.failure))
        batches = [batch for batch in batches if batch.failure is None]
        if not batches:
            self._after_answers()
            return
        try:
            metadata, transaction = self.cluster.metadata, self.transaction
            version = produce_version(connection, metadata, batches, transaction)
            request = produce_request(
                metadata, batches, transaction, acks=self._acks, timeout_ms=self._request_timeout_ms
            )
            future = connection.send(request, version=version, is_answered=self._acks != 0)
        except Exception as error:  # noqa: BLE001  Records of others are sent whatever these are.
            self._failed(batches, error if isinstance(error, ClientError) else _unsendable(error))
            self._after_answers()
            return
        future.add_done_callback(partial(self._answered, node_id, batches))

    # --- answers

    def _answered(
        self, node_id: int, batches: list[ProducerBatch], future: asyncio.Future[Any]
    ) -> None:
        failure = None if future.cancelled() else future.exception()
        if future.cancelled() or failure is not None:
            self._failed(batches, failure)
        elif self._acks == 0:
            for batch in batches:
                self._succeeded(batch, -1, -1)
        else:
            self._take_response(node_id, batches, future.result())
        self._wake_broker(node_id)
        self._after_answers()

    def _take_response(self, node_id: int, batches: list[ProducerBatch], response: Any) -> None:
        self._take_endpoints(response.node_endpoints)
        answers = answers_of(response, self.cluster.metadata)
        for batch in batches:
            answer = answers.get(batch.partition)
            if answer is None:
                # The topic was created again meanwhile, so that its id is no longer known.
                self._fail_one(batch, Errors.UNKNOWN_TOPIC_ID, None, node_id)
            elif answer.error_code in {Errors.NONE, Errors.DUPLICATE_SEQUENCE_NUMBER}:
                self._succeeded(batch, answer.base_offset, answer.log_append_time_ms)
            else:
                error = Errors.of(answer.error_code)
                has_hint = self._take_hint(batch.partition, answer)
                text = answer.error_message
                if answer.record_errors:
                    text = answer.record_errors[0].batch_index_error_message or text
                self._fail_one(batch, error, text, node_id, has_hint=has_hint)
                if has_hint:
                    self.wake_sender(batch.partition)

    def _succeeded(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        for stored in self.accumulator.succeeded(batch):
            if not stored.delivery.done():
                stored.delivery.set_result(_SOMEWHERE)
        if batch.attempts > _RETRIES_IN_SILENCE:
            about = ("delivery", batch.partition)
            self.cluster.complaints.settle(about, "records to %s arrive again", batch.partition)
        if not batch.delivery.done():
            batch.delivery.set_result((base_offset, append_time_ms))

    def _failed(self, batches: list[ProducerBatch], failure: BaseException | None) -> None:
        for batch in batches:
            retriable = not isinstance(failure, ClientError) or failure.retriable
            code = Errors.NETWORK_EXCEPTION if retriable else Errors.UNKNOWN_SERVER_ERROR
            self._fail_one(batch, code, str(failure or "the request was cancelled"), None)

    def _fail_one(
        self,
        batch: ProducerBatch,
        error: Errors,
        text: str | None,
        node_id: int | None,
        *,
        has_hint: bool = False,
    ) -> None:
        """Sends a batch again after a pause, at once where the right leader is known now."""
        if error in STALE_METADATA and not has_hint:
            self._metadata_is_stale = True
        backoff = self.cluster.backoff()
        backoff.failures = batch.attempts - 1
        now_ms = self.cluster.clock.monotonic_ms()
        retriable = error.retriable and not self._is_aborting
        if not self.accumulator.failed(
            batch,
            error,
            retriable=retriable,
            now_ms=now_ms,
            pause_ms=0 if has_hint else backoff.next_ms(),
        ):
            node = None if node_id is None else self.cluster.address_of(node_id)
            what = f"cannot deliver {_counted(batch)} to {batch.partition}"
            self._give_up(batch, KafkaError(error, what, message=text, node=node))
        else:
            self.cluster.complaints.warn(
                ("delivery", batch.partition),
                "sending %s to %s again: %s (%s)",
                _counted(batch),
                batch.partition,
                error.name,
                text or error.message,
                after=_RETRIES_IN_SILENCE,
            )

    @property
    def _is_aborting(self) -> bool:
        return self.transaction is not None and not self.transaction.is_open

    def _give_up(self, batch: ProducerBatch, error: ClientError) -> None:
        if self.transaction is not None:
            self.transaction.batch_failed(error)
            # Nobody has to look at each record: the transaction fails as a whole.
            tell(batch, error)
            batch.delivery.exception()
            for other in self.accumulator.abort():
                tell(other, error)
                other.delivery.exception()
        else:
            tell(batch, error)

    def abort(self) -> None:
        """Gives up what has not left, since the transaction is being aborted."""
        for batch in self.accumulator.abort():
            tell(batch, ClientError("the transaction of the record was aborted"))
            batch.delivery.exception()
        self._after_answers()

    def _after_answers(self) -> None:
        accumulator = self.accumulator
        if self._memory_waiters and accumulator.buffered_bytes <= self._buffer_bytes_max:
            accumulator.is_exhausted = False
            release(self._memory_waiters)
        # A new epoch begins when the last request of the old one is answered: until then there is
        # nothing to keep, and the housekeeping would never let the answers come.
        may_begin_epoch = self.transaction is None and accumulator.may_begin_epoch
        if self._metadata_is_stale or may_begin_epoch:
            self._housekeeping.set()
        if accumulator.is_idle and self._idle_waiters:
            release(self._idle_waiters)

    # --- housekeeping

    async def _keep_house(self) -> None:
        """Metadata, producer id and expiry: what belongs to no broker."""
        backoff = self.cluster.backoff()
        refreshed_ms = self.cluster.clock.monotonic_ms()
        while not self._is_closed:
            self._housekeeping.clear()
            now_ms = self.cluster.clock.monotonic_ms()
            for batch in self.accumulator.expire(now_ms):
                self._give_up(batch, self._expired(batch))
            age_ms = now_ms - refreshed_ms
            try:
                if self._wants_metadata() or age_ms > self.values.get_int("metadata.max.age.ms"):
                    self._metadata_is_stale = False
                    topics = self._topics()
                    await self.cluster.fetch_metadata(topics)
                    self.cluster.complain_of_topics(sorted(topics))
                    self.cluster.leaders.complain(self.accumulator.waiting_partitions())
                    refreshed_ms = now_ms
                    self._wake_all()
                if self.transaction is None:
                    await self._renew_identity()
                elif self.transaction.new:
                    await self.add_partitions()
                    self._wake_all()
                pause_ms = backoff.next_ms() if self._wants_metadata() else None
                if pause_ms is None:
                    backoff.reset()
            except ClientError as error:
                self._trouble = error
                self._metadata_is_stale = True
                pause_ms = backoff.next_ms()
            self._after_answers()
            if pause_ms is not None:
                await asyncio.sleep(pause_ms / 1000)
            elif self.accumulator.is_idle:
                await wait_for_event(self._housekeeping, self.values.get_int("metadata.max.age.ms"))
            elif not self._housekeeping.is_set():
                await wait_for_event(self._housekeeping, CLIENT_EXPIRY_INTERVAL_MS)

    def _topics(self) -> set[str]:
        """The topics in use: one that vanished may come back while its records wait."""
        waiting = {name.topic for name in self.accumulator.waiting_partitions()}
        return waiting | set(self.cluster.metadata.topics)

    def _wants_metadata(self) -> bool:
        if self._metadata_is_stale:
            return True
        leader_of = self.cluster.metadata.leader_of
        waiting = self.accumulator.waiting_partitions()
        return any(leader_of(*partition) == NO_NODE for partition in waiting)

    async def _renew_identity(self) -> None:
        """Gets a producer id, or raises the epoch after a batch was given up."""
        accumulator = self.accumulator
        if accumulator.may_begin_epoch:
            if accumulator.producer_epoch < PRODUCER_EPOCH_MAX:
                accumulator.begin_epoch(accumulator.producer_id, accumulator.producer_epoch + 1)
                self._wake_all()
                return
        elif accumulator.has_producer:
            return
        if accumulator.in_flight_count or accumulator.is_idle:
            return
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=self._request_timeout_ms
        )
        response = await (await self.cluster.any_connection()).request(request)
        check(response.error_code, "cannot get a producer id")
        accumulator.begin_epoch(response.producer_id, response.producer_epoch)
        self._wake_all()

    def _expired(self, batch: ProducerBatch) -> ClientError:
        timeout_ms = self.values.get_int("delivery.timeout.ms")
        reason = (
            self.cluster.leaders.trouble_of(batch.partition)
            or self._trouble
            or "is the leader of the partition reachable?"
        )
        return RequestTimeoutError(
            f"{_counted(batch)} to {batch.partition} could not be delivered within "
            f"delivery.timeout.ms={timeout_ms}; {reason}"
        )


def _unsendable(error: Exception) -> ClientError:
    return ClientError(f"it cannot be put into a request: {type(error).__name__}: {error}")


def _counted(batch: ProducerBatch) -> str:
    return count_text(batch.record_count, "record")


def accumulator_settings(values: ConfigValues) -> AccumulatorSettings:
    """What of the settings of a producer decides about batches."""
    codec = CompressionType[values.get_string("compression.type").upper()]
    level = None
    if codec in {CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD}:
        level = values.get_int(f"compression.{codec.name.lower()}.level")
    return AccumulatorSettings(
        batch_bytes=values.get_int("batch.size"),
        linger_ms=values.get_int("linger.ms"),
        delivery_timeout_ms=values.get_int("delivery.timeout.ms"),
        retries=values.get_int("retries"),
        compression_type=codec,
        compression_level=level,
        is_idempotent=values.get_boolean("enable.idempotence"),
        is_transactional=values.value("transactional.id") is not None,
    )


def tell(batch: ProducerBatch, error: ClientError) -> None:
    """The batch was given up, and its records with it."""
    if not batch.delivery.done():
        batch.delivery.set_exception(error)
