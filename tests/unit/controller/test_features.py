from __future__ import annotations

import pytest

from kaa.controller.features import UpgradeType
from kaa.controller.port import ControllerRequestContext
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX
from kaa.wire.errors import Errors
from kaa.wire.messages import k70_controller_registration
from kaa.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kaa.wire.messages.k62_broker_registration import Feature
from kaa.wire.messages.metadata_cluster import FeatureLevelRecord, NoOpRecord
from kaa.wire.messages.metadata_settings import ConfigRecord
from tests.unit.controller.cluster import Cluster, uuid

UPGRADE, SAFE, UNSAFE = UpgradeType


def update(cluster: Cluster, *updates: tuple[str, int, int], validate_only: bool = False) -> Errors:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        ],
        validate_only=validate_only,
    )
    return Errors.of(cluster.send(request).error_code)


def test_levels_go_up_and_down() -> None:
    cluster = Cluster(1)
    assert update(cluster, ("group.version", 0, SAFE)) is Errors.NONE
    assert "group.version" not in cluster.image.features
    assert update(cluster, ("group.version", 1, UPGRADE)) is Errors.NONE
    assert cluster.image.features["group.version"] == 1
    assert update(cluster, ("transaction.version", 1, UNSAFE)) is Errors.NONE
    assert cluster.image.features["transaction.version"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ("group.version", 0, UPGRADE),
        ("group.version", 2, UPGRADE),
        ("group.version", -1, SAFE),
        ("transaction.version", 2, 9),
        ("nosuch.version", 1, UPGRADE),
        ("metadata.version", 31, UPGRADE),
        ("metadata.version", 6, SAFE),
        ("metadata.version", 29, UPGRADE),
        ("metadata.version", 29, SAFE),
        ("metadata.version", 29, UNSAFE),
        ("kraft.version", 2, UPGRADE),
    ],
)
def test_refusals(wrong: tuple[str, int, int]) -> None:
    cluster = Cluster(1)
    before = dict(cluster.image.features)
    assert update(cluster, ("group.version", 0, SAFE), wrong) is Errors.INVALID_UPDATE_VERSION
    assert cluster.image.features == before


def test_the_first_unknown_feature_is_named_with_its_last_level() -> None:
    cluster = Cluster(1)
    wanted = [("group.version", 0), ("", 1), ("nosuch.version", 1), ("", 2)]
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=SAFE)
            for name, level in wanted
        ]
    )
    assert " cannot be set to 2: there is no such feature" in cluster.send(request).error_message


def test_many_are_looked_at_in_pieces() -> None:
    cluster = Cluster(1)
    for name in ("group.version", "nosuch.version"):
        updates = [FeatureUpdateKey(feature=name, max_version_level=1, upgrade_type=UPGRADE)] * (
            3 * NAMES_ANSWERED_PER_SLICE_MAX
        )
        request = UpdateFeaturesRequest(feature_updates=updates, validate_only=True)
        context = ControllerRequestContext(1)
        pieces = cluster.machine.decide(request, context, now_ms=0, next_offset=0)
        assert sum(1 for _ in pieces) >= 3


def test_going_up_under_the_name_of_going_down_is_refused() -> None:
    cluster = Cluster(1, levels={"group.version": 0})
    assert update(cluster, ("group.version", 1, SAFE)) is Errors.INVALID_UPDATE_VERSION


def test_metadata_version_moves_where_records_stay_the_same() -> None:
    cluster = Cluster(0, metadata_version=26)
    assert update(cluster, ("metadata.version", 29, UPGRADE)) is Errors.NONE
    assert update(cluster, ("metadata.version", 24, SAFE)) is Errors.NONE
    assert cluster.image.features["metadata.version"] == 24
    assert update(cluster, ("metadata.version", 22, SAFE)) is Errors.INVALID_UPDATE_VERSION


def test_every_broker_must_support_a_level() -> None:
    cluster = Cluster(0, metadata_version=29, levels={"streams.version": 0})
    request = cluster.registration(1)
    request.features = [each for each in request.features if each.name != "streams.version"]
    cluster.send(request)
    assert update(cluster, ("streams.version", 1, UPGRADE)) is Errors.INVALID_UPDATE_VERSION
    request.features.append(
        Feature(name="streams.version", min_supported_version=0, max_supported_version=1)
    )
    cluster.send(request)
    assert update(cluster, ("streams.version", 1, UPGRADE)) is Errors.NONE


def test_every_controller_must_support_a_level() -> None:
    """One that is not this one, and may have to lead tomorrow."""
    cluster = Cluster(0, metadata_version=29, levels={"streams.version": 0})
    for highest, expected in ((0, Errors.INVALID_UPDATE_VERSION), (1, Errors.NONE)):
        cluster.send(
            k70_controller_registration.ControllerRegistrationRequest(
                controller_id=7,
                incarnation_id=uuid(7),
                listeners=[
                    k70_controller_registration.Listener(name="CONTROLLER", host="h", port=9093)
                ],
                features=[
                    k70_controller_registration.Feature(
                        name="streams.version",
                        min_supported_version=0,
                        max_supported_version=highest,
                    )
                ],
            )
        )
        assert update(cluster, ("streams.version", 1, UPGRADE)) is expected


def test_dependencies_count_with_the_levels_of_the_request() -> None:
    elr = ("eligible.leader.replicas.version", 1, int(UPGRADE))
    cluster = Cluster(0, metadata_version=22)
    assert update(cluster, elr) is Errors.INVALID_UPDATE_VERSION
    assert update(cluster, elr, ("metadata.version", 23, UPGRADE)) is Errors.NONE


def test_eligible_leaders_bring_one_min_isr_for_the_cluster() -> None:
    cluster = Cluster(1, levels={"eligible.leader.replicas.version": 0}, min_insync_replicas="2")
    cluster.image.replay(
        ConfigRecord(resource_type=4, resource_name="0", name="min.insync.replicas", value="3")
    )
    assert update(cluster, ("eligible.leader.replicas.version", 1, UPGRADE)) is Errors.NONE
    assert cluster.image.configs == {(4, ""): {"min.insync.replicas": "2"}}
    assert isinstance(cluster.written[-1], FeatureLevelRecord)


def test_validate_only() -> None:
    cluster = Cluster(1)
    assert update(cluster, ("group.version", 0, SAFE), validate_only=True) is Errors.NONE
    assert cluster.image.features["group.version"] == 1


def test_old_versions_answer_feature_by_feature() -> None:
    cluster = Cluster(1)
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="group.version", max_version_level=1)]
    )
    assert [each.feature for each in cluster.send(request, 1).results] == ["group.version"]
    assert cluster.send(request, 2).results == []


def test_kraft_version_is_a_matter_of_the_quorum() -> None:
    cluster = Cluster(1)
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="kraft.version", max_version_level=1)]
    )
    result = cluster.decide(request, 2)
    assert result.kraft_version == 1
    assert result.records == [NoOpRecord()]
    cluster.quorum.kraft_version = 1
    assert cluster.decide(request, 2).kraft_version is None
    assert update(cluster, ("kraft.version", 0, SAFE)) is Errors.INVALID_UPDATE_VERSION
    cluster.quorum.kraft_version, cluster.quorum.are_voters_known = 0, False
    assert update(cluster, ("kraft.version", 1, UPGRADE)) is Errors.INVALID_UPDATE_VERSION
