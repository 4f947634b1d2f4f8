"""The coordinators of a node, made from its settings and parts."""

from __future__ import annotations

from typing import TYPE_CHECKING
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

    from kaa.coordinators.transaction.settings import TransactionSettings
    from kaa.replication.partition import Partition
    from kaa.serving.services import Services
    from kaa.wire.errors import Errors


class GroupHost:
    """What the shards of the group coordinator need from the node."""

    def __init__(
        self, services: Services, executor: Executor | None, report: Callable[[str], None]
    ) -> None:
        self.loop = services.loop
        self.executor = executor
        self.report = report
        self._services = services

    def now(self) -> Moment:
        clock = self._services.clock
        return Moment(clock.wall_ms(), clock.monotonic_ms())

    def settings(self) -> Settings:
        config = self._services.config
        return Settings(
            config.get_int("group.coordinator.append.linger.ms"),
            config.get_int("offsets.commit.timeout.ms"),
            config.get_int("offsets.load.buffer.size"),
            CompressionType(config.get_int("offsets.topic.compression.codec")),
        )

    def has_enough_replicas(self, partition: Partition) -> bool:
        return self._services.replicas.has_enough_replicas(partition)


class TransactionHost(GroupHost):
    """What the shards of the transaction coordinator need from the node."""

    def settings(self) -> Settings:
        config = self._services.config
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
        TransactionHost(services, executor, report),
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
        GroupHost(services, executor, report),
        lambda: group_settings(services.config),
        partition_count,
        lambda: str(UUID(bytes=random.randbytes(16), version=4)),
        GroupTimes(services),
    )
