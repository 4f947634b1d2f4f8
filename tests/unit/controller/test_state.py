from __future__ import annotations

import pytest

from kaa.controller.directories import MIGRATING, UNASSIGNED
from kaa.controller.image import ClusterImage
from kaa.controller.port import ControllerRequestContext
from kaa.controller.result import ControllerError
from kaa.wire.errors import Errors
from kaa.wire.messages.metadata_settings import ConfigRecord
from tests.unit.controller.cluster import NODE_ID, Cluster, directory


def set_config(image: ClusterImage, kind: int, name: str, key: str, value: str) -> None:
    image.replay(ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value))


def test_directories_of_new_replicas() -> None:
    cluster = Cluster(1)
    cluster.register(1, log_dirs=[directory(1), directory(1, 1)])
    old = Cluster(1, metadata_version=14)
    assert cluster.state.default_directory(0) == directory(0)
    assert cluster.state.default_directory(1) == UNASSIGNED
    assert cluster.state.default_directory(9) == UNASSIGNED
    assert old.state.default_directory(0) == MIGRATING


def test_the_lowest_offset_of_active_brokers() -> None:
    cluster = Cluster(0)
    assert cluster.state.lowest_active_offset() is None
    for broker_id in range(3):
        cluster.register(broker_id)
        cluster.heartbeat(broker_id)
    cluster.create("t", replicas=[[0, 1]])
    for broker_id, offset in ((0, 100), (1, 200), (2, 300)):
        cluster.heartbeat(broker_id, current_metadata_offset=offset)
    assert cluster.state.lowest_active_offset() == 100
    cluster.heartbeat(0, want_shut_down=True, current_metadata_offset=100)
    assert cluster.state.lowest_active_offset() == 200
    cluster.fence(1)
    assert cluster.state.lowest_active_offset() == 300
    cluster.fence(2)
    assert cluster.state.lowest_active_offset() is None


def test_min_isr_is_looked_up_from_the_topic_outwards() -> None:
    cluster = Cluster(3, min_insync_replicas="3")
    cluster.create("t", factor=3)
    state, image = cluster.state, cluster.image
    # The bootstrap records made it a setting of the cluster.
    assert image.configs[4, ""] == {"min.insync.replicas": "3"}
    assert state.min_isr("t") == 3
    set_config(image, 4, "", "min.insync.replicas", "2")
    assert state.min_isr("t") == 2
    set_config(image, 4, str(NODE_ID), "min.insync.replicas", "3")
    assert state.min_isr("t") == 3
    set_config(image, 2, "t", "min.insync.replicas", "1")
    assert state.min_isr("t") == 1
    set_config(image, 2, "t", "min.insync.replicas", "9")
    assert state.min_isr("t") == 3


def test_unclean_elections_are_looked_up_likewise() -> None:
    cluster = Cluster(1)
    cluster.create("t")
    assert not cluster.state.is_unclean_election_enabled("t")
    set_config(cluster.image, 4, "", "unclean.leader.election.enable", "true")
    assert cluster.state.is_unclean_election_enabled("t")
    set_config(cluster.image, 2, "t", "unclean.leader.election.enable", "false")
    assert not cluster.state.is_unclean_election_enabled("t")
    enabled = Cluster(1, unclean_leader_election_enable="true")
    enabled.create("t")
    assert enabled.state.is_unclean_election_enabled("t")


def test_settings_of_the_cluster_lie_above_those_of_the_node() -> None:
    cluster = Cluster(0, levels={"eligible.leader.replicas.version": 0})
    state, image = cluster.state, cluster.image
    assert state.config.get_int("log.retention.bytes") == -1
    set_config(image, 4, "", "log.retention.bytes", "7")
    assert state.config.get_int("log.retention.bytes") == 7
    assert state.config is state.config
    set_config(image, 4, str(NODE_ID), "log.retention.bytes", "9")
    assert state.config.get_int("log.retention.bytes") == 9


def test_stored_settings_that_cannot_be_used_are_left_out() -> None:
    cluster = Cluster(0, levels={"eligible.leader.replicas.version": 0})
    set_config(cluster.image, 4, "", "log.retention.bytes", "none")
    set_config(cluster.image, 4, "", "log.segment.delete.delay.ms", "5")
    config = cluster.state.config
    assert config.get_int("log.retention.bytes") == -1
    assert config.get_int("log.segment.delete.delay.ms") == 5
    # Each is good, but a record cannot be due for compaction before it may be compacted.
    set_config(cluster.image, 4, "", "log.cleaner.min.compaction.lag.ms", "50")
    set_config(cluster.image, 4, "", "log.cleaner.max.compaction.lag.ms", "10")
    config = cluster.state.config
    assert config.get_int("log.cleaner.min.compaction.lag.ms") == 0
    assert config.get_int("log.segment.delete.delay.ms") == 5


def test_without_metadata_there_is_no_metadata_version() -> None:
    cluster = Cluster(0)
    del cluster.image.features["metadata.version"]
    with pytest.raises(ControllerError) as refused:
        _ = cluster.state.metadata_version
    assert refused.value.error is Errors.UNKNOWN_SERVER_ERROR


def test_contexts() -> None:
    context = ControllerRequestContext(1)
    context.charge(5)
    assert context.may_describe("anything")
    limited = ControllerRequestContext(1, describable=frozenset({"a"}))
    assert limited.may_describe("a")
    assert not limited.may_describe("b")
