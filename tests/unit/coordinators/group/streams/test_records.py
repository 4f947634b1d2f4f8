"""What is stored of a group."""

from __future__ import annotations

from kaa.coordinators.group.kinds import RECORD_TYPES
from kaa.coordinators.group.streams.records import STREAMS_RECORDS
from kaa.coordinators.records import encode_key
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.streams.bench import (
    AT_ONCE,
    StreamsBench,
    info,
    shown,
    subtopology,
    topology,
)


def test_a_group_is_the_same_after_a_restart() -> None:
    bench = StreamsBench(AT_ONCE._replace(num_standby_replicas=1))
    bench.create("c", 4)
    stateful = topology(subtopology(state_changelog_topics=[info("c")]))
    for member in ("a", "b"):
        bench.ask(member, topology=stateful, rack_id="r", client_tags=[])
    bench.ask("a", 2, {"0": [0, 1, 2, 3]})
    group = bench.streams_group
    before = (
        dict(group.members.items()),
        dict(group.targets.items()),
        group.epochs,
        group.topology,
        group.shown_state,
        dict(group.active_processes("0")),
    )
    bench.restart()
    group = bench.streams_group
    assert before == (
        dict(group.members.items()),
        dict(group.targets.items()),
        group.epochs,
        group.topology,
        group.shown_state,
        dict(group.active_processes("0")),
    )
    # The deadline for giving up is there again.
    bench.advance(10_000)
    assert list(bench.streams_group.members) == ["b"]


def test_nothing_is_left_of_a_heartbeat_that_was_not_stored() -> None:
    bench = StreamsBench()
    bench.ask("a")
    bench.is_holding = True
    bench.ask("b")
    bench.fail()
    assert list(bench.streams_group.members) == ["a"]
    assert shown(bench.ask("b").active_tasks) == {}


def test_a_group_without_members_is_deleted_with_all_its_records() -> None:
    bench = StreamsBench()
    bench.ask("a")
    refused = bench.run("d", lambda machine, _: machine.delete_groups(["g"]))
    assert refused == {"g": Errors.NON_EMPTY_GROUP}
    bench.ask("a", -1)
    done = bench.run("d", lambda machine, _: machine.delete_groups(["g"]))
    assert done == {"g": Errors.NONE}
    assert "g" not in bench.machine.groups
    bench.restart()
    assert "g" not in bench.machine.groups


def test_every_kind_of_record_is_known() -> None:
    assert [kind.key.record_type for kind in STREAMS_RECORDS.types] == [17, 19, 20, 21, 22, 23]
    for record in STREAMS_RECORDS.remove_member("g", "m"):
        assert RECORD_TYPES.decode(encode_key(record.key), None) is not None
