from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from kaa.limits import PARTITIONS_ENDED_PER_TURN_MAX, PARTITIONS_MADE_PER_TURN_MAX
from kaa.log.append import append_as_leader
from kaa.log.config import LogConfig
from kaa.log.log import UnifiedLog
from kaa.log.sim_files import CrashError, CrashMode, SimFiles
from kaa.model.kinds import ACKS_ALL
from kaa.model.topics import TopicPartition
from kaa.records.batch import CompressionType, TimestampType
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from kaa.wire.messages.metadata_cluster import RegisterBrokerRecord
from kaa.wire.messages.metadata_settings import ConfigRecord
from kaa.wire.messages.metadata_topics import (
    PartitionChangeRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kaa.wire.primitives import UUID_ZERO, Uuid
from tests.unit.log.batches import batch
from tests.unit.log.logs import run_jobs
from tests.unit.replication.support import NODE, TOPIC_ID, Replicas, partition


def test_partitions_are_found_by_name_and_id() -> None:
    replicas = Replicas()
    created = replicas.create()
    manager = replicas.manager
    assert manager.find("t", 0) is created
    assert manager.find_by_id(TOPIC_ID, 0) is created
    assert manager.find("t", 1) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert manager.find("other", 0) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert manager.find_by_id(UUID_ZERO, 0) is Errors.UNKNOWN_TOPIC_ID
    assert list(manager) == [created]


def test_a_recreated_topic_is_not_found_by_id_until_it_is_published() -> None:
    """Records for it would go into the log of the one that is about to be deleted."""
    replicas = Replicas()
    old = replicas.create()
    again = Uuid(b"again" + bytes(11))
    for record in (
        RemoveTopicRecord(topic_id=TOPIC_ID),
        TopicRecord(name="t", topic_id=again),
        partition(topic_id=again),
    ):
        replicas.image.replay(record)
    assert replicas.manager.find_by_id(again, 0) is Errors.UNKNOWN_TOPIC_ID
    replicas.replay()
    found = replicas.manager.find_by_id(again, 0)
    assert isinstance(found, Partition)
    assert found is not old


def test_partition_of_other_brokers_is_not_here() -> None:
    replicas = Replicas()
    replicas.replay(TopicRecord(name="t", topic_id=TOPIC_ID), partition((2,), leader=2))
    assert replicas.manager.find("t", 0) is Errors.NOT_LEADER_OR_FOLLOWER


def test_deleted_topic_loses_its_log() -> None:
    replicas = Replicas()
    created = replicas.create()
    heard: list[bool] = []
    created.wait(lambda: heard.append(created.is_leader))
    replicas.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert replicas.manager.find("t", 0) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert heard == [False]
    assert not replicas.logs.logs
    (folder,) = [
        name for name in replicas.files.list_directory("/data") if name.endswith("-delete")
    ]
    assert folder.startswith("t-0.")


def test_replica_that_moved_away_is_dropped() -> None:
    replicas = Replicas()
    replicas.create()
    change = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=[2], isr=[2], leader=2
    )
    replicas.replay(change)
    assert replicas.manager.find("t", 0) is Errors.NOT_LEADER_OR_FOLLOWER
    assert not replicas.logs.logs


def test_restart_takes_over_what_is_there_and_puts_strays_aside() -> None:
    files = SimFiles()
    replicas = Replicas(files)
    created = replicas.create()
    created.append(batch(3), now_ms=0)
    for _ in replicas.logs.shutdown(now_ms=0, broker_epoch=1):
        pass
    again = Replicas(files)
    for _ in again.manager.start(replicas.image):
        pass
    found = again.manager.find("t", 0)
    assert isinstance(found, Partition)
    assert found.online_log().log_end_offset == 3
    assert found.online_log().high_watermark >= 3
    for _ in again.logs.shutdown(now_ms=0, broker_epoch=1):
        pass
    empty = Replicas(files)
    for _ in empty.manager.start(empty.image):
        pass
    assert not empty.logs.logs
    assert any(name.endswith("-stray") for name in files.list_directory("/data"))


def test_settings_reach_appends_when_they_change() -> None:
    replicas = Replicas()
    created = replicas.create()
    manager = replicas.manager
    assert manager.rules(created.topic).append.compression_type is None
    assert manager.rules(created.topic).append.timestamp_type is TimestampType.CREATE_TIME
    replicas.configs["t"] = LogConfig(
        compression_type="zstd",
        compression_zstd_level=7,
        message_timestamp_type="LogAppendTime",
        cleanup_policy=frozenset({"compact"}),
    )
    replicas.replay(ConfigRecord(resource_type=2, resource_name="t", name="x", value="y"))
    rules = manager.rules(created.topic).append
    assert rules.compression_type is CompressionType.ZSTD
    assert rules.compression_level == 7
    assert rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert rules.is_compacted


