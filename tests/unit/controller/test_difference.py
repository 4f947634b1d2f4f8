from __future__ import annotations

from kaa.controller.difference import difference
from kaa.controller.feature_table import record_version
from kaa.controller.framing import encode_record
from kaa.controller.image import ClusterImage
from kaa.controller.loader import MetadataLoader
from kaa.model.pieces import finish
from kaa.quorum.log_view import OffsetAndEpoch
from kaa.quorum.snapshots import SnapshotContent
from kaa.wire.messages.metadata_topics import ClearElrRecord, PartitionChangeRecord
from tests.unit.controller.cluster import Cluster


def made() -> Cluster:
    cluster = Cluster(3)
    for name in ("kept", "moved", "gone"):
        cluster.create(name, partitions=2, factor=2)
    return cluster


def test_equal_images_do_not_differ() -> None:
    cluster = made()
    assert not finish(difference(cluster.image, cluster.image.copy()))


def test_everything_that_came_went_or_changed() -> None:
    cluster = made()
    before = cluster.image.copy()
    gone = before.topics["gone"]
    del cluster.image.topics["gone"], cluster.image.topics_by_id[gone.id]
    cluster.create("gone", partitions=1)
    moved = cluster.image.topics["moved"]
    cluster.image.replay(PartitionChangeRecord(topic_id=moved.id, partition_id=1, leader=1))
    del cluster.image.brokers[2]
    cluster.image.configs[2, "kept"] = {"retention.ms": "1"}
    cluster.image.features["group.version"] = 0
    found = finish(difference(before, cluster.image))
    assert found.deleted_topics == {gone.id: gone}
    again = cluster.image.topics["gone"]
    assert again.id != gone.id
    assert found.partitions == {(moved.id, 1), (again.id, 0)}
    assert found.brokers == {2}
    assert found.configs == {(2, "kept")}
    assert found.features == {"group.version"}
    assert found.quotas == set()
    back = finish(difference(cluster.image, before))
    assert list(back.deleted_topics) == [again.id]
    assert back.brokers == {2}


def test_cleared_eligible_leaders_are_a_change_of_their_partitions() -> None:
    """What a replay announces is what differs, and no more."""
    cluster = made()
    for name in ("kept", "moved"):
        partitions = cluster.image.topics[name].partitions
        partitions[1] = partitions[1]._replace(eligible_leader_replicas=(2,))
    cluster.image.take_delta()
    for record in (ClearElrRecord(topic_name="kept"), ClearElrRecord(topic_name="")):
        before = cluster.image.copy()
        cluster.image.replay(record)
        announced = cluster.image.take_delta()
        assert len(announced.partitions) == 1
        assert announced.partitions == finish(difference(before, cluster.image)).partitions


def test_a_snapshot_that_is_loaded_later_tells_what_is_gone() -> None:
    """A node that catches up by a snapshot deletes the logs of topics that went meanwhile."""
    cluster = made()
    loader = MetadataLoader()
    finish(loader.load(OffsetAndEpoch(10, 1), content(cluster.image)))
    # Not published yet: it must not be lost with the image.
    assert loader.image.topics.keys() == {"kept", "moved", "gone"}
    gone = loader.image.topics["gone"]
    del cluster.image.topics["gone"], cluster.image.topics_by_id[gone.id]
    finish(loader.load(OffsetAndEpoch(20, 1), content(cluster.image)))
    delta = loader.image.take_delta()
    assert list(delta.deleted_topics) == [gone.id]
    kept = {(topic.id, number) for topic in loader.image.topics.values() for number in (0, 1)}
    assert kept <= delta.partitions
    assert "metadata.version" in delta.features


def content(image: ClusterImage) -> SnapshotContent:
    values = [
        encode_record(record, record_version(record, image.features)) for record in image.records()
    ]
    return SnapshotContent(0, 0, None, values)
