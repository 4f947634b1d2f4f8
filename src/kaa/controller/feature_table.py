"""The features of Kafka 4.3.1: their levels, what a new cluster gets, and what a level allows.

A feature has a level for the whole cluster, kept as a FeatureLevelRecord; level 0 is not stored.
`metadata.version` is the one that every cluster has: it says which records may be written, and
in which version. `kraft.version` belongs to the quorum and is kept as a control record.

A release names a level of `metadata.version` (the newest of that release) and, through
`Feature.since`, the level of every other feature that a cluster formatted for it starts with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.wire.messages.metadata_cluster import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from kaa.wire.messages.metadata_topics import PartitionChangeRecord, PartitionRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.wire.schema import MetadataRecord

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"


class MetadataVersion(NamedTuple):
    """A level of `metadata.version`."""

    level: int
    release: str
    step: str
    # Whether records changed with this level, so that going below it may lose something.
    changed_metadata: bool

    def __str__(self) -> str:
        return f"{self.release}-{self.step}"


METADATA_VERSIONS: Final = tuple(
    MetadataVersion(*row)
    for row in (
        (7, "3.3", "IV3", True),
        (8, "3.4", "IV0", True),
        (9, "3.5", "IV0", False),
        (10, "3.5", "IV1", False),
        (11, "3.5", "IV2", True),
        (12, "3.6", "IV0", False),
        (13, "3.6", "IV1", True),
        (14, "3.6", "IV2", True),
        (15, "3.7", "IV0", True),
        (16, "3.7", "IV1", False),
        (17, "3.7", "IV2", True),
        (18, "3.7", "IV3", False),
        (19, "3.7", "IV4", False),
        (20, "3.8", "IV0", False),
        (21, "3.9", "IV0", False),
        (22, "4.0", "IV0", False),
        (23, "4.0", "IV1", True),
        (24, "4.0", "IV2", False),
        (25, "4.0", "IV3", False),
        (26, "4.1", "IV0", False),
        (27, "4.1", "IV1", False),
        (28, "4.2", "IV0", False),
        (29, "4.2", "IV1", False),
        (30, "4.3", "IV0", True),
    )
)
METADATA_VERSION_MIN: Final = METADATA_VERSIONS[0]
METADATA_VERSION_MAX: Final = METADATA_VERSIONS[-1]

# The levels of metadata.version from which on something exists.
SCRAM: Final = 11
NO_LEADER_EPOCH_BUMP_ON_ISR_SHRINK: Final = 12
METADATA_TRANSACTIONS: Final = 13
CONTROLLER_REGISTRATION: Final = 15
DIRECTORY_ASSIGNMENT: Final = 17
ELIGIBLE_LEADER_REPLICAS: Final = 23
CORDONED_LOG_DIRS: Final = 30
_MIGRATION: Final = 8


class FeatureLevel(NamedTuple):
    """A level of a feature."""

    # The metadata.version from which on new clusters get it.
    since: int
    # The metadata.version that it cannot do without.
    metadata_version_min: int = 0


FEATURES: Final[dict[str, tuple[FeatureLevel, ...]]] = {
    KRAFT_VERSION: (FeatureLevel(7), FeatureLevel(21)),
    "transaction.version": (FeatureLevel(7), FeatureLevel(24), FeatureLevel(24)),
    "group.version": (FeatureLevel(7), FeatureLevel(22)),
    ELR_VERSION: (FeatureLevel(7), FeatureLevel(26, metadata_version_min=23)),
    "share.version": (FeatureLevel(7), FeatureLevel(28)),
    "streams.version": (FeatureLevel(7), FeatureLevel(29)),
}
"""Every feature but metadata.version; the place in the tuple is the level."""


def default_level(feature: str, metadata_version: int) -> int:
    """The level that a cluster formatted for a metadata.version starts with."""
    found = 0
    for level, entry in enumerate(FEATURES[feature]):
        if entry.since > metadata_version:
            break
        found = level
    return found


def supported_ranges() -> dict[str, tuple[int, int]]:
    """What this version of Kaa supports: lowest and highest level by feature."""
    ranges = {METADATA_VERSION: (METADATA_VERSION_MIN.level, METADATA_VERSION_MAX.level)}
    for name, levels in FEATURES.items():
        ranges[name] = (0, len(levels) - 1)
    return ranges


def metadata_version_of(text: str) -> MetadataVersion | None:
    """The metadata.version of a release (4.3, 4.3.1) or of a step of it (4.3-IV0)."""
    wanted = ".".join(text.split(".")[:2])
    for version in reversed(METADATA_VERSIONS):
        if wanted in {version.release, str(version)}:
            return version
    return None


def metadata_version_at(level: int) -> MetadataVersion | None:
    return next((version for version in METADATA_VERSIONS if version.level == level), None)


def record_version(record: MetadataRecord, features: Mapping[str, int]) -> int:
    """The version in which a record is written under the cluster's metadata.version."""
    level = features.get(METADATA_VERSION, METADATA_VERSION_MIN.level)
    if isinstance(record, PartitionRecord | PartitionChangeRecord):
        if level >= ELIGIBLE_LEADER_REPLICAS:
            return 2
        return 1 if level >= DIRECTORY_ASSIGNMENT else 0
    if isinstance(record, RegisterBrokerRecord):
        if level >= CORDONED_LOG_DIRS:
            return 4
        if level >= DIRECTORY_ASSIGNMENT:
            return 3
        return 2 if level >= _MIGRATION else 1
    if isinstance(record, BrokerRegistrationChangeRecord):
        # The lowest version that has the fields in use, whatever the level.
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs or not (record.fenced or record.in_controlled_shutdown):
            # The directories that are left; there may be none.
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return 0
