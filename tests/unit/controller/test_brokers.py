from __future__ import annotations

from typing import Any

import pytest

from kaa.controller import heartbeats
from kaa.controller.brokers import fence_stale_broker
from kaa.controller.directories import UNASSIGNED
from kaa.controller.result import ControllerError
from kaa.wire.errors import Errors
from kaa.wire.messages.k62_broker_registration import Feature, Listener
from kaa.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from kaa.wire.messages.k64_unregister_broker import UnregisterBrokerRequest
from kaa.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from kaa.wire.messages.k70_controller_registration import (
    ControllerRegistrationRequest,
)
from kaa.wire.messages.k70_controller_registration import Feature as ControllerFeature
from kaa.wire.messages.k70_controller_registration import Listener as ControllerListener
from kaa.wire.messages.metadata_cluster import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from kaa.wire.primitives import UUID_ZERO
from tests.unit.controller.cluster import NODE_ID, Cluster, directory, uuid

SESSION_MS = 9_000

METADATA_FEATURE = Feature(
    name="metadata.version", min_supported_version=7, max_supported_version=30
)


def refusal(cluster: Cluster, broker_id: int, **changes: Any) -> Errors:
    with pytest.raises(ControllerError) as refused:
        cluster.send(cluster.registration(broker_id, **changes))
    return refused.value.error


# --- registration


def test_epoch_is_the_offset_of_the_registration() -> None:
    cluster = Cluster(0)
    offset = cluster.next_offset
    assert cluster.register(3, rack="r1") == offset
    broker = cluster.image.brokers[3]
    assert (broker.epoch, broker.rack, broker.is_fenced) == (offset, "r1", True)
    assert broker.directories == (directory(3),)
    assert broker.endpoint("PLAINTEXT") is not None
    assert broker.endpoint("SSL") is None


def test_a_second_registration_of_one_incarnation_keeps_epoch_and_fencing() -> None:
    cluster = Cluster(1)
    epoch = cluster.epochs[0]
    assert cluster.register(0, rack="moved") == epoch
    broker = cluster.image.brokers[0]
    assert (broker.epoch, broker.is_fenced, broker.rack) == (epoch, False, "moved")


def test_another_incarnation_waits_for_the_end_of_the_session() -> None:
    cluster = Cluster(1)
    assert refusal(cluster, 0, incarnation_id=uuid(99)) is Errors.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms += SESSION_MS + 1
    epoch = cluster.register(0, incarnation_id=uuid(99))
    assert epoch > 0
    assert cluster.image.brokers[0].is_fenced


def test_a_new_incarnation_loses_the_leaderships_of_the_old_one() -> None:
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1]], configs={"min.insync.replicas": "1"})
    cluster.now_ms += SESSION_MS + 1
    cluster.heartbeat(1)
    cluster.register(0, incarnation_id=uuid(99))
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (1, (1,))
    assert [type(record) for record in cluster.written] == [
        PartitionChangeRecord,
        RegisterBrokerRecord,
    ]
    # The epoch is the offset of the first record, not of the registration after it.
    assert cluster.epochs[0] == cluster.next_offset - 2


def test_an_unclean_end_takes_the_right_to_lead_away() -> None:
    """KIP-966: what a broker had not flushed may be gone, so it is not eligible any more."""
    for previous_epoch, is_eligible in ((None, False), (0, True)):
        cluster = Cluster(2)
        cluster.create("t", replicas=[[0, 1]], configs={"min.insync.replicas": "2"})
        stored = cluster.epochs[0]
        cluster.now_ms += SESSION_MS + 1
        cluster.heartbeat(1)
        told = -1 if previous_epoch is None else stored
        cluster.register(0, incarnation_id=uuid(99), previous_broker_epoch=told)
        partition = cluster.image.topics["t"].partitions[0]
        assert (0 in partition.eligible_leader_replicas) is is_eligible


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "other"}, Errors.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, Errors.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, Errors.INVALID_REGISTRATION),
        ({"log_dirs": [UUID_ZERO]}, Errors.INVALID_REGISTRATION),
        ({"log_dirs": [UNASSIGNED]}, Errors.INVALID_REGISTRATION),
        ({"log_dirs": [uuid(1), uuid(1)]}, Errors.INVALID_REGISTRATION),
        ({"log_dirs": [directory(0)]}, Errors.INVALID_REGISTRATION),
        ({"features": []}, Errors.INVALID_REGISTRATION),
        ({"features": [METADATA_FEATURE] * 101}, Errors.INVALID_REGISTRATION),
        ({"listeners": [Listener(name="A", host="h", port=1)] * 101}, Errors.INVALID_REGISTRATION),
        ({"listeners": [Listener(name="", host="h", port=1)]}, Errors.INVALID_REGISTRATION),
        (
            {"listeners": [Listener(name="A", host="h", port=1, security_protocol=9)]},
            Errors.INVALID_REGISTRATION,
        ),
    ],
)
def test_refused_registrations(changes: dict[str, Any], error: Errors) -> None:
    assert refusal(Cluster(1, levels={"transaction.version": 0}), 5, **changes) in {
        error,
        # Without features, the first feature that the broker lacks is named.
        error if changes != {"features": []} else Errors.UNSUPPORTED_VERSION,
    }


