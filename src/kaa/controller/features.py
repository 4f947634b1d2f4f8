"""UpdateFeatures: the levels of the cluster's features go up or down.

A level must be supported by every node that is registered, and its dependencies must be met by the
levels that the request leads to. Going down has to be asked for, and is refused for
metadata.version where records of a form would be lost that lower levels do not know. One update
that is refused refuses the whole request.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from kaa.controller.feature_table import (
    ELR_VERSION,
    FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_MIN,
    METADATA_VERSIONS,
    metadata_version_at,
    supported_ranges,
)
from kaa.controller.result import ControllerError, ControllerResult
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX
from kaa.model.kinds import ResourceType
from kaa.model.pieces import mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.k57_update_features import UpdatableFeatureResult, UpdateFeaturesResponse
from kaa.wire.messages.metadata_cluster import FeatureLevelRecord, NoOpRecord
from kaa.wire.messages.metadata_settings import ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.state import ControllerState
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
    from kaa.wire.schema import MetadataRecord

_RESULTS_VERSION_MAX = 1
_MIN_ISR = "min.insync.replicas"


class UpgradeType(IntEnum):
    """What a sender allows, with Kafka's numbers."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    state: ControllerState, request: UpdateFeaturesRequest, context: ControllerRequestContext
) -> Pieces[ControllerResult[UpdateFeaturesResponse]]:
    wanted: dict[str, int] = {}
    kinds: dict[str, int] = {}
    known = supported_ranges()
    unknown: str | None = None
    for count, update in enumerate(request.feature_updates, 1):
        if count % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        if update.feature not in known:
            unknown = update.feature if unknown is None else unknown
            if update.feature != unknown:
                # The first of them refuses the request.
                continue
        wanted[update.feature] = update.max_version_level
        kinds[update.feature] = update.upgrade_type
    proposed = {**state.image.features, **wanted}
    records: list[MetadataRecord] = []
    try:
        for name, level in wanted.items():
            records += _update(state, name, level, kinds[name], proposed)
    except ControllerError as problem:
        message = f"nothing was updated, because of this: {problem.message}"
        return ControllerResult(
            [], UpdateFeaturesResponse(error_code=problem.error, error_message=message)
        )
    response = UpdateFeaturesResponse(error_message=None, results=[])
    if context.api_version <= _RESULTS_VERSION_MAX:
        response.results = yield from mapped(_updated, request.feature_updates)
    if request.validate_only:
        return ControllerResult([], response)
    if wanted.get(ELR_VERSION, 0) > 0:
        records = [*_min_isr_records(state), *records]
    kraft_version = wanted.get(KRAFT_VERSION, state.quorum.kraft_version)
    if kraft_version > state.quorum.kraft_version:
        return ControllerResult(records, response, kraft_version=kraft_version)
    return ControllerResult(records, response)


def _updated(update: FeatureUpdateKey) -> UpdatableFeatureResult:
    """Kafka names the error, also if there is none."""
    return UpdatableFeatureResult(feature=update.feature, error_message=Errors.NONE.name)


def _update(
    state: ControllerState, name: str, level: int, kind: int, proposed: Mapping[str, int]
) -> list[MetadataRecord]:
    if kind not in set(UpgradeType):
        raise _refusal(name, level, f"upgrade type {kind} is unknown")
    current = state.image.features.get(name, 0)
    if name == KRAFT_VERSION:
        current = state.quorum.kraft_version
    if level < 0:
        raise _refusal(name, level, "a level must not be negative")
    _check_supported(state, name, level)
    if level < current and kind == UpgradeType.UPGRADE:
        raise _refusal(name, level, f"it is at {current}; a downgrade has to be requested as one")
    if level > current and kind != UpgradeType.UPGRADE:
        raise _refusal(name, level, f"it is at {current}; a downgrade needs a lower level")
    if name == METADATA_VERSION:
        return _update_metadata_version(current, level)
    if name == KRAFT_VERSION:
        return _update_kraft_version(state, current, level)
    _check_dependencies(name, level, proposed)
    return [FeatureLevelRecord(name=name, feature_level=level)]


def _refusal(name: str, level: int, reason: str) -> ControllerError:
    return ControllerError(
        Errors.INVALID_UPDATE_VERSION, f"{name} cannot be set to {level}: {reason}"
    )


def _check_supported(state: ControllerState, name: str, level: int) -> None:
    if name not in supported_ranges():
        raise _refusal(name, level, "there is no such feature")
    ranges = [("this controller", supported_ranges().get(name))]
    ranges += [
        (f"broker {broker.id}", broker.features.get(name))
        for broker in state.image.brokers.values()
    ]
    ranges += [
        (f"controller {controller.id}", controller.features.get(name))
        for controller in state.image.controllers.values()
        if controller.id != state.settings.node_id
    ]
    for who, found in ranges:
        low, high = found or (0, 0)
        if not low <= level <= high:
            reason = (
                f"{who} supports {low} to {high}" if high else f"{who} does not support it at all"
            )
            raise _refusal(name, level, reason)


def _check_dependencies(name: str, level: int, proposed: Mapping[str, int]) -> None:
    metadata_version = proposed.get(METADATA_VERSION, 0)
    needed = max(FEATURES[name][level].metadata_version_min, METADATA_VERSION_MIN.level)
    if level > 0 and metadata_version < needed:
        raise _refusal(name, level, f"it needs metadata.version {needed}")


def _update_metadata_version(current: int, level: int) -> list[MetadataRecord]:
    if metadata_version_at(level) is None:
        raise _refusal(METADATA_VERSION, level, "there is no such level")
    lost = [
        version
        for version in METADATA_VERSIONS
        if level < version.level <= current and version.changed_metadata
    ]
    if lost:
        raise _refusal(METADATA_VERSION, level, f"it cannot hold the metadata of {lost[0]}")
    return [FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)]


def _update_kraft_version(state: ControllerState, current: int, level: int) -> list[MetadataRecord]:
    if level < current:
        raise _refusal(KRAFT_VERSION, level, f"it is at {current} and cannot go down")
    if level > current and not state.quorum.knows_voters(level):
        raise _refusal(
            KRAFT_VERSION,
            level,
            "a voter has not reported its directory and versions, or does not support it; see that "
            "all controllers run, and try again",
        )
    # The level itself is a control record of the quorum.
    return [NoOpRecord()]


def _min_isr_records(state: ControllerState) -> list[MetadataRecord]:
    """With eligible leader replicas, min.insync.replicas is a setting of the whole cluster."""
    configs = state.image.configs
    records: list[MetadataRecord] = []
    if _MIN_ISR not in configs.get((ResourceType.BROKER, ""), {}):
        records.append(
            ConfigRecord(
                resource_type=ResourceType.BROKER.value,
                resource_name="",
                name=_MIN_ISR,
                value=str(state.settings.broker.get_int(_MIN_ISR)),
            )
        )
    records += [
        ConfigRecord(resource_type=kind, resource_name=name, name=_MIN_ISR, value=None)
        for (kind, name), values in configs.items()
        if kind == ResourceType.BROKER and name and _MIN_ISR in values
    ]
    return records
