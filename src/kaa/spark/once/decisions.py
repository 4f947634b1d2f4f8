"""The topic of decisions: one compacted topic, a key per query, compressed JSON as values.

The key is the id of the query, the value `{"batch": 7, "done": false, "transactions": GROUP,
"swept": GROUP}`, where a GROUP has:

| field | what it is |
|---|---|
| `prefix` | what all names begin with |
| `names` | the rest of each |
| `ids` | the producer ids, each as the distance from the one before |
| `epochs` | the epoch of each |

`batch` is -1 where nothing is decided yet and something is swept. Names and ids of one batch are
much alike, so that a transaction takes some 5 bytes: a record of a megabyte holds the decision
about a batch of 200,000 tasks.

A record is written in a transaction of the query's own commit id, so that it counts as a whole or
not at all, and so that a driver that was fenced writes none. To read, one has to see everything
that was there: the last stable offset may lie after a decision of our own as long as another
query's is open, so reading waits until it has passed the end of the log. Such a transaction is open
for moments, and at most as long as the timeout that all of them have.
"""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any, Final

from kaa.client.admin.admin import NewTopic
from kaa.client.consumer.fetched import FetchedRecords
from kaa.client.consumer.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    list_offsets,
)
from kaa.client.errors import ClientError, KafkaError
from kaa.limits import SPARK_COMMITS_PARTITIONS, SPARK_FETCH_BYTES, SPARK_FETCH_WAIT_MS
from kaa.model.topics import TopicPartition
from kaa.model.words import count_text
from kaa.records.batch import TRANSACTIONAL_FLAG, CompressionType, TimestampType
from kaa.records.build import assemble_batch, batch_attributes
from kaa.records.partitioner import partition_of_key
from kaa.records.record import encode_record
from kaa.spark.errors import SparkSourceError, SupersededError
from kaa.spark.once.machine import Decision, Entry, Outcome
from kaa.spark.once.transactions import add_partitions, end_transaction, init_transaction
from kaa.spark.produce import Outgoing, TaskSender
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.config.definition import ConfigValues
    from kaa.spark.brokers import Brokers

COMMITS_TOPIC: Final = "__kaa_spark_commits"
COMMIT_TIMEOUT_MS: Final = 10_000
_CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
_FENCED: Final = frozenset(
    {
        Errors.PRODUCER_FENCED,
        Errors.INVALID_PRODUCER_EPOCH,
        Errors.INVALID_PRODUCER_ID_MAPPING,
        Errors.INVALID_TXN_STATE,
    }
)


