from __future__ import annotations

from collections.abc import Generator

from kaa.coordinators.group.consumer.records import partition_metadata_tombstone
from kaa.coordinators.group.consumer.timers import ConsumerTimers, WorkDue
from kaa.coordinators.group.consumer.work import ConsumerWork
from kaa.coordinators.machine import Moment, NewRecord
from kaa.coordinators.timers import Timers
from kaa.limits import CONSUMER_GROUP_ASSIGNOR_SLICE_STEPS_MAX
from kaa.model.pieces import Pieces, finish

NOW = Moment(1_000, 0)


def steps(count: int) -> Generator[None, None, str]:
    for _ in range(count):
        yield
    return "done"


def done(result: str, _: Moment) -> Pieces[list[NewRecord]]:
    assert result == "done"
    yield
    return [partition_metadata_tombstone("g")]


def test_slices() -> None:
    timers: Timers[object] = Timers()
    work = ConsumerWork(ConsumerTimers(timers))
    work.start("g", "regex", steps(CONSUMER_GROUP_ASSIGNOR_SLICE_STEPS_MAX), done, NOW)
    assert work.is_under_way("g", "regex")
    assert not work.is_under_way("g", "assignment")
    event = timers.take_due(0)
    assert isinstance(event, WorkDue)
    assert finish(work.go_on(event, NOW)) == []
    # Others are served before it goes on.
    assert timers.take_due(0) is None
    assert timers.take_due(1) == event
    assert finish(work.go_on(event, NOW)) == [partition_metadata_tombstone("g")]
    assert not work.is_under_way("g", "regex")
    assert finish(work.go_on(event, NOW)) == []
