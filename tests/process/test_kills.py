"""Kills without warning, at moments drawn from seeds; the soak runs many more of them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.process import kills
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS


@pytest.mark.parametrize("seed", [1, 2])
def test_idempotent_producer(broker: BrokerProcess, seed: int) -> None:
    load = kills.run(broker, seed, kills=4, enable_idempotence=True)
    kills.check_nothing_lost(broker, load)
    kills.check_nothing_twice(broker, load)
    broker.stop()


def test_producer_without_idempotence(broker: BrokerProcess) -> None:
    load = kills.run(broker, seed=3, kills=3, enable_idempotence=False)
    kills.check_nothing_lost(broker, load)
    broker.stop()


def test_what_was_recovered_stays(broker: BrokerProcess) -> None:
    """A clean restart after the kills shows the same records again."""
    load = kills.run(broker, seed=4, kills=2, enable_idempotence=True)
    before = [kills.numbers(broker.bootstrap_servers, number) for number in range(kills.PARTITIONS)]
    broker.stop()
    broker.start()
    after = [kills.numbers(broker.bootstrap_servers, number) for number in range(kills.PARTITIONS)]
    assert after == before
    kills.check_nothing_twice(broker, load)


def test_topics(broker: BrokerProcess) -> None:
    """Creations and deletions that were acknowledged hold, and no folder is left over."""
    random = Random(5)
    certain: set[str] = set()
    in_doubt: set[str] = set()
    names = (f"t{number}" for number in itertools.count())
    for _ in range(4):
        timer = threading.Timer(random.uniform(0.02, 0.5), broker.kill)
        timer.start()
        change_topics(broker, names, certain, in_doubt)
        timer.join()
        broker.start()
        listed = topics(broker)
        assert certain <= listed <= certain | in_doubt
        certain, in_doubt = listed, set()
    # As in Kafka, a deletion that the node did not live to carry out leaves a folder put aside.
    folders = {
        path.name
        for path in broker.data_dir.iterdir()
        if path.is_dir() and not path.name.endswith(("-delete", "-stray"))
    }
    assert folders == {f"{name}-0" for name in certain} | {"__cluster_metadata-0"}
    assert len(certain) > 4
    broker.stop()


def change_topics(
    broker: BrokerProcess, names: Iterator[str], certain: set[str], in_doubt: set[str]
) -> None:
    """Creates topics, and deletes every third, until the node is gone."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for number, name in enumerate(names):
        in_doubt.add(name)
        try:
            done(admin.create_topics([NewTopic(name, 1, 1)], request_timeout=1.0))
            certain.add(name)
            if number % 3 == 2:
                certain.remove(name)
                done(admin.delete_topics([name], request_timeout=1.0))
            in_doubt.remove(name)
        except KafkaException:
            return


def done(futures: dict[str, Any]) -> None:
    for future in futures.values():
        future.result(PATIENCE_SECONDS)


def topics(broker: BrokerProcess) -> set[str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return set(admin.list_topics(timeout=PATIENCE_SECONDS).topics)
