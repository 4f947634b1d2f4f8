"""Consumer groups as they are described, listed, deleted, and how their offsets expire."""

from __future__ import annotations

from kaa.coordinators.group.consumer.describe import expired_offsets
from kaa.coordinators.group.consumer.records import group_tombstones
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, topic_id

RETENTION_MS = 1_000_000


def test_members_and_epochs() -> None:
    bench = ConsumerBench()
    bench.beat("a", instance="i")
    bench.beat("b", assignor="range")
    bench.beat("a", 2, owned={"t": [0, 1, 2, 3]}, instance="i")
    group = finish(bench.machine.describe_consumer_group("g"))
    assert (group.error_code, group.group_state) == (Errors.NONE, "Reconciling")
    assert (group.group_epoch, group.assignment_epoch) == (3, 3)
    assert group.assignor_name == "range"
    one, two = group.members
    assert (one.member_id, one.instance_id, one.member_epoch, one.member_type) == ("a", "i", 2, 1)
    assert (one.client_id, one.client_host) == ("client of a", "/127.0.0.1")
    assert one.subscribed_topic_names == ["t"]
    # It still answers for what it is to give up.
    (owned,) = one.assignment.topic_partitions
    assert (owned.topic_id, owned.topic_name) == (topic_id("t"), "t")
    assert sorted(owned.partitions) == [0, 1, 2, 3]
    (target,) = one.target_assignment.topic_partitions
    assert len(target.partitions) == 2
    assert two.assignment.topic_partitions == []
    bench.delete("t")
    group = finish(bench.machine.describe_consumer_group("g"))
    assert group.members[0].assignment.topic_partitions == []


def test_others_are_not_found() -> None:
    bench = ConsumerBench()
    bench.commit_offset(group="classic")
    absent = finish(bench.machine.describe_consumer_group("absent"))
    classic = finish(bench.machine.describe_consumer_group("classic"))
    assert absent.error_code == classic.error_code == Errors.GROUP_ID_NOT_FOUND
    assert absent.error_message == "Group absent is not there."
    assert classic.error_message == "Group classic is a classic group."


def test_described_as_a_classic_group() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    old, new = (finish(bench.machine.describe_group("g", version)) for version in (5, 6))
    assert (old.group_state, old.error_code) == ("Dead", Errors.NONE)
    assert (new.group_state, new.error_code) == ("Dead", Errors.GROUP_ID_NOT_FOUND)
    assert new.error_message == "Group g is a consumer group."


def test_listed_by_type_and_state() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    bench.commit_offset(group="classic")

    def listed(*, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> set[str]:
        return {group.group_id for group in finish(bench.machine.list_groups(states, types))}

    assert listed() == {"g", "classic"}
    assert listed(types=("Consumer",)) == {"g"}
    assert listed(types=("classic",)) == {"classic"}
    assert listed(types=("share",)) == set()
    assert listed(states=("stable",)) == {"g"}
    assert listed(states=("EMPTY",)) == {"classic"}
    (group,) = finish(bench.machine.list_groups((), ("consumer",)))
    assert (group.protocol_type, group.group_type) == ("consumer", "consumer")


def test_deletion() -> None:
    bench = ConsumerBench()
    bench.beat("a")

    def delete() -> int:
        answer = bench.run("delete", lambda machine, _: machine.delete_groups(["g"]))
        return int(answer[0].error_code)

    assert delete() == Errors.NON_EMPTY_GROUP
    bench.beat("a", -1)
    assert delete() == Errors.NONE
    bench.restart()
    assert bench.group is None


def test_the_records_that_end_a_group() -> None:
    bench = ConsumerBench()
    bench.beat("a", regex="t")
    bench.advance(0)
    assert len(group_tombstones(bench.consumer_group())) == 7


def test_offsets_of_topics_that_are_not_read_expire() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    for topic in ("t", "u"):
        bench.commit_offset(topic, member_id="a", generation=2, version=9)
    group, offsets = bench.consumer_group(), bench.machine.offsets
    now = bench.now.wall_ms
    assert expired_offsets(group, offsets, now + RETENTION_MS - 1, RETENTION_MS) == ([], False)
    records, is_nothing_left = expired_offsets(group, offsets, now + RETENTION_MS, RETENTION_MS)
    assert ([record.key.topic for record in records], is_nothing_left) == (["u"], False)  # type: ignore[attr-defined]


def test_an_empty_group_ends_with_its_last_offset() -> None:
    bench = ConsumerBench(offsets_retention_ms=RETENTION_MS)
    bench.beat("a")
    bench.commit_offset(member_id="a", generation=2, version=9)
    bench.beat("a", -1)
    bench.advance(600_000)
    assert bench.group is not None
    bench.advance(600_000)
    assert bench.group is None
