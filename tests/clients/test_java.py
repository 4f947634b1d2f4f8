"""Java's producer and consumer against a running node, through the tools that Kafka ships."""

from __future__ import annotations

import json
import re
import time

import pytest

from tests.clients.librdkafka import as_sample, consume, create_topic, produce
from tests.clients.samples import CODECS, FIRST_TIMESTAMP_MS, Sample
from tests.oracle import Oracle

# ConsoleConsumer counts in a static variable: two at once in one JVM disturb each other.
pytestmark = [pytest.mark.oracle, pytest.mark.xdist_group("console consumer")]

# Key, headers and value of a line as ConsoleProducer reads them, and what is meant by it.
LINES = (
    (b"h:1,h:2\tkey\tvalue", b"key", b"value", (("h", b"1"), ("h", b"2"))),
    (b"NULL\tNULL\twithout a key", None, b"without a key", ()),
    (b"NULL\ttombstone\tNULL", b"tombstone", None, ()),
    (b"empty:\t\t", b"", b"", (("empty", b""),)),
    ("NULL\tkl\u00fc\tw\u00e9rt".encode(), "kl\u00fc".encode(), "w\u00e9rt".encode(), ()),
)


def console_produce(oracle: Oracle, bootstrap: str, topic: str, *options: str) -> None:
    """Sends LINES."""
    done = oracle.run_tool(
        "ConsoleProducer",
        *("--bootstrap-server", bootstrap, "--topic", topic),
        *("--reader-property", "parse.key=true"),
        *("--reader-property", "parse.headers=true"),
        *("--reader-property", "null.marker=NULL"),
        *options,
        stdin=b"\n".join(line for line, *_ in LINES),
    )
    assert (done.code, done.err) == (0, "")


def console_consume(oracle: Oracle, bootstrap: str, topic: str, *options: str) -> list[str]:
    """The lines that ConsoleConsumer prints: one per record."""
    properties = ("timestamp", "key", "offset", "partition", "headers", "value")
    done = oracle.run_tool(
        "ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0"),
        *(word for name in properties for word in ("--formatter-property", f"print.{name}=true")),
        *options,
    )
    lines = done.out.splitlines()
    assert done.code == 0, done.err
    assert done.err.endswith(f"Processed a total of {len(lines)} messages\n")
    return lines


@pytest.mark.parametrize("codec", CODECS)
def test_producer(oracle: Oracle, bootstrap: str, topic: str, codec: str) -> None:
    before_ms = int(time.time() * 1000)
    console_produce(oracle, bootstrap, topic, "--compression-codec", codec)
    messages = consume(bootstrap, topic, len(LINES), check_crcs=True)
    found = [as_sample(message) for message in messages]
    assert [(one.key, one.value, one.headers) for one in found] == [line[1:] for line in LINES]
    assert all(before_ms <= one.timestamp_ms < before_ms + 60_000 for one in found)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acknowledgements(oracle: Oracle, bootstrap: str, topic: str, acks: str) -> None:
    property_ = f"enable.idempotence={'true' if acks == 'all' else 'false'}"
    console_produce(
        oracle, bootstrap, topic, "--request-required-acks", acks, "--command-property", property_
    )
    assert len(consume(bootstrap, topic, len(LINES))) == len(LINES)


@pytest.mark.parametrize("codec", CODECS)
def test_consumer(oracle: Oracle, bootstrap: str, topic: str, codec: str) -> None:
    isolation = "read_committed" if codec in {"none", "zstd"} else "read_uncommitted"
    samples = [
        Sample(key, value, FIRST_TIMESTAMP_MS + number, headers)
        for number, (_, key, value, headers) in enumerate(LINES)
    ]
    produce(bootstrap, topic, samples, compression_codec=codec)
    count = str(len(samples) - 1)
    lines = console_consume(
        oracle,
        bootstrap,
        topic,
        *("--offset", "1", "--max-messages", count, "--isolation-level", isolation),
    )
    time_of = [f"CreateTime:{sample.timestamp_ms}" for sample in samples]
    assert lines == [
        f"{time_of[1]}\tPartition:0\tOffset:1\tNO_HEADERS\tnull\twithout a key",
        f"{time_of[2]}\tPartition:0\tOffset:2\tNO_HEADERS\ttombstone\tnull",
        f"{time_of[3]}\tPartition:0\tOffset:3\tempty:\t\t",
        f"{time_of[4]}\tPartition:0\tOffset:4\tNO_HEADERS\tkl\u00fc\tw\u00e9rt",
    ]


