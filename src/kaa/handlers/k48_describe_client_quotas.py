"""DescribeClientQuotas, key 48: the quotas that match a filter (KIP-546).

A filter has at most one component per kind of entity: an exact name, the default, or any. An entity
matches if it fulfils every component; a strict filter also wants that it has no other kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.model.pieces import mapped
from kaa.model.turns import in_turns
from kaa.net.pending import Pending
from kaa.wire.errors import Errors
from kaa.wire.messages.k48_describe_client_quotas import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.controller.image import QuotaEntity
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k48_describe_client_quotas import (
        ComponentData,
        DescribeClientQuotasRequest,
    )

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2
_KINDS: Final = frozenset({"user", "client-id", "ip"})


def handle(
    services: Services, request: DescribeClientQuotasRequest, _context: RequestContext
) -> Answer[DescribeClientQuotasResponse]:
    components = request.components
    problem = _problem(components)
    if problem is not None:
        error, message = problem
        return DescribeClientQuotasResponse(error_code=error, error_message=message, entries=None)
    return Pending(in_turns(_response(services.image.quotas, components, strict=request.strict)))


def _response(
    quotas: Mapping[QuotaEntity, Mapping[str, float]],
    components: list[ComponentData],
    *,
    strict: bool,
) -> Pieces[DescribeClientQuotasResponse]:
    def entry(entity: QuotaEntity) -> EntryData | None:
        # It may have gone since the first piece.
        values = quotas.get(entity)
        is_wanted = values is not None and _is_match(entity, components, strict=strict)
        return _entry(entity, values) if values is not None and is_wanted else None

    found = yield from mapped(entry, list(quotas))
    return DescribeClientQuotasResponse(entries=[one for one in found if one is not None])


def _entry(entity: QuotaEntity, values: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
    )


def _problem(components: list[ComponentData]) -> tuple[Errors, str] | None:
    seen: set[str] = set()
    for component in components:
        kind, match = component.entity_type, component.match
        if not kind:
            return Errors.INVALID_REQUEST, "a component has no kind of entity"
        if kind in seen:
            return Errors.INVALID_REQUEST, f"two components are about {kind}"
        if kind not in _KINDS:
            return Errors.UNSUPPORTED_VERSION, f"{kind} is not a type of entity that has quotas"
        if component.match_type not in {_EXACT, _DEFAULT, _ANY}:
            return Errors.INVALID_REQUEST, f"match type {component.match_type} is unknown"
        if component.match_type == _EXACT and match is None:
            return Errors.INVALID_REQUEST, f"an exact match of {kind} needs a name"
        if component.match_type != _EXACT and match is not None:
            return Errors.INVALID_REQUEST, f"only an exact match of {kind} has a name"
        seen.add(kind)
    if "ip" in seen and len(seen) > 1:
        return Errors.INVALID_REQUEST, "quotas of addresses have no users or clients"
    return None


def _is_match(entity: QuotaEntity, components: list[ComponentData], *, strict: bool) -> bool:
    names = dict(entity)
    if strict and len(names) != len(components):
        return False
    for component in components:
        if component.entity_type not in names:
            return False
        # A default is kept as None, which is also the name in the filter for it.
        if component.match_type != _ANY and names[component.entity_type] != component.match:
            return False
    return True
