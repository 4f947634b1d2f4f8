"""What kinds of groups have in common, seen in the groups of the machine."""

from __future__ import annotations

import pytest

from kaa.coordinators.group.modern.timers import MemberLate
from kaa.coordinators.machine import CoordinatorError
from kaa.model.pieces import finish, in_pieces
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.consumer.bench import ConsumerBench


def test_a_group_is_found_by_its_kind() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    machine = bench.machine
    assert machine.consumer.find("g") is machine.consumer.known("g")
    assert machine.share.known("g") is None
    for groups in (machine.share, machine.streams):
        with pytest.raises(CoordinatorError, match="Group g is a consumer group") as refusal:
            groups.find("g")
        assert refusal.value.error == Errors.GROUP_ID_NOT_FOUND
        with pytest.raises(CoordinatorError, match="There is no group other"):
            groups.find("other")
        assert groups.find_or_new("other").is_empty
        assert "other" not in machine.groups


def test_a_classic_group_without_members_gives_way() -> None:
    bench = ConsumerBench()
    bench.commit_offset(offset=3)
    records: list[object] = []
    assert bench.machine.streams.take_over_or_new("g", records).kind == "streams"  # type: ignore[arg-type]
    assert len(records) == 1
    with pytest.raises(CoordinatorError, match="is a classic group"):
        bench.machine.share.find_or_new("g")


def test_a_member_that_is_late_goes_if_the_deadline_is_still_its_own() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    epoch = bench.consumer_group().member("a").member_epoch
    consumer = bench.machine.consumer
    for late in (
        MemberLate("consumer", "g", "a", epoch - 1),
        MemberLate("consumer", "g", "b"),
        MemberLate("consumer", "other", "a"),
    ):
        assert not finish(in_pieces(consumer.expire(late, bench.now))).records
    late = MemberLate("consumer", "g", "a", epoch)
    assert finish(in_pieces(consumer.expire(late, bench.now))).records