def test_a_broker_has_an_id_that_means_nothing_else() -> None:
    """-1 stands for no leader."""
    assert refusal(Cluster(0), -1) is Errors.INVALID_REGISTRATION


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("metadata.version", 7, 29), ("metadata.version", 31, 40), ("group.version", 0, 0)],
)
def test_a_broker_must_support_what_the_cluster_uses(name: str, low: int, high: int) -> None:
    cluster = Cluster(0)
    request = cluster.registration(1)
    request.features = [each for each in request.features if each.name != name]
    request.features.append(
        Feature(name=name, min_supported_version=low, max_supported_version=high)
    )
    with pytest.raises(ControllerError) as refused:
        cluster.send(request)
    assert refused.value.error is Errors.UNSUPPORTED_VERSION


def test_a_feature_that_the_broker_does_not_name_must_be_off() -> None:
    cluster = Cluster(0)
    request = cluster.registration(1)
    request.features = [each for each in request.features if each.name != "group.version"]
    with pytest.raises(ControllerError) as refused:
        cluster.send(request)
    assert refused.value.error is Errors.UNSUPPORTED_VERSION


def test_unregistration() -> None:
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1]])
    cluster.send(UnregisterBrokerRequest(broker_id=0))
    assert sorted(cluster.image.brokers) == [1]
    assert cluster.image.topics["t"].partitions[0].leader == 1
    assert isinstance(cluster.written[-1], UnregisterBrokerRecord)
    with pytest.raises(ControllerError) as refused:
        cluster.send(UnregisterBrokerRequest(broker_id=0))
    assert refused.value.error is Errors.BROKER_ID_NOT_REGISTERED


def test_controllers_register() -> None:
    cluster = Cluster(0)
    request = ControllerRegistrationRequest(
        controller_id=7,
        incarnation_id=uuid(7),
        listeners=[ControllerListener(name="CONTROLLER", host="h", port=9093)],
        features=[
            ControllerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            )
        ],
    )
    cluster.send(request)
    controller = cluster.image.controllers[7]
    assert controller.endpoints[0].port == 9093
    assert controller.features["metadata.version"] == (7, 30)
    with pytest.raises(ControllerError) as refused:
        Cluster(0, metadata_version=14).send(request)
    assert refused.value.error is Errors.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("name", "protocol"), [("", 0), ("CONTROLLER", 9), ("CONTROLLER", -1)])
def test_a_controller_must_say_where_it_listens(name: str, protocol: int) -> None:
    """Kafka's nodes could not read the record."""
    listener = ControllerListener(name=name, host="h", port=9093, security_protocol=protocol)
    refuse_controller([listener])


def refuse_controller(listeners: list[ControllerListener]) -> None:
    request = ControllerRegistrationRequest(
        controller_id=7, incarnation_id=uuid(7), listeners=listeners
    )
    with pytest.raises(ControllerError) as refused:
        Cluster(0).send(request)
    assert refused.value.error is Errors.INVALID_REGISTRATION


def test_a_controller_has_no_more_listeners_than_one_can_use() -> None:
    refuse_controller([ControllerListener(name="CONTROLLER", host="h", port=9093)] * 101)


# --- heartbeats


def test_a_broker_is_unfenced_when_it_has_applied_its_registration() -> None:
    cluster = Cluster(0)
    epoch = cluster.register(1)
    behind = cluster.heartbeat(1, current_metadata_offset=epoch - 1)
    assert (behind.is_fenced, behind.is_caught_up) == (True, False)
    wants_fence = cluster.heartbeat(1, want_fence=True)
    assert (wants_fence.is_fenced, wants_fence.is_caught_up) == (True, True)
    caught_up = cluster.heartbeat(1, current_metadata_offset=epoch)
    assert (caught_up.is_fenced, caught_up.is_caught_up) == (False, True)
    assert not cluster.image.brokers[1].is_fenced
    (change,) = cluster.written
    assert isinstance(change, BrokerRegistrationChangeRecord)
    assert change.fenced == -1
    cluster.heartbeat(1)
    assert cluster.written == []