def test_default_of_the_broker_reaches_topics_without_their_own() -> None:
    replicas = Replicas()
    created = replicas.create()
    replicas.config = replace(replicas.config, compression_type="uncompressed")
    replicas.replay(ConfigRecord(resource_type=4, resource_name="", name="x", value="y"))
    assert replicas.manager.rules(created.topic).append.compression_type is CompressionType.NONE


def test_a_topic_that_comes_back_has_none_of_the_settings_it_had() -> None:
    replicas = Replicas()
    created = replicas.create()
    manager = replicas.manager
    replicas.configs["t"] = LogConfig(max_message_bytes=2000, min_insync_replicas=2)
    replicas.replay(ConfigRecord(resource_type=2, resource_name="t", name="x", value="y"))
    assert manager.rules("t").append.message_bytes_max == 2000
    replicas.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    # Somebody may still ask on behalf of a partition that has gone.
    assert not manager.is_sending_throttled(created)
    del replicas.configs["t"]
    again = replicas.create()
    assert manager.rules("t").append.message_bytes_max == LogConfig().max_message_bytes
    assert again.min_insync_replicas == 1


def test_min_insync_replicas() -> None:
    replicas = Replicas(config=LogConfig(min_insync_replicas=2))
    created = replicas.create(replicas=(NODE, 2))
    assert created.append_refusal(ACKS_ALL) is None
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[NODE]))
    assert created.append_refusal(ACKS_ALL) is not None


def test_failed_directory_takes_its_partitions_with_it() -> None:
    replicas = Replicas()
    created = replicas.create()
    assert created.log is not None
    created.log.directory.fail(OSError(5, "broken"))
    assert replicas.manager.find("t", 0) is Errors.KAFKA_STORAGE_ERROR
    assert not created.is_leader


# --- a great many new partitions


