from __future__ import annotations

from kaa.model.kinds import ResourceType


def test_resource_types_have_the_numbers_of_the_protocol() -> None:
    numbers = {kind.name: kind.value for kind in ResourceType}
    assert numbers == {
        "UNKNOWN": 0,
        "TOPIC": 2,
        "BROKER": 4,
        "BROKER_LOGGER": 8,
        "CLIENT_METRICS": 16,
        "GROUP": 32,
    }
