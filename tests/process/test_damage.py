"""Torn tails and flipped bits in every kind of file that a node keeps.

A directory is filled once, in two states: as a kill leaves it, and as a clean stop leaves it. Each
test damages all files of one kind in a copy of it. What can be made anew is made anew, and nothing
is lost. What cannot is reported in words, and nothing is served that is not true.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from kaa.broker import StartError
from kaa.records.batch import iter_batches
from kaa.records.record import iter_records
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from tests.clients.librdkafka import create_topic, produce
from tests.clients.samples import FIRST_TIMESTAMP_MS, Sample
from tests.support.broker_process import BrokerProcess
from tests.support.broker_thread import broker_thread
from tests.support.raw import RawClient

Damage = Callable[[bytes], bytes]

RECORDS = 40
SETTINGS = ("log.flush.offset.checkpoint.interval.ms=100", "log.cleaner.backoff.ms=100")
TOPIC = "t"
METADATA = "__cluster_metadata-0"


def tear(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    damaged = bytearray(content)
    if damaged:
        damaged[len(damaged) // 2] ^= 0x10
    return bytes(damaged)


def empty(_: bytes) -> bytes:
    return b""


DAMAGES = (tear, flip, empty)


class Stored(NamedTuple):
    """The directory in its two states, with the numbers of the records in it."""

    killed: Path
    stopped: Path


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    root = tmp_path_factory.mktemp("damage")
    with BrokerProcess(root / "node", *SETTINGS) as node:
        create_topic(node.bootstrap_servers, TOPIC, 1, **{"internal.segment.bytes": 1_000})
        for _ in range(2):
            samples = [Sample(None, b"%d" % n, FIRST_TIMESTAMP_MS + n) for n in range(RECORDS // 2)]
            settings = {"enable.idempotence": True, "batch.num.messages": 2, "linger.ms": 0}
            produce(node.bootstrap_servers, TOPIC, samples, **settings)
        node.kill()
        shutil.copytree(node.data_dir, root / "killed")
        node.start()
        node.stop()
        shutil.copytree(node.data_dir, root / "stopped")
    return Stored(root / "killed", root / "stopped")


def numbers(address: str) -> list[int]:
    """The numbers of all records, in order, with whole batches that are as they were."""
    found: list[int] = []
    with RawClient(address) as client:
        offset = 0
        while True:
            partition = FetchPartition(
                partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
            )
            topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
            request = FetchRequest(max_wait_ms=0, session_epoch=-1, topics=topics)
            ((answer,),) = [topic.partitions for topic in client.ask(request, 12).responses]
            assert answer.error_code == 0
            batches = list(iter_batches(bytes(answer.records or b"")))
            if not batches:
                return found
            for batch in batches:
                batch.ensure_valid()
                found += [int(record.value or b"") for record in iter_records(batch)]
                offset = batch.next_offset


@contextmanager
def damaged(source: Path, target: Path, pattern: str, damage: Damage) -> Iterator[Path]:
    shutil.copytree(source, target)
    paths = sorted(path for path in target.glob(pattern) if path.is_file())
    assert paths, f"no {pattern}"
    for path in paths:
        # A metadata snapshot cannot be written to, not even by its owner.
        path.chmod(0o644)
        path.write_bytes(damage(path.read_bytes()))
    yield target


WHOLE = [n for _ in range(2) for n in range(RECORDS // 2)]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("state", ["killed", "stopped"])
@pytest.mark.parametrize(
    "pattern",
    [
        f"{TOPIC}-0/*.index",
        f"{TOPIC}-0/*.timeindex",
        f"{TOPIC}-0/*.snapshot",
        f"{TOPIC}-0/leader-epoch-checkpoint",
        "*-offset-checkpoint",
        f"{METADATA}/*.index",
        f"{METADATA}/*.timeindex",
        f"{METADATA}/leader-epoch-checkpoint",
        f"{METADATA}/partition.metadata",
    ],
)
def test_what_can_be_made_anew(
    stored: Stored, tmp_path: Path, pattern: str, state: str, damage: Damage
) -> None:
    source: Path = getattr(stored, state)
    if not list(source.glob(pattern)):
        assert state == "killed"
        return
    with damaged(source, tmp_path / "data", pattern, damage) as data_dir:
        for _ in range(2):
            with broker_thread(data_dir) as node:
                assert numbers(node.bootstrap_servers) == WHOLE


@pytest.mark.parametrize("state", ["killed", "stopped"])
@pytest.mark.parametrize("damage", [tear, empty])
def test_the_id_of_a_topic_is_told_again(
    stored: Stored, tmp_path: Path, state: str, damage: Damage
) -> None:
    pattern = f"{TOPIC}-0/partition.metadata"
    with (
        damaged(getattr(stored, state), tmp_path / "data", pattern, damage) as data_dir,
        broker_thread(data_dir) as node,
    ):
        assert numbers(node.bootstrap_servers) == WHOLE


@pytest.mark.parametrize("state", ["killed", "stopped"])
def test_the_id_of_another_topic(stored: Stored, tmp_path: Path, state: str) -> None:
    """As in Kafka, such a log is put aside as it is, and the partition begins anew."""

    def change(content: bytes) -> bytes:
        return content[:-4] + (b"A" if content[-4:-3] != b"A" else b"B") + content[-3:]

    source: Path = getattr(stored, state)
    pattern = f"{TOPIC}-0/partition.metadata"
    with damaged(source, tmp_path / "data", pattern, change) as data_dir:
        for _ in range(2):
            with broker_thread(data_dir) as node:
                assert numbers(node.bootstrap_servers) == []
        (stray,) = data_dir.glob(f"{TOPIC}-0.*-stray")
        before = {path.name: path.read_bytes() for path in source.glob(f"{TOPIC}-0/*.log")}
        assert {path.name: path.read_bytes() for path in stray.glob("*.log")} == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_marker_of_a_clean_stop(stored: Stored, tmp_path: Path, damage: Damage) -> None:
    pattern = ".kafka_cleanshutdown"
    with (
        damaged(stored.stopped, tmp_path / "data", pattern, damage) as data_dir,
        broker_thread(data_dir) as node,
    ):
        assert numbers(node.bootstrap_servers) == WHOLE


@pytest.mark.parametrize("damage", DAMAGES)
def test_records_of_the_last_segment_after_a_kill(
    stored: Stored, tmp_path: Path, damage: Damage
) -> None:
    """What was not flushed ends with the last whole batch before the damage."""
    last = max((stored.killed / f"{TOPIC}-0").glob("*.log")).name
    pattern = f"{TOPIC}-0/{last}"
    with damaged(stored.killed, tmp_path / "data", pattern, damage) as data_dir:
        (data_dir / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
        with broker_thread(data_dir) as node:
            found = numbers(node.bootstrap_servers)
    assert 0 < len(found) <= len(WHOLE)
    assert found == WHOLE[: len(found)]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "pattern",
    [
        "meta.properties",
        "bootstrap.checkpoint",
        f"{METADATA}/quorum-state",
        f"{METADATA}/*.log",
        f"{METADATA}/*.checkpoint",
    ],
)
def test_what_a_node_cannot_do_without(
    stored: Stored, tmp_path: Path, pattern: str, damage: Damage
) -> None:
    """It serves the whole truth or nothing, and says why."""
    with damaged(stored.stopped, tmp_path / "data", pattern, damage) as data_dir:
        try:
            with broker_thread(data_dir) as node:
                if f"{TOPIC}-0" in {path.name for path in data_dir.iterdir()}:
                    assert numbers(node.bootstrap_servers) == WHOLE
        except ExceptionGroup as group:
            refusals, others = group.split(StartError)
            assert others is None
            assert refusals is not None
            assert all(str(refusal) for refusal in refusals.exceptions)