def test_positions(oracle: Oracle, bootstrap: str, topic: str) -> None:
    samples = [Sample(None, b"%d" % number, FIRST_TIMESTAMP_MS) for number in range(100)]
    produce(bootstrap, topic, samples, batch_num_messages=30)
    for offset, first in (("earliest", 0), ("0", 0), ("45", 45), ("99", 99)):
        (line,) = console_consume(
            oracle, bootstrap, topic, "--offset", offset, "--max-messages", "1"
        )
        assert line.endswith(f"\tOffset:{first}\tNO_HEADERS\tnull\t{first}")
    end = console_consume(oracle, bootstrap, topic, "--offset", "latest", "--timeout-ms", "1000")
    assert end == []


def test_verifiable_producer(oracle: Oracle, bootstrap: str, topic: str) -> None:
    done = oracle.run_tool(
        "VerifiableProducer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "1000"),
    )
    assert done.code == 0, done.err
    events = [json.loads(line) for line in done.out.splitlines()]
    acked = [event for event in events if event["name"] == "producer_send_success"]
    assert [event["offset"] for event in acked] == list(range(1000))
    assert (events[-1]["sent"], events[-1]["acked"]) == (1000, 1000)
    values = [message.value() for message in consume(bootstrap, topic, 1000)]
    assert values == [b"%d" % number for number in range(1000)]


def test_producer_performance(oracle: Oracle, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, partitions=3)
    done = oracle.run_tool(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "20000", "--record-size", "100"),
        *("--throughput", "-1", "--bootstrap-server", bootstrap),
    )
    assert done.code == 0, done.err
    assert re.match(r"20000 records sent, [\d.]+ records/sec", done.out.splitlines()[-1])
    offsets = oracle.run_tool("GetOffsetShell", "--bootstrap-server", bootstrap, "--topic", topic)
    ends = [int(line.split(":")[2]) for line in offsets.out.splitlines()]
    assert (len(ends), sum(ends)) == (3, 20_000)


def test_consumer_performance(oracle: Oracle, bootstrap: str, topic: str) -> None:
    samples = [Sample(None, b"x" * 100, FIRST_TIMESTAMP_MS)] * 5_000
    produce(bootstrap, topic, samples)
    done = oracle.run_tool(
        "ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", "5000"),
    )
    assert done.code == 0, done.err
    names, values = (line.split(", ") for line in done.out.splitlines()[-2:])
    figures = dict(zip(names, values, strict=True))
    assert (figures["data.consumed.in.nMsg"], figures["data.consumed.in.MB"]) == ("5000", "0.4768")


def test_end_to_end_latency(oracle: Oracle, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    done = oracle.run_tool(
        "EndToEndLatency",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--num-records", "50"),
        *("--producer-acks", "all", "--record-size", "100"),
    )
    assert done.code == 0, done.err
    assert re.search(r"^Avg latency: [\d.]+ ms$", done.out, re.MULTILINE)


def test_client_compatibility(oracle: Oracle, bootstrap: str, topic: str) -> None:
    options = {
        "topic": topic,
        "num-cluster-nodes": "1",
        "offsets-for-times-supported": "true",
        "cluster-id-supported": "true",
        "create-topics-supported": "true",
        "describe-acls-supported": "true",
        "describe-configs-supported": "true",
        "idempotent-producer-supported": "true",
        "expect-record-too-large-exception": "false",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    done = oracle.run_tool("ClientCompatibilityTest", "--bootstrap-server", bootstrap, *words)
    assert (done.code, done.out) == (0, "SUCCESS.\n"), done.out + done.err
