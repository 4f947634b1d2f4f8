"""Groups that change their protocol while they live."""

from __future__ import annotations

from typing import Any

import pytest

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState
from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.consumer.protocol import write_assignment
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.bench import GROUP
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, topic_id
from tests.unit.coordinators.group.consumer.test_classic_members import given, metadata

METADATA = metadata({})


def classic_group(bench: ConsumerBench, *names: str, **fields: Any) -> dict[str, str]:
    """A stable classic group; members share the partitions of t."""
    for name in names:
        bench.join_new(name, metadata=METADATA, **fields)
    bench.advance(bench.settings.initial_rebalance_delay_ms * 2)
    ids = {name: bench.answers[name].member_id for name in names}
    share = 4 // len(names)
    assignments = {
        member_id: write_assignment(
            {topic_id("t"): range(share * number, share * (number + 1))}, bench.topics, METADATA
        )
        for number, member_id in enumerate(ids.values())
    }
    group = bench.group
    for name, member_id in sorted(ids.items(), key=lambda one: one[1] == group.leader_id):
        leads = member_id == group.leader_id
        bench.sync(name, member_id, group.generation_id, assignments if leads else None)
    assert bench.state == "Stable"
    return ids


def test_everybody_keeps_its_assignment() -> None:
    bench = ConsumerBench()
    ids = classic_group(bench, "c", "d")
    answer = bench.beat("a")
    assert (answer.error_code, answer.member_epoch) == (Errors.NONE, 2)
    group = bench.consumer_group()
    assert set(group.members) == {"a", *ids.values()}
    assert bench.owned(ids["c"]) == {"t": [0, 1]}
    assert bench.owned(ids["d"]) == {"t": [2, 3]}
    assert bench.heartbeat(ids["c"], 1) is Errors.REBALANCE_IN_PROGRESS
    for _ in range(2):
        for name, member_id in ids.items():
            bench.join(name, member_id, metadata=metadata(bench.owned(member_id)))
            epoch = group.members[member_id].member_epoch
            given(bench.sync(name, member_id, epoch))
    bench.settle("a")
    owned = [number for one in group.members for number in bench.owned(one).get("t", [])]
    assert sorted(owned) == [0, 1, 2, 3]
    assert bench.owned("a") != {}
    bench.restart()
    assert set(bench.consumer_group().members) == {"a", *ids.values()}


def test_those_who_wait_are_to_come_again() -> None:
    bench = ConsumerBench()
    ids = classic_group(bench, "c")
    bench.join("d", version=3)
    bench.answers.pop("d", None)
    bench.beat("a")
    assert bench.answers["d"].error_code == Errors.REBALANCE_IN_PROGRESS
    bench.advance(9_000)
    assert bench.heartbeat(ids["c"], 1) is Errors.REBALANCE_IN_PROGRESS


def test_a_refused_upgrade_changes_nothing() -> None:
    bench = ConsumerBench(consumer_size_max=2)
    classic_group(bench, "c")
    bench.join("d", version=3)
    assert bench.beat("a") is Errors.GROUP_MAX_SIZE_REACHED
    assert isinstance(bench.group, ClassicGroup)
    assert "d" not in bench.answers


@pytest.mark.parametrize(
    "settings", [{"is_upgrade_enabled": False}, {"consumer_size_max": 0}], ids=["policy", "size"]
)
def test_upgrades_may_be_forbidden(settings: dict[str, Any]) -> None:
    bench = ConsumerBench(**settings)
    classic_group(bench, "c")
    assert bench.beat("a") is Errors.GROUP_ID_NOT_FOUND


def test_what_cannot_be_upgraded() -> None:
    bench = ConsumerBench()
    bench.stable("c")
    # Its assignment is not one of the consumer protocol.
    assert bench.beat("a") is Errors.GROUP_ID_NOT_FOUND
    bench.join_new("w", group="connect", protocol_type="connect")
    assert bench.beat("a", group="connect") is Errors.GROUP_ID_NOT_FOUND


def test_custom_assignors_are_refused() -> None:
    bench = ConsumerBench()
    ids = classic_group(bench, "c")
    member = bench.group.members[ids["c"]]
    member.assignment = member.assignment[:-4] + b"\0\0\0\1x"
    assert bench.beat("a") is Errors.GROUP_ID_NOT_FOUND


