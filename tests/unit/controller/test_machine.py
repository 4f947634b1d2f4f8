from __future__ import annotations

import pytest

from kaa.controller.machine import COMMANDS
from kaa.controller.port import ControllerRequestContext
from kaa.model.pieces import finish
from kaa.wire.messages.k19_create_topics import CreateTopicsRequest
from kaa.wire.messages.k62_broker_registration import BrokerRegistrationRequest
from kaa.wire.registry import ApiKey
from tests.unit.controller.cluster import Cluster, topic
from tests.unit.controller.replica_node import image_of


def test_what_it_decides_about() -> None:
    assert sorted(ApiKey(request.api_key).name for request in COMMANDS) == [
        "ALLOCATE_PRODUCER_IDS",
        "ALTER_CLIENT_QUOTAS",
        "ALTER_CONFIGS",
        "ALTER_PARTITION",
        "ALTER_PARTITION_REASSIGNMENTS",
        "ASSIGN_REPLICAS_TO_DIRS",
        "BROKER_HEARTBEAT",
        "BROKER_REGISTRATION",
        "CONTROLLER_REGISTRATION",
        "CREATE_PARTITIONS",
        "CREATE_TOPICS",
        "DELETE_TOPICS",
        "ELECT_LEADERS",
        "INCREMENTAL_ALTER_CONFIGS",
        "UNREGISTER_BROKER",
        "UPDATE_FEATURES",
    ]


def test_a_decision_changes_nothing_until_it_is_replayed() -> None:
    cluster = Cluster(1)
    before = image_of(cluster.image.copy())
    result = cluster.decide(CreateTopicsRequest(topics=[topic("t")]), 7)
    assert result.response.topics[0].error_code == 0
    assert image_of(cluster.image) == before
    finish(cluster.machine.replay(result.records))
    assert list(cluster.image.topics) == ["t"]


def test_it_starts_from_the_committed_image_each_time() -> None:
    cluster = Cluster(1)
    committed = cluster.image.copy()
    cluster.create("uncommitted")
    cluster.machine.deactivate()
    finish(cluster.machine.activate(committed, [], is_transaction_open=False, now_ms=5))
    assert cluster.image.topics == {}
    cluster.create("t")
    assert committed.topics == {}


def test_it_decides_only_while_it_is_active() -> None:
    cluster = Cluster(0)
    cluster.machine.deactivate()
    with pytest.raises(AssertionError):
        finish(
            cluster.machine.decide(
                BrokerRegistrationRequest(), ControllerRequestContext(4), now_ms=0, next_offset=0
            )
        )
