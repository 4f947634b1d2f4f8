from __future__ import annotations

from kaa.quorum.events import Event, LogWritten, Start
from kaa.quorum.values import Value


def test_events_are_comparable_values() -> None:
    assert all(issubclass(kind, Value) for kind in Event.__args__)
    assert LogWritten(1, 5) == LogWritten(write_id=1, end_offset=5)
    assert Start() == Start()
