from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_USAGE, Session, load_settings
from kaa.cli.perf import (
    Run,
    _read,
    _there_and_back,
    histogram,
    histogram_lines,
    percentile,
    summary,
)
from kaa.cli.root import root
from kaa.client.consumer.records import ConsumerRecord
from kaa.client.errors import RequestTimeoutError
from kaa.client.producer.delivery import RecordMetadata
from kaa.model.topics import TopicPartition
from tests.support.broker_process import BrokerProcess
from tests.support.terminal import INTERRUPT, typed_into


def kaa(bootstrap: str, *arguments: str) -> Result:
    answer = CliRunner().invoke(root, ["perf", *arguments, "-b", bootstrap])
    assert answer.exit_code == 0, answer.output
    return answer


def test_percentiles() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [percentile(values, percent) for percent in (50, 99, 99.9, 100)] == [50, 99, 100, 100]
    assert percentile([7.0], 50) == 7
    assert summary([3.0, 1.0, 2.0]) == {
        "mean": 2,
        "p50": 2,
        "p90": 3,
        "p99": 3,
        "p99.9": 3,
        "max": 3,
    }


def test_histogram() -> None:
    assert histogram([0.1, 0.2, 3.0, 4.0, 4.1]) == [(0.125, 1), (0.25, 1), (4.0, 2), (8.0, 1)]


def test_bars_fit_the_terminal() -> None:
    bins = [(0.125, 1), (4.0, 200)]
    assert histogram_lines([], 79) == []
    assert [len(line) for line in histogram_lines(bins, 79)] == [28, 67]
    assert [len(line) for line in histogram_lines(bins, 39)] == [28, 39]


def test_runs(bootstrap: str, topic_name: str) -> None:
    written = json.loads(kaa(bootstrap, "produce", topic_name, "-n", "2500", "-o", "json").stdout)
    assert written["records"] == 2500
    assert written["records_per_second"] > 0
    latency_ms = written["latency_ms"]
    assert 0 < latency_ms["p50"] <= latency_ms["p99"] <= latency_ms["max"]
    read = json.loads(kaa(bootstrap, "consume", topic_name, "-o", "json").stdout)
    assert read["records"] == 2500
    table = kaa(bootstrap, "produce", topic_name, "-n", "20", "--rate", "2000").stdout
    assert table.startswith("20 records in ")
    assert "latency in ms: mean " in table
    assert " ms " in table.splitlines()[-1]


def test_end_to_end(bootstrap: str, topic_name: str) -> None:
    answer = json.loads(kaa(bootstrap, "e2e", topic_name, "-n", "20", "-o", "json").stdout)
    assert answer["records"] == 20
    assert answer["latency_ms"]["p50"] < 1000


@pytest.mark.parametrize("verb", ["produce", "e2e"])
def test_a_refused_record_ends_the_run_and_says_why(
    kaa_node: BrokerProcess, topic_name: str, verb: str
) -> None:
    to = ["-b", kaa_node.bootstrap_servers]
    small = [*("topic", "create", topic_name, "-c", "max.message.bytes=1000"), *to]
    assert CliRunner().invoke(root, small).exit_code == 0
    run = ["perf", verb, topic_name, "-n", "300", "--size", "5000", *to]
    answer = CliRunner().invoke(root, run)
    assert answer.exit_code == 1
    assert "stopped after 0 of 300 records" in answer.stderr
    assert "MESSAGE_TOO_LARGE (10)" in answer.stderr
    assert "send smaller records" in answer.stderr


def test_a_record_that_nobody_takes_is_given_up_in_time() -> None:
    """The time of a command bounds the delivery too, as far as the properties allow that."""
    settings = load_settings("localhost", [], None, 3.0)
    assert settings["delivery.timeout.ms"] == "3005"
    settings = load_settings("localhost", ["linger.ms=100"], None, 3.0)
    assert settings["delivery.timeout.ms"] == "3100"
    settings = load_settings("localhost", ["delivery.timeout.ms=60000"], None, 3.0)
    assert settings["delivery.timeout.ms"] == "60000"
    assert "delivery.timeout.ms" not in load_settings("localhost", [], None, None)


def test_what_cannot_be_read_ends_the_run() -> None:
    class Silent:
        async def send(self, *_: object, **__: object) -> asyncio.Future[RecordMetadata]:
            written: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
            written.set_result(RecordMetadata("orders", 0, 7, 0))
            return written

        async def poll(self, timeout_ms: int) -> dict[TopicPartition, list[ConsumerRecord]]:
            return {}

        async def position(self, _name: TopicPartition) -> int:
            return 3

    silent: Any = Silent()
    run = Run(Session({"default.api.timeout.ms": "10"}, "table", is_verbose=False))
    name = TopicPartition("orders", 0)
    with pytest.raises(RequestTimeoutError, match="offset 7 of orders-0 was written"):
        asyncio.run(_there_and_back(silent, silent, name, run))
    with pytest.raises(RequestTimeoutError, match=r"nothing could be read for 0.01 s"):
        asyncio.run(_read(silent, {name: 7}, 4, run))


@pytest.mark.parametrize("verb", ["produce", "e2e"])
def test_who_interrupts_it_sees_what_was_measured(
    kaa_node: BrokerProcess, topic_name: str, verb: str
) -> None:
    count = "1000000000"
    arguments = ["perf", verb, topic_name, "-n", count, "-b", kaa_node.bootstrap_servers]
    shown = typed_into(arguments, [], end=INTERRUPT, columns=40)
    assert f" of {count} records" in shown
    assert "latency in ms: mean" in shown
    measured = re.search(r"(\d+) records in ", shown)
    assert measured is not None
    assert int(measured[1]) > 0
    # On the way the progress fits a terminal of 40 columns.
    lines = [
        line for line in re.split(r"\r|\n", shown) if line.startswith(("writing", "measuring"))
    ]
    assert all(len(line.replace("\x1b[K", "").replace("^C", "")) < 40 for line in lines)


def test_a_count_of_records_may_be_called_so() -> None:
    answer = CliRunner().invoke(root, ["perf", "produce", "t", "--records", "-5"])
    assert answer.exit_code == EXIT_USAGE
    assert "-5 is not in the range x>=1" in answer.stderr
