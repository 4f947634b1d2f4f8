"""Brokers and controllers: registration, heartbeats, fencing, controlled shutdown.

A broker registers when it starts and gets an epoch: the offset of the first record of its
registration. It is fenced at first, and unfenced when its heartbeat shows that it has applied its
own registration. A registration of the same incarnation changes the old one and keeps its epoch; of
another one, it is refused while the old one's session lasts.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kaa.controller.directories import RESERVED
from kaa.controller.feature_table import (
    CONTROLLER_REGISTRATION,
    CORDONED_LOG_DIRS,
    DIRECTORY_ASSIGNMENT,
    KRAFT_VERSION,
    METADATA_VERSION,
)
from kaa.controller.leadership import (
    move_leaderships,
    move_leaderships_of_directory,
    take_leaderships,
)
from kaa.controller.result import ControllerError, ControllerResult, check_record_count
from kaa.limits import METADATA_NODE_FEATURES_MAX, QUORUM_LISTENERS_MAX
from kaa.model.nodes import SecurityProtocol
from kaa.wire.errors import Errors
from kaa.wire.messages.k62_broker_registration import (
    BrokerRegistrationResponse,
)
from kaa.wire.messages.k63_broker_heartbeat import (
    BrokerHeartbeatResponse,
)
from kaa.wire.messages.k64_unregister_broker import (
    UnregisterBrokerResponse,
)
from kaa.wire.messages.k70_controller_registration import (
    ControllerRegistrationResponse,
)
from kaa.wire.messages.metadata_cluster import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)

if TYPE_CHECKING:
    from kaa.controller.image import BrokerImage
    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.state import ControllerState
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k62_broker_registration import (
        BrokerRegistrationRequest,
    )
    from kaa.wire.messages.k63_broker_heartbeat import (
        BrokerHeartbeatRequest,
    )
    from kaa.wire.messages.k64_unregister_broker import (
        UnregisterBrokerRequest,
    )
    from kaa.wire.messages.k70_controller_registration import (
        ControllerRegistrationRequest,
    )
    from kaa.wire.schema import MetadataRecord

_SET = 1
_CLEAR = -1
_NEVER_REGISTERED = -2
_CLEAN_SHUTDOWN_VERSION_MIN = 3


# --- registration


def register_broker(
    state: ControllerState, request: BrokerRegistrationRequest, context: ControllerRequestContext
) -> Pieces[ControllerResult[BrokerRegistrationResponse]]:
    existing = state.image.brokers.get(request.broker_id)
    _check_registration(state, request, existing)
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        rack=request.rack,
        end_points=[
            BrokerEndpoint(
                name=point.name,
                host=point.host,
                port=point.port,
                security_protocol=point.security_protocol,
            )
            for point in request.listeners
        ],
        features=_checked_features(state, request),
    )
    if state.metadata_version >= DIRECTORY_ASSIGNMENT:
        record.log_dirs = list(request.log_dirs)
    records: list[MetadataRecord] = []
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        record.fenced = existing.is_fenced
        record.in_controlled_shutdown = existing.is_in_controlled_shutdown
        record.broker_epoch = existing.epoch
    else:
        stored_epoch = _NEVER_REGISTERED if existing is None else existing.epoch
        is_clean = (
            context.api_version >= _CLEAN_SHUTDOWN_VERSION_MIN
            and stored_epoch == request.previous_broker_epoch
        )
        # After an unclean stop the broker may lack what it was eligible to lead for.
        was_unclean = state.is_elr_enabled and not is_clean
        records += yield from move_leaderships(state, request.broker_id, was_unclean=was_unclean)
        record.broker_epoch = state.next_offset
    state.registration_offsets[request.broker_id] = state.next_offset + len(records)
    records.append(record)
    response = BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
    return ControllerResult(records, response, is_atomic=False)


def _check_registration(
    state: ControllerState, request: BrokerRegistrationRequest, existing: BrokerImage | None
) -> None:
    if request.cluster_id != state.settings.cluster_id:
        raise ControllerError(
            Errors.INCONSISTENT_CLUSTER_ID,
            f"this is cluster {state.settings.cluster_id}, not {request.cluster_id}",
        )
    if (
        existing is not None
        and existing.incarnation_id != request.incarnation_id
        and _is_alive(state, existing)
    ):
        raise ControllerError(
            Errors.DUPLICATE_BROKER_REGISTRATION,
            f"another broker {existing.id} is alive; after a restart wait until the session of the"
            " old one has ended",
        )
    if request.is_migrating_zk_broker:
        raise ControllerError(
            Errors.BROKER_ID_NOT_REGISTERED, "brokers that use ZooKeeper cannot be registered"
        )
    if request.broker_id < 0:
        raise ControllerError(Errors.INVALID_REGISTRATION, "the id of a broker is negative")
    if state.metadata_version >= DIRECTORY_ASSIGNMENT:
        _check_directories(state, request)
    _check_node(request)


def _check_node(request: BrokerRegistrationRequest | ControllerRegistrationRequest) -> None:
    """What the record of a registration may not say: other nodes could not read it."""
    for what, entries, entries_max in (
        ("listeners", len(request.listeners), QUORUM_LISTENERS_MAX),
        ("features", len(request.features), METADATA_NODE_FEATURES_MAX),
    ):
        if entries > entries_max:
            raise ControllerError(
                Errors.INVALID_REGISTRATION, f"a node has at most {entries_max} {what}"
            )
    known = set(SecurityProtocol)
    for listener in request.listeners:
        if not listener.name:
            raise ControllerError(Errors.INVALID_REGISTRATION, "a listener has no name")
        if listener.security_protocol not in known:
            raise ControllerError(
                Errors.INVALID_REGISTRATION,
                f"listener {listener.name} has the unknown security protocol "
                f"{listener.security_protocol}",
            )


def _is_alive(state: ControllerState, broker: BrokerImage) -> bool:
    """Whether a broker may be running that was registered under another incarnation."""
    heartbeats = state.heartbeats
    if broker.id == state.settings.node_id and not heartbeats.was_heard(broker.id, broker.epoch):
        # It had the directories that this process has locked, so it is gone.
        return False
    return heartbeats.has_session(broker.id, broker.epoch, state.now_ms)


def _check_directories(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories:
        raise ControllerError(Errors.INVALID_REGISTRATION, "a broker needs a log directory")
    if not RESERVED.isdisjoint(directories):
        raise ControllerError(Errors.INVALID_REGISTRATION, "a directory has a reserved id")
    if len(set(directories)) != len(directories):
        raise ControllerError(Errors.INVALID_REGISTRATION, "two directories have the same id")
    for other in state.image.brokers.values():
        if other.id != request.broker_id:
            for directory in directories:
                if directory in other.directories:
                    raise ControllerError(
                        Errors.INVALID_REGISTRATION,
                        f"directory {directory} is registered by broker {other.id}",
                    )


def _checked_features(
    state: ControllerState, request: BrokerRegistrationRequest
) -> list[BrokerFeature]:
    """The features of the broker, if it supports every level that the cluster is at."""
    finalized = {**state.image.features, KRAFT_VERSION: state.quorum.kraft_version}
    ranges = {
        feature.name: (feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    }
    for name, (low, high) in ranges.items():
        _check_feature(name, finalized.get(name, 0), low, high)
    if METADATA_VERSION not in ranges:
        raise ControllerError(
            Errors.INVALID_REGISTRATION,
            "the broker does not say which levels of metadata.version it supports",
        )
    for name, level in finalized.items():
        if level and name not in ranges:
            _check_feature(name, level, 0, 0)
    return [
        BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in ranges.items()
    ]


def _check_feature(name: str, level: int, low: int, high: int) -> None:
    if not low <= level <= high:
        raise ControllerError(
            Errors.UNSUPPORTED_VERSION,
            f"the cluster has {name} {level}, the broker supports {low} to {high}",
        )


def register_controller(
    state: ControllerState, request: ControllerRegistrationRequest, _: ControllerRequestContext
) -> ControllerResult[ControllerRegistrationResponse]:
    if state.metadata_version < CONTROLLER_REGISTRATION:
        raise ControllerError(
            Errors.UNSUPPORTED_VERSION, "the metadata.version is too old to register controllers"
        )
    _check_node(request)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            ControllerEndpoint(
                name=point.name,
                host=point.host,
                port=point.port,
                security_protocol=point.security_protocol,
            )
            for point in request.listeners
        ],
        features=[
            ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
    )
    return ControllerResult([record], ControllerRegistrationResponse())


def unregister_broker(
    state: ControllerState, request: UnregisterBrokerRequest, _: ControllerRequestContext
) -> Pieces[ControllerResult[UnregisterBrokerResponse]]:
    broker = state.image.brokers.get(request.broker_id)
    if broker is None:
        raise ControllerError(
            Errors.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered"
        )
    records = yield from move_leaderships(state, broker.id, also_eligible=True)
    records.append(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    check_record_count(records)
    return ControllerResult(records, UnregisterBrokerResponse(), is_atomic=False)


# --- heartbeats


class _Life(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        return self in {_Life.FENCED, _Life.SHUTDOWN_NOW}


def heartbeat(
    state: ControllerState, request: BrokerHeartbeatRequest, _: ControllerRequestContext
) -> Pieces[ControllerResult[BrokerHeartbeatResponse]]:
    broker_id = request.broker_id
    known = state.image.brokers.get(broker_id)
    is_known = known is not None and known.epoch == request.broker_epoch
    # Those of others end by themselves. Kafka notes them too.
    if is_known or not state.heartbeats.is_full:
        state.heartbeats.contact(broker_id, request.broker_epoch, state.now_ms)
    state.check_broker_epoch(broker_id, request.broker_epoch)
    current, following = _next_life(state, request)
    records: list[MetadataRecord] = []
    if following is not current:
        records += yield from _records_of_life(state, broker_id, following)
    state.heartbeats.progress(broker_id).metadata_offset = request.current_metadata_offset
    records += yield from _directory_records(state, request)
    is_caught_up = request.current_metadata_offset >= state.registration_offset(broker_id)
    response = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up,
        is_fenced=following.is_fenced,
        should_shut_down=following is _Life.SHUTDOWN_NOW,
    )
    is_stopping = following is _Life.CONTROLLED_SHUTDOWN and following is not current
    return ControllerResult(
        records,
        response,
        is_atomic=False,
        stopping_broker=broker_id if is_stopping else None,
    )


def _next_life(state: ControllerState, request: BrokerHeartbeatRequest) -> tuple[_Life, _Life]:
    """What the broker is, and what it may become by this heartbeat."""
    progress = state.heartbeats.progress(request.broker_id)
    if progress.is_shutting_down:
        current = _Life.CONTROLLED_SHUTDOWN
        if state.partitions.leads(request.broker_id):
            return current, current
        lowest = state.lowest_active_offset()
        may_stop = lowest is None or progress.controlled_shutdown_offset <= lowest
        return current, _Life.SHUTDOWN_NOW if may_stop else current
    if state.image.brokers[request.broker_id].is_fenced:
        current = _Life.FENCED
        if request.want_shut_down:
            return current, _Life.SHUTDOWN_NOW
        registered = state.registration_offset(request.broker_id)
        if not request.want_fence and request.current_metadata_offset >= registered:
            return current, _Life.UNFENCED
        return current, current
    current = _Life.UNFENCED
    if request.want_fence:
        return current, _Life.SHUTDOWN_NOW if request.want_shut_down else _Life.FENCED
    if request.want_shut_down:
        leads = state.partitions.leads(request.broker_id)
        return current, _Life.CONTROLLED_SHUTDOWN if leads else _Life.SHUTDOWN_NOW
    return current, current


def _records_of_life(
    state: ControllerState, broker_id: int, following: _Life
) -> Pieces[list[MetadataRecord]]:
    if following.is_fenced:
        return (yield from fence(state, broker_id))
    broker = state.image.brokers[broker_id]
    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    if following is _Life.UNFENCED:
        change.fenced = _CLEAR
        return [change, *(yield from take_leaderships(state, broker_id))]
    moves = yield from move_leaderships(state, broker_id)
    if broker.is_in_controlled_shutdown:
        return moves
    change.in_controlled_shutdown = _SET
    return [change, *moves]


def fence(state: ControllerState, broker_id: int) -> Pieces[list[MetadataRecord]]:
    """Takes a broker's leaderships away and fences it."""
    epoch = state.image.brokers[broker_id].epoch
    records = yield from move_leaderships(state, broker_id)
    records.append(
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=_SET)
    )
    return records


