from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_NOT_FOUND, EXIT_PARTLY, EXIT_USAGE
from kaa.cli.consume import _consume as consume
from kaa.cli.reading import ReadSpan, join_group
from kaa.cli.root import EXIT_FAILED, EXIT_INTERRUPTED, root
from kaa.client import Consumer, Producer
from kaa.model.topics import TopicPartition
from kaa.testing import Broker
from tests.support.broker_process import kaa_command
from tests.support.children import running
from tests.support.pace import PATIENCE_SECONDS


def kaa(bootstrap: str, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap], input=stdin)


@pytest.fixture
def filled(bootstrap: str, topic_name: str) -> str:
    """A topic with ten records, one each second of 2020 in UTC, which retention leaves alone."""
    made = kaa(bootstrap, "topic", "create", topic_name, "-p", "1", "-c", "retention.ms=-1")
    assert made.exit_code == 0, made.output
    lines = [
        json.dumps({"key": None, "value": str(n), "timestamp_ms": 1_577_836_800_000 + n * 1000})
        for n in range(10)
    ]
    answer = kaa(bootstrap, "produce", topic_name, "--json", stdin="\n".join(lines))
    assert answer.exit_code == 0, answer.output
    return topic_name


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("start", "0123456789"),
        ("end", ""),
        ("7", "789"),
        ("+8", "89"),
        ("-2", "89"),
        ("2:5", "234"),
        (":3", "012"),
        ("@2020-01-01T00:00:07", "789"),
        ("@2020-01-01T00:00:02:2020-01-01T00:00:04", "23"),
        ("@1577836808000:end", "89"),
        ("@-1h", ""),
    ],
)
def test_where_to_start_and_stop(bootstrap: str, filled: str, start: str, expected: str) -> None:
    answer = kaa(bootstrap, "consume", filled, "--from", start, "-e", "-f", "%s")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout == expected
    assert f"{filled}-0 from " in answer.stderr


def test_count_and_forms(bootstrap: str, filled: str) -> None:
    assert kaa(bootstrap, "consume", filled, "-n", "2").stdout == "0\n1\n"
    (line,) = kaa(bootstrap, "consume", filled, "-n", "1", "-o", "jsonl").stdout.splitlines()
    assert json.loads(line) == {
        "topic": filled,
        "partition": 0,
        "offset": 0,
        "timestamp_ms": 1_577_836_800_000,
        "key": None,
        "value": "0",
        "headers": [],
    }
    assert kaa(bootstrap, "consume", filled, "-n", "1", "-o", "name").stdout == f"{filled}-0@0\n"


def test_groups_remember(bootstrap: str, filled: str) -> None:
    group = f"group-{filled}"
    first = kaa(bootstrap, "consume", filled, "-g", group, "-n", "4")
    assert first.exit_code == 0, first.output
    assert first.stdout == "0\n1\n2\n3\n"
    rest = kaa(bootstrap, "consume", filled, "-g", group, "-e", "-f", "%s")
    assert rest.stdout == "456789", rest.output
    lag = json.loads(kaa(bootstrap, "group", "lag", group, "-o", "json").stdout)
    assert [row["lag"] for row in lag] == [0]
    assert kaa(bootstrap, "consume", filled, "-g", group, "--from", "end").exit_code == EXIT_USAGE


