"""A group by its records: members, epochs, owners, and what commits it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from kaa.coordinators.group.consumer.group import (
    ConsumerGroup,
    ConsumerGroupState,
    Epochs,
    ResolvedRegex,
    is_homogeneous,
    validate_partition_commit,
)
from kaa.coordinators.group.consumer.member import ConsumerMember
from kaa.coordinators.group.consumer.records import CONSUMER_RECORDS
from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.timeline import Timeline
from kaa.limits import GROUP_TOPICS_PER_PIECE
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.offsets_consumer import ConsumerGroupCurrentMemberAssignmentValue
from kaa.wire.primitives import Uuid
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, topic_id


def refusal(call: Callable[[], object]) -> Errors:
    with pytest.raises(CoordinatorError) as refused:
        call()
    return refused.value.error


def test_a_new_group() -> None:
    group = ConsumerGroup("g", Timeline())
    assert group.epochs == Epochs(1, 0, 1, 0, False)
    assert group.state is group.committed_state is ConsumerGroupState.EMPTY
    assert group.is_empty
    group.validate_delete()
    group.validate_offset_delete()


def test_members_are_found() -> None:
    bench = ConsumerBench()
    bench.beat("a", instance="i")
    group = bench.consumer_group()
    assert group.member("a") == group.static_member("i")
    assert group.static_member(None) is group.static_member("j") is None
    assert refusal(lambda: group.member("b")) is Errors.UNKNOWN_MEMBER_ID
    assert refusal(group.validate_delete) is Errors.NON_EMPTY_GROUP
    newcomer = ConsumerMember("b", instance_id="i")
    assert list(group.members_with(newcomer)) == ["b"]
    assert group.target_of(newcomer) == group.target("a")
    assert list(group.members_with(ConsumerMember("c"))) == ["a", "c"]


def test_two_owners_are_impossible() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    group = bench.consumer_group()
    other = ConsumerMember("b", 2, 1, assigned={topic_id("t"): {0: 2}})
    thief = finish(CONSUMER_RECORDS.current_record("g", other))
    with pytest.raises(AssertionError, match="still owned at epoch 2"):
        finish(group.replay_current("b", thief.value))


def current(member: ConsumerMember) -> ConsumerGroupCurrentMemberAssignmentValue:
    value = finish(CONSUMER_RECORDS.current_record("g", member)).value
    assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
    return value


def test_what_came_between_may_be_compacted_away() -> None:
    group = ConsumerGroup("g", Timeline())
    topic = topic_id("t")
    finish(
        group.replay_current("a", current(ConsumerMember("a", 2, assigned={topic: {0: 2, 1: 2}})))
    )
    finish(group.replay_current("b", current(ConsumerMember("b", 3, assigned={topic: {1: 3}}))))
    assert group.owners[topic] == {0: 2, 1: 3}
    # That the first one has given it up is known too late to set it free.
    finish(group.replay_current("a", current(ConsumerMember("a", 3, assigned={topic: {0: 2}}))))
    assert group.owners[topic] == {0: 3, 1: 3}
    for name in "ab":
        finish(group.remove(name))
    assert not group.owners


def test_thousands_of_topics_are_replayed_in_pieces() -> None:
    timeline = Timeline()
    group = ConsumerGroup("g", timeline)
    count = 3 * GROUP_TOPICS_PER_PIECE + 1
    topics = [Uuid(number.to_bytes(16, "big")) for number in range(count)]
    has = {topic: {0: 2, 1: 2} for topic in topics}
    first = current(ConsumerMember("a", 2, assigned=has))
    assert sum(1 for _ in group.replay_current("a", first)) > 3
    assert dict(group.owners.items()) == {topic: {0: 2, 1: 2} for topic in topics}
    # The record says the same in other words: that costs one change, of the member.
    before = len(timeline)
    finish(group.replay_current("a", current(ConsumerMember("a", 2, assigned=has))))
    assert len(timeline) == before + 1
    # Topics that it gives up are still its own, and one is not.
    kept, given_up = dict(list(has.items())[:1]), dict(list(has.items())[1:-1])
    leaving = ConsumerMember("a", 2, assigned=kept, pending_revocation=given_up)
    finish(group.replay_current("a", current(leaving)))
    assert len(timeline) == before + 3
    assert set(group.owners) == set(topics[:-1])
    assert sum(1 for _ in group.replay_current("a", None)) == 3
    assert not group.owners


def test_waiting_for_others() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    bench.beat("b")
    group = bench.consumer_group()
    assert group.is_waiting_for_release(group.members["b"])
    bench.settle("a", "b")
    assert not group.is_waiting_for_release(group.members["b"])


class TestSubscriptions:
    def test_names_and_expressions(self) -> None:
        bench = ConsumerBench()
        bench.beat("a", topics=["t", "absent"])
        bench.beat("b", regex="u.*")
        bench.advance(0)
        group = bench.consumer_group()
        assert group.subscribed_topics() == {"t", "absent", "u"}
        assert group.is_subscribed_to("u")
        assert not group.is_subscribed_to("v")
        assert group.topics_of(group.members["b"]) == {"u"}
        assert group.regex_subscribers("u.*") == 1
        assert group.subscribed_topics_of([group.members["a"]]) == {"t", "absent"}

    def test_equal_names_are_one_set(self) -> None:
        bench = ConsumerBench()
        bench.beat("a", topics=["t", "u"])
        bench.beat("b", topics=["u", "t"])
        group = bench.consumer_group()
        names = group.members["a"].subscribed_topic_names
        assert group.members["b"].subscribed_topic_names is names
        assert group.subscribed_topics() is names
        bench.beat("c", topics=["t"])
        assert group.members["c"].subscribed_topic_names == {"t"}
        assert group.subscribed_topics() == names

    def test_homogeneous(self) -> None:
        def same(*members: ConsumerMember, topics: frozenset[str] = frozenset("t")) -> bool:
            return is_homogeneous(
                {str(number): one for number, one in enumerate(members)}, [ResolvedRegex(topics)]
            )

        t, tu = (ConsumerMember("", subscribed_topic_names=frozenset(one)) for one in ("t", "tu"))
        r, s = (ConsumerMember("", subscribed_topic_regex=one) for one in "rs")
        assert same(t, t)
        assert same()
        assert not same(t, tu)
        assert same(r, r)
        assert not same(r, s)
        assert not same(r, r._replace(subscribed_topic_names=frozenset("t")))
        assert not same(r, t)


class TestCommits:
    def test_of_members(self) -> None:
        bench = ConsumerBench()
        bench.beat("a")
        commit = partial(bench.commit_offset, member_id="a", version=9)
        assert commit(generation=2) is Errors.NONE
        assert commit(generation=3) is Errors.STALE_MEMBER_EPOCH
        assert commit(generation=1) is Errors.STALE_MEMBER_EPOCH
        assert bench.commit_offset(generation=-1) is Errors.UNKNOWN_MEMBER_ID
        old = bench.commit_offset(member_id="a", version=8, generation=2)
        assert old is Errors.UNSUPPORTED_VERSION

    def test_of_nobody(self) -> None:
        bench = ConsumerBench()
        bench.beat("a")
        bench.beat("a", -1)
        assert bench.commit_offset(generation=-1) is Errors.NONE

    def test_an_older_epoch_counts_for_what_was_assigned_before_it(self) -> None:
        bench = ConsumerBench()
        bench.beat("a")
        bench.beat("b")
        bench.settle("a", "b")
        group = bench.consumer_group()
        member = group.members["a"]
        behind = group.validate_offset_commit("a", None, 2, api_version=9)
        assert behind is member
        kept = bench.owned("a")["t"][0]
        validate_partition_commit(member, 2, topic_id("t"), kept)
        given_away = bench.owned("b")["t"][0]
        for partition, epoch in ((given_away, 2), (kept, 1)):
            check = partial(validate_partition_commit, member, epoch, topic_id("t"), partition)
            assert refusal(check) is Errors.STALE_MEMBER_EPOCH

    def test_fetches(self) -> None:
        bench = ConsumerBench()
        bench.beat("a")
        group = bench.consumer_group()
        for is_committed in (False, True):
            group.validate_offset_fetch(None, -1, is_committed=is_committed)
            group.validate_offset_fetch("a", 2, is_committed=is_committed)
        fetch = partial(group.validate_offset_fetch, is_committed=True)
        assert refusal(partial(fetch, "a", 1)) is Errors.STALE_MEMBER_EPOCH
        assert refusal(partial(fetch, "b", 1)) is Errors.UNKNOWN_MEMBER_ID
