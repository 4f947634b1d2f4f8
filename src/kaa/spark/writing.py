"""Rows of a DataFrame as record batches: what a task of the sink does.

Columns are those of Spark's connector for Kafka: `value` (string or binary, required), `key`,
`headers`, `partition`, and `topic`, which the option `topic` overrides. A row goes to its
`partition` if it names one; otherwise to that of its key, chosen by the hash that Java's clients
use; and rows without a key stay together on one partition, another one for each batch of rows.

The kernel encodes a batch of rows at once. While a batch of rows is on its way, the next one is
encoded; there are never more than these two.
"""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kaa.config.client import PRODUCER, producer_values
from kaa.model.topics import TopicPartition
from kaa.records.arrow_encode import ProducerFields, encode
from kaa.records.arrow_pyarrow import key_partitions, row_columns
from kaa.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, CompressionType, increment_sequence
from kaa.records.errors import RecordsError
from kaa.spark.brokers import brokers_of
from kaa.spark.errors import OptionError, RowError
from kaa.spark.identity import give_producer, take_producer
from kaa.spark.produce import Outgoing, TaskSender

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Callable, Iterable, Sequence

    from kaa.client.metadata import Topic
    from kaa.config.definition import ConfigValues
    from kaa.spark.identity import TaskProducer
    from kaa.spark.options import ClientSettings, SinkOptions

_BYTES = ("string", "binary")
_TYPES = {
    "value": _BYTES,
    "key": _BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


def check_columns(fields: Sequence[tuple[str, str]], topic: str | None) -> None:
    """Raises OptionError unless rows of these columns (name and type) can be written."""
    types = dict(fields)
    if "value" not in types:
        raise OptionError("there is no column 'value', which a record needs")
    if topic is None and "topic" not in types:
        raise OptionError(
            "no topic is named: set the option topic, or give the rows a column 'topic'"
        )
    for name, kind in fields:
        allowed = _TYPES.get(name)
        if allowed is not None and not kind.startswith(("varchar", "char")) and kind not in allowed:
            raise OptionError(f"column {name!r} must be {' or '.join(allowed)}, it is {kind}")


def sink_values(settings: ClientSettings) -> ConfigValues:
    """The settings of a producer, without what is for readers alone."""
    return producer_values({name: text for name, text in settings.items() if name in PRODUCER})


class RowWriter:
    """Writes the rows of one task; `write` is called once, and returns when all of them are
    acknowledged.
    """

    def __init__(
        self,
        options: SinkOptions,
        *,
        producer: tuple[int, int] | None = None,
        transactional_id: str | None = None,
        before_new_partitions: Callable[[list[TopicPartition]], None] | None = None,
    ) -> None:
        """`producer` is a producer id and epoch; transactions also tell of new partitions."""
        self._options = options
        self._brokers = brokers_of(options.settings)
        self._values = sink_values(options.settings)
        self._sender = TaskSender(self._brokers.cluster, self._values, transactional_id)
        self._is_transactional = transactional_id is not None
        self._before_new_partitions = before_new_partitions
        self._compression = CompressionType[self._values.get_string("compression.type").upper()]
        self._batch_bytes_max = self._values.get_int("max.request.size")
        self._random = Random()
        self._topics: dict[str, Topic] = {}
        self._owned: TaskProducer | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._producer = producer or self._take_producer()
        self._pending: concurrent.futures.Future[None] | None = None
        self.row_count = 0

    def _take_producer(self) -> tuple[int, int]:
        if not self._values.get_boolean("enable.idempotence"):
            return NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        self._owned = take_producer(self._options.settings)
        self._sequences = self._owned.sequences
        return self._owned.producer_id, self._owned.producer_epoch

    # --- rows

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Returns when all rows are acknowledged; called once."""
        for batch in batches:
            if batch.num_rows:
                outgoing = self._encode(batch)
                self._wait()
                self._pending = self._brokers.submit(self._sender.deliver(outgoing))
                self.row_count += batch.num_rows
        self._wait()
        if self._owned is not None:
            give_producer(self._options.settings, self._owned)
            self._owned = None

    def _wait(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()

    def _encode(self, batch: pa.RecordBatch) -> list[Outgoing]:
        if self._options.topic is not None:
            return self._encode_topic(batch, self._options.topic)
        topics = batch.column("topic")
        if topics.null_count:
            raise RowError("a row has no topic; set the option topic, or fill the column 'topic'")
        names: list[Any] = pc.unique(topics).to_pylist()
        if len(names) == 1:
            return self._encode_topic(batch, names[0])
        return [
            one
            for name in names
            for one in self._encode_topic(batch.filter(pc.equal(topics, name)), name)
        ]

    def _encode_topic(self, batch: pa.RecordBatch, name: str) -> list[Outgoing]:
        count = len(self._topic(name).partitions)
        columns: dict[str, Any] = {"value": batch.column("value")}
        names = batch.schema.names
        for optional in ("key", "headers"):
            if optional in names:
                columns[optional] = batch.column(optional)
        columns["partition"] = self._partitions(batch, name, count)
        rows = row_columns(pa.RecordBatch.from_pydict(columns))
        producer_id, epoch = self._producer
        sequences = (
            {
                number: self._sequences.get(TopicPartition(name, number), 0)
                for number in range(count)
            }
            if producer_id >= 0
            else {}
        )
        try:
            encoded = encode(
                rows,
                time.time_ns() // 1_000_000,
                batch_bytes_max=self._batch_bytes_max,
                partition_count=count,
                compression_type=self._compression,
                compression_level=self._level(),
                producer=ProducerFields(producer_id, epoch, sequences, self._is_transactional),
            )
        except RecordsError as error:
            raise RowError(
                f"a row cannot be written to topic {name!r}: {error}; a record may have at most "
                f"{self._batch_bytes_max} bytes (kafka.max.request.size)"
            ) from error
        outgoing: list[Outgoing] = []
        fresh: list[TopicPartition] = []
        for one in encoded.batches:
            partition = TopicPartition(name, one.partition)
            if partition not in self._sequences:
                fresh.append(partition)
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = increment_sequence(sequence, one.row_count)
            outgoing.append(Outgoing(partition, one.data))
        if fresh and self._before_new_partitions is not None:
            self._before_new_partitions(fresh)
        return outgoing

    def _partitions(self, batch: pa.RecordBatch, topic: str, count: int) -> Any:
        sticky = self._random.randrange(count)
        if "key" in batch.schema.names:
            chosen = key_partitions(batch.column("key"), count, sticky)
        else:
            chosen = pa.repeat(pa.scalar(sticky, pa.int32()), batch.num_rows)
        if "partition" in batch.schema.names:
            given = batch.column("partition")
            if given.null_count < len(given):
                bounds: Any = pc.min_max(given).as_py()
                if bounds["min"] < 0 or bounds["max"] >= count:
                    raise RowError(
                        f"a row names partition {bounds['max']} (or {bounds['min']}) of topic "
                        f"{topic!r}, which has {count}"
                    )
                chosen = pc.coalesce(given, chosen)
        return chosen

    def _topic(self, name: str) -> Topic:
        found = self._topics.get(name)
        if found is None:
            cluster = self._brokers.cluster
            found = self._brokers.call(
                cluster.topic(name, self._values.get_int("max.block.ms"), create=True)
            )
            self._topics[name] = found
        return found

    def _level(self) -> int | None:
        name = f"compression.{self._compression.name.lower()}.level"
        return self._values.get_int(name) if name in self._values else None
