"""A node starts beside a log directory that it cannot use, and serves what is in the others."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, Producer

from kaa.client.sync.admin import Admin
from kaa.wire.errors import Errors
from tests.clients.librdkafka import consume, create_topic, send
from tests.clients.samples import FIRST_TIMESTAMP_MS, Sample
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.clients.librdkafka import Delivery

TOPIC = "records"
PARTITIONS = 6
# Root may read and write everything, unless it gives that up.
BOUND = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
BY_USER = "let the user of this process read and write there"


def lock(path: Path) -> Callable[[], object]:
    """Takes the rights to a directory or a file away; returns what gives them back."""
    mode = path.stat().st_mode
    path.chmod(0)
    return partial(path.chmod, mode)


def lock_identity(path: Path) -> Callable[[], object]:
    return lock(path / "meta.properties")


def put_file(path: Path) -> Callable[[], object]:
    """Puts a file in the place of a directory."""
    aside = path.with_name("aside")
    path.rename(aside)
    path.write_text("not a directory")

    def undo() -> None:
        path.unlink()
        aside.rename(path)

    return undo


def produce(node: BrokerProcess, value: bytes) -> list[Delivery]:
    """One record to each partition."""
    settings = {"bootstrap.servers": node.bootstrap_servers, "message.timeout.ms": 4000}
    producer = Producer({**settings, "log_level": 0})
    sample = Sample(None, value, FIRST_TIMESTAMP_MS)
    deliveries = [send(producer, TOPIC, sample, number) for number in range(PARTITIONS)]
    assert producer.flush(PATIENCE_SECONDS) == 0
    return deliveries


@pytest.mark.parametrize(
    ("spoil", "remedy"),
    [
        pytest.param(lock, BY_USER, id="directory"),
        pytest.param(lock_identity, BY_USER, id="identity"),
        pytest.param(put_file, "move the file that is in the place of a directory away", id="file"),
    ],
)
def test_the_others_serve_and_nothing_is_made_in_its_place(
    spoil: Callable[[Path], Callable[[], object]], remedy: str, tmp_path: Path
) -> None:
    data, bad = tmp_path / "node" / "data", tmp_path / "node" / "bad"
    bad.mkdir(parents=True)
    with BrokerProcess(
        tmp_path / "node", f"log.dirs={data},{bad}", f"metadata.log.dir={data}"
    ) as node:
        node.stop()
        node.prefix = BOUND
        node.start()
        create_topic(node.bootstrap_servers, TOPIC, PARTITIONS)
        assert all(one.offset == 0 for one in produce(node, b"before"))
        on_bad = {int(path.name.rpartition("-")[2]) for path in bad.glob(f"{TOPIC}-*")}
        assert 0 < len(on_bad) < PARTITIONS
        node.stop()
        restore = spoil(bad)
        try:
            node.start()
            (line,) = [line for line in node.output.splitlines() if f"{bad} is offline" in line]
            assert remedy in line
            for number, one in enumerate(produce(node, b"during")):
                if number in on_bad:
                    assert one.offset is None
                    assert one.error.code() in {
                        KafkaError.KAFKA_STORAGE_ERROR,
                        KafkaError._MSG_TIMED_OUT,
                    }
                else:
                    assert one.offset == 1, one.error
            with Admin({"bootstrap.servers": node.bootstrap_servers}) as admin:
                states = {one.path: one.error for one in admin.describe_log_dirs()}
            assert states == {str(data): Errors.NONE, str(bad): Errors.KAFKA_STORAGE_ERROR}
            assert not [path for path in data.glob(f"{TOPIC}-*") if int(path.name[-1]) in on_bad]
            node.stop()
        finally:
            restore()
        node.start()
        for number in range(PARTITIONS):
            expected = [b"before"] if number in on_bad else [b"before", b"during"]
            found = consume(node.bootstrap_servers, TOPIC, len(expected), partition=number)
            assert [message.value() for message in found] == expected
