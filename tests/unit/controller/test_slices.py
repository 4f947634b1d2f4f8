"""A broker with ten thousand partitions dies: nothing holds the loop for long."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from kaa.controller.brokers import fence_stale_broker
from kaa.controller.feature_table import record_version
from kaa.controller.framing import encode_record
from kaa.controller.image import ClusterImage
from kaa.controller.leadership import move_leaderships_of_directory
from kaa.controller.loader import MetadataLoader
from kaa.controller.writing import batches_of
from kaa.quorum import OffsetAndEpoch
from kaa.quorum.replicated_state import CommittedBatch
from kaa.quorum.snapshots import SnapshotContent
from tests.unit.controller.cluster import Cluster, directory, uuid

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


@pytest.fixture
def uncollected() -> Iterator[None]:
    """So many new objects make the collector of garbage come by every time, and look at all that
    other tests left; a broker freezes what it starts with, and has thresholds of its own.
    """
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def snapshot(image: ClusterImage) -> SnapshotContent:
    values = [
        encode_record(record, record_version(record, image.features)) for record in image.records()
    ]
    return SnapshotContent(0, 0, None, values)


@pytest.mark.usefixtures("uncollected")
def test_a_snapshot_of_twenty_thousand_partitions_is_loaded_in_slices() -> None:
    cluster = Cluster(3)
    for number in range(TOPICS):
        cluster.create(f"t{number}", partitions=2 * PARTITIONS // TOPICS, factor=3)
    content, longest = snapshot(cluster.image), []
    for _ in range(3):
        loader = MetadataLoader()
        seen: set[int] = set()

        def load(loader: MetadataLoader, seen: set[int]) -> Generator[None, None, None]:
            pieces = loader.load(OffsetAndEpoch(10, 1), content)
            for _ in pieces:
                seen.add(len(loader.image.topics))
                yield

        longest.append(timed(load(loader, seen))[1])
        # All of it counts together, at the end.
        assert seen == {0}
        assert loader.image.topics.keys() == cluster.image.topics.keys()
        # The next one differs by nothing, which is found out in slices too.
        longest[-1] = max(longest[-1], timed(loader.load(OffsetAndEpoch(20, 1), content))[1])
    assert best(longest) < SECONDS_MAX


@pytest.mark.usefixtures("uncollected")
def test_a_directory_with_twenty_thousand_partitions_fails_in_slices() -> None:
    longest = []
    cluster = Cluster(3)
    for number in range(TOPICS):
        cluster.create(f"t{number}", partitions=2 * PARTITIONS // TOPICS, factor=3)
    for _ in range(3):
        # Nothing is in the second of the two, and that takes as many looks.
        for wanted, count in ((directory(1), 2 * PARTITIONS), (uuid(77), 0)):
            records, seconds = timed(move_leaderships_of_directory(cluster.state, 1, wanted))
            assert len(records) == count
            longest.append(seconds)
    assert best(longest[::2]) < SECONDS_MAX
    assert best(longest[1::2]) < SECONDS_MAX


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
