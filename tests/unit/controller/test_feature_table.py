from __future__ import annotations

import pytest

from kaa.controller.feature_table import (
    FEATURES,
    METADATA_VERSIONS,
    default_level,
    metadata_version_at,
    metadata_version_of,
    record_version,
    supported_ranges,
)
from kaa.wire.messages.metadata_cluster import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    RegisterBrokerRecord,
)
from kaa.wire.messages.metadata_topics import PartitionChangeRecord, PartitionRecord
from kaa.wire.schema import MetadataRecord
from tests.unit.controller.cluster import uuid


def test_levels_of_the_newest_release() -> None:
    assert {name: default_level(name, 30) for name in FEATURES} == {
        "kraft.version": 1,
        "transaction.version": 2,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
        "share.version": 1,
        "streams.version": 1,
    }
    assert {name: default_level(name, 7) for name in FEATURES} == dict.fromkeys(FEATURES, 0)


def test_supported_ranges() -> None:
    ranges = supported_ranges()
    assert ranges["metadata.version"] == (7, 30)
    assert ranges["transaction.version"] == (0, 2)
    assert len(ranges) == 7


@pytest.mark.parametrize(
    ("text", "level"),
    [("4.3", 30), ("4.3.1", 30), ("4.3-IV0", 30), ("3.7", 19), ("3.7-IV2", 17), ("2.8", None)],
)
def test_releases(text: str, level: int | None) -> None:
    found = metadata_version_of(text)
    assert (None if found is None else found.level) == level


def test_levels_have_no_gap() -> None:
    assert [version.level for version in METADATA_VERSIONS] == list(range(7, 31))
    assert metadata_version_at(30) == METADATA_VERSIONS[-1]
    assert metadata_version_at(31) is None
    assert str(METADATA_VERSIONS[-1]) == "4.3-IV0"


@pytest.mark.parametrize(
    ("record", "versions"),
    [
        (PartitionRecord(), {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2}),
        (PartitionChangeRecord(), {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2}),
        (RegisterBrokerRecord(), {7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4}),
        (BrokerRegistrationChangeRecord(fenced=1), {7: 0, 30: 0}),
        (BrokerRegistrationChangeRecord(in_controlled_shutdown=1), {7: 1, 30: 1}),
        (BrokerRegistrationChangeRecord(log_dirs=[uuid(1)]), {17: 2, 30: 2}),
        (BrokerRegistrationChangeRecord(cordoned_log_dirs=[]), {30: 3}),
        (FeatureLevelRecord(name="x"), {7: 0, 30: 0}),
    ],
)
def test_versions_of_records(record: MetadataRecord, versions: dict[int, int]) -> None:
    for level, version in versions.items():
        assert record_version(record, {"metadata.version": level}) == version
