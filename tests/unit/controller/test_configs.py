from __future__ import annotations

import pytest

from kaa.controller.configs import Operation
from kaa.model.kinds import ResourceType
from kaa.wire.errors import Errors
from kaa.wire.messages.k33_alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig as Change,
)
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterConfigsResource as ChangedResource,
)
from kaa.wire.messages.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kaa.wire.messages.metadata_settings import ConfigRecord
from kaa.wire.messages.metadata_topics import ClearElrRecord
from tests.unit.controller.cluster import Cluster

SET, DELETE, APPEND, SUBTRACT = Operation
WITHOUT_ELR = {"eligible.leader.replicas.version": 0}


def changed(kind: int, name: str, *changes: tuple[str, int, str | None]) -> ChangedResource:
    return ChangedResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            Change(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


def alter(
    cluster: Cluster, *resources: ChangedResource, validate_only: bool = False
) -> list[Errors]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return [Errors.of(each.error_code) for each in cluster.send(request).responses]


def replace(cluster: Cluster, kind: int, name: str, **values: str | None) -> Errors:
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    AlterableConfig(name=key.replace("_", "."), value=value)
                    for key, value in values.items()
                ],
            )
        ]
    )
    (response,) = cluster.send(request).responses
    return Errors.of(response.error_code)


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(2)
    made.create("t")
    return made


TOPIC = (int(ResourceType.TOPIC), "t")


