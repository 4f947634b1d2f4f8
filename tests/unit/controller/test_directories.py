from __future__ import annotations

from kaa.controller.directories import LOST, MIGRATING, RESERVED, UNASSIGNED, is_online
from tests.unit.controller.cluster import uuid


def test_directory_ids_with_a_meaning() -> None:
    assert is_online(UNASSIGNED, [uuid(1)])
    assert is_online(MIGRATING, [uuid(1)])
    assert not is_online(LOST, [uuid(1)])
    assert is_online(uuid(1), [uuid(1)])
    assert not is_online(uuid(2), [uuid(1)])
    assert is_online(uuid(2), [])
    assert {UNASSIGNED, MIGRATING, LOST} < RESERVED
    assert uuid(0) not in RESERVED
