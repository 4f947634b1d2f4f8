"""Images: what records make, what an image makes of itself, and that a copy goes its own way."""

from __future__ import annotations

from kaa.controller.image import ClusterImage
from kaa.wire.messages.metadata_cluster import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    UnfenceBrokerRecord,
)
from kaa.wire.messages.metadata_settings import (
    AccessControlEntryRecord,
    ConfigRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kaa.wire.messages.metadata_topics import ClearElrRecord, PartitionChangeRecord
from tests.unit.controller.cluster import Cluster, uuid
from tests.unit.controller.replica_node import image_of
from tests.unit.controller.test_image_records import rebuilt


def test_security_records_are_kept_and_removed() -> None:
    image = ClusterImage()
    entry = AccessControlEntryRecord(id=uuid(1), principal="User:a")
    credential = UserScramCredentialRecord(name="a", mechanism=1, iterations=4096)
    token = DelegationTokenRecord(token_id="t")
    for record in (entry, credential, token):
        image.replay(record)
    assert image_of(rebuilt(image)) == image_of(image)
    image.replay(RemoveAccessControlEntryRecord(id=uuid(1)))
    image.replay(RemoveUserScramCredentialRecord(name="a", mechanism=1))
    image.replay(RemoveDelegationTokenRecord(token_id="t"))
    assert image_of(image) == image_of(ClusterImage())


def test_old_fencing_records() -> None:
    cluster = Cluster(1)
    cluster.image.replay(FenceBrokerRecord(id=0, epoch=cluster.epochs[0]))
    assert cluster.image.brokers[0].is_fenced
    cluster.image.replay(UnfenceBrokerRecord(id=0, epoch=cluster.epochs[0]))
    assert not cluster.image.brokers[0].is_fenced


def test_a_copy_goes_its_own_way() -> None:
    cluster = Cluster(2)
    cluster.create("a", partitions=2, configs={"retention.ms": "5"})
    copied = cluster.image.copy()
    before = image_of(copied.copy())
    assert image_of(copied) == image_of(cluster.image)
    cluster.create("b")
    cluster.fence(0)
    cluster.image.replay(
        ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value=None)
    )
    cluster.image.replay(FeatureLevelRecord(name="group.version", feature_level=0))
    assert image_of(copied) == before


def test_a_copy_shares_topics_until_either_changes_them() -> None:
    cluster = Cluster(2)
    cluster.create("a", partitions=2)
    cluster.create("b")
    image, copied = cluster.image, cluster.image.copy()
    assert all(copied.topics[name] is image.topics[name] for name in ("a", "b"))
    before = image.topics["a"]
    change = PartitionChangeRecord(topic_id=before.id, partition_id=0, isr=[1])
    for one, other in ((image, copied), (copied, image)):
        kept = other.topics["a"]
        one.replay(change)
        changed = one.topics["a"]
        assert changed is one.topics_by_id[before.id]
        assert changed.partitions[0].isr == (1,)
        assert (other.topics["a"], changed.partitions[1]) == (kept, before.partitions[1])
        one.replay(change)
        assert one.topics["a"] is changed
    assert before.partitions[0].isr == (0,)
    assert copied.topics["b"] is image.topics["b"]


def test_deltas_name_what_changed_and_nothing_twice() -> None:
    cluster = Cluster(2)
    image = cluster.image
    assert image.take_delta()
    assert not image.take_delta()
    cluster.create("a", configs={"retention.ms": "5"})
    delta = image.take_delta()
    assert delta.partitions == {(image.topics["a"].id, 0)}
    assert delta.configs == {(2, "a")}
    image.replay(NoOpRecord())
    assert not image.take_delta()
    cluster.fence(1)
    assert image.take_delta().brokers == {1}


def test_clearing_eligible_leaders_of_one_topic_or_of_all() -> None:
    cluster = Cluster(2)
    for name in ("a", "b"):
        cluster.create(name, replicas=[[0, 1]], configs={"min.insync.replicas": "2"})
    cluster.fence(1)

    def eligible() -> list[tuple[int, ...]]:
        topics = cluster.image.topics
        return [topics[name].partitions[0].eligible_leader_replicas for name in ("a", "b")]

    assert eligible() == [(1,), (1,)]
    cluster.image.replay(ClearElrRecord(topic_name="a"))
    assert eligible() == [(), (1,)]
    cluster.image.replay(ClearElrRecord(topic_name=""))
    assert eligible() == [(), ()]


def test_changes_of_a_registration() -> None:
    cluster = Cluster(1)
    change = BrokerRegistrationChangeRecord(broker_id=0, broker_epoch=cluster.epochs[0])
    before = cluster.image.brokers[0]
    cluster.image.replay(change)
    assert cluster.image.brokers[0] == before
    change.in_controlled_shutdown, change.fenced = 1, 1
    change.log_dirs, change.cordoned_log_dirs = [uuid(9)], [uuid(9)]
    cluster.image.replay(change)
    after = cluster.image.brokers[0]
    assert after.is_fenced
    assert after.is_in_controlled_shutdown
    assert (after.directories, after.cordoned_directories) == ((uuid(9),), (uuid(9),))


def test_partition_changes_leave_out_what_stays() -> None:
    cluster = Cluster(2)
    cluster.create("a", replicas=[[0, 1]])
    before = cluster.image.topics["a"].partitions[0]
    record = PartitionChangeRecord(partition_id=0, topic_id=cluster.image.topics["a"].id)
    after = before.changed(record)
    assert after == before._replace(partition_epoch=before.partition_epoch + 1)
