"""A node that is killed again and again while a replica moves between its log directories."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from kaa.client.admin.admin import NewTopic
from kaa.client.sync.admin import Admin
from kaa.client.sync.clients import Producer
from kaa.model.topics import TopicPartition
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pathlib import Path

KEY = TopicPartition("moved", 0)
SECONDS_MAX = 60
KILLS = 4
RECORDS = 300
RECORD_BYTES = 10_000


def place(admin: Admin, *, is_future: bool = False) -> str | None:
    found = [
        one.path
        for one in admin.describe_log_dirs()
        for replica in one.replicas
        if replica.partition == KEY and replica.is_future == is_future
    ]
    assert len(found) <= 1
    return found[0] if found else None


def is_moved(admin: Admin, target: str) -> bool:
    return place(admin) == target and place(admin, is_future=True) is None


def produce(broker: BrokerProcess, count: int) -> None:
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for _ in range(count):
            producer.send(KEY.topic, bytes(RECORD_BYTES), partition=KEY.partition)


def test_kills_during_moves_lose_nothing_and_every_move_ends(tmp_path: Path) -> None:
    random = Random(18)
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]
    with BrokerProcess(tmp_path / "node", f"log.dirs={','.join(paths)}") as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        with Admin(settings) as admin:
            assert admin.create_topics([NewTopic(KEY.topic, partitions=1)]) == {KEY.topic: None}
        written = 0
        for _ in range(KILLS):
            produce(broker, RECORDS)
            written += RECORDS
            with Admin(settings) as admin:
                source = place(admin)
                target = next(path for path in paths if path != source)
                assert admin.alter_replica_log_dirs({(1, KEY): target}) == {(1, KEY): None}
            wait_until(lambda: False, random.random() / 20)
            broker.kill()
            broker.start()
            with Admin(settings) as admin:
                assert wait_until(partial(is_moved, admin, target), SECONDS_MAX)
                size = next(
                    replica.size_bytes
                    for one in admin.describe_log_dirs()
                    for replica in one.replicas
                    if replica.partition == KEY
                )
            assert size >= written * RECORD_BYTES
    folders = [path.name for name in paths for path in (tmp_path / name).iterdir() if path.is_dir()]
    assert [name for name in folders if name == "moved-0"] == ["moved-0"]
    assert not [name for name in folders if name.endswith("-future")]
