"""Replicas and leaders of a running cluster, moved by commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kaa.cli.root import root
from kaa.client.admin.admin import NewTopic, ResourceType
from kaa.client.sync.admin import Admin
from kaa.client.sync.clients import Producer
from kaa.testing import Cluster
from tests.oracle.environment import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(4, overrides={"auto.leader.rebalance.enable": "false"}) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as made:
        yield made


def kaa(cluster: Cluster, *arguments: str) -> Result:
    return CliRunner().invoke(
        root, ["cluster", *arguments, "-b", cluster.bootstrap_servers], catch_exceptions=False
    )


def made(admin: Admin, name: str, *replicas: list[int]) -> None:
    assignments = dict(enumerate(replicas))
    assert admin.create_topics([NewTopic(name, assignments=assignments)]) == {name: None}


def replicas_of(admin: Admin, name: str) -> list[list[int]]:
    return [list(one.replicas) for one in admin.describe_topic(name).partitions]


def test_a_plan_by_hand(cluster: Cluster, admin: Admin, tmp_path: Path) -> None:
    made(admin, "by-hand", [1, 2], [2, 1])
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(200):
            producer.send("by-hand", b"x" * 1000, partition=number % 2)
    planned = kaa(cluster, "reassign", "by-hand-0=3,4", "-o", "json")
    assert planned.exit_code == 0, planned.output
    (row,) = json.loads(planned.stdout)
    assert (row["from"], row["to"]) == ([1, 2], [3, 4])
    assert row["size_bytes"] >= 100_000
    assert "add --yes" in planned.stderr
    assert replicas_of(admin, "by-hand") == [[1, 2], [2, 1]]
    assert kaa(cluster, "reassign", "by-hand-0=3,4", "--yes", "--wait").exit_code == 0
    assert replicas_of(admin, "by-hand") == [[3, 4], [2, 1]]
    assert admin.describe_topic("by-hand").partitions[0].leader_id == 3
    plan = {"version": 1, "partitions": [{"topic": "by-hand", "partition": 1, "replicas": [4]}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    answer = kaa(cluster, "reassign", "--file", str(tmp_path / "plan.json"), "--yes", "--wait")
    assert answer.exit_code == 0
    assert replicas_of(admin, "by-hand") == [[3, 4], [4]]
    assert "nothing is on its way" in kaa(cluster, "reassign", "--status").stderr


def test_a_broker_is_drained_under_a_throttle(cluster: Cluster, admin: Admin) -> None:
    made(admin, "drained", [1, 2], [2, 3], [3, 1])
    answer = kaa(cluster, "drain", "2", "--throttle", "100000000", "--yes", "--wait")
    assert answer.exit_code == 0
    topics: list[Any] = admin.list_topics(internal=True)
    assert not [one for topic in topics for one in topic.partitions if 2 in one.replicas]
    for kind, name in ((ResourceType.TOPIC, "drained"), (ResourceType.BROKER, "1")):
        entries = admin.describe_configs(kind, name)
        left = {one.name: one.value for one in entries if ".throttled." in one.name}
        assert set(left.values()) <= {"", None}, left


def test_factor_and_balance(cluster: Cluster, admin: Admin) -> None:
    made(admin, "factor", [1], [1], [1], [1])
    arguments = ("--factor", "2", "--balance", "count", "-t", "factor")
    assert kaa(cluster, "reassign", *arguments, "--yes", "--wait").exit_code == 0
    after = replicas_of(admin, "factor")
    assert all(len(set(one)) == 2 for one in after)
    assert len({one[0] for one in after}) > 1


def test_preferred_leaders_are_elected(cluster: Cluster, admin: Admin) -> None:
    made(admin, "elected", [1, 3])
    # Another order of the same replicas: the leader stays until somebody asks.
    assert kaa(cluster, "reassign", "elected-0=3,1", "--yes", "--wait").exit_code == 0
    if admin.describe_topic("elected").partitions[0].leader_id != 3:
        answer = kaa(cluster, "elect", "elected-0", "-o", "json")
        assert answer.exit_code == 0
        assert [row["status"] for row in json.loads(answer.stdout)] == ["elected"]
    assert wait_until(lambda: admin.describe_topic("elected").partitions[0].leader_id == 3, 30)
    answer = kaa(cluster, "elect", "elected-0", "-o", "json")
    assert [row["status"] for row in json.loads(answer.stdout)] == ["not needed"]
    assert answer.exit_code == 0
    assert kaa(cluster, "elect", "elected-0", "--unclean").exit_code == 2


def test_health_and_description_name_what_is_wrong(cluster: Cluster, admin: Admin) -> None:
    made(admin, "sick", [4, 1], [1, 4])
    made(admin, "sick-alone", [4])
    admin.alter_configs(ResourceType.TOPIC, "sick", [_min_isr(2)])
    cluster.kill(4)
    wanted = {("sick", 0): "under min ISR", ("sick", 1): "under min ISR"}
    wanted["sick-alone", 0] = "offline"

    def found() -> dict[tuple[str, int], str]:
        answer = kaa(cluster, "health", "--timeout", "3", "-o", "json")
        problems = json.loads(answer.stdout)["problems"]
        assert answer.exit_code == 7 or not problems
        return {
            (row["topic"], row["partition"]): row["problem"]
            for row in problems
            if str(row["topic"]).startswith("sick")
        }

    assert wait_until(lambda: found() == wanted, 60), found()
    described = CliRunner().invoke(
        root, ["topic", "describe", "sick", "-o", "json", "-b", cluster.bootstrap_servers]
    )
    (topic,) = json.loads(described.stdout)
    assert {row["problem"] for row in topic["partitions"]} == {"under min ISR"}
    cluster.restart(4)
    assert wait_until(lambda: found() == {}, 60), found()


def _min_isr(count: int) -> Any:
    from kaa.client.admin.admin import ConfigChange

    return ConfigChange("min.insync.replicas", str(count))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("reassign",), "give moves"),
        (("reassign", "orders"), "is not a move"),
        (("reassign", "orders-0=1", "--status"), "give moves"),
        (("drain", "9", "--to", "8"), "no such broker is alive: 8"),
        (("elect", "orders"), "names no partition"),
    ],
)
def test_misuse(cluster: Cluster, arguments: tuple[str, ...], text: str) -> None:
    answer = kaa(cluster, *arguments)
    assert answer.exit_code == 2
    assert text in answer.stderr
