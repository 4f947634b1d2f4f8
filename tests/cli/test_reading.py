from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_PARTLY
from kaa.cli.reading import record_filter
from kaa.cli.root import root
from kaa.client import Admin
from kaa.client.consumer.records import ConsumerRecord
from kaa.testing import Broker
from tests.support.leaderless import without_leader

if TYPE_CHECKING:
    from kaa.client.metadata import Topic


def kaa(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap])


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("ke.", True), ("val", True), ("name=x", True), ("nosuch", False), ("^x$", False)],
)
def test_a_pattern_is_looked_for_everywhere(pattern: str, found: bool) -> None:
    is_wanted = record_filter(pattern)
    assert is_wanted is not None
    assert (
        is_wanted(
            ConsumerRecord("orders", 3, 0, 0, b"key", b"value", (("name", b"x"), ("none", None)))
        )
        is found
    )
    assert not is_wanted(ConsumerRecord("orders", 3, 0, 0, None, None))


def test_without_a_pattern_everything_is_wanted() -> None:
    assert record_filter(None) is None
    with pytest.raises(click.UsageError, match="is not a pattern"):
        record_filter("(")


def test_a_partition_without_a_leader_keeps_nobody_from_the_others() -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        broker.topic("t", partitions=2)
        assert kaa(servers, "produce", "t", "x", "-p", "1").exit_code == 0
        topic = asyncio.run(_described(servers, "t"))
        with without_leader(broker, topic, {0}):
            fast = ("-X", "retry.backoff.ms=10")
            found = kaa(servers, "offsets", "t", "-o", "jsonl", *fast)
            assert found.exit_code == EXIT_PARTLY
            row = json.loads(found.stdout)
            assert (row["partition"], row["end_offset"]) == (1, 1)
            assert "warning: partition t-0 has no leader" in found.stderr
            assert "error: partition t-0: " in found.stderr
            for arguments in (("-p", "0,1"), ("-g", "g")):
                read = kaa(servers, "consume", "t", "-e", *arguments, *fast)
                assert (read.exit_code, read.stdout) == (EXIT_PARTLY, "x\n"), arguments
                assert "error: partition t-0: " in read.stderr
            moved = kaa(
                servers, "group", "seek", "h", "-t", "t", "--to", "end", "-o", "name", *fast
            )
            assert (moved.exit_code, moved.stdout) == (EXIT_PARTLY, "1\n")


def test_what_can_be_done_of_a_topic_without_one_of_its_leaders() -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        broker.topic("t", partitions=2)
        assert kaa(servers, "produce", "t", "x", "-p", "1").exit_code == 0
        assert kaa(servers, "produce", "t", "y", "-p", "1").exit_code == 0
        topic = asyncio.run(_described(servers, "t"))
        fast = ("-X", "retry.backoff.ms=10")
        with without_leader(broker, topic, {0}):
            found = kaa(servers, "topic", "describe", "t", "-o", "json", *fast)
            assert found.exit_code == EXIT_PARTLY
            (described,) = json.loads(found.stdout)
            ends = [one["end_offset"] for one in described["partitions"]]
            assert ends == [None, 2]
            assert "error: partition t-0: " in found.stderr
            for arguments in ((), ("--yes",)):
                cut = kaa(
                    servers, "topic", "trim", "t", "--before", "1", "-o", "jsonl", *fast, *arguments
                )
                assert cut.exit_code == EXIT_PARTLY, cut.output
                row = json.loads(cut.stdout)
                assert (row["partition"], row["new_first_offset"]) == (1, 1)
                assert "error: partition t-0: " in cut.stderr
            moved = kaa(
                servers, "share", "reset", "s", "-t", "t", "--to", "end", "--execute",
                "-o", "jsonl", *fast,
            )  # fmt: skip
            assert moved.exit_code == EXIT_PARTLY, moved.output
            row = json.loads(moved.stdout)
            assert (row["partition"], row["start_offset"]) == (1, 2)
            assert "error: partition t-0: " in moved.stderr


async def _described(servers: str, name: str) -> Topic:
    async with Admin(bootstrap_servers=servers) as admin:
        return await admin.describe_topic(name)
