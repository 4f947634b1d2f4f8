"""Topics whose closed segments are in an object store, as unmodified clients see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import KafkaException

from kaa.wire.errors import Errors
from tests.clients.librdkafka import consumer
from tests.support.broker_thread import BrokerThread, broker_thread
from tests.support.object_store import emulated_s3
from tests.support.pace import PATIENCE_SECONDS
from tests.support.tiered import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST_TIERED,
    ONE_REPLICA,
    QUICK,
    TIERED,
    fill,
    make_topic,
    offset_of,
    read,
    until,
    value,
    wait_until_tiered,
)

COUNT = 2_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tier")


@pytest.fixture(scope="module")
def node(folder: Path) -> Iterator[BrokerThread]:
    store = f"rsm.config.url={(folder / 'store').as_uri()}"
    with broker_thread(folder / "data", *QUICK, *ONE_REPLICA, store) as made:
        yield made


def objects(folder: Path, topic: str) -> list[Path]:
    return sorted((folder / "store").glob(f"{topic}-0-*/*"))


def alter(servers: str, topic: str, **settings: str) -> None:
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry(name.replace("_", "."), text, incremental_operation=AlterConfigOpType.SET)
            for name, text in settings.items()
        ],
    )
    admin = AdminClient({"bootstrap.servers": servers})
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(PATIENCE_SECONDS)


def test_clients_read_the_whole_history(node: BrokerThread) -> None:
    servers = node.bootstrap_servers
    make_topic(servers, "history")
    fill(servers, "history", COUNT)
    local = wait_until_tiered(servers, "history")
    assert COUNT - local < 600
    assert offset_of(servers, "history", EARLIEST) == 0
    assert offset_of(servers, "history", LATEST_TIERED) == local - 1
    assert offset_of(servers, "history", EARLIEST_PENDING_UPLOAD) == local
    assert read(servers, "history", 0, COUNT) == [value(number) for number in range(COUNT)]
    # From the middle of a batch, over the end of the remote part.
    assert read(servers, "history", local - 33, COUNT)[:40] == [
        value(number) for number in range(local - 33, local + 7)
    ]
    # By time: in the store, at its end, on the disk.
    for number in (0, 1, 777, local - 1, local, COUNT - 1):
        assert offset_of(servers, "history", 1_000 * number) == number
    assert offset_of(servers, "history", 1_000 * COUNT) == -1


def test_s3(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    place = emulated_s3(request)
    options = [f"rsm.config.{name}={text}" for name, text in place.options.items()]
    settings = (*QUICK, *ONE_REPLICA, f"rsm.config.url={place.url}", *options)
    with broker_thread(tmp_path, *settings) as node:
        servers = node.bootstrap_servers
        make_topic(servers, "history")
        fill(servers, "history", COUNT, compression="zstd")
        fill(servers, "history", COUNT, COUNT)
        wait_until_tiered(servers, "history")
        found = read(servers, "history", 0, 2 * COUNT)
        assert found == [value(number) for number in range(2 * COUNT)]


def test_aborted_transactions_in_the_store_are_not_read(node: BrokerThread) -> None:
    servers = node.bootstrap_servers
    make_topic(servers, "payments")
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "till"})
    producer.init_transactions(PATIENCE_SECONDS)
    committed = []
    for transaction in range(12):
        producer.begin_transaction()
        for number in range(200):
            producer.produce("payments", value=value(1000 * transaction + number), partition=0)
        if transaction % 3 == 1:
            producer.flush(PATIENCE_SECONDS)
            producer.abort_transaction(PATIENCE_SECONDS)
        else:
            producer.commit_transaction(PATIENCE_SECONDS)
            committed += [value(1000 * transaction + number) for number in range(200)]
    wait_until_tiered(servers, "payments")
    end = 12 * 201
    found = read(servers, "payments", 0, end, isolation_level="read_committed")
    assert found == committed
    assert len(read(servers, "payments", 0, end, isolation_level="read_uncommitted")) == 2400


def test_records_are_deleted_in_the_store_too(node: BrokerThread, folder: Path) -> None:
    servers = node.bootstrap_servers
    make_topic(servers, "trimmed")
    fill(servers, "trimmed", COUNT)
    local = wait_until_tiered(servers, "trimmed")
    before = len(objects(folder, "trimmed"))
    middle = local - 200
    admin = AdminClient({"bootstrap.servers": servers})
    for deleted in admin.delete_records([TopicPartition("trimmed", 0, middle)]).values():
        assert deleted.result(PATIENCE_SECONDS).low_watermark == middle
    assert offset_of(servers, "trimmed", EARLIEST) == middle
    assert offset_of(servers, "trimmed", 1_000) == middle
    until(lambda: len(objects(folder, "trimmed")) < before, "old segments are deleted remotely")
    assert read(servers, "trimmed", middle, COUNT) == [value(n) for n in range(middle, COUNT)]
    with consumer(servers) as made:
        made.assign([TopicPartition("trimmed", 0, middle - 1)])
        message = made.poll(PATIENCE_SECONDS)
        assert message.error().name() == "_AUTO_OFFSET_RESET"


def test_a_deleted_topic_leaves_nothing_in_the_store(node: BrokerThread, folder: Path) -> None:
    servers = node.bootstrap_servers
    make_topic(servers, "doomed")
    fill(servers, "doomed", COUNT)
    wait_until_tiered(servers, "doomed")
    assert objects(folder, "doomed")
    admin = AdminClient({"bootstrap.servers": servers})
    for deleted in admin.delete_topics(["doomed"]).values():
        deleted.result(PATIENCE_SECONDS)
    until(lambda: not objects(folder, "doomed"), "the objects of a deleted topic are deleted")


def test_a_topic_leaves_the_tier_and_comes_back(node: BrokerThread, folder: Path) -> None:
    servers = node.bootstrap_servers
    make_topic(servers, "wanderer")
    fill(servers, "wanderer", COUNT)
    local = wait_until_tiered(servers, "wanderer")
    with pytest.raises(KafkaException, match=r"remote\.log\.delete\.on\.disable"):
        alter(servers, "wanderer", remote_storage_enable="false")
    alter(
        servers,
        "wanderer",
        remote_storage_enable="false",
        remote_log_delete_on_disable="true",
        local_retention_bytes="-2",
    )
    until(lambda: not objects(folder, "wanderer"), "the remote segments are deleted")
    assert offset_of(servers, "wanderer", EARLIEST) == local
    assert offset_of(servers, "wanderer", LATEST_TIERED) == -1
    alter(servers, "wanderer", remote_storage_enable="true", local_retention_bytes="1")
    fill(servers, "wanderer", COUNT, COUNT)
    until(lambda: wait_until_tiered(servers, "wanderer") > COUNT, "it is tiered again")
    assert read(servers, "wanderer", local, 2 * COUNT) == [
        value(number) for number in range(local, 2 * COUNT)
    ]


def test_copying_is_turned_off_and_what_is_remote_stays_readable(node: BrokerThread) -> None:
    servers = node.bootstrap_servers
    make_topic(servers, "frozen")
    fill(servers, "frozen", COUNT)
    wait_until_tiered(servers, "frozen")
    alter(servers, "frozen", remote_log_copy_disable="true", local_retention_bytes="-2")
    fill(servers, "frozen", COUNT, COUNT)
    assert offset_of(servers, "frozen", LATEST_TIERED) < COUNT
    assert read(servers, "frozen", 0, 2 * COUNT) == [value(number) for number in range(2 * COUNT)]


def test_a_missing_or_damaged_object_is_an_error_of_that_fetch(
    node: BrokerThread, folder: Path
) -> None:
    servers = node.bootstrap_servers
    make_topic(servers, "damaged")
    fill(servers, "damaged", COUNT)
    wait_until_tiered(servers, "damaged")
    index = next(path for path in objects(folder, "damaged") if path.suffix == ".index")
    kept = index.read_bytes()
    index.write_bytes(bytes(len(kept)))
    with consumer(servers) as made:
        made.assign([TopicPartition("damaged", 0, 0)])
        error = made.poll(PATIENCE_SECONDS).error()
        assert error is not None
        assert error.code() == Errors.UNKNOWN_SERVER_ERROR
    assert any("remote log of damaged-0 cannot be read" in said for said in node.reports)
    index.write_bytes(kept)
    missing = next(path for path in objects(folder, "damaged") if path.suffix == ".log")
    away = missing.rename(missing.with_suffix(".away"))
    with consumer(servers) as made:
        made.assign([TopicPartition("damaged", 0, 0)])
        assert made.poll(PATIENCE_SECONDS).error().code() == Errors.UNKNOWN_SERVER_ERROR
    away.rename(missing)
    assert read(servers, "damaged", 0, COUNT) == [value(number) for number in range(COUNT)]


def test_compacted_topics_are_not_tiered(node: BrokerThread) -> None:
    with pytest.raises(KafkaException, match=r"cleanup\.policy must be delete or empty"):
        make_topic(
            node.bootstrap_servers, "compacted", config=TIERED | {"cleanup.policy": "compact"}
        )


def test_a_restart_goes_on_with_what_is_in_the_store(tmp_path: Path) -> None:
    store = f"rsm.config.url={(tmp_path / 'store').as_uri()}"
    settings = (*QUICK, *ONE_REPLICA, store)
    with broker_thread(tmp_path / "data", *settings) as node:
        make_topic(node.bootstrap_servers, "history")
        fill(node.bootstrap_servers, "history", COUNT)
        local = wait_until_tiered(node.bootstrap_servers, "history")
    assert (tmp_path / "data" / "remote-log-metadata.snapshot").exists()
    with broker_thread(tmp_path / "data", *settings) as node:
        servers = node.bootstrap_servers
        assert offset_of(servers, "history", EARLIEST) == 0
        assert offset_of(servers, "history", EARLIEST_LOCAL) == local
        assert read(servers, "history", 0, COUNT) == [value(number) for number in range(COUNT)]
    # Without its tier the node would take the tail for the whole topic.
    with pytest.raises(ExceptionGroup) as failure, broker_thread(tmp_path / "data"):
        raise AssertionError("it started")
    assert "topics are in remote storage (history)" in str(failure.value.exceptions[0])
