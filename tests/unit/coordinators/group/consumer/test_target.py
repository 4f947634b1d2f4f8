from __future__ import annotations

from kaa.coordinators.group.consumer.member import ConsumerMember
from kaa.coordinators.group.consumer.target import (
    computation,
    preferred_assignor,
    target_records,
)
from kaa.model.pieces import finish
from kaa.wire.messages.offsets_consumer import ConsumerGroupTargetAssignmentMemberKey
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, topic_id


def test_votes() -> None:
    def member(assignor: str | None) -> ConsumerMember:
        return ConsumerMember("", server_assignor=assignor)

    assert preferred_assignor([member(None)]) is None
    assert preferred_assignor([member("range"), member(None)]) == "range"
    assert preferred_assignor([member("range"), member("uniform")]) == "uniform"
    votes = [member("range"), member("uniform"), member("range")]
    assert preferred_assignor(votes) == "range"


def test_only_what_changed_is_written() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    bench.beat("b")
    group = bench.consumer_group()
    members = dict(group.members.items())
    found = computation(group, 9, members, bench.topics, "uniform")
    assert found.spec.partition_counts == {topic_id("t"): 4}
    records = finish(target_records(group, 9, found.spec, finish(found.steps), 77))
    assert len(records) == 1
    newcomer = members["b"]._replace(member_id="c")
    found = computation(group, 9, {**members, "c": newcomer}, bench.topics, "uniform")
    changed = finish(target_records(group, 9, found.spec, finish(found.steps), 77))[:-1]
    key = ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="c")
    assert key in [record.key for record in changed]
    assert len(changed) == 2
