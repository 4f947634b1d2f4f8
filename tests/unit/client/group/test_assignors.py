from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaa.client.errors import ClientError
from kaa.client.group.assignors import KnownMember, RangeAssignor, RoundRobinAssignor, assignors_of
from kaa.client.group.consumer_protocol import Subscription
from kaa.model.topics import TopicPartition

ALL = ["range", "roundrobin", "sticky", "cooperative-sticky"]


def a_member(name: str, *topics: str, instance: str | None = None) -> KnownMember:
    return KnownMember(name, instance, Subscription(topics))


def numbers(assigned: list[TopicPartition]) -> list[str]:
    return [str(one) for one in assigned]


def test_range_goes_topic_by_topic() -> None:
    members = [a_member("m1", "a", "b"), a_member("m0", "a", "b"), a_member("m2", "b")]
    result = RangeAssignor().assign({"a": 3, "b": 4, "c": 1}, members)
    assert numbers(result["m0"]) == ["a-0", "a-1", "b-0", "b-1"]
    assert numbers(result["m1"]) == ["a-2", "b-2"]
    assert numbers(result["m2"]) == ["b-3"]


def test_static_members_come_first() -> None:
    members = [a_member("m0", "a"), a_member("m9", "a", instance="i")]
    result = RangeAssignor().assign({"a": 1}, members)
    assert numbers(result["m9"]) == ["a-0"]


def test_round_robin_passes_over_who_does_not_subscribe() -> None:
    members = [a_member("m0", "a"), a_member("m1", "a", "b"), a_member("m2", "a", "b")]
    result = RoundRobinAssignor().assign({"a": 1, "b": 3}, members)
    assert numbers(result["m0"]) == ["a-0"]
    assert numbers(result["m1"]) == ["b-0", "b-2"]
    assert numbers(result["m2"]) == ["b-1"]


def test_names_as_in_java_or_short() -> None:
    prefix = "org.apache.kafka.clients.consumer."
    found = assignors_of([prefix + "RangeAssignor", "cooperative-sticky"])
    assert [one.name for one in found] == ["range", "cooperative-sticky"]
    with pytest.raises(ClientError, match="use range, roundrobin"):
        assignors_of(["com.example.Own"])
    with pytest.raises(ClientError, match="names no assignor"):
        assignors_of([])


topics = st.sampled_from(["a", "b", "c"])


@given(
    name=st.sampled_from(ALL),
    counts=st.dictionaries(topics, st.integers(0, 7)),
    subscriptions=st.lists(st.sets(topics), min_size=1, max_size=5),
)
def test_every_partition_goes_to_one_that_wants_it(
    name: str, counts: dict[str, int], subscriptions: list[set[str]]
) -> None:
    members = [a_member(f"m{index}", *some) for index, some in enumerate(subscriptions)]
    result = assignors_of([name])[0].assign(counts, members)
    assert set(result) == {member.member_id for member in members}
    for member in members:
        assert {one.topic for one in result[member.member_id]} <= set(member.subscription.topics)
    given_out = sorted(one for assigned in result.values() for one in assigned)
    wanted = {topic for some in subscriptions for topic in some}
    assert given_out == sorted(
        TopicPartition(topic, number)
        for topic, count in counts.items()
        if topic in wanted
        for number in range(count)
    )
