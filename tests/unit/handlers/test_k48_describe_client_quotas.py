from __future__ import annotations

import pytest

from kaa.controller.image import QuotaEntity
from kaa.handlers.k48_describe_client_quotas import _response
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from kaa.wire.messages.metadata_settings import ClientQuotaRecord, EntityData
from tests.unit.handlers.support import Node

EXACT, DEFAULT, ANY = 0, 1, 2
USER: QuotaEntity = (("user", "u"),)
USER_DEFAULT: QuotaEntity = (("user", None),)
BOTH: QuotaEntity = (("client-id", "c"), ("user", "u"))
CLIENT: QuotaEntity = (("client-id", "c"),)
ADDRESS: QuotaEntity = (("ip", "127.0.0.1"),)
Component = tuple[str, int, str | None]


@pytest.fixture
def quotas(node: Node) -> Node:
    for number, entity in enumerate((USER, USER_DEFAULT, BOTH, CLIENT, ADDRESS)):
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        node.replay(ClientQuotaRecord(entity=parts, key="some_rate", value=float(number)))
    return node


def request(*components: Component, strict: bool = False) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ],
        strict=strict,
    )


def found(
    node: Node, *components: Component, strict: bool = False, version: int | None = None
) -> set[QuotaEntity]:
    response = node.ask(request(*components, strict=strict), version)
    assert (response.error_code, response.error_message) == (Errors.NONE, "")
    assert all(len(entry.values) == 1 for entry in response.entries)
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity)
        for entry in response.entries
    }


@pytest.mark.parametrize("version", [0, 1])
def test_filters(quotas: Node, version: int) -> None:
    everything = {USER, USER_DEFAULT, BOTH, CLIENT, ADDRESS}
    assert found(quotas, version=version) == everything
    assert found(quotas, ("user", EXACT, "u"), version=version) == {USER, BOTH}
    assert found(quotas, ("user", DEFAULT, None), version=version) == {USER_DEFAULT}
    assert found(quotas, ("user", ANY, None), version=version) == {USER, USER_DEFAULT, BOTH}
    assert found(quotas, ("user", ANY, None), ("client-id", ANY, None)) == {BOTH}
    assert found(quotas, ("ip", EXACT, "no address")) == set()


def test_strict_filters(quotas: Node) -> None:
    assert found(quotas, strict=True) == set()
    assert found(quotas, ("user", EXACT, "u"), strict=True) == {USER}
    assert found(quotas, ("client-id", ANY, None), strict=True) == {CLIENT}


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ((("", ANY, None),), Errors.INVALID_REQUEST),
        ((("weird", ANY, None),), Errors.UNSUPPORTED_VERSION),
        ((("user", ANY, None), ("user", DEFAULT, None)), Errors.INVALID_REQUEST),
        ((("user", 7, None),), Errors.INVALID_REQUEST),
        ((("user", -1, "u"),), Errors.INVALID_REQUEST),
        ((("user", EXACT, None),), Errors.INVALID_REQUEST),
        ((("user", DEFAULT, "u"),), Errors.INVALID_REQUEST),
        ((("user", ANY, "u"),), Errors.INVALID_REQUEST),
        ((("ip", ANY, None), ("user", ANY, None)), Errors.INVALID_REQUEST),
    ],
)
def test_filters_that_make_no_sense(
    node: Node, components: tuple[Component, ...], error: Errors
) -> None:
    response = node.ask(request(*components))
    assert response.error_code == error
    assert response.error_message
    assert response.entries is None


def test_others_have_turns_while_entities_are_looked_at(node: Node) -> None:
    kept: QuotaEntity = (("user", "250"),)
    for number in range(251):
        name = EntityData(entity_type="user", entity_name=str(number))
        node.replay(ClientQuotaRecord(entity=[name], key="some_rate", value=1.0))
    quotas = node.services.image.quotas
    components = request(("user", ANY, None)).components
    pieces = _response(quotas, components, strict=False)
    next(pieces)
    for entity in [entity for entity in quotas if entity != kept]:
        del quotas[entity]
    found = finish(pieces).entries or []
    # What went before its piece is left out.
    assert [entry.entity[0].entity_name for entry in found] == [*map(str, range(100)), "250"]
