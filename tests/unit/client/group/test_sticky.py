from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kaa.client.group.assignors import Assignments, KnownMember
from kaa.client.group.consumer_protocol import Subscription
from kaa.client.group.sticky import CooperativeStickyAssignor, StickyAssignor
from kaa.model.topics import TopicPartition

STICKY, COOPERATIVE = StickyAssignor(), CooperativeStickyAssignor()


def partitions(topic: str, *numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for number in numbers)


def eager(
    name: str, owned: tuple[TopicPartition, ...], generation: int, *topics: str
) -> KnownMember:
    data = STICKY.user_data(owned, generation)
    return KnownMember(name, None, Subscription(topics, data, (), generation))


def cooperative(
    name: str, owned: tuple[TopicPartition, ...], generation: int, *topics: str
) -> KnownMember:
    data = COOPERATIVE.user_data(owned, generation)
    return KnownMember(name, None, Subscription(topics, data, owned, generation))


def test_members_keep_their_share() -> None:
    members = [
        eager("old", partitions("t", 0, 1, 2, 3), 4, "t"),
        eager("new", (), -1, "t"),
    ]
    result = STICKY.assign({"t": 5}, members)
    assert result["old"] == list(partitions("t", 0, 1, 2))
    assert result["new"] == list(partitions("t", 3, 4))


def test_claims_of_older_generations_do_not_count() -> None:
    members = [
        eager("late", partitions("t", 0, 1), 3, "t"),
        eager("newest", partitions("t", 0), 4, "t"),
    ]
    result = STICKY.assign({"t": 2}, members)
    assert result == {"late": list(partitions("t", 1)), "newest": list(partitions("t", 0))}


def test_partition_that_two_claim_belongs_to_nobody() -> None:
    members = [
        cooperative("m0", partitions("t", 0, 1), 3, "t"),
        cooperative("m1", partitions("t", 1, 2), 3, "t"),
    ]
    result = STICKY.assign(
        {"t": 3}, [m._replace(subscription=Subscription(("t",))) for m in members]
    )
    assert sorted(len(assigned) for assigned in result.values()) == [1, 2]
    result = COOPERATIVE.assign({"t": 3}, members)
    assert TopicPartition("t", 0) in result["m0"]
    assert TopicPartition("t", 2) in result["m1"]


def test_what_moves_is_given_up_first() -> None:
    old = cooperative("old", partitions("t", 0, 1), 1, "t")
    new = cooperative("new", (), -1, "t")
    first = COOPERATIVE.assign({"t": 2}, [old, new])
    assert first == {"old": list(partitions("t", 0)), "new": []}
    again = [
        cooperative("old", partitions("t", 0), 2, "t"),
        cooperative("new", (), 2, "t"),
    ]
    assert COOPERATIVE.assign({"t": 2}, again)["new"] == list(partitions("t", 1))


def test_bytes_that_cannot_be_read_are_no_claim() -> None:
    for data in (b"\0", b"\0\0\0\x01\0\x03t", b"\0\0\0\x01\0\x01\xff\0\0\0\0"):
        member = KnownMember("m", None, Subscription(("t",), data))
        assert STICKY.assign({"t": 1}, [member]) == {"m": list(partitions("t", 0))}
    assert STICKY.user_data((), -1) is None
    assert COOPERATIVE.user_data((), 5) == b"\0\0\0\x05"


def test_differing_subscriptions_are_levelled() -> None:
    members = [
        eager("both", partitions("a", 0, 1, 2), 1, "a", "b"),
        eager("only-b", (), -1, "b"),
    ]
    result = STICKY.assign({"a": 3, "b": 3}, members)
    assert result["both"] == list(partitions("a", 0, 1, 2))
    assert sorted(result["only-b"]) == list(partitions("b", 0, 1, 2))


topics = st.sampled_from(["a", "b", "c"])


def loads(result: Assignments) -> list[int]:
    return [len(assigned) for assigned in result.values()]


@given(
    counts=st.dictionaries(topics, st.integers(0, 9)),
    before=st.integers(1, 6),
    after=st.integers(1, 6),
)
def test_change_of_members_moves_no_more_than_it_must(
    counts: dict[str, int], before: int, after: int
) -> None:
    """Members that stay keep everything up to the new share."""
    names = ("a", "b", "c")
    first = STICKY.assign(counts, [eager(f"m{i}", (), -1, *names) for i in range(before)])
    assert max(loads(first)) - min(loads(first)) <= 1
    members = [eager(f"m{i}", tuple(first.get(f"m{i}", ())), 1, *names) for i in range(after)]
    second = STICKY.assign(counts, members)
    assert max(loads(second)) - min(loads(second)) <= 1
    for name in first.keys() & second.keys():
        kept = len(set(first[name]) & set(second[name]))
        assert kept >= min(len(first[name]), *loads(second))


@given(
    counts=st.dictionaries(topics, st.integers(0, 6)),
    subscriptions=st.lists(st.sets(topics), min_size=1, max_size=5),
)
def test_nobody_could_take_something_from_one_with_two_more(
    counts: dict[str, int], subscriptions: list[set[str]]
) -> None:
    members = [eager(f"m{index}", (), -1, *some) for index, some in enumerate(subscriptions)]
    result = STICKY.assign(counts, members)
    for member in members:
        mine = len(result[member.member_id])
        for assigned in result.values():
            takes = [one for one in assigned if one.topic in member.subscription.topics]
            assert not takes or len(assigned) - mine <= 1
