"""Commands on groups as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from kaa.coordinators.group.kinds import GROUP_KINDS, GROUP_STATES, known_names
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.bench import GROUP, GroupBench
from tests.unit.coordinators.group.consumer.bench import ConsumerBench
from tests.unit.coordinators.group.offsets.test_committed import offsets


def delete_groups(bench: GroupBench, *groups: str) -> dict[str, Errors]:
    errors: dict[str, Errors] = bench.run(
        "delete", lambda machine, _: machine.delete_groups(groups)
    )
    return errors


def listed(bench: GroupBench, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[str]:
    wanted = finish(known_names(list(states), GROUP_STATES))
    kinds = finish(known_names(list(types), GROUP_KINDS))
    return finish(bench.machine.list_groups(wanted, kinds, lambda group: group.group_id))


def test_only_groups_without_members_are_deleted() -> None:
    bench = GroupBench()
    ids = bench.stable("a")
    bench.commit_offset("t", member_id=ids["a"], generation=1)
    assert delete_groups(bench, GROUP, "nothing") == {
        GROUP: Errors.NON_EMPTY_GROUP,
        "nothing": Errors.GROUP_ID_NOT_FOUND,
    }
    bench.leave((ids["a"], None))
    assert delete_groups(bench, GROUP) == {GROUP: Errors.NONE}
    assert bench.group is None
    assert offsets(bench) == {}
    bench.restart()
    assert bench.group is None
    assert offsets(bench) == {}


def test_listing() -> None:
    bench = GroupBench()
    bench.stable("a")
    bench.commit_offset(group="simple")
    assert listed(bench) == [GROUP, "simple"]
    assert listed(bench, ["stable "]) == [GROUP]
    assert listed(bench, ["EMPTY", "Dead"]) == ["simple"]
    assert listed(bench, types=["Classic"]) == [GROUP, "simple"]
    assert listed(bench, types=["consumer"]) == []
    assert listed(bench, ["nonsense"]) == listed(bench, types=["nonsense"]) == []


def test_a_group_that_is_not_committed_is_not_seen() -> None:
    bench = GroupBench()
    bench.is_holding = True
    bench.join("a")
    assert bench.machine.groups.committed(GROUP) is None
    assert listed(bench) == []
    bench.commit()
    assert listed(bench) == [GROUP]


def test_consumer_groups_are_listed_by_type_and_state() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    bench.commit_offset(group="classic")
    assert listed(bench) == ["g", "classic"]
    assert listed(bench, types=("Consumer",)) == ["g"]
    assert listed(bench, types=("classic",)) == ["classic"]
    assert listed(bench, types=("share",)) == []
    assert listed(bench, states=("stable",)) == ["g"]
    assert listed(bench, states=("EMPTY",)) == ["classic"]


def test_consumer_groups_are_deleted_without_members() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    assert delete_groups(bench, "g") == {"g": Errors.NON_EMPTY_GROUP}
    bench.beat("a", -1)
    assert delete_groups(bench, "g") == {"g": Errors.NONE}
    bench.restart()
    assert bench.group is None