def test_set_delete_append_subtract(cluster: Cluster) -> None:
    assert alter(
        cluster,
        changed(*TOPIC, ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact,delete")),
    ) == [Errors.NONE]
    assert cluster.image.configs[TOPIC] == {
        "retention.ms": "5",
        "cleanup.policy": "delete,compact",
    }
    assert alter(
        cluster,
        changed(*TOPIC, ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete")),
    ) == [Errors.NONE]
    assert cluster.image.configs[TOPIC] == {"cleanup.policy": "compact"}


def test_what_does_not_change_is_not_written(cluster: Cluster) -> None:
    alter(cluster, changed(*TOPIC, ("retention.ms", SET, "5")))
    alter(cluster, changed(*TOPIC, ("retention.ms", SET, "5"), ("flush.ms", DELETE, None)))
    assert cluster.written == []


def test_settings_of_brokers_are_written_even_if_they_stay(cluster: Cluster) -> None:
    for _ in range(2):
        alter(cluster, changed(ResourceType.BROKER, "", ("num.io.threads", SET, "9")))
        assert len(cluster.written) == 1


def test_validate_only(cluster: Cluster) -> None:
    resource = changed(*TOPIC, ("retention.ms", SET, "5"))
    assert alter(cluster, resource, validate_only=True) == [Errors.NONE]
    assert TOPIC not in cluster.image.configs


def test_the_last_change_of_a_setting_counts_and_null_deletes(cluster: Cluster) -> None:
    twice = changed(*TOPIC, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert alter(cluster, twice) == [Errors.NONE]
    assert cluster.image.configs[TOPIC] == {"retention.ms": "2"}
    assert alter(cluster, changed(*TOPIC, ("retention.ms", SET, None))) == [Errors.NONE]
    assert TOPIC not in cluster.image.configs


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (changed(*TOPIC, ("retention.ms", SET, "x")), Errors.INVALID_CONFIG),
        (changed(*TOPIC, ("no.such", SET, "1")), Errors.INVALID_CONFIG),
        (changed(*TOPIC, ("retention.ms", APPEND, "1")), Errors.INVALID_CONFIG),
        (changed(*TOPIC, ("retention.ms", SET, "1" * 40_000)), Errors.INVALID_CONFIG),
        (changed(*TOPIC, ("retention.ms", 9, "1")), Errors.INVALID_REQUEST),
        (changed(2, "nosuch", ("retention.ms", SET, "1")), Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (changed(2, "", ("retention.ms", SET, "1")), Errors.INVALID_REQUEST),
        (changed(2, "a/b", ("retention.ms", SET, "1")), Errors.INVALID_TOPIC_EXCEPTION),
        (changed(4, "7", ("num.io.threads", SET, "1")), Errors.BROKER_ID_NOT_REGISTERED),
        (changed(4, "x", ("num.io.threads", SET, "1")), Errors.INVALID_REQUEST),
        (changed(4, "-1", ("num.io.threads", SET, "1")), Errors.INVALID_REQUEST),
        (changed(8, "0", ("kaa", SET, "DEBUG")), Errors.INVALID_REQUEST),
        (changed(0, "t", ("retention.ms", SET, "1")), Errors.UNSUPPORTED_VERSION),
        (changed(77, "t", ("retention.ms", SET, "1")), Errors.UNSUPPORTED_VERSION),
        (changed(16, "", ("interval.ms", SET, "1000")), Errors.INVALID_REQUEST),
        (changed(16, "s", ("interval.ms", SET, "1")), Errors.INVALID_REQUEST),
        (changed(16, "s", ("no.such", SET, "1")), Errors.INVALID_REQUEST),
        (changed(16, "s", ("match", SET, "weird")), Errors.INVALID_CONFIG),
        (changed(16, "s", ("interval.ms", SET, "x")), Errors.INVALID_CONFIG),
        (changed(32, "", ("consumer.session.timeout.ms", SET, "1")), Errors.INVALID_REQUEST),
        (changed(32, "g", ("consumer.session.timeout.ms", SET, "1")), Errors.INVALID_CONFIG),
        (changed(32, "g", ("no.such", SET, "1")), Errors.INVALID_CONFIG),
        (changed(4, "0", ("min.insync.replicas", SET, "2")), Errors.INVALID_CONFIG),
        (changed(4, "", ("min.insync.replicas", DELETE, None)), Errors.INVALID_CONFIG),
    ],
)
def test_refusals(cluster: Cluster, resource: ChangedResource, error: Errors) -> None:
    before = cluster.image.copy()
    assert alter(cluster, resource) == [error]
    assert cluster.written == []
    assert cluster.image.configs == before.configs


def test_one_refused_resource_does_not_refuse_the_others(cluster: Cluster) -> None:
    good = changed(32, "g", ("consumer.session.timeout.ms", SET, "50000"))
    bad = changed(*TOPIC, ("retention.ms", SET, "x"))
    assert alter(cluster, bad, good) == [Errors.INVALID_CONFIG, Errors.NONE]
    assert cluster.image.configs[32, "g"] == {"consumer.session.timeout.ms": "50000"}


def test_a_resource_that_is_named_twice_is_answered_once(cluster: Cluster) -> None:
    resource = changed(*TOPIC, ("retention.ms", SET, "5"))
    assert alter(cluster, resource, resource) == [Errors.INVALID_REQUEST]


def test_client_metrics(cluster: Cluster) -> None:
    resource = changed(16, "s", ("interval.ms", SET, "1000"), ("metrics", SET, "a,b"))
    assert alter(cluster, resource) == [Errors.NONE]
    assert cluster.image.configs[16, "s"]["metrics"] == "a,b"


def test_min_isr_clears_eligible_leaders(cluster: Cluster) -> None:
    alter(cluster, changed(*TOPIC, ("min.insync.replicas", SET, "1")))
    assert [type(record) for record in cluster.written] == [ConfigRecord, ClearElrRecord]
    assert cluster.written[1] == ClearElrRecord(topic_name="t")
    alter(cluster, changed(4, "", ("min.insync.replicas", SET, "2")))
    assert cluster.written[1] == ClearElrRecord(topic_name="")


def test_min_isr_of_one_broker_without_eligible_leaders() -> None:
    cluster = Cluster(1, levels=WITHOUT_ELR)
    assert alter(cluster, changed(4, "0", ("min.insync.replicas", SET, "2"))) == [Errors.NONE]
    assert [type(record) for record in cluster.written] == [ConfigRecord]


def test_cordoned_directories_need_their_metadata_version() -> None:
    resource = changed(4, "0", ("cordoned.log.dirs", SET, "/a"))
    assert alter(Cluster(1, metadata_version=29), resource) == [Errors.INVALID_CONFIG]
    assert alter(Cluster(1), resource) == [Errors.NONE]


# --- the old call


def test_replacing_removes_what_is_not_named(cluster: Cluster) -> None:
    assert replace(cluster, *TOPIC, retention_ms="5", flush_ms="7") is Errors.NONE
    assert replace(cluster, *TOPIC, flush_ms="7", segment_ms="9") is Errors.NONE
    assert cluster.image.configs[TOPIC] == {"flush.ms": "7", "segment.ms": "9"}
    assert [
        (each.name, each.value) for each in cluster.written if isinstance(each, ConfigRecord)
    ] == [("segment.ms", "9"), ("retention.ms", None)]


def test_replacing_is_checked_as_well(cluster: Cluster) -> None:
    assert replace(cluster, *TOPIC, retention_ms="x") is Errors.INVALID_CONFIG
    assert replace(cluster, 2, "nosuch") is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert replace(cluster, 0, "t") is Errors.UNSUPPORTED_VERSION
