from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from kaa.cli.client import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_UNHEALTHY
from kaa.client.admin.admin import Admin
from tests.cli.groups import group, kaa
from tests.unit.client.admin.test_streams import join_streams

__all__ = ["group"]


@pytest.fixture
def member(bootstrap: str, topic_name: str, group: str) -> Iterator[Consumer]:
    """A member of the group that has its partitions."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    )
    consumer.subscribe([topic_name])
    for _ in range(300):
        consumer.poll(0.1)
        if consumer.assignment():
            break
    yield consumer
    consumer.close()


def test_list_and_describe(bootstrap: str, group: str) -> None:
    rows = json.loads(kaa(bootstrap, "group", "list", "-o", "json").stdout)
    (row,) = [row for row in rows if row["name"] == group]
    assert row["state"] == "Empty"
    assert group in kaa(bootstrap, "group", "list", "--state", "Empty", "-o", "name").stdout
    table = kaa(bootstrap, "group", "describe", group)
    assert table.exit_code == 0, table.output
    assert "Empty, 0 members" in table.stdout
    absent = kaa(bootstrap, "group", "describe", group, f"{group}-absent")
    assert absent.exit_code == 3
    assert "GROUP_ID_NOT_FOUND" in absent.stderr


def test_a_streams_group(bootstrap: str, topic_name: str) -> None:
    async def join() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            await join_streams(admin, f"{topic_name}-streams", f"{topic_name}-in")

    asyncio.run(join())
    name = f"{topic_name}-streams"
    rows = json.loads(kaa(bootstrap, "group", "list", "--type", "streams", "-o", "json").stdout)
    assert name in {row["name"] for row in rows}
    (described,) = json.loads(kaa(bootstrap, "group", "describe", name, "-o", "json").stdout)
    assert (described["type"], described["members"][0]["tasks"]) == ("Streams", ["0_0", "0_1"])
    assert "0_0" in kaa(bootstrap, "group", "describe", name).stdout


def test_lag(bootstrap: str, topic_name: str, group: str) -> None:
    answer = kaa(bootstrap, "group", "lag", group, "-o", "json")
    rows = json.loads(answer.stdout)
    assert [(row["partition"], row["committed"], row["lag"]) for row in rows] == [
        (0, 2, 3),
        (1, 0, 0),
    ]
    assert f"{group} is 3 records behind" in answer.stderr
    assert kaa(bootstrap, "group", "lag", group, "--max", "3").exit_code == 0
    assert kaa(bootstrap, "group", "lag", group, "--max", "2").exit_code == EXIT_UNHEALTHY
    assert kaa(bootstrap, "group", "lag", f"{group}-absent").exit_code == EXIT_NOT_FOUND


def test_members(bootstrap: str, topic_name: str, group: str, member: Consumer) -> None:
    (described,) = json.loads(kaa(bootstrap, "group", "describe", group, "-o", "json").stdout)
    assert described["state"] == "Stable"
    (only,) = described["members"]
    assert only["partitions"] == [f"{topic_name}-0", f"{topic_name}-1"]
    table = kaa(bootstrap, "group", "lag", group).stdout
    assert "rdkafka" in table
    refused = kaa(bootstrap, "group", "seek", group, "--to", "end", "--execute")
    assert refused.exit_code == EXIT_FAILED
    assert "has members (1)" in refused.stderr
    deleted = kaa(bootstrap, "group", "delete", group, "--yes")
    assert deleted.exit_code == EXIT_FAILED
    assert "NON_EMPTY_GROUP" in deleted.stderr


def test_delete(bootstrap: str, topic_name: str, group: str) -> None:
    assert "would be deleted" in kaa(bootstrap, "group", "delete", group).stdout
    assert kaa(bootstrap, "group", "delete", group, "--yes").exit_code == 0
    assert kaa(bootstrap, "group", "delete", group, "--yes").exit_code == EXIT_NOT_FOUND


def test_watch(bootstrap: str, group: str) -> None:
    arguments = ["group", "watch", group, "--interval", "0.1", "-n", "2"]
    answer = kaa(bootstrap, *arguments, "-o", "jsonl")
    assert answer.exit_code == 0, answer.output
    *_, third, _ = [json.loads(line) for line in answer.stdout.splitlines()]
    assert third["lag"] == 3
    assert third["trend"] == "steady"
    assert f"{group}: 3 records behind" in kaa(bootstrap, *arguments).stdout
