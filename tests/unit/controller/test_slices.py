"""A broker with ten thousand partitions dies: nothing holds the loop for long."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from kaa.controller.brokers import fence_stale_broker
from kaa.controller.loader import MetadataLoader
from kaa.controller.writing import batches_of
from kaa.quorum.replicated_state import CommittedBatch
from tests.unit.controller.cluster import Cluster

PARTITIONS = 10_000
TOPICS = 20
SECONDS_MAX = 0.010


def timed(pieces: Generator[None, None, Any]) -> tuple[Any, float]:
    """What the work gives, and the processor time of its longest piece."""
    longest = 0.0
    while True:
        begun = time.process_time()
        try:
            next(pieces)
        except StopIteration as stop:
            return stop.value, max(longest, time.process_time() - begun)
        longest = max(longest, time.process_time() - begun)


def best(pieces: list[float]) -> float:
    """The collector of garbage may stop by once; it does not in every run."""
    return min(pieces)


def test_a_broker_with_ten_thousand_partitions_is_fenced_in_slices() -> None:
    decided, written, applied = [], [], []
    for _ in range(3):
        cluster = Cluster(3)
        for number in range(TOPICS):
            cluster.create(f"t{number}", partitions=PARTITIONS // TOPICS, factor=3)
        committed = MetadataLoader()
        committed.image = cluster.image.copy()
        for broker_id in (1, 2):
            cluster.heartbeat(broker_id)
        cluster.state.now_ms += 1_000_000
        for broker_id in (1, 2):
            cluster.state.heartbeats.contact(
                broker_id, cluster.epochs[broker_id], cluster.state.now_ms
            )
        result, longest = timed(fence_stale_broker(cluster.state))
        assert len(result.records) == PARTITIONS + 1
        decided.append(longest)
        batches, longest = timed(batches_of(result, cluster.image.features, epoch=1, timestamp=0))
        written.append(longest)
        _, longest = timed(cluster.machine.replay(result.records))
        written.append(longest)
        longest = 0.0
        for place, batch in enumerate(batches):
            values = [b""] * len(batch.records)
            whole = CommittedBatch(place, place, 1, 0, 0, values)
            _, piece = timed(committed.commit(whole, batch.records))
            longest = max(longest, piece)
        applied.append(longest)
        assert not any(
            topic.partitions[number].leader == 0
            for topic in committed.image.topics.values()
            for number in topic.partitions
        )
    assert best(decided) < SECONDS_MAX
    assert best(written) < SECONDS_MAX
    assert best(applied) < SECONDS_MAX
