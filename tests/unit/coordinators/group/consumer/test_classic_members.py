"""Members that speak the classic protocol within a consumer group."""

from __future__ import annotations

from typing import Any

from kaa.coordinators.group.consumer.member import MemberState
from kaa.coordinators.group.consumer.protocol import read_assignment
from kaa.wire.errors import Errors
from kaa.wire.messages.embedded import ConsumerProtocolSubscription, SubscriptionTopicPartition
from tests.unit.coordinators.group.consumer.bench import ConsumerBench


def metadata(owned: dict[str, list[int]], *topics: str) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=list(topics or ("t",)),
        owned_partitions=[
            SubscriptionTopicPartition(topic=name, partitions=numbers)
            for name, numbers in owned.items()
        ],
    )
    return b"\0\1" + message.encode(1)


def given(answer: Any) -> dict[str, list[int]]:
    """What a sync gives."""
    found = read_assignment(answer.assignment).assigned_partitions
    return {topic.topic: sorted(topic.partitions) for topic in found}


def joined(bench: ConsumerBench, name: str, **fields: Any) -> Any:
    """A classic member in the group of consumer member a."""
    answer = bench.join(name, **fields)
    return bench.join(name, answer.member_id, **fields)


def test_join_sync_and_follow() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    first = bench.join("c")
    assert first.error_code == Errors.MEMBER_ID_REQUIRED
    answer = bench.join("c", first.member_id)
    assert (answer.error_code, answer.generation_id) == (Errors.NONE, 3)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    member_id = answer.member_id
    assert given(bench.sync("c", member_id, 3)) == {}
    assert bench.heartbeat(member_id, 3) is Errors.NONE
    bench.settle("a")
    # What it waits for is free: it is to join again.
    assert bench.heartbeat(member_id, 3) is Errors.REBALANCE_IN_PROGRESS
    again = bench.join("c", member_id, metadata=metadata({}))
    assert again.generation_id == 3
    assert len(given(bench.sync("c", member_id, 3))["t"]) == 2
    assert bench.heartbeat(member_id, 3) is Errors.NONE


def test_it_gives_partitions_up() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    member_id = joined(bench, "c").member_id
    bench.settle("a")
    bench.join("c", member_id, metadata=metadata({}))
    bench.sync("c", member_id, 3)
    owned = bench.owned(member_id)
    bench.beat("b")
    assert bench.heartbeat(member_id, 3) is Errors.REBALANCE_IN_PROGRESS
    # A cooperative member says what it has, and learns what is left.
    answer = bench.join("c", member_id, metadata=metadata(owned))
    assert answer.generation_id == 3
    assert bench.consumer_group().members[member_id].state is MemberState.UNREVOKED_PARTITIONS
    left = given(bench.sync("c", member_id, 3))
    assert len(left["t"]) == 1
    assert bench.heartbeat(member_id, 3) is Errors.REBALANCE_IN_PROGRESS
    assert bench.join("c", member_id, metadata=metadata(left)).generation_id == 4
    assert given(bench.sync("c", member_id, 4)) == left


def test_refusals() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    member_id = joined(bench, "c", instance=None).member_id
    assert bench.sync("x", "nobody", 3) is Errors.UNKNOWN_MEMBER_ID
    assert bench.sync("x", "a", 3) is Errors.UNKNOWN_MEMBER_ID
    assert bench.sync("x", member_id, 2) is Errors.ILLEGAL_GENERATION
    wrong = Errors.INCONSISTENT_GROUP_PROTOCOL
    assert bench.sync("x", member_id, 3, protocol_name="sticky") is wrong
    assert bench.sync("x", member_id, 3, protocol_type="connect") is wrong
    assert bench.heartbeat("a", 2) is Errors.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(member_id, 2) is Errors.ILLEGAL_GENERATION
    assert bench.join("x", protocols=["sticky"]) is wrong
    assert bench.join("x", protocol_type="connect") is wrong
    assert bench.join("x", version=3, metadata=b"") is Errors.UNKNOWN_SERVER_ERROR
    bench.beat("b")
    assert bench.sync("x", member_id, 3) is Errors.REBALANCE_IN_PROGRESS


def test_times() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    member_id = joined(bench, "c", session_ms=10_000, rebalance_ms=15_000).member_id

    def alive() -> bool:
        return member_id in bench.consumer_group().members

    bench.advance(9_999)
    assert bench.heartbeat(member_id, 3) is Errors.NONE
    # It has not asked for its assignment.
    bench.advance(5_001)
    assert not alive()
    member_id = joined(bench, "c", session_ms=10_000).member_id
    bench.sync("c", member_id, bench.consumer_group().members[member_id].member_epoch)
    bench.advance(10_000)
    assert not alive()


def test_one_that_does_not_join_again() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    answer = joined(bench, "c", session_ms=10_000, rebalance_ms=15_000)
    bench.sync("c", answer.member_id, 3)
    bench.beat("b")
    for _ in range(2):
        assert bench.heartbeat(answer.member_id, 3) is Errors.REBALANCE_IN_PROGRESS
        bench.advance(7_500)
    assert answer.member_id not in bench.consumer_group().members


def test_leaving() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    member_id = joined(bench, "c").member_id
    static = bench.join("d", instance="i", version=9)
    assert static.error_code == Errors.NONE
    errors = bench.leave((member_id, None), ("", "i"), ("nobody", None), ("x", "j"))
    unknown = Errors.UNKNOWN_MEMBER_ID
    assert errors == [Errors.NONE, Errors.NONE, unknown, unknown]
    assert list(bench.consumer_group().members) == ["a"]
    epoch = bench.consumer_group().group_epoch
    bench.leave(("nobody", None))
    assert bench.consumer_group().group_epoch == epoch


def test_static_members_change_their_protocol() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    bench.beat("s", instance="i")
    bench.settle("a", "s")
    owned = bench.owned("s")
    answer = bench.join("c", instance="i", metadata=metadata(owned))
    assert answer.error_code == Errors.NONE
    assert set(bench.consumer_group().members) == {"a", answer.member_id}
    assert given(bench.sync("c", answer.member_id, answer.generation_id, instance="i")) == owned
    fenced = bench.join("c", "s", instance="i")
    assert fenced is Errors.FENCED_INSTANCE_ID
    # And back: the classic one need not have left.
    back = bench.beat("n", instance="i")
    assert back.error_code == Errors.NONE
    assert bench.owned("n") == owned


def test_migration_may_be_forbidden() -> None:
    bench = ConsumerBench(is_upgrade_enabled=False, is_downgrade_enabled=False)
    bench.beat("a")
    assert bench.join("c") is Errors.INCONSISTENT_GROUP_PROTOCOL