def test_a_group_has_not_read_what_came_after_the_end(
    bootstrap: str, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll gives what was written since the command began, too."""
    words = ("consume", filled, "-g", f"group-{filled}", "-e", "-f", "%s")

    async def join_early(*arguments: Any, **more: Any) -> dict[TopicPartition, ReadSpan]:
        spans = await join_group(*arguments, **more)
        return {name: span._replace(stop=6) for name, span in spans.items()}

    with monkeypatch.context() as patch:
        patch.setattr("kaa.cli.consume.join_group", join_early)
        early = kaa(bootstrap, *words)
    assert (early.exit_code, early.stdout) == (0, "012345"), early.output
    assert kaa(bootstrap, *words).stdout == "6789"


def test_a_rebalance_leaves_what_it_takes_to_the_other_member(
    bootstrap: str, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = f"group-{topic_name}"
    assert kaa(bootstrap, "topic", "create", topic_name, "-p", "2").exit_code == 0
    settings = {"bootstrap.servers": bootstrap, "group.id": group}

    async def until_shared(other: Consumer, first: Consumer) -> None:
        other.subscribe([topic_name])
        while len(other.assignment) != 1 or len(first.assignment) != 1:
            await asyncio.gather(other.poll(100), first.poll(100))

    async def consume_beside_another(first: Consumer, spans: Any, *rest: Any) -> bool:
        """The command knew the ends of both partitions before another member came."""
        wanted = {name: span._replace(stop=1) for name, span in spans.items()}
        async with Consumer(settings) as other, Producer(settings) as producer:
            await until_shared(other, first)
            for number in range(2):
                await (await producer.send(topic_name, b"v", partition=number))
            return await consume(first, wanted, *rest)

    monkeypatch.setattr("kaa.cli.consume._consume", consume_beside_another)
    answer = kaa(bootstrap, "consume", topic_name, "-g", group, "-e", "-f", "%s")
    assert (answer.exit_code, answer.stdout) == (0, "v"), answer.output


def test_a_group_has_not_read_what_could_not_be_written(bootstrap: str, filled: str) -> None:
    words = ("consume", filled, "-g", f"group-{filled}", "-e", "-f", "%s")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            kaa_command(*words, "-b", bootstrap),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    assert ended.returncode == EXIT_FAILED
    assert "cannot write to standard output: No space left on device" in ended.stderr
    assert kaa(bootstrap, *words).stdout == "0123456789"


def test_patterns(bootstrap: str, filled: str) -> None:
    found = kaa(bootstrap, "consume", filled, "-e", "--grep", "[37]", "-f", "%s")
    assert found.stdout == "37"
    pattern = filled.replace("-", ".")
    assert kaa(bootstrap, "consume", "-r", pattern, "-e", "-f", "%s").stdout == "0123456789"
    rows = json.loads(kaa(bootstrap, "consume", filled, "-e", "-o", "json").stdout)
    assert [row["value"] for row in rows] == list("0123456789")
    table = kaa(bootstrap, "consume", filled, "-n", "1", "-o", "csv").stdout
    assert table.splitlines()[0].startswith("topic,partition,offset")


def test_wrong_use(bootstrap: str, filled: str) -> None:
    wrong = kaa(bootstrap, "consume", filled, "--from", "soon")
    assert wrong.exit_code == EXIT_USAGE
    assert "is not an offset; write start, end" in wrong.stderr
    assert kaa(bootstrap, "consume", filled, "-f", "%x").exit_code == EXIT_USAGE
    assert kaa(bootstrap, "consume", filled, "-p", "7", "-e").exit_code == EXIT_NOT_FOUND
    absent = kaa(bootstrap, "consume", f"{filled}-absent", "--timeout", "0.5")
    assert absent.exit_code == EXIT_NOT_FOUND
    assert "UNKNOWN_TOPIC_OR_PARTITION" in absent.stderr


def test_a_partition_that_gives_nothing_does_not_hold_it() -> None:
    """Its leader goes while it is read, and the end that is waited for never comes."""
    with Broker() as broker:
        topic = broker.topic(partitions=2)
        topic.seed(
            {"value": value, "partition": at} for value, at in (("a", 0), ("b", 1), ("c", 1))
        )
        broker.on("Fetch", topic=topic, partition=1).fail("KAFKA_STORAGE_ERROR")
        answer = kaa(broker.bootstrap_servers, "consume", topic.name, "-e", "--timeout", "1")
    assert answer.exit_code == EXIT_PARTLY, answer.output
    assert answer.stdout == "a\n"
    assert f"{topic.name}-1 was read up to 0, and ends at 2" in answer.stderr


def test_who_interrupts_it_is_told_how_to_go_on(bootstrap: str, filled: str) -> None:
    command = kaa_command("consume", filled, "--from", "2", "-b", bootstrap)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with running(command, **pipes, text=True) as process:
        assert process.stdout is not None
        for number in range(2, 10):
            assert process.stdout.readline() == f"{number}\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == EXIT_INTERRUPTED
    assert "stopped after 8 records\n" in told
    assert told.endswith(f"{filled}-0 goes on with --from 10 -p 0\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_as_an_interrupt_does(
    bootstrap: str, filled: str, number: signal.Signals
) -> None:
    """As `timeout 10 kaa consume ...` does: offsets are committed and the group is left."""
    group = f"{filled}-{number.name}"
    command = kaa_command("consume", filled, "-g", group, "-o", "json", "-b", bootstrap)
    with running(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        shown = "".join(process.stdout.readline() for _ in range(2))
        process.send_signal(number)
        shown += process.stdout.read()
        process.wait(PATIENCE_SECONDS)
    assert process.returncode == 128 + number
    count = len(json.loads(shown))
    assert count > 0
    described = json.loads(kaa(bootstrap, "group", "describe", group, "-o", "json").stdout)
    assert described[0]["members"] == []
    lag = json.loads(kaa(bootstrap, "group", "lag", group, "-o", "json").stdout)
    assert [row["lag"] for row in lag] == [10 - count]
