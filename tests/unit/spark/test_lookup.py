"""What the driver asks brokers before a batch."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kaa.client import TopicPartition
from kaa.client.errors import KafkaError, UnreachableError
from kaa.client.group.offsets import OffsetAndMetadata
from kaa.client.sync import Admin
from kaa.spark.errors import OptionError
from kaa.spark.lookup import Lookup
from kaa.spark.offsets import EARLIEST, LATEST
from kaa.spark.options import Bound, SourceOptions, source_options
from tests.support.both_clusters import bootstrap, kaa_node, topic_name
from tests.support.broker_process import BrokerProcess
from tests.unit.spark.nodes import Topic

__all__ = ["bootstrap", "kaa_node", "topic_name"]


@pytest.fixture
def topic(bootstrap: str, topic_name: str) -> Topic:
    made = Topic(bootstrap, topic_name, partitions=2)
    made.send([b"x" * 100] * 50, partition=0)
    made.send([b"y" * 300] * 10, partition=1)
    return made


def lookup_of(topic: Topic, **options: str) -> tuple[Lookup, SourceOptions]:
    parsed = topic.options(**options)
    return Lookup(parsed), parsed


def partitions(topic: Topic) -> tuple[TopicPartition, TopicPartition]:
    return TopicPartition(topic.name, 0), TopicPartition(topic.name, 1)


def test_partitions_by_name_pattern_and_list(topic: Topic) -> None:
    both = list(partitions(topic))
    found = lookup_of(topic)[0].partitions()
    assert found.partitions == both
    assert list(found.topic_ids) == [topic.name]
    base = {"kafka.bootstrap.servers": topic.servers}
    pattern = source_options(base | {"subscribePattern": topic.name[:-1] + "."}, is_stream=True)
    assert Lookup(pattern).partitions().partitions == both
    # What tools keep of their own is in no pattern, as Kafka's internal topics are.
    Topic(topic.servers, f"__kaa_{topic.name}")
    everything = source_options(base | {"subscribePattern": f".*{topic.name}"}, is_stream=True)
    assert Lookup(everything).partitions().partitions == both
    assign = json.dumps({topic.name: [1]})
    one = source_options(base | {"assign": assign}, is_stream=True)
    assert Lookup(one).partitions().partitions == both[1:]
    nothing = source_options(base | {"subscribePattern": "none"}, is_stream=True)
    assert Lookup(nothing).partitions().partitions == []


def test_metadata_is_kept_as_long_as_asked(topic: Topic) -> None:
    lookup = lookup_of(topic, **{"partition.metadata.cache.ttl.ms": "60000"})[0]
    assert lookup.partitions() is lookup.partitions()
    lookup = lookup_of(topic)[0]
    assert lookup.partitions() is not lookup.partitions()


def test_brokers_that_were_there_are_waited_for(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as node, ThreadPoolExecutor(1) as pool:
        topic = Topic(node.bootstrap_servers, "t", partitions=2)
        topic.send([b"x"] * 5)
        lookup, _ = lookup_of(topic, **{"fetchOffset.numRetries": "0"})
        both = lookup.partitions().partitions
        node.kill()
        found = pool.submit(lambda: (lookup.partitions().partitions, lookup.latest(both)))
        node.start()
        assert found.result(90) == (both, {both[0]: 5, both[1]: 0})


def test_brokers_that_never_were_there_are_not() -> None:
    given = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": "t",
        "fetchOffset.numRetries": "0",
    }
    with pytest.raises(UnreachableError, match="cannot connect"):
        Lookup(source_options(given, is_stream=True)).partitions()


def test_a_topic_that_is_not_there(topic: Topic) -> None:
    given = {"kafka.bootstrap.servers": topic.servers, "subscribe": "no-such-topic"}
    missing = Lookup(source_options(given, is_stream=True))
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        missing.partitions()


def test_bounds(topic: Topic) -> None:
    lookup, _ = lookup_of(topic)
    zero, one = partitions(topic)
    both = [zero, one]
    topic.delete_before(5)
    assert lookup.resolve(Bound(offset=EARLIEST), both) == {zero: 5, one: 0}
    assert lookup.resolve(Bound(offset=LATEST), both) == {zero: 50, one: 10}
    given = Bound(offsets={zero: -1, one: 3}, option="startingOffsets")
    assert lookup.resolve(given, both) == {zero: 50, one: 3}
    assert lookup.resolve(Bound(timestamp_ms=0, option="startingTimestamp"), both) == {
        zero: 5,
        one: 0,
    }
    late = 99_999_999_999_999
    assert lookup.resolve(Bound(timestamp_ms=late, option="endingTimestamp"), both) == {
        zero: 50,
        one: 10,
    }
    with pytest.raises(OptionError, match="is at or after the time"):
        lookup.resolve(Bound(timestamp_ms=late, option="startingTimestamp"), both)
    with pytest.raises(OptionError, match="must name every partition"):
        lookup.resolve(Bound(offsets={zero: 1}, option="startingOffsets"), both)


def test_the_offsets_of_a_group(topic: Topic) -> None:
    zero, one = partitions(topic)
    with Admin(topic.settings) as admin:
        admin.run(lambda it: it.alter_group_offsets(topic.name, {zero: OffsetAndMetadata(7)}))
    bound = Bound(group=topic.name, option="startingOffsets")
    with pytest.raises(OptionError, match="has no offset of"):
        lookup_of(topic)[0].resolve(bound, [zero, one])
    earliest = lookup_of(topic, groupFallback="earliest")[0]
    assert earliest.resolve(bound, [zero, one]) == {zero: 7, one: 0}
    latest = lookup_of(topic, groupFallback="latest")[0]
    assert latest.resolve(bound, [zero, one]) == {zero: 7, one: 10}


def test_sizes_of_rows_are_estimated(topic: Topic) -> None:
    lookup, _ = lookup_of(topic)
    zero, one = partitions(topic)
    lookup.partitions()
    densities = lookup.densities({zero: 0, one: 10}, {zero: 50, one: 10})
    assert densities.keys() == {zero}
    assert 100 < densities[zero].bytes_per_offset < 130
    assert densities[zero].first_batch_end == 50
