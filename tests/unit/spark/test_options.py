"""What may be said about a source or a sink, case by case."""

from __future__ import annotations

import pickle

import pytest

from kaa.model.topics import TopicPartition
from kaa.spark.errors import OptionError
from kaa.spark.offsets import EARLIEST, LATEST
from kaa.spark.options import (
    Bound,
    ClientSettings,
    SourceOptions,
    Topics,
    duration_ms,
    sink_options,
    source_options,
)

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
SINK_BASE = {"kafka.bootstrap.servers": BASE["kafka.bootstrap.servers"]}


def read(options: dict[str, str] | None = None, *, is_stream: bool = False) -> SourceOptions:
    return source_options(BASE | (options or {}), is_stream=is_stream)


def refused(options: dict[str, str], is_stream: bool = False) -> str:
    with pytest.raises(OptionError) as raised:
        source_options(options, is_stream=is_stream)
    return str(raised.value)


def test_defaults_of_a_batch_query() -> None:
    options = read()
    assert options.topics == Topics(names=("t",))
    assert options.start == Bound(offset=EARLIEST)
    assert options.end == Bound(offset=LATEST)
    assert options.columns == (
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    )
    assert options.fails_on_data_loss
    assert not options.is_read_committed
    assert options.poll_timeout_ms == 120_000
    assert (options.offset_retries, options.offset_retry_interval_ms) == (3, 10)
    assert options.metadata_ttl_ms == -1
    assert options.max_trigger_delay_ms == 900_000
    assert options.warnings == ()


def test_a_stream_begins_at_the_latest_offset() -> None:
    assert read(is_stream=True).start == Bound(offset=LATEST)


def test_names_are_not_case_sensitive() -> None:
    options = source_options(
        {
            "KAFKA.Bootstrap.Servers": "a:1",
            "SUBSCRIBEpattern": "t.*",
            "STARTINGOFFSETS": "Earliest",
            "INCLUDEHEADERS": "TRUE",
            "FailOnDataLoss": "False",
        },
        is_stream=True,
    )
    assert options.settings["bootstrap.servers"] == "a:1"
    assert options.topics == Topics(pattern="t.*")
    assert options.start.offset == EARLIEST
    assert options.columns[-1] == "headers"
    assert not options.fails_on_data_loss


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        ({"subscribe": " a, b ,a"}, Topics(names=("a", "b"))),
        (
            {"assign": '{"t":[1,0,1]}'},
            Topics(assigned=(TopicPartition("t", 0), TopicPartition("t", 1))),
        ),
        ({"subscribePattern": "a|b"}, Topics(pattern="a|b")),
    ],
)
def test_topics(options: dict[str, str], topics: Topics) -> None:
    given = {"kafka.bootstrap.servers": "a:1"} | options
    assert source_options(given, is_stream=False).topics == topics


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "t"}, "kafka.bootstrap.servers must be given"),
        ({"kafka.bootstrap.servers": " ", "subscribe": "t"}, "bootstrap.servers must be given"),
        ({"kafka.bootstrap.servers": "a:1"}, "one of the options subscribe"),
        (BASE | {"assign": '{"t":[0]}'}, "only one of the options"),
        (BASE | {"subscribe": " , "}, "names no topics"),
        ({"kafka.bootstrap.servers": "a:1", "assign": "t"}, "names no partitions"),
        ({"kafka.bootstrap.servers": "a:1", "assign": "{"}, "expected e.g."),
        ({"kafka.bootstrap.servers": "a:1", "assign": '{"t":[-1]}'}, "expected e.g."),
        ({"kafka.bootstrap.servers": "a:1", "subscribePattern": ""}, "is empty"),
        ({"kafka.bootstrap.servers": "a:1", "subscribePattern": "("}, "is not a pattern"),
        (BASE | {"kafka.auto.offset.reset": "latest"}, "use startingOffsets"),
        (BASE | {"kafka.key.deserializer": "x"}, "always bytes"),
        (BASE | {"kafka.value.deserializer": "x"}, "always bytes"),
        (BASE | {"kafka.enable.auto.commit": "true"}, "checkpoint"),
        (BASE | {"kafka.interceptor.classes": "x"}, "no Java classes"),
        (BASE | {"startingOffsets": "latest"}, "cannot be latest in a batch query"),
        (BASE | {"startingOffsets": '{"t":{"0":-1}}'}, "t-0 cannot be latest"),
        (BASE | {"startingOffsets": '{"t":{"0":-3}}'}, "below -2"),
        (BASE | {"startingOffsets": "soon"}, "expected e.g."),
        (BASE | {"startingOffsets": "[]"}, "expected e.g."),
        (BASE | {"startingOffsets": '{"t":[0]}'}, "expected e.g."),
        (BASE | {"startingOffsets": "group:"}, "names no group"),
        (BASE | {"endingOffsets": "earliest"}, "cannot be earliest"),
        (BASE | {"endingOffsets": '{"t":{"0":-2}}'}, "t-0 cannot be earliest"),
        (BASE | {"endingOffsets": "group:g"}, "cannot be a group"),
        (BASE | {"startingTimestamp": "-1"}, "at least 0"),
        (BASE | {"startingTimestamp": "noon"}, "not a whole number"),
        (BASE | {"startingOffsetsByTimestamp": '{"t":{"0":-5}}'}, "negative time"),
        (BASE | {"startingOffsetsByTimestampStrategy": "guess"}, "error, latest"),
        (BASE | {"groupFallback": "none"}, "earliest, latest, error"),
        (BASE | {"minPartitions": "0"}, "at least 1"),
        (BASE | {"maxRecordsPerPartition": "-1"}, "at least 1"),
        (BASE | {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is higher than"),
        (BASE | {"maxBytesPerTrigger": "0"}, "at least 1"),
        (BASE | {"maxTriggerDelay": "soon"}, "is not a time"),
        (BASE | {"failOnDataLoss": "maybe"}, "true or false"),
        (BASE | {"isolationLevel": "dirty"}, "read_committed"),
        (
            BASE
            | {"isolationLevel": "read_committed", "kafka.isolation.level": "read_uncommitted"},
            "differ",
        ),
        (BASE | {"columns": "key,color"}, "color is not a column"),
        (BASE | {"columns": ","}, "nothing is not a column"),
        (BASE | {"columns": "key,KEY"}, "twice"),
    ],
)
def test_what_is_refused(options: dict[str, str], text: str) -> None:
    assert text in refused(options)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    assert "not valid in streaming queries" in refused(BASE | {name: "latest"}, is_stream=True)