@pytest.mark.parametrize("broker_id", [0, 9])
def test_heartbeats_need_the_epoch_of_the_registration(broker_id: int) -> None:
    cluster = Cluster(1)
    request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=cluster.epochs[0] + 1)
    with pytest.raises(ControllerError) as refused:
        cluster.send(request)
    assert refused.value.error is Errors.STALE_BROKER_EPOCH


def test_a_broker_may_ask_to_be_fenced() -> None:
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1]])
    answer = cluster.heartbeat(0, want_fence=True)
    assert (answer.is_fenced, answer.should_shut_down) == (True, False)
    assert cluster.image.topics["t"].partitions[0].leader == 1


def test_brokers_without_a_heartbeat_are_fenced() -> None:
    cluster = Cluster(3)
    cluster.now_ms += SESSION_MS
    cluster.heartbeat(1)
    cluster.now_ms += 1
    fenced = []
    for _ in range(4):
        cluster.state.now_ms = cluster.now_ms
        more = cluster.run(fence_stale_broker(cluster.state))
        fenced = [each.id for each in cluster.image.brokers.values() if each.is_fenced]
        if not more:
            break
    assert fenced == [0, 2]


def test_a_stale_session_of_an_older_epoch_changes_nothing() -> None:
    cluster = Cluster(1)
    cluster.now_ms += SESSION_MS + 1
    cluster.register(0, incarnation_id=uuid(99))
    cluster.heartbeat(0)
    cluster.state.now_ms = cluster.now_ms
    assert cluster.run(fence_stale_broker(cluster.state)) is True
    assert cluster.written == []
    assert cluster.run(fence_stale_broker(cluster.state)) is False
    assert not cluster.image.brokers[0].is_fenced


# --- controlled shutdown


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    cluster = Cluster(1)
    answer = cluster.heartbeat(0, want_shut_down=True)
    assert (answer.should_shut_down, answer.is_fenced) == (True, True)
    assert cluster.image.brokers[0].is_fenced


def test_a_fenced_broker_may_stop_at_once() -> None:
    cluster = Cluster(0)
    cluster.register(1)
    assert cluster.heartbeat(1, want_shut_down=True, want_fence=True).should_shut_down


def test_an_unfenced_broker_that_wants_both_stops_at_once() -> None:
    cluster = Cluster(1)
    cluster.create("t")
    answer = cluster.heartbeat(0, want_shut_down=True, want_fence=True)
    assert answer.should_shut_down
    assert cluster.image.brokers[0].is_fenced


def test_a_leader_waits_until_others_have_applied_its_moves() -> None:
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1]])
    answer = cluster.heartbeat(0, want_shut_down=True)
    assert (answer.should_shut_down, answer.is_fenced) == (False, False)
    assert cluster.image.brokers[0].is_in_controlled_shutdown
    assert cluster.image.topics["t"].partitions[0].leader == 1
    moved_at = cluster.next_offset - 1
    assert not cluster.heartbeat(0, want_shut_down=True).should_shut_down
    cluster.heartbeat(1, current_metadata_offset=moved_at - 1)
    assert not cluster.heartbeat(0, want_shut_down=True).should_shut_down
    cluster.heartbeat(1, current_metadata_offset=moved_at)
    assert cluster.heartbeat(0, want_shut_down=True).should_shut_down


def test_producer_ids_for_a_broker_do_not_hold_up_the_shutdown_of_another() -> None:
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1]])
    cluster.heartbeat(0, want_shut_down=True)
    cluster.heartbeat(1)
    cluster.send(AllocateProducerIdsRequest(broker_id=1, broker_epoch=cluster.epochs[1]))
    assert len(cluster.written) == 1
    assert cluster.heartbeat(0, want_shut_down=True).should_shut_down


def test_a_broker_that_was_unfenced_again_does_not_shut_down() -> None:
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1]])
    cluster.heartbeat(0, want_shut_down=True)
    cluster.now_ms += SESSION_MS + 1
    cluster.heartbeat(1)
    cluster.state.now_ms = cluster.now_ms
    assert cluster.run(fence_stale_broker(cluster.state)) is True
    assert cluster.image.brokers[0].is_fenced
    assert not cluster.heartbeat(0).is_fenced
    assert not cluster.heartbeat(0).should_shut_down


def test_sessions_of_brokers_that_nobody_registered_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeats, "METADATA_SESSIONS_MAX", 4)
    cluster = Cluster(2)
    cluster.now_ms += 1
    for broker_id in range(2, 10):
        with pytest.raises(ControllerError):
            cluster.send(BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=1))
    cluster.heartbeat(0)
    cluster.heartbeat(1)
    ends = cluster.now_ms + SESSION_MS
    assert cluster.state.heartbeats.has_session(0, cluster.epochs[0], ends)
    expired = [cluster.state.heartbeats.take_expired(ends + 1) for _ in range(5)]
    assert expired == [(2, 1), (3, 1), (0, cluster.epochs[0]), (1, cluster.epochs[1]), None]