def fence_stale_broker(state: ControllerState) -> Pieces[ControllerResult[bool]]:
    """Fences one broker whose session has ended; whether there may be more."""
    expired = state.heartbeats.take_expired(state.now_ms)
    if expired is None:
        return ControllerResult([], False)
    broker_id, epoch = expired
    broker = state.image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        return ControllerResult([], True)
    return ControllerResult((yield from fence(state, broker_id)), True, is_atomic=False)


def _directory_records(
    state: ControllerState, request: BrokerHeartbeatRequest
) -> Pieces[list[MetadataRecord]]:
    broker = state.image.brokers[request.broker_id]
    level = state.metadata_version
    records: list[MetadataRecord] = []
    offline = [each for each in broker.directories if each in request.offline_log_dirs]
    if offline and level >= DIRECTORY_ASSIGNMENT:
        for directory in offline:
            records += yield from move_leaderships_of_directory(state, broker.id, directory)
        online = [each for each in broker.directories if each not in offline]
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=online
            )
        )
    cordoned = request.cordoned_log_dirs
    if cordoned is not None and level >= CORDONED_LOG_DIRS:
        before = broker.cordoned_directories
        if before is None or set(before) != set(cordoned):
            records.append(
                BrokerRegistrationChangeRecord(
                    broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
                )
            )
    return records
