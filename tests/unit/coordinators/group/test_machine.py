"""Commands on groups as a whole."""

from __future__ import annotations

from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.bench import GROUP, GroupBench, code
from tests.unit.coordinators.group.offsets.test_committed import offsets


def delete_groups(bench: GroupBench, *groups: str) -> list[Errors]:
    results = bench.run("delete", lambda machine, _: machine.delete_groups(groups))
    return [code(result.error_code) for result in results]


def test_only_groups_without_members_are_deleted() -> None:
    bench = GroupBench()
    ids = bench.stable("a")
    bench.commit_offset("t", member_id=ids["a"], generation=1)
    assert delete_groups(bench, GROUP, "nothing") == [
        Errors.NON_EMPTY_GROUP,
        Errors.GROUP_ID_NOT_FOUND,
    ]
    bench.leave((ids["a"], None))
    assert delete_groups(bench, GROUP) == [Errors.NONE]
    assert bench.group is None
    assert offsets(bench) == {}
    bench.restart()
    assert bench.group is None
    assert offsets(bench) == {}


def test_listing() -> None:
    bench = GroupBench()
    bench.stable("a")
    bench.commit_offset(group="simple")

    def names(states: list[str], types: list[str]) -> set[str]:
        return {group.group_id for group in finish(bench.machine.list_groups(states, types))}

    assert names([], []) == {GROUP, "simple"}
    assert names(["stable "], []) == {GROUP}
    assert names(["EMPTY", "Dead"], []) == {"simple"}
    assert names([], ["Classic"]) == {GROUP, "simple"}
    assert names([], ["consumer"]) == set()
    listed = {group.group_id: group for group in finish(bench.machine.list_groups([], []))}
    assert (listed[GROUP].protocol_type, listed[GROUP].group_state) == ("consumer", "Stable")
    assert listed["simple"].protocol_type == ""


def test_a_group_that_is_not_committed_is_not_seen() -> None:
    bench = GroupBench()
    bench.is_holding = True
    bench.join("a")
    assert finish(bench.machine.list_groups([], [])) == []
    assert finish(bench.machine.describe_group(GROUP, 5)).group_state == "Dead"
    bench.commit()
    assert len(finish(bench.machine.list_groups([], []))) == 1