class Turns:
    """The turns of a loop, taken one by one."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []

    def __call__(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def next(self) -> bool:
        """Takes a turn; False if nobody asked for one."""
        calls, self._calls = self._calls, []
        for call in calls:
            call()
        return bool(calls)


MANY = 3 * PARTITIONS_MADE_PER_TURN_MAX + 1


def create_many() -> tuple[Replicas, Turns]:
    turns = Turns()
    replicas = Replicas(call_soon=turns)
    records = [partition(number=number) for number in range(MANY)]
    replicas.replay(TopicRecord(name="t", topic_id=TOPIC_ID), *records)
    return replicas, turns


def test_many_partitions_are_made_a_few_per_turn() -> None:
    replicas, turns = create_many()
    counts = [len(replicas.logs.logs)]
    while turns.next():
        counts.append(len(replicas.logs.logs))
    step = PARTITIONS_MADE_PER_TURN_MAX
    assert counts == [0, step, 2 * step, 3 * step, MANY]
    assert len(list(replicas.manager)) == MANY


def test_a_partition_that_is_asked_for_does_not_wait_for_its_turn() -> None:
    replicas, turns = create_many()
    found = replicas.manager.find("t", MANY - 1)
    assert isinstance(found, Partition)
    assert found.is_leader
    assert len(replicas.logs.logs) == 1
    assert replicas.manager.find_by_id(TOPIC_ID, MANY - 1) is found
    while turns.next():
        pass
    assert replicas.manager.find("t", MANY - 1) is found
    assert len(replicas.logs.logs) == MANY


def test_who_asks_for_all_gets_all() -> None:
    replicas, turns = create_many()
    assert len(list(replicas.manager)) == MANY
    assert turns.next()
    assert not turns.next()


def test_partitions_deleted_before_their_turn_are_never_made() -> None:
    replicas, turns = create_many()
    assert turns.next()
    replicas.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    while turns.next():
        pass
    assert not replicas.logs.logs
    assert replicas.manager.find("t", MANY - 1) is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_changed_before_their_turn_are_made_as_they_are_then() -> None:
    replicas, turns = create_many()
    moved = PartitionChangeRecord(
        partition_id=MANY - 1, topic_id=TOPIC_ID, replicas=[2], isr=[2], leader=2
    )
    changed = PartitionChangeRecord(partition_id=MANY - 2, topic_id=TOPIC_ID, leader=-1)
    replicas.replay(moved, changed)
    while turns.next():
        pass
    assert replicas.manager.find("t", MANY - 1) is Errors.NOT_LEADER_OR_FOLLOWER
    found = replicas.manager.find("t", MANY - 2)
    assert isinstance(found, Partition)
    assert not found.is_leader


# --- a partition whose turn fails


def test_a_partition_that_cannot_be_changed_costs_the_others_no_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replicas, turns = create_many()
    create = replicas.logs.get_or_create

    def fail(key: TopicPartition, *arguments: Any, **named: Any) -> UnifiedLog:
        if key.partition == 1:
            raise ZeroDivisionError
        return create(key, *arguments, **named)

    monkeypatch.setattr(replicas.logs, "get_or_create", fail)
    while turns.next():
        pass
    assert len(replicas.logs.logs) == MANY - 1
    assert [report for report in replicas.reports if "t-1 could not follow" in report]


def test_settings_that_cannot_be_applied_cost_other_topics_no_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replicas, turns = create_many()
    while turns.next():
        pass
    applied: list[str] = []

    def fail(topic: str, _: Any) -> None:
        if topic == "bad":
            raise ZeroDivisionError
        applied.append(topic)

    other = TopicRecord(name="bad", topic_id=Uuid(b"another-topic-id"))
    monkeypatch.setattr(replicas.logs, "update_topic_config", fail)
    replicas.replay(
        other,
        ConfigRecord(resource_type=2, resource_name="bad", name="x", value="y"),
        ConfigRecord(resource_type=2, resource_name="t", name="x", value="y"),
    )
    while turns.next():
        pass
    assert applied == ["t"]


def test_a_leader_that_fails_to_look_at_brokers_costs_the_others_no_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replicas, turns = create_many()
    while turns.next():
        pass
    looked: list[int] = []

    def fail(partition: Partition) -> None:
        looked.append(partition.number)
        if partition.number == 0:
            raise ZeroDivisionError

    monkeypatch.setattr(Partition, "brokers_changed", fail)
    monkeypatch.setattr(Partition, "shrink_isr", fail)
    # The second change finds the turns as the first did.
    for epoch in (1, 2):
        replicas.replay(RegisterBrokerRecord(broker_id=2, broker_epoch=epoch, rack=None))
        while turns.next():
            pass
        assert looked == list(range(MANY)) * epoch
    looked.clear()
    for _ in replicas.manager.shrink_isr():
        pass
    assert looked == list(range(MANY))
    assert len(replicas.reports) == 3


# --- topics that are deleted and made again

NEXT_ID = Uuid(b"id-of-successor!")
ENDED = 2 * PARTITIONS_ENDED_PER_TURN_MAX + 1


class MadeAgain:
    """A topic with records, and its successor before anybody had a turn."""

    def __init__(self, count: int = ENDED) -> None:
        self.files = SimFiles()
        self.turns = Turns()
        self.is_asked = False
        self.replicas = Replicas(self.files, call_soon=self.turns, forget_deleted=self._ask)
        self.count = count
        records = [partition(number=number) for number in range(count)]
        self.replicas.replay(TopicRecord(name="t", topic_id=TOPIC_ID), *records)
        self.take_turns()
        for log in self.replicas.logs.logs.values():
            append_as_leader(log, batch(3), leader_epoch=0, now_ms=0)
            log.update_high_watermark(3)
            log.increment_log_start_offset(2)
            log.flush(0)
        (directory,) = self.replicas.logs.directories
        self.files.sync_directory("/")
        directory.checkpoint_recovery_points()
        directory.checkpoint_log_start_offsets()
        directory.checkpoint_high_watermarks()

    def _ask(self) -> None:
        self.is_asked = True

    def take_turns(self) -> None:
        while self.turns.next():
            pass
        if self.files.dead:
            # Turns go on for the other partitions, whatever becomes of one.
            raise CrashError

    def replace(self) -> None:
        self.replicas.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
        records = [partition(number=number, topic_id=NEXT_ID) for number in range(self.count)]
        self.replicas.replay(TopicRecord(name="t", topic_id=NEXT_ID), *records)

    def forget(self) -> None:
        assert self.is_asked
        self.is_asked = False
        run_jobs(self.replicas.logs.forget_deleted(), 0)
        self.replicas.manager.names_freed()

    def made(self) -> list[int]:
        return [
            key.partition for key, log in self.replicas.logs.logs.items() if log.topic_id == NEXT_ID
        ]

    def checkpoints_written(self) -> int:
        return sum(
            operation == "rename" and "checkpoint" in path for operation, path in self.files.history
        )


def test_a_topic_made_again_ends_first_and_has_its_checkpoints_written_once() -> None:
    case = MadeAgain()
    before = case.checkpoints_written()
    case.replace()
    counts = [len(case.replicas.logs.logs)]
    while case.turns.next():
        counts.append(len(case.replicas.logs.logs))
    assert all(a - b <= PARTITIONS_ENDED_PER_TURN_MAX for a, b in pairwise(counts))
    assert not case.replicas.logs.logs
    assert case.checkpoints_written() == before
    case.forget()
    assert case.checkpoints_written() == before + 4
    counts = [len(case.made())]
    while case.turns.next():
        counts.append(len(case.made()))
    assert all(b - a <= PARTITIONS_MADE_PER_TURN_MAX for a, b in pairwise(counts))
    assert case.made() == list(range(ENDED))
    assert not case.is_asked
    assert not case.replicas.manager.has_unapplied
    assert case.checkpoints_written() == before + 4


def test_a_partition_whose_name_is_held_is_made_for_one_who_asks() -> None:
    case = MadeAgain()
    case.replace()
    case.take_turns()
    manager = case.replicas.manager
    assert manager.is_unapplied("t", 1)
    found = manager.find("t", 1)
    assert isinstance(found, Partition)
    assert found.topic_id == NEXT_ID
    assert not manager.is_unapplied("t", 1)
    assert case.made() == [1]
    case.forget()
    case.take_turns()
    assert manager.find("t", 1) is found
    assert len(list(manager)) == ENDED


def test_all_are_there_for_one_who_asks_for_all_while_names_are_held() -> None:
    case = MadeAgain()
    case.replace()
    case.take_turns()
    assert len(list(case.replicas.manager)) == ENDED


def test_a_partition_is_made_ready_before_its_turn() -> None:
    case = MadeAgain()
    case.replace()
    manager = case.replicas.manager
    last = ENDED - 1
    assert not manager.make_ready("t", last)
    assert not case.made()
    freed: list[bool] = []
    manager.when_freed(lambda: freed.append(manager.make_ready("t", last)))
    case.forget()
    assert freed == [True]
    assert isinstance(manager.find("t", last), Partition)
    assert case.made() == [last]
    assert manager.make_ready("t", last)


def test_a_topic_deleted_while_its_name_is_held_is_never_made() -> None:
    case = MadeAgain()
    case.replace()
    case.take_turns()
    case.replicas.replay(RemoveTopicRecord(topic_id=NEXT_ID))
    case.take_turns()
    case.forget()
    case.take_turns()
    assert not case.replicas.logs.logs
    assert not case.replicas.manager.has_unapplied
    assert case.replicas.manager.find("t", 0) is Errors.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("mode", ["kill", "lost", "torn"])
def test_a_crash_while_a_topic_is_made_again_brings_nothing_back(mode: CrashMode) -> None:
    crash, is_done = 0, False
    while not is_done:
        case = MadeAgain(2)
        case.files.crash_at = len(case.files.history) + crash
        try:
            case.replace()
            case.take_turns()
            case.forget()
            case.take_turns()
            for log in case.replicas.logs.logs.values():
                append_as_leader(log, batch(4), leader_epoch=0, now_ms=0)
            is_done = True
        except CrashError:
            pass
        image = case.replicas.image
        again = Replicas(case.files.restart(mode, seed=crash))
        # Before the one replica that there is makes it what it has.
        marks = [log.high_watermark for log in again.logs.logs.values() if log.topic_id == NEXT_ID]
        assert not any(marks), crash
        for _ in again.manager.start(image):
            pass
        for number in range(2) if "t" in image.topics else ():
            log = again.logs.logs[TopicPartition("t", number)]
            assert (log.topic_id, log.log_start_offset) == (NEXT_ID, 0), crash
        crash += 1
    assert crash > 20


def test_settings_that_changed_while_logs_were_loaded_reach_them() -> None:
    before = Replicas()
    before.create().append(batch(1), now_ms=0)
    for _ in before.logs.shutdown(now_ms=0, broker_epoch=1):
        pass
    again = Replicas(before.files)
    log = again.logs.logs[TopicPartition("t", 0)]
    again.configs["t"] = LogConfig(retention_ms=77)
    for _ in again.manager.start(before.image):
        pass
    assert log.config.retention_ms == 77
    assert not again.manager._reconfigured
