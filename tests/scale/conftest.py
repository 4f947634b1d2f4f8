"""The node that all tests of this folder share: it takes half a minute to make."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scale.node import ScaleNode
from tests.scale.requests import NAMES, PARTITIONS, TOPICS
from tests.scale.steps import Scale

CREATED_PER_REQUEST = 250
DELETED_PER_REQUEST = 125
# How long members are believed to live without a sign.
SESSION_MS = 6_000
# A second or two on a quiet machine; flushed one after the other, ten thousand logs take minutes.
STOP_SECONDS_MAX = 60


# Before xdist looks at the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs what shares the node, so that there is only one of it."""
    folder = Path(__file__).parent
    for item in items:
        if item.path.parent == folder and "scale" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("scale"))


@pytest.fixture(scope="package")
def scale(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scale]:
    folder = tmp_path_factory.mktemp("scale")
    node = ScaleNode(folder, *settings(folder))
    with node.probe.installed(), node:
        made = Scale(node)

        def create(part: int) -> None:
            made.create(NAMES[CREATED_PER_REQUEST * part :][:CREATED_PER_REQUEST], PARTITIONS)

        def delete(part: int) -> None:
            made.delete(NAMES[DELETED_PER_REQUEST * part :][:DELETED_PER_REQUEST])

        try:
            made.repeated("CreateTopics", create, TOPICS // CREATED_PER_REQUEST)
        except AssertionError as failure:
            # One test reports it; the others have their topics all the same.
            made.creation_failure = failure
        yield made
        # A node that was fenced, or failed to load something, says so.
        sys.stdout.write("\n".join(["", *node.reports, ""]))
        made.repeated("DeleteTopics", delete, 2)
        assert node.probe.full_collections == 0
    sys.stdout.write(f"clean stop: {node.stop_seconds:.1f} s\n")
    assert node.stop_seconds < STOP_SECONDS_MAX


def settings(folder: Path) -> tuple[str, ...]:
    return (
        f"log.dirs={folder}/a,{folder}/b",
        f"metadata.log.dir={folder}/a",
        # A machine with other work on it keeps the node from its heartbeats for longer than usual.
        "broker.session.timeout.ms=120000",
        "offsets.topic.num.partitions=1",
        "group.initial.rebalance.delay.ms=500",
        f"group.min.session.timeout.ms={SESSION_MS}",
        f"group.consumer.session.timeout.ms={SESSION_MS}",
        f"group.consumer.min.session.timeout.ms={SESSION_MS}",
        f"group.consumer.heartbeat.interval.ms={SESSION_MS // 3}",
        f"group.consumer.min.heartbeat.interval.ms={SESSION_MS // 3}",
        "log.segment.bytes=1048576",
        # Every duty has its turn within seconds.
        "log.retention.check.interval.ms=1000",
        "log.flush.offset.checkpoint.interval.ms=1000",
        "log.flush.start.offset.checkpoint.interval.ms=1000",
        "replica.high.watermark.checkpoint.interval.ms=1000",
        "producer.id.expiration.check.interval.ms=1000",
        "log.cleaner.backoff.ms=1000",
        "log.cleanup.policy=compact,delete",
        "leader.imbalance.check.interval.seconds=1",
        "unclean.leader.election.interval.ms=1000",
        "group.streams.initial.rebalance.delay.ms=0",
    )
