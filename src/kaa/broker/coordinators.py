"""The coordinators of a node, made from its settings and parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import UUID

from kaa.broker.group_times import GroupTimes
from kaa.coordinators.group.coordinator import OFFSETS_TOPIC, GroupCoordinator
from kaa.coordinators.group.settings import group_settings
from kaa.coordinators.machine import Moment
from kaa.coordinators.shard import Settings
from kaa.coordinators.transaction.coordinator import TRANSACTIONS_TOPIC, TransactionCoordinator
from kaa.coordinators.transaction.settings import FEATURE, transaction_settings
from kaa.records.batch import CompressionType

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from random import Random

    from kaa.config.server import BrokerConfig
    from kaa.coordinators.transaction.settings import TransactionSettings
    from kaa.replication.partition import Partition
    from kaa.serving.services import Services
    from kaa.wire.errors import Errors

Value = TypeVar("Value")


class Derived(Generic[Value]):
    """What is made of the node's settings, which every request asks for. Made again when they
    change: settings are replaced, never altered.
    """

    def __init__(self, services: Services, make: Callable[[BrokerConfig], Value]) -> None:
        self._services = services
        self._make = make
        self._config: BrokerConfig | None = None

    def __call__(self) -> Value:
        config = self._services.config
        if self._config is not config:
            self._value = self._make(config)
            self._config = config
        return self._value


class CoordinatorHost:
    """What the shards of a coordinator need from the node."""

    def __init__(
        self,
        services: Services,
        executor: Executor | None,
        report: Callable[[str], None],
        settings: Callable[[BrokerConfig], Settings],
    ) -> None:
        self.loop = services.loop
        self.executor = executor
        self.report = report
        self.settings = Derived(services, settings)
        self._services = services

    def now(self) -> Moment:
        clock = self._services.clock
        return Moment(clock.wall_ms(), clock.monotonic_ms())

    def has_enough_replicas(self, partition: Partition) -> bool:
        return self._services.replicas.has_enough_replicas(partition)


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


def make_transaction_coordinator(
    services: Services, executor: Executor | None, report: Callable[[str], None]
) -> TransactionCoordinator:
    def partition_count() -> int:
        topic = services.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is not None:
            return len(topic.partitions)
        return services.config.get_int("transaction.state.log.num.partitions")

    async def next_producer_id() -> int | Errors:
        # They are there when the broker has registered.
        return await services.producer_ids.next_id()

    def settings() -> TransactionSettings:
        level = services.image.features.get(FEATURE, 0)
        return transaction_settings(services.config, level)

    return TransactionCoordinator(
        CoordinatorHost(services, executor, report, transaction_shards),
        settings,
        partition_count,
        next_producer_id,
        services.brokers,
    )


def make_group_coordinator(
    services: Services,
    executor: Executor | None,
    random: Random,
    report: Callable[[str], None],
) -> GroupCoordinator:
    def partition_count() -> int:
        topic = services.image.topics.get(OFFSETS_TOPIC)
        if topic is not None:
            return len(topic.partitions)
        return services.config.get_int("offsets.topic.num.partitions")

    return GroupCoordinator(
        CoordinatorHost(services, executor, report, group_shards),
        Derived(services, group_settings),
        partition_count,
        lambda: str(UUID(bytes=random.randbytes(16), version=4)),
        GroupTimes(services),
    )
