"""The coordinators of a node, made from its settings and parts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import UUID

from kaa.broker.group_times import GroupTimes
from kaa.coordinators.group.coordinator import GroupCoordinator
from kaa.coordinators.group.settings import (
    consumer_times,
    group_settings,
    share_times,
    streams_times,
)
from kaa.coordinators.loading import Settings
from kaa.coordinators.machine import Moment
from kaa.coordinators.share.coordinator import ShareCoordinator
from kaa.coordinators.share.settings import share_state_settings
from kaa.coordinators.transaction.coordinator import TransactionCoordinator
from kaa.coordinators.transaction.settings import FEATURE, transaction_settings
from kaa.log.errors import LogError
from kaa.model.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, TopicPartition
from kaa.records.batch import CompressionType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor
    from random import Random

    from kaa.config.server import BrokerConfig
    from kaa.coordinators.share.persister import Persister
    from kaa.coordinators.transaction.markers import MarkerPort
    from kaa.coordinators.transaction.settings import TransactionSettings
    from kaa.log.manager import LogManager
    from kaa.serving.producer_ids import ProducerIds
    from kaa.serving.view import NodeView
    from kaa.wire.primitives import Uuid

Value = TypeVar("Value")


class Derived(Generic[Value]):
    """What is made of the node's settings, which every request asks for. Made again when they
    change: settings are replaced, never altered.
    """

    def __init__(self, view: NodeView, make: Callable[[BrokerConfig], Value]) -> None:
        self._view = view
        self._make = make
        self._config: BrokerConfig | None = None

    def __call__(self) -> Value:
        config = self._view.config
        if self._config is not config:
            self._value = self._make(config)
            self._config = config
        return self._value


class CoordinatorHost:
    """What the shards of a coordinator need from the node."""

    def __init__(
        self,
        view: NodeView,
        executor: Executor | None,
        report: Callable[[str], None],
        settings: Callable[[BrokerConfig], Settings],
    ) -> None:
        self.loop = view.loop
        self.executor = executor
        self.report = report
        self.settings = Derived(view, settings)
        self._view = view

    def now(self) -> Moment:
        clock = self._view.clock
        return Moment(clock.wall_ms(), clock.monotonic_ms())


def group_shards(config: BrokerConfig) -> Settings:
    return Settings(
        config.get_int("group.coordinator.append.linger.ms"),
        config.get_int("offsets.commit.timeout.ms"),
        config.get_int("offsets.load.buffer.size"),
        CompressionType(config.get_int("offsets.topic.compression.codec")),
    )


def transaction_shards(config: BrokerConfig) -> Settings:
    return Settings(
        -1,
        config.get_int("request.timeout.ms"),
        config.get_int("transaction.state.log.load.buffer.size"),
        CompressionType.NONE,
    )


def share_shards(config: BrokerConfig) -> Settings:
    return Settings(
        config.get_int("share.coordinator.append.linger.ms"),
        config.get_int("share.coordinator.write.timeout.ms"),
        config.get_int("share.coordinator.load.buffer.size"),
        CompressionType(config.get_int("share.coordinator.state.topic.compression.codec")),
    )


def make_share_coordinator(
    view: NodeView,
    logs: LogManager,
    executor: Executor | None,
    report: Callable[[str], None],
) -> ShareCoordinator:
    def partition_count() -> int:
        topic = view.image.topics.get(SHARE_GROUP_STATE)
        if topic is not None:
            return len(topic.partitions)
        return view.config.get_int("share.coordinator.state.topic.num.partitions")

    def topic_partition_count(topic_id: Uuid) -> int:
        topic = view.image.topics_by_id.get(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def prune(offsets: Mapping[int, int]) -> list[int]:
        """Durable with the next checkpoint: what comes back after a crash was replaced later on."""
        pruned = []
        for number, offset in offsets.items():
            with suppress(LogError):
                logs.delete_records(TopicPartition(SHARE_GROUP_STATE, number), offset)
                pruned.append(number)
        return pruned

    return ShareCoordinator(
        CoordinatorHost(view, executor, report, share_shards),
        Derived(view, share_state_settings),
        partition_count,
        topic_partition_count,
        prune,
    )


def make_transaction_coordinator(
    view: NodeView,
    producer_ids: ProducerIds,
    markers: MarkerPort,
    executor: Executor | None,
    report: Callable[[str], None],
) -> TransactionCoordinator:
    def partition_count() -> int:
        topic = view.image.topics.get(TRANSACTION_STATE)
        if topic is not None:
            return len(topic.partitions)
        return view.config.get_int("transaction.state.log.num.partitions")

    configured = Derived(view, transaction_settings)

    def settings() -> TransactionSettings:
        found, level = configured(), view.image.features.get(FEATURE, 0)
        if found.transaction_version == level:
            return found
        return found._replace(transaction_version=level)

    return TransactionCoordinator(
        CoordinatorHost(view, executor, report, transaction_shards),
        settings,
        partition_count,
        producer_ids.next_id,
        markers,
    )


def make_group_coordinator(
    view: NodeView,
    persister: Persister,
    executor: Executor | None,
    random: Random,
    report: Callable[[str], None],
) -> GroupCoordinator:
    def partition_count() -> int:
        topic = view.image.topics.get(CONSUMER_OFFSETS)
        if topic is not None:
            return len(topic.partitions)
        return view.config.get_int("offsets.topic.num.partitions")

    return GroupCoordinator(
        CoordinatorHost(view, executor, report, group_shards),
        Derived(view, group_settings),
        partition_count,
        lambda: str(UUID(bytes=random.randbytes(16), version=4)),
        GroupTimes(view, consumer_times),
        GroupTimes(view, share_times),
        GroupTimes(view, streams_times),
        persister,
        view.errands,
    )
