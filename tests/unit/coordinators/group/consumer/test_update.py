"""The steps of a request one by one; `test_consumer` has them together."""

from __future__ import annotations

from kaa.coordinators.group.consumer.member import ConsumerMember
from kaa.coordinators.group.consumer.reconcile import MemberTarget
from kaa.coordinators.group.consumer.update import Update
from kaa.coordinators.machine import NewRecord
from kaa.model.pieces import finish
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, topic_id


def update(bench: ConsumerBench, updated: ConsumerMember, records: list[NewRecord]) -> Update:
    group = bench.consumer_group()
    member = group.members.get(updated.member_id) or ConsumerMember(updated.member_id)
    around = bench.machine.consumer.surroundings(group, bench.now)
    return Update(group, member, updated, around, records)


def test_a_member_that_stays_the_same() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    records: list[NewRecord] = []
    step = update(bench, bench.consumer_group().members["a"], records)
    assert not step.store_member()
    step.bump_epoch(is_needed=False)
    assert finish(step.assign()) == MemberTarget(2, {topic_id("t"): frozenset(range(4))})
    finish(step.reconcile(finish(step.assign()), None, has_subscription_changed=False))
    assert records == []


def test_a_client_id_is_no_subscription() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    records: list[NewRecord] = []
    member = bench.consumer_group().members["a"]
    step = update(bench, member._replace(client_id="other"), records)
    assert not step.store_member()
    assert len(records) == 1
    step = update(bench, member._replace(subscribed_topic_names=frozenset({"u"})), records)
    assert step.store_member()


def test_an_epoch_is_bumped_when_it_is_needed() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    records: list[NewRecord] = []
    step = update(bench, bench.consumer_group().members["a"], records)
    step.bump_epoch(is_needed=True)
    assert step.group_epoch == 3
    assert finish(step.assign()).epoch == 3
    assert len(records) == 2
    # The append of that may fail: then topics are looked at again.
    assert bench.consumer_group().topics_checked == (bench.topics.version, 3)
    again = update(bench, bench.consumer_group().members["a"], [])
    again.bump_epoch(is_needed=False)
    assert bench.consumer_group().topics_checked == (bench.topics.version, 2)
