"""What handlers work with: the parts of a node, put together by the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from kaa.config.server import BrokerConfig
    from kaa.controller.image import ClusterImage
    from kaa.controller.port import ControllerPort
    from kaa.coordinators.group.coordinator import GroupCoordinator
    from kaa.coordinators.transaction.coordinator import TransactionCoordinator
    from kaa.log.manager import LogManager
    from kaa.quorum.driver import QuorumDriver
    from kaa.replication.manager import ReplicaManager
    from kaa.serving.brokers import Brokers
    from kaa.serving.delayed import LongPolls
    from kaa.serving.fetch_sessions import FetchSessions
    from kaa.serving.producer_ids import ProducerIds
    from kaa.serving.topic_creation import TopicCreation
    from kaa.serving.verification import Verification
    from kaa.wire.messages.k18_api_versions import ApiVersion


class Clock(Protocol):
    """The two clocks: one that tells the date, one that never jumps."""

    def wall_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class Services:
    """One node as its handlers see it. The broker sets every field before the first request."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    node_id: int
    cluster_id: str
    # The settings in force: of the start, and above them what was changed since.
    config: BrokerConfig
    # Committed metadata.
    image: ClusterImage
    # Its offset: the epoch of the finalized features.
    image_offset: int
    # Where every change of metadata goes.
    controller: ControllerPort
    # This node's replica of the metadata quorum.
    quorum: QuorumDriver
    logs: LogManager
    # For work on batches that takes too long for the loop: a small batch may expand to gigabytes.
    batch_work: Executor
    replicas: ReplicaManager
    fetch_sessions: FetchSessions
    polls: LongPolls
    topic_creation: TopicCreation
    producer_ids: ProducerIds
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    # This and the other brokers, as they serve each other.
    brokers: Brokers
    verification: Verification
    # What ApiVersions says, by the name of the listener.
    api_versions: Mapping[str, list[ApiVersion]]

    @property
    def auto_create_topics(self) -> bool:
        return self.config.get_boolean("auto.create.topics.enable")