def test_an_unregistered_broker_is_forgotten() -> None:
    cluster = Cluster(2)
    cluster.send(UnregisterBrokerRequest(broker_id=1))
    assert list(cluster.state.registration_offsets) == [0]


def test_the_only_broker_stops_without_a_successor() -> None:
    cluster = Cluster(1)
    cluster.create("t")
    assert not cluster.heartbeat(0, want_shut_down=True).should_shut_down
    assert cluster.image.topics["t"].partitions[0].leader == -1
    assert cluster.heartbeat(0, want_shut_down=True).should_shut_down


def test_brokers_that_shut_down_get_no_new_partitions() -> None:
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1]])
    cluster.heartbeat(0, want_shut_down=True)
    cluster.create("u", partitions=4)
    assert {each.leader for each in cluster.image.topics["u"].partitions.values()} == {1}


# --- directories


def test_an_offline_directory_loses_its_leaderships() -> None:
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1]])
    cluster.heartbeat(0, offline_log_dirs=[directory(0)])
    assert cluster.image.topics["t"].partitions[0].leader == 1
    change = cluster.written[-1]
    assert isinstance(change, BrokerRegistrationChangeRecord)
    assert change.log_dirs == []


def test_directories_of_other_brokers_are_ignored() -> None:
    cluster = Cluster(2)
    cluster.heartbeat(0, offline_log_dirs=[directory(1)])
    assert cluster.written == []


def test_cordoned_directories_take_no_new_partitions() -> None:
    cluster = Cluster(2)
    cluster.heartbeat(0, cordoned_log_dirs=[directory(0)])
    assert cluster.image.brokers[0].cordoned_directories == (directory(0),)
    cluster.create("t", partitions=4)
    assert {each.leader for each in cluster.image.topics["t"].partitions.values()} == {1}
    cluster.heartbeat(0, cordoned_log_dirs=[directory(0)])
    assert cluster.written == []


# --- activation


def test_activation_gives_every_other_broker_a_session() -> None:
    cluster = Cluster(1)
    cluster.activate_again()
    assert refusal(cluster, 0, incarnation_id=uuid(99)) is Errors.DUPLICATE_BROKER_REGISTRATION


def test_the_broker_of_this_very_process_need_not_wait_for_itself() -> None:
    cluster = Cluster(0)
    cluster.register(NODE_ID)
    cluster.heartbeat(NODE_ID)
    cluster.activate_again()
    cluster.register(NODE_ID, incarnation_id=uuid(99))


def test_the_broker_of_this_very_process_counts_once_it_was_heard_of() -> None:
    cluster = Cluster(0)
    cluster.register(NODE_ID)
    cluster.heartbeat(NODE_ID)
    cluster.activate_again()
    cluster.heartbeat(NODE_ID)
    refused = refusal(cluster, NODE_ID, incarnation_id=uuid(99))
    assert refused is Errors.DUPLICATE_BROKER_REGISTRATION


def test_the_broker_of_this_very_process_is_fenced_if_it_does_not_come_back() -> None:
    """A combined node that was killed may have been started again as a controller alone."""
    cluster = Cluster(1)
    cluster.register(NODE_ID)
    cluster.heartbeat(NODE_ID)
    cluster.create("t", replicas=[[NODE_ID, 0]])
    cluster.activate_again()
    cluster.now_ms += SESSION_MS + 1
    cluster.heartbeat(0)
    cluster.state.now_ms = cluster.now_ms
    assert cluster.run(fence_stale_broker(cluster.state)) is True
    assert cluster.image.brokers[NODE_ID].is_fenced
    assert cluster.image.topics["t"].partitions[0].leader == 0


def test_a_broker_is_caught_up_when_it_knows_its_registration_not_what_stands_before() -> None:
    cluster = Cluster(2)
    cluster.create("t", replicas=[[0, 1]])
    cluster.now_ms += 60_000
    epoch = cluster.register(0, incarnation_id=uuid(77))
    changes = len(cluster.written) - 1
    assert changes == 1
    assert epoch == cluster.next_offset - 1 - changes
    response = cluster.heartbeat(0, current_metadata_offset=epoch)
    assert (response.is_caught_up, response.is_fenced) == (False, True)
    response = cluster.heartbeat(0, current_metadata_offset=epoch + changes)
    assert (response.is_caught_up, response.is_fenced) == (True, False)
