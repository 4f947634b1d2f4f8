from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kaa import limits
from kaa.client.sync import Consumer, Producer
from kaa.client.sync.admin import Admin
from kaa.testing import Cluster


def bytes_of(value: object) -> bytes:
    assert isinstance(value, bytes | memoryview)
    return bytes(value)


def test_a_cluster_outlives_its_controller() -> None:
    with Cluster() as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap_servers}
        assert len(cluster.bootstrap_servers.split(",")) == 3
        with Producer(settings | {"acks": "all"}) as producer:
            for number in range(5):
                producer.send("orders", f"{number}").result()
        first = cluster.controller
        cluster.kill(first)
        second = cluster.controller
        assert second != first
        assert len(cluster.bootstrap_servers.split(",")) == 2
        with Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"}) as producer:
            producer.send("orders", "after").result()
        cluster.restart(first)
        assert len(cluster.bootstrap_servers.split(",")) == 3
        with Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
            }
        ) as consumer:
            consumer.subscribe(["orders"])
            values: list[object] = []
            while len(values) < 6:
                for records in consumer.poll(5_000).values():
                    values += [record.value for record in records]
            assert sorted(map(bytes_of, values)) == [b"0", b"1", b"2", b"3", b"4", b"after"]


def test_a_node_that_cannot_get_ready_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster() as cluster:
        for node_id in (1, 2, 3):
            cluster.kill(node_id)
        monkeypatch.setattr(limits, "TESTING_START_SECONDS_MAX", 0.5)
        with pytest.raises(TimeoutError, match="a majority of all 3 must run for that"):
            cluster.restart(3)
        monkeypatch.undo()
        cluster.restart(1)


def test_nodes_that_are_not_there() -> None:
    with Cluster(1) as cluster, pytest.raises(ValueError, match="there are 1 to 1"):
        cluster.kill(7)


def brokers(cluster: Cluster) -> int:
    with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        return len(admin.describe_cluster().brokers)


def wait_until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(1_000):
        if is_so():
            return
        pause.wait(0.1)
    raise AssertionError("not within 100 s")


def lose_controllers(cluster: Cluster) -> None:
    """The controller is paused, the next one cut off; both come back as followers."""
    first = cluster.controller
    cluster.pause(first)
    second = cluster.controller
    assert second != first
    cluster.heal()
    for other in {1, 2, 3} - {second}:
        cluster.cut(second, other)
    # Clients reach the node all the same.
    assert brokers(cluster)
    wait_until(lambda: cluster.controller != second)
    cluster.heal()
    wait_until(lambda: brokers(cluster) == 3)


def test_a_fixture(kafka_cluster: Cluster) -> None:
    assert brokers(kafka_cluster) == 3
    lose_controllers(kafka_cluster)
    with pytest.raises(ValueError, match="cut off from itself"):
        kafka_cluster.cut(2, 2)


@pytest.mark.slow
def test_nodes_as_processes() -> None:
    with Cluster(process=True) as cluster:
        lose_controllers(cluster)
        victim = cluster.controller
        cluster.kill(victim)
        assert cluster.controller != victim
        cluster.restart(victim)
        wait_until(lambda: brokers(cluster) == 3)
        assert any("ready on" in line for line in cluster.reports(victim))


@pytest.mark.parametrize("count", [0, -2])
def test_a_cluster_has_a_node(count: int) -> None:
    with pytest.raises(ValueError, match=f"at least one node, not {count}"):
        Cluster(count)