class Decisions:
    """The decisions of one query. Its methods run on the loop of the connections."""

    def __init__(
        self, brokers: Brokers, values: ConfigValues, query_id: str, commit_id: str
    ) -> None:
        self._brokers = brokers
        self._values = values
        self._key = query_id.encode()
        self._commit_id = commit_id
        partition = partition_of_key(self._key, SPARK_COMMITS_PARTITIONS)
        self._partition = TopicPartition(COMMITS_TOPIC, partition)
        self._identity: Entry | None = None
        self._sequence = 0

    async def fence(self) -> None:
        """Takes the commit id; nobody else can decide until it is taken again."""
        await self._ensure_topic()
        self._identity = await init_transaction(
            self._brokers.admin, self._commit_id, COMMIT_TIMEOUT_MS
        )
        self._sequence = 0

    async def _ensure_topic(self) -> None:
        cluster = self._brokers.cluster
        metadata = await cluster.repeat(
            lambda: cluster.fetch_metadata([COMMITS_TOPIC]),
            f"metadata of topic {COMMITS_TOPIC!r}",
            self._brokers.timeout_ms,
        )
        if COMMITS_TOPIC in metadata.topics:
            return
        wanted = NewTopic(COMMITS_TOPIC, SPARK_COMMITS_PARTITIONS, -1, _CONFIGS)
        outcome = (await self._brokers.admin.create_topics([wanted]))[COMMITS_TOPIC]
        if outcome is not None and outcome.error is not Errors.TOPIC_ALREADY_EXISTS:
            raise outcome
        await cluster.topic(COMMITS_TOPIC, self._brokers.timeout_ms)

    # --- reading

    async def newest(self) -> Decision | None:
        """The last decision that was written, no matter who wrote it."""
        end = await self._stable_end()
        offset = await self._offset(EARLIEST, READ_COMMITTED)
        newest: Decision | None = None
        while offset < end:
            fetched = await self._brokers.fetch_batches(
                self._partition, offset, SPARK_FETCH_BYTES, max_wait_ms=SPARK_FETCH_WAIT_MS
            )
            records = FetchedRecords(fetched.data, offset, aborted=fetched.aborted or ())
            while some := records.take(1000):
                for record in some:
                    if record.key == self._key and record.value is not None:
                        newest = decoded(bytes(record.value))
            offset = max(fetched.next_offset, records.next_offset)
        return newest

    async def _stable_end(self) -> int:
        end = await self._offset(LATEST, READ_UNCOMMITTED)
        deadline = time.monotonic() + 3 * COMMIT_TIMEOUT_MS / 1000
        pause = 0.005
        while await self._offset(LATEST, READ_COMMITTED) < end:
            if time.monotonic() > deadline:
                raise SparkSourceError(
                    f"a transaction of topic {COMMITS_TOPIC} stays open; "
                    "kaa txn find-hanging names it"
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.2)
        return end

    async def _offset(self, moment: int, isolation: int) -> int:
        found = await list_offsets(
            self._brokers.cluster,
            {self._partition: moment},
            self._brokers.timeout_ms,
            isolation,
        )
        return found[self._partition].offset

    # --- writing

    async def write(self, decision: Decision) -> Outcome:
        """Writes a decision; raises SupersededError if another driver took the commit id."""
        identity = self._identity
        assert identity is not None, "the commit id was not taken"
        cluster = self._brokers.cluster
        timeout_ms = self._brokers.timeout_ms
        try:
            await add_partitions(cluster, identity, [self._partition], timeout_ms)
            sender = TaskSender(cluster, self._values, self._commit_id)
            await sender.deliver([Outgoing(self._partition, self._batch(identity, decision))])
            error = await end_transaction(cluster, identity, timeout_ms, is_commit=True)
        except KafkaError as failure:
            if failure.error in _FENCED:
                raise self._superseded(decision) from failure
            if not failure.retriable:
                raise _refused(decision, failure.error) from failure
            return Outcome.UNKNOWN
        except ClientError:
            return Outcome.UNKNOWN
        if error in _FENCED:
            raise self._superseded(decision)
        if error is not Errors.NONE:
            raise _refused(decision, error)
        return Outcome.DECIDED

    def _superseded(self, decision: Decision) -> SupersededError:
        return SupersededError(
            f"batch {decision.batch_id} cannot be committed: another run of the same query has "
            "taken over; stop one of them"
        )

    def _batch(self, identity: Entry, decision: Decision) -> memoryview:
        now_ms = time.time_ns() // 1_000_000
        record = encode_record(0, 0, self._key, encoded(decision), ())
        sequence, self._sequence = self._sequence, self._sequence + 1
        batch = assemble_batch(
            [record],
            base_offset=0,
            partition_leader_epoch=-1,
            attributes=batch_attributes(CompressionType.NONE, TimestampType.CREATE_TIME)
            | TRANSACTIONAL_FLAG,
            last_offset_delta=0,
            base_timestamp=now_ms,
            max_timestamp=now_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=sequence,
            record_count=1,
        )
        return memoryview(batch)


def _refused(decision: Decision, error: Errors) -> SparkSourceError:
    """What will not heal is named, with what to change; nothing of the batch is decided."""
    advice = {
        Errors.MESSAGE_TOO_LARGE: "raise max.message.bytes of the topic, or use fewer tasks",
        Errors.RECORD_LIST_TOO_LARGE: "raise segment.bytes of the topic, or use fewer tasks",
        Errors.TOPIC_AUTHORIZATION_FAILED: "allow the user to write the topic",
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "allow the user to write transactional ids "
        "that begin with transactionalIdPrefix",
    }
    return SparkSourceError(
        f"batch {decision.batch_id} of {count_text(len(decision.entries), 'transaction')} cannot "
        f"be committed: topic {COMMITS_TOPIC} answers {error.name}; "
        + advice.get(error, "a restart of the query alone will not help")
    )


def encoded(decision: Decision) -> bytes:
    """The value of a record."""
    text = json.dumps(
        {
            "batch": decision.batch_id,
            "done": decision.is_done,
            "transactions": _grouped(decision.entries),
            "swept": _grouped(decision.swept),
        },
        separators=(",", ":"),
    )
    return zlib.compress(text.encode(), 9)


def decoded(value: bytes) -> Decision:
    """The decision of a record."""
    given = json.loads(zlib.decompress(value))
    entries, swept = (_entries(given[name]) for name in ("transactions", "swept"))
    return Decision(given["batch"], entries, given["done"], swept)


def _grouped(entries: Sequence[Entry]) -> dict[str, object]:
    names = [one.transactional_id for one in entries]
    first, last = min(names, default=""), max(names, default="")
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    prefix = first[: sum(1 for _ in same)]
    ids = [one.producer_id for one in entries]
    return {
        "prefix": prefix,
        "names": [name.removeprefix(prefix) for name in names],
        "ids": [one - before for one, before in zip(ids, [0, *ids], strict=False)],
        "epochs": [one.producer_epoch for one in entries],
    }


def _entries(group: Mapping[str, Any]) -> tuple[Entry, ...]:
    names = (group["prefix"] + name for name in group["names"])
    return tuple(map(Entry, names, accumulate(group["ids"]), group["epochs"]))