def test_a_group_in_its_first_rebalance() -> None:
    bench = ConsumerBench()
    bench.join_new("c", metadata=METADATA)
    assert bench.beat("a").error_code == Errors.NONE
    assert bench.answers["c"].error_code == Errors.REBALANCE_IN_PROGRESS


def test_a_failed_upgrade_is_taken_back() -> None:
    bench = ConsumerBench()
    ids = classic_group(bench, "c")
    bench.is_holding = True
    bench.beat("a")
    bench.fail()
    assert isinstance(bench.group, ClassicGroup)
    assert bench.heartbeat(ids["c"], 1) is Errors.NONE


def mixed(bench: ConsumerBench) -> str:
    """A consumer group with member a and a classic member, whose id is returned."""
    bench.beat("a")
    first = bench.join("c")
    member_id: str = bench.join("c", first.member_id, metadata=METADATA).member_id
    bench.settle("a")
    epoch = bench.join("c", member_id, metadata=METADATA).generation_id
    bench.sync("c", member_id, epoch)
    return member_id


class TestDowngrade:
    @pytest.mark.parametrize("how", ["leaves", "expires"])
    def test_when_the_last_consumer_member_goes(self, how: str) -> None:
        bench = ConsumerBench()
        member_id = mixed(bench)
        epoch = bench.consumer_group().members[member_id].member_epoch
        if how == "leaves":
            assert bench.beat("a", -1).member_epoch == -1
        else:
            for _ in range(9):
                bench.advance(5_000)
                bench.heartbeat(member_id, epoch)
        group = bench.group
        assert isinstance(group, ClassicGroup)
        assert group.is_in(ClassicGroupState.PREPARING_REBALANCE)
        assert list(group.members) == [member_id]
        assert group.protocol_name == "range"
        # The member joins again, and the group goes on as a classic one.
        assert bench.heartbeat(member_id, group.generation_id) is Errors.REBALANCE_IN_PROGRESS
        answer = bench.join("c", member_id, metadata=METADATA)
        assert answer.generation_id == group.generation_id
        assert answer.leader == member_id
        bench.sync("c", member_id, answer.generation_id, {member_id: b"A"})
        bench.restart()
        assert bench.state == "Stable"

    def test_a_failed_one_is_taken_back(self) -> None:
        bench = ConsumerBench()
        member_id = mixed(bench)
        bench.is_holding = True
        bench.beat("a", -1)
        bench.fail()
        assert isinstance(bench.group, ConsumerGroup)
        assert set(bench.consumer_group().members) == {"a", member_id}
        bench.settle("a")

    @pytest.mark.parametrize("settings", [{"is_downgrade_enabled": False}, {"classic_size_max": 0}])
    def test_it_may_be_forbidden(self, settings: dict[str, Any]) -> None:
        bench = ConsumerBench(**settings)
        member_id = mixed(bench)
        bench.beat("a", -1)
        assert list(bench.consumer_group().members) == [member_id]

    def test_a_static_member_comes_back_with_the_classic_protocol(self) -> None:
        bench = ConsumerBench()
        bench.beat("s", instance="i")
        bench.beat("s", -2, instance="i")
        answer = bench.join("c", instance="i", metadata=METADATA)
        assert answer.error_code == Errors.NONE
        group = bench.group
        assert isinstance(group, ClassicGroup)
        assert list(group.members) == [answer.member_id]
        assert group.is_in(ClassicGroupState.STABLE)
        assert given(group.members[answer.member_id]) == {"t": [0, 1, 2, 3]}
        bench.restart()
        assert list(bench.group.members) == [answer.member_id]

    def test_and_with_another_subscription(self) -> None:
        bench = ConsumerBench()
        bench.beat("s", instance="i")
        bench.beat("s", -2, instance="i")
        bench.join("c", instance="i", metadata=metadata({}, "u"))
        assert bench.group.is_in(ClassicGroupState.PREPARING_REBALANCE)


def test_an_empty_consumer_group_gives_way() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    bench.commit_offset(member_id="a", generation=2, version=9)
    bench.beat("a", -1)
    assert bench.join("c", "some-id").error_code == Errors.UNKNOWN_MEMBER_ID
    assert bench.consumer_group().is_empty
    bench.join_new("c")
    assert isinstance(bench.group, ClassicGroup)
    bench.restart()
    assert isinstance(bench.group, ClassicGroup)
    offsets = bench.machine.offsets.of_group(GROUP)
    assert offsets is not None
    assert ("t", 0) in offsets