def test_an_empty_group_is_refused() -> None:
    assert "commitGroup is empty" in refused(BASE | {"commitGroup": ""}, is_stream=True)


def test_times_are_stronger_than_offsets() -> None:
    everything = {
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"t":{"0":6}}',
        "startingOffsets": '{"t":{"0":7}}',
        "endingTimestamp": "15",
        "endingOffsetsByTimestamp": '{"t":{"0":16}}',
        "endingOffsets": '{"t":{"0":17}}',
    }
    partition = TopicPartition("t", 0)
    options = read(everything)
    assert (options.start.timestamp_ms, options.end.timestamp_ms) == (5, 15)
    del everything["startingTimestamp"], everything["endingTimestamp"]
    options = read(everything)
    assert options.start.timestamps_ms == {partition: 6}
    assert options.end.timestamps_ms == {partition: 16}
    del everything["startingOffsetsByTimestamp"], everything["endingOffsetsByTimestamp"]
    options = read(everything)
    assert (options.start.offsets, options.end.offsets) == ({partition: 7}, {partition: 17})


def test_the_offsets_of_a_group() -> None:
    options = read({"startingOffsets": "group:mine", "groupFallback": "latest"}, is_stream=True)
    assert options.start == Bound(group="mine", option="startingOffsets")
    assert options.group_fallback == "latest"


def test_what_has_no_effect_on_a_batch_query_is_told() -> None:
    options = read({"maxOffsetsPerTrigger": "5", "commitGroup": "g"})
    assert options.commit_group is None
    assert [text.split()[1] for text in options.warnings] == [
        "maxoffsetspertrigger",
        "commitgroup",
    ]


def test_the_isolation_level_goes_to_the_client_too() -> None:
    options = read({"isolationLevel": "read_committed"})
    assert options.is_read_committed
    assert options.settings["isolation.level"] == "read_committed"
    assert read({"kafka.isolation.level": "READ_COMMITTED"}).is_read_committed


def test_columns_in_the_order_that_was_asked_for() -> None:
    assert read({"columns": "offset, HEADERS,value"}).columns == ("offset", "headers", "value")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("15m", 900_000), ("90s", 90_000), ("2 h", 7_200_000), ("1d", 86_400_000), ("7", 7)],
)
def test_times(text: str, expected: int) -> None:
    assert duration_ms("x", text) == expected


def test_secrets_are_never_shown() -> None:
    options = read({"kafka.sasl.jaas.config": "password=hush", "kafka.ssl.key.password": "hush"})
    assert "hush" not in repr(options)
    assert "hush" not in str(options.settings)
    copied = pickle.loads(pickle.dumps(options))
    assert isinstance(copied.settings, ClientSettings)
    assert "hush" not in repr(copied)
    assert copied.settings["sasl.jaas.config"] == "password=hush"


def test_options_of_a_sink() -> None:
    options = sink_options(
        SINK_BASE | {"topic": "out", "exactlyOnce": "true", "txnAppId": "a", "txnVersion": "3"}
    )
    assert options.topic == "out"
    assert options.is_exactly_once
    assert (options.application_id, options.application_version) == ("a", 3)
    assert options.transactional_id_prefix == "kaa-spark"
    assert options.transaction_timeout_ms == 900_000


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "bootstrap.servers must be given"),
        (SINK_BASE | {"kafka.key.serializer": "x"}, "strings or bytes"),
        (SINK_BASE | {"kafka.value.serializer": "x"}, "strings or bytes"),
        (SINK_BASE | {"kafka.transactional.id": "x"}, "exactlyOnce"),
        (SINK_BASE | {"topic": ""}, "topic is empty"),
        (SINK_BASE | {"exactlyOnce": "true", "txnAppId": "a"}, "together"),
        (SINK_BASE | {"txnAppId": "a", "txnVersion": "1"}, "need exactlyOnce"),
    ],
)
def test_what_a_sink_refuses(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        sink_options(options)
