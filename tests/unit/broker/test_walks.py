"""Requests go the way that docs/internals/walks.md describes."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kaa
from kaa.broker import Broker, running
from kaa.config.development import development_settings
from kaa.config.server import load_broker_config
from kaa.model.pieces import mapped
from kaa.model.topics import TopicPartition
from kaa.records.build import BatchBuilder
from kaa.spark.brokers import brokers_of
from kaa.spark.options import source_options
from kaa.spark.plan import OffsetRange
from kaa.spark.range_reader import RangeReader, Task
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kaa.wire.messages.k26_end_txn import EndTxnRequest
from tests.support.pace import PATIENCE_SECONDS
from tests.support.raw import RawClient
from tests.support.walk import Hop, Walk, followed

if TYPE_CHECKING:
    from kaa.wire.schema import Request

PAGE = Path(__file__).resolve().parents[3] / "docs" / "internals" / "walks.md"
TOPIC = "walked"
PRODUCE_VERSION, FETCH_VERSION, CREATE_VERSION = 9, 11, 7
# Large enough that a fetch sends it by sendfile.
VALUE = bytes(20_000)
# What a node does beside any request may fall into one of them; the shortest counts.
WALKS = 5
# A step or two that timing adds or leaves out are not another way.
MORE_HOPS_MAX = 3
MORE_FILES_MAX = 1
ROW = re.compile(r"^\| `(\S+)` \| (.+?) \|", re.MULTILINE)
TOTAL = re.compile(r"(\d+) hops in (\d+) files")
# Before and now, in the table of the page.
FIGURES = re.compile(r"^\|.*\| (\d+) in \d+ \| (\d+ in \d+) \|$", re.MULTILINE)
TITLES = (
    "A produce",
    "A fetch",
    "An offset commit",
    "The commit of a transaction",
    "The creation of a topic",
    "A Spark read",
)


def produce() -> ProduceRequest:
    builder = BatchBuilder()
    builder.append(timestamp=0, key=None, value=VALUE)
    data = PartitionProduceData(index=0, records=bytes(builder.build()))
    topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


def fetch() -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics)


def create(topic: str) -> CreateTopicsRequest:
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)


def commit() -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return OffsetCommitRequest(group_id="g", topics=[topic])


Do = Callable[[], Awaitable[object]]


class Walker:
    """A client in a thread, whose requests the loop of this one serves."""

    def __init__(self, broker: Broker, client: RawClient) -> None:
        self._broker = broker
        self._client = client
        self._created = 0
        self._sequence = 0

    async def ask(self, request: Request[Any], version: int) -> Any:
        return await asyncio.wait_for(
            asyncio.to_thread(self._client.ask, request, version), PATIENCE_SECONDS
        )

    async def until(self, request: Request[Any], version: int, error: Callable[[Any], int]) -> Any:
        """The answer without an error: coordinators take a while to be there."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while error(answer := await self.ask(request, version)) != Errors.NONE:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return answer

    async def best(self, do: Do, before: Do | None = None) -> Walk:
        walks = []
        # What is loaded or opened at the first time is not part of the way.
        for _ in range(2 + WALKS):
            if before is not None:
                await before()
            with followed() as walk:
                await do()
            walks.append(walk)
        return min(walks[2:], key=lambda walk: len(walk.hops))

    async def create(self) -> None:
        """Until the partition leads."""
        self._created += 1
        name = f"created-{self._created}"
        answer = await self.ask(create(name), CREATE_VERSION)
        assert answer.topics[0].error_code == Errors.NONE
        find = self._broker.services.replicas.find
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not getattr(find(name, 0), "is_leader", False):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def begin(self, producer: InitProducerIdResponse) -> None:
        """A transaction with one batch in it."""
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        await self.until(
            add,
            3,
            lambda answer: (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
        )
        builder = BatchBuilder(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=self._sequence,
            is_transactional=True,
        )
        builder.append(timestamp=0, key=None, value=b"")
        self._sequence += 1
        data = PartitionProduceData(index=0, records=bytes(builder.build()))
        topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
        request = ProduceRequest(
            transactional_id="x", acks=-1, timeout_ms=30_000, topic_data=topics
        )
        answer = await self.ask(request, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == Errors.NONE

    async def end(self, producer: InitProducerIdResponse) -> None:
        """Until its markers are written."""
        request = EndTxnRequest(
            transactional_id="x",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=True,
        )
        answer = await self.ask(request, 4)
        assert answer.error_code == Errors.NONE
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self._is_complete():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def _is_complete(self) -> bool:
        # To ask is not part of the way.
        note = sys.getprofile()
        sys.setprofile(None)
        try:
            found = self._broker.services.transactions.describe(
                "x",
                lambda transaction: mapped(lambda state: state.title, [transaction.state]),
                lambda refusal: pytest.fail(str(refusal)),
            )
        finally:
            sys.setprofile(note)
        return found.result() == ["CompleteCommit"]

    async def spark_read(self) -> Walk:
        """In the thread of the task, and in that of its connections."""
        options = source_options(
            {"kafka.bootstrap.servers": self._broker.bootstrap_servers, "subscribe": TOPIC},
            is_stream=False,
        )
        brokers = brokers_of(options.settings)
        task = Task(OffsetRange(TopicPartition(TOPIC, 0), 0, 1), None, kaa.__version__)

        def read(walk: Walk) -> None:
            async def follow(note: Any) -> None:
                sys.setprofile(note)

            brokers.call(follow(walk.note))
            try:
                with followed(walk):
                    (batch,) = RangeReader(options, task, ("value",)).batches()
            finally:
                brokers.call(follow(None))
            assert batch.num_rows == 1

        walks = [Walk() for _ in range(2 + WALKS)]
        for walk in walks:
            await asyncio.wait_for(asyncio.to_thread(read, walk), PATIENCE_SECONDS)
        return min(walks[2:], key=lambda walk: len(walk.hops))


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Walk]:
    return asyncio.run(_walk(tmp_path_factory.mktemp("walks")))


async def _walk(folder: Path) -> dict[str, Walk]:
    overrides = ["listeners=PLAINTEXT://127.0.0.1:0"]
    settings = development_settings(str(folder), environment={}, overrides=overrides)
    async with running(broker := Broker(load_broker_config(settings).config, formats_empty=True)):
        with RawClient(broker.bootstrap_servers) as client:
            walker = Walker(broker, client)
            ask = walker.ask
            await ask(create(TOPIC), CREATE_VERSION)
            walks = {
                "A produce": await walker.best(lambda: ask(produce(), PRODUCE_VERSION)),
                "A fetch": await walker.best(lambda: ask(fetch(), FETCH_VERSION)),
                "The creation of a topic": await walker.best(walker.create),
                "A Spark read": await walker.spark_read(),
            }
            keys = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
            await ask(keys, 4)
            await walker.until(
                commit(), 8, lambda answer: answer.topics[0].partitions[0].error_code
            )
            walks["An offset commit"] = await walker.best(lambda: ask(commit(), 8))
            await ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
            init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
            producer = await walker.until(init, 4, lambda answer: answer.error_code)
            walks["The commit of a transaction"] = await walker.best(
                lambda: walker.end(producer), before=lambda: walker.begin(producer)
            )
            return walks


def described(title: str) -> tuple[list[Hop], int, int]:
    """The hops that the page names, and how many there are at most, in how many files."""
    section = PAGE.read_text("utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    hops = [
        Hop(module, function)
        for module, functions in ROW.findall(section)
        for function in re.findall(r"`([^`]+)`", functions)
    ]
    total = TOTAL.search(section)
    assert total is not None
    return hops, int(total[1]), int(total[2])


@pytest.mark.parametrize("title", ["A produce", "A fetch"])
def test_the_way_is_the_one_on_the_page(walks: dict[str, Walk], title: str) -> None:
    hops, _, _ = described(title)
    way = walks[title].hops
    came = [hop for hop in way if hop in hops]
    assert came == hops, "write the way as it is now into docs/internals/walks.md"
    unnamed = [hop for hop in way if hop not in hops]
    assert len(unnamed) <= MORE_HOPS_MAX, unnamed


@pytest.mark.parametrize("title", TITLES)
def test_the_way_is_as_long_as_the_page_says(walks: dict[str, Walk], title: str) -> None:
    _, hops, files = described(title)
    walk = walks[title]
    way = f"{len(walk.hops)} in {len(walk.modules)}\n"
    way += "\n".join(" ".join(hop) for hop in walk.hops)
    assert abs(len(walk.hops) - hops) <= MORE_HOPS_MAX, way
    assert abs(len(walk.modules) - files) <= MORE_FILES_MAX, way


def test_every_way_is_shorter_than_it_was(walks: dict[str, Walk]) -> None:
    figures = FIGURES.findall(PAGE.read_text("utf-8"))
    totals = [described(title)[1:] for title in TITLES]
    assert [now for _, now in figures] == [f"{hops} in {files}" for hops, files in totals]
    longer = [
        f"{title}: {len(walks[title].hops)} hops, {before} before"
        for title, (before, _) in zip(TITLES, figures, strict=True)
        if len(walks[title].hops) >= int(before)
    ]
    assert longer == []
