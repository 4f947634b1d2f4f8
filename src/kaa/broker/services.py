"""The services of a broker, built once: each part is given those that it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.broker.assembly import make_fetch_sessions, make_peers
from kaa.broker.coordinators import (
    make_group_coordinator,
    make_share_coordinator,
    make_transaction_coordinator,
)
from kaa.serving.delayed import LongPolls
from kaa.serving.metadata_answers import MetadataAnswers
from kaa.serving.services import Services
from kaa.serving.share.manager import SharePartitions
from kaa.serving.share.offsets import ShareGroupOffsets
from kaa.serving.share.persister import ShareStatePersister
from kaa.serving.streams_topics import StreamsTopics
from kaa.serving.topic_creation import TopicCreation
from kaa.serving.transactions.additions import Additions
from kaa.serving.transactions.markers import Markers
from kaa.serving.transactions.peers import RemoteBrokers
from kaa.serving.transactions.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from random import Random

    from kaa.replication.manager import ReplicaManager
    from kaa.serving.producer_ids import ProducerIds
    from kaa.serving.remote_logs import RemoteLogs
    from kaa.serving.services import NodeServices


def make_services(
    node: NodeServices,
    replicas: ReplicaManager,
    producer_ids: ProducerIds,
    executor: Executor,
    random: Random,
    report: Callable[[str], None] = lambda _: None,
    remote_logs: RemoteLogs | None = None,
) -> Services:
    """`executor` is where coordinators load their partitions."""
    view = node.view
    topic_creation = TopicCreation(view, node.controller)
    brokers = RemoteBrokers(view, make_peers(view.config, random))
    shares = make_share_coordinator(view, node.logs, executor, report)
    persister = ShareStatePersister(view, shares, replicas, topic_creation, brokers)
    groups = make_group_coordinator(view, persister, executor, random, report)
    markers = Markers(view, replicas, groups, brokers)
    transactions = make_transaction_coordinator(view, producer_ids, markers, executor, report)
    additions = Additions(view, transactions)
    return Services(
        view=view,
        controller=node.controller,
        metadata=node.metadata,
        logs=node.logs,
        batch_work=node.batch_work,
        api_versions=node.api_versions,
        replicas=replicas,
        remote_logs=remote_logs,
        fetch_sessions=make_fetch_sessions(view.config, random),
        metadata_answers=MetadataAnswers(view),
        polls=LongPolls(view.loop),
        topic_creation=topic_creation,
        streams_topics=StreamsTopics(view, node.controller),
        producer_ids=producer_ids,
        groups=groups,
        transactions=transactions,
        brokers=brokers,
        markers=markers,
        additions=additions,
        verification=Verification(view, replicas, transactions.partition_for, additions, brokers),
        shares=shares,
        share_partitions=SharePartitions(view, replicas, node.batch_work, persister),
        share_offsets=ShareGroupOffsets(view, groups, replicas, persister, brokers),
    )
