"""Where batches of a stream end, asked as Spark asks, against a running node."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kaa.spark.options import source_options
from kaa.spark.topic_stream import TopicStreamReader
from tests.support.both_clusters import bootstrap, kaa_node, topic_name
from tests.unit.spark.nodes import Topic

__all__ = ["bootstrap", "kaa_node", "topic_name"]


@pytest.fixture
def topic(bootstrap: str, topic_name: str) -> Topic:
    return Topic(bootstrap, topic_name)


def reader_of(topic: Topic, **more: str) -> TopicStreamReader:
    given = {
        "kafka.bootstrap.servers": topic.servers,
        "subscribe": topic.name,
        "startingOffsets": "earliest",
    }
    return TopicStreamReader(source_options(given | more, is_stream=True), ("value",))


def test_too_few_rows_wait_until_the_delay_is_over(topic: Topic) -> None:
    reader = reader_of(topic, minOffsetsPerTrigger="10", maxTriggerDelay="15m")
    limit = reader.getDefaultReadLimit()
    topic.send([b"x"] * 3)
    # The first batch does not wait.
    first = reader.latestOffset(reader.initialOffset(), limit)
    assert first[topic.name] == {"0": 3}
    topic.send([b"x"] * 4)
    assert reader.latestOffset(first, limit) == first
    # As if a quarter of an hour had gone by since then.
    reader._admitted_at -= 15 * 60
    second = reader.latestOffset(first, limit)
    assert second[topic.name] == {"0": 7}
    topic.send([b"x"] * 2)
    assert reader.latestOffset(second, limit) == second
    # Enough of them do not wait, and neither does a trigger that takes all there is.
    assert reader.latestOffset(second, ReadAllAvailable())[topic.name] == {"0": 9}
    topic.send([b"x"] * 8)
    assert reader.latestOffset(second, limit)[topic.name] == {"0": 17}


def test_what_is_available_now_stays_what_it_was(topic: Topic) -> None:
    topic.send([b"x"] * 3)
    reader = reader_of(topic, maxOffsetsPerTrigger="2")
    reader.prepareForTriggerAvailableNow()
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(reader.initialOffset(), limit)
    assert first[topic.name] == {"0": 2}
    told = reader.reportLatestOffset()
    # A record of one byte is stored in a few more.
    assert (told["@lag"], 2 < told["@bytes"] < 400) == (1, True)
    topic.send([b"x"] * 5)
    second = reader.latestOffset(first, limit)
    assert second[topic.name] == {"0": 3}
    assert reader.latestOffset(second, limit) == second
    assert reader.reportLatestOffset() == {topic.name: {"0": 3}, "@lag": 0, "@bytes": 0}
    assert reader.partitions(second, second) == []
