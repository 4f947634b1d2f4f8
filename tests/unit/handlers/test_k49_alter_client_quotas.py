from __future__ import annotations

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from tests.unit.handlers.support import Node


@pytest.mark.parametrize("version", [0, 1])
def test_a_quota_is_kept(node: Node, version: int) -> None:
    request = AlterClientQuotasRequest(
        entries=[
            RequestEntryData(
                entity=[EntityData(entity_type=kind, entity_name="u")],
                ops=[OpData(key="producer_byte_rate", value=10.0)],
            )
            for kind in ("user", "weird")
        ]
    )
    response = node.ask(request, version)
    errors = {entry.entity[0].entity_type: entry.error_code for entry in response.entries}
    assert errors["user"] == Errors.NONE
    assert errors["weird"] != Errors.NONE
    assert node.services.image.quotas == {(("user", "u"),): {"producer_byte_rate": 10.0}}
