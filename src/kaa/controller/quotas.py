"""Client quotas: limits for users, client ids and addresses.

An entity is a user, a client id, both, or an address; None stands for the default of its kind. A
request is taken or refused entity by entity. Naming an entity twice is an error, but the first of
the two counts, as in Kafka.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from kaa.config.entity import IP, USER
from kaa.config.values import ConfigType, shown
from kaa.controller.image import quota_entity
from kaa.controller.result import ControllerError, ControllerResult, check_record_count
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX, RECORDS_PER_PIECE
from kaa.model.pieces import mapped, mapped_groups
from kaa.wire.errors import Errors
from kaa.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasResponse,
    EntityData,
    ResponseEntryData,
)
from kaa.wire.messages.metadata_settings import ClientQuotaRecord
from kaa.wire.messages.metadata_settings import EntityData as RecordEntity

if TYPE_CHECKING:
    from kaa.controller.image import QuotaEntity
    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.state import ControllerState
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k49_alter_client_quotas import (
        AlterClientQuotasRequest,
        RequestEntryData,
    )
    from kaa.wire.schema import MetadataRecord

_KINDS: Final = frozenset({"user", "client-id", "ip"})
_USER_QUOTAS: Final = frozenset(
    {
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
    }
)
_INTEGER_MAX: Final = {ConfigType.INT: 2**31 - 1, ConfigType.LONG: 2**63 - 1}
_FRACTION_MAX: Final = 1e-6
_HOST_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*"
    r"(?=[^.]*[A-Za-z])[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?"
)


def alter_client_quotas(
    state: ControllerState, request: AlterClientQuotasRequest, _: ControllerRequestContext
) -> Pieces[ControllerResult[AlterClientQuotasResponse]]:
    records: list[MetadataRecord] = []
    outcomes: dict[QuotaEntity, tuple[Errors, str | None]] = {}
    for count, entry in enumerate(request.entries, 1):
        if count % RECORDS_PER_PIECE == 0:
            yield
        entity = yield from _entity(entry)
        try:
            if entity in outcomes:
                raise ControllerError(Errors.INVALID_REQUEST, "the entity is named twice")
            records += yield from _alter(state, entity, entry)
            outcomes[entity] = (Errors.NONE, None)
        except ControllerError as problem:
            outcomes[entity] = (problem.error, problem.message)
    check_record_count(records)
    entries = yield from mapped_groups(
        outcomes.items(),
        lambda item: item[0],
        lambda part: EntityData(entity_type=part[0], entity_name=part[1]),
        lambda item, parts: _result(item[1], parts),
    )
    response = AlterClientQuotasResponse(entries=entries)
    return ControllerResult([] if request.validate_only else records, response)


def _result(outcome: tuple[Errors, str | None], entity: list[EntityData]) -> ResponseEntryData:
    error, message = outcome
    return ResponseEntryData(error_code=error, error_message=message, entity=entity)


def _entity(entry: RequestEntryData) -> Pieces[QuotaEntity]:
    parts: dict[str, str | None] = {}
    for number, part in enumerate(entry.entity, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        parts[part.entity_type] = part.entity_name
    if len(parts) > len(_KINDS):
        # It is refused for a kind that there is not; thousands need not be put in order for that.
        named = parts.items()
        return tuple((yield from mapped(lambda one: one, named, NAMES_ANSWERED_PER_SLICE_MAX)))
    return quota_entity(
        [RecordEntity(entity_type=kind, entity_name=name) for kind, name in parts.items()]
    )


def _alter(
    state: ControllerState, entity: QuotaEntity, entry: RequestEntryData
) -> Pieces[list[MetadataRecord]]:
    wanted: dict[str, float | None] = {}
    if len(entry.ops) >= RECORDS_PER_PIECE:
        # Others like it may stand beside it.
        yield
    for count, operation in enumerate(entry.ops, 1):
        if count % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        if operation.key in wanted:
            raise ControllerError(Errors.INVALID_REQUEST, f"{shown(operation.key)} is given twice")
        wanted[operation.key] = None if operation.remove else operation.value
    _check_entity(entity)
    current = state.image.quotas.get(entity, {})
    parts = [RecordEntity(entity_type=kind, entity_name=name) for kind, name in entity]
    records: list[MetadataRecord] = []
    for count, (key, value) in enumerate(wanted.items(), 1):
        if count % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        if value is None:
            if key in current:
                records.append(ClientQuotaRecord(entity=parts, key=key, remove=True))
            continue
        _check_value(entity, key, value)
        if current.get(key) != value:
            records.append(ClientQuotaRecord(entity=parts, key=key, value=value))
    return records


def _check_entity(entity: QuotaEntity) -> None:
    if not entity:
        raise ControllerError(Errors.INVALID_REQUEST, "the entity is empty")
    for kind, name in entity:
        if kind not in _KINDS:
            raise ControllerError(
                Errors.INVALID_REQUEST, f"{shown(kind)} is not a type of entity that has quotas"
            )
        if name is not None and not name:
            raise ControllerError(Errors.INVALID_REQUEST, f"the {kind} is empty")
    kinds = dict(entity)
    if "ip" in kinds:
        if len(kinds) > 1:
            raise ControllerError(
                Errors.INVALID_REQUEST, "an ip cannot be combined with a user or a client-id"
            )
        if kinds["ip"] is not None and not _is_address(kinds["ip"]):
            raise ControllerError(
                Errors.INVALID_REQUEST, f"{shown(kinds['ip'])} is neither an address nor a host"
            )


def _is_address(text: str) -> bool:
    """Names are not looked up: what decides here must not wait for a name server."""
    try:
        ip_address(text)
    except ValueError:
        return _HOST_NAME.fullmatch(text) is not None
    return True


def _check_value(entity: QuotaEntity, key: str, value: float) -> None:
    is_address = entity[0][0] == "ip"
    found = IP.get(key) if is_address else USER.get(key) if key in _USER_QUOTAS else None
    if found is None:
        raise ControllerError(Errors.INVALID_REQUEST, f"there is no such quota as {shown(key)}")
    if value <= 0:
        raise ControllerError(Errors.INVALID_REQUEST, f"{key} must be greater than 0")
    largest = _INTEGER_MAX.get(found.type)
    if largest is None:
        return
    if value > largest:
        raise ControllerError(Errors.INVALID_REQUEST, f"{key} must be at most {largest}")
    if value % 1 > _FRACTION_MAX:
        raise ControllerError(Errors.INVALID_REQUEST, f"{key} must be a whole number")
