"""Log managers over files in memory."""

from __future__ import annotations

from random import Random

from kaa.log.append import append_as_leader
from kaa.log.config import LogConfig, LogManagerConfig
from kaa.log.dirs import LogDirectory
from kaa.log.log import UnifiedLog
from kaa.log.manager import LogManager
from kaa.log.sim_files import SimFiles
from kaa.model.topics import TopicPartition
from tests.support.ids import uuid
from tests.unit.log.batches import batch
from tests.unit.log.logs import SMALL

A, B = "/a", "/b"
TOPIC_ID = uuid(5)
CONFIG = LogManagerConfig(transaction_partition_verification_enable=False)


def new_manager(
    files: SimFiles,
    paths: tuple[str, ...] = (A,),
    config: LogConfig = SMALL,
    offline: list[LogDirectory] | None = None,
) -> LogManager:
    on_offline = None if offline is None else offline.append
    return LogManager(files, paths, CONFIG, Random(3), lambda _: config, on_offline)


def started(
    files: SimFiles, paths: tuple[str, ...] = (A,), config: LogConfig = SMALL
) -> LogManager:
    manager = new_manager(files, paths, config)
    return start(manager)


def start(manager: LogManager) -> LogManager:
    manager.lock()
    for _ in manager.start(now_ms=0):
        pass
    return manager


def partition_of(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


def filled(manager: LogManager, partition: TopicPartition, count: int = 10) -> UnifiedLog:
    log = manager.get_or_create(partition, TOPIC_ID, now_ms=0)
    for n in range(count):
        append_as_leader(log, batch(2, timestamp=n), leader_epoch=0, now_ms=0)
    log.update_high_watermark(log.log_end_offset)
    return log


def stop(manager: LogManager) -> None:
    for _ in manager.shutdown(now_ms=0, broker_epoch=15):
        pass
