from __future__ import annotations

import pytest

from kaa.tier.store.layout import ObjectName, Part, object_name, parse_name
from tests.unit.tier.metadata.samples import PARTITION, segment


def test_names_are_those_of_kafkas_local_storage() -> None:
    one = segment(1, 42, 99)
    name = object_name(one, Part.LOG)
    assert name == (
        "orders-3-dHR0dHR0dHR0dHR0dHR0dA/00000000000000000042-AAAAAAAAAAAAAAAAAAAAAQ.log"
    )
    for part in Part:
        assert parse_name(object_name(one, part)) == ObjectName(PARTITION, 42, one.segment_id, part)


@pytest.mark.parametrize(
    "name",
    [
        "orders-3-dHR0dHR0dHR0dHR0dHR0dA/readme",
        "orders/00000000000000000042-AAAAAAAAAAAAAAAAAAAAAQ.log",
        "orders-3-dHR0dHR0dHR0dHR0dHR0dA/00000000000000000042-AAAAAAAAAAAAAAAAAAAAAQ.tmp",
    ],
)
def test_what_is_not_part_of_a_segment(name: str) -> None:
    assert parse_name(name) is None
