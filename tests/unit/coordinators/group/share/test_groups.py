"""Share groups from the first heartbeat to the last member."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from kaa.coordinators.group.share.groups import _Update
from kaa.limits import GROUP_TOPICS_PER_PIECE
from kaa.wire.errors import Errors
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.coordinators.group.bench import GROUP
from tests.unit.coordinators.group.consumer.bench import topic_id
from tests.unit.coordinators.group.share.bench import CLIENT, ShareBench


def assigned(response: Any) -> dict[Any, list[int]] | None:
    if response.assignment is None:
        return None
    return {
        topic.topic_id: sorted(topic.partitions) for topic in response.assignment.topic_partitions
    }


def ready(partitions: int = 2, *members: str) -> ShareBench:
    """A group whose members have been assigned their partitions."""
    bench = ShareBench()
    bench.create("t", partitions)
    for member in members or ("m",):
        bench.heartbeat_share(member)
        bench.initialised()
    bench.advance(1_000)
    for member in members or ("m",):
        epoch = bench.share_group.members[member].member_epoch
        bench.heartbeat_share(member, epoch)
    return bench


def test_partitions_are_assigned_once_they_have_state() -> None:
    bench = ShareBench()
    bench.create("t", 2)
    first = bench.heartbeat_share()
    assert (first.member_epoch, assigned(first)) == (2, {})
    (effect,) = bench.effects
    assert (effect.state_epoch, effect.partitions) == (2, {topic_id("t"): frozenset({0, 1})})
    # It is under way: nobody asks again.
    bench.heartbeat_share(epoch=2)
    assert bench.effects == []
    bench.advance(1_000)
    bench.effects = [effect]
    bench.initialised()
    second = bench.heartbeat_share(epoch=2)
    assert (second.member_epoch, assigned(second)) == (3, {topic_id("t"): [0, 1]})
    third = bench.heartbeat_share(epoch=3)
    assert (third.member_epoch, assigned(third)) == (3, None)


def test_what_failed_is_tried_again() -> None:
    bench = ShareBench()
    bench.create("t", 1)
    bench.heartbeat_share()
    (effect,) = bench.effects
    bench.run(
        "failed",
        lambda machine, _: machine.share.not_initialised(effect.group_id, effect.partitions),
    )
    bench.heartbeat_share(epoch=2)
    assert len(bench.effects) == 1
    # And when nothing was heard of it for a while.
    bench.advance(30_000)
    bench.heartbeat_share(epoch=2)
    assert len(bench.effects) == 1


def test_new_partitions_get_state_too() -> None:
    bench = ready(1)
    bench.create("t", 3)
    bench.heartbeat_share(epoch=bench.share_group.members["m"].member_epoch)
    (effect,) = bench.effects
    assert effect.partitions == {topic_id("t"): frozenset({1, 2})}


def test_a_group_without_changes_is_not_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every member sends a heartbeat every few seconds, however many partitions there are."""
    bench = ready(3, "a", "b")
    looks: list[str] = []
    look = _Update.initialise

    def initialise(update: _Update, names: frozenset[str]) -> Any:
        looks.append(update.member.member_id)
        return look(update, names)

    monkeypatch.setattr(_Update, "initialise", initialise)

    def heartbeat(member: str) -> None:
        epoch = bench.share_group.members[member].member_epoch
        assert not isinstance(bench.heartbeat_share(member, epoch), Errors)

    for member in ("a", "b", "a", "b", "b"):
        heartbeat(member)
    assert len(looks) <= 1
    looks.clear()
    bench.create("t", 4)
    heartbeat("a")
    assert (looks, len(bench.effects)) == (["a"], 1)
    bench.initialised()
    bench.heartbeat_share("c")
    heartbeat("a")
    assert looks == ["a", "c", "a"]


def test_a_group_of_many_topics_is_brought_up_in_pieces() -> None:
    bench = ShareBench()
    names = [f"t{number}" for number in range(3 * GROUP_TOPICS_PER_PIECE)]
    for name in names:
        bench.create(name, 1)

    def pieces(epoch: int, **fields: Any) -> int:
        """Of the heartbeat that is sent then."""
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id="m", member_epoch=epoch, **fields
        )
        found = bench.machine.share.heartbeat(request, CLIENT, bench.now)
        return len(list(found)) if isinstance(found, Generator) else 0

    assert pieces(0, subscribed_topic_names=names) > len(names) // GROUP_TOPICS_PER_PIECE
    bench.heartbeat_share(subscribed_topic_names=names)
    bench.initialised()
    bench.advance(1_000)
    epoch = bench.share_group.members["m"].member_epoch
    assert pieces(epoch) > len(names) // GROUP_TOPICS_PER_PIECE
    response = bench.heartbeat_share(epoch=epoch)
    assert len(assigned(response) or ()) == len(names)
    bench.heartbeat_share(epoch=response.member_epoch)
    assert pieces(response.member_epoch) == 0, "there is nothing new"


def test_partitions_are_shared() -> None:
    bench = ready(1, "a", "b", "c")
    group = bench.share_group
    assert {name: member.assigned for name, member in group.members.items()} == {
        name: {topic_id("t"): frozenset({0})} for name in "abc"
    }


def test_who_is_refused() -> None:
    bench = ready()
    assert bench.heartbeat_share("other", 1) is Errors.UNKNOWN_MEMBER_ID
    assert bench.heartbeat_share(epoch=99) is Errors.FENCED_MEMBER_EPOCH
    member = bench.share_group.members["m"]
    # The answer to the heartbeat before may have been lost.
    again = bench.heartbeat_share(epoch=member.previous_member_epoch)
    assert again.member_epoch == member.member_epoch
    bench.settings = bench.settings._replace(share_size_max=1)
    assert bench.heartbeat_share("second") is Errors.GROUP_MAX_SIZE_REACHED


def test_leaving_and_silence_end_a_membership() -> None:
    bench = ready(2, "a", "b")
    epoch = bench.share_group.epochs.group_epoch
    assert bench.heartbeat_share("a", -1).member_epoch == -1
    assert list(bench.share_group.members) == ["b"]
    assert bench.share_group.epochs.group_epoch == epoch + 1
    bench.advance(45_000)
    assert bench.share_group.is_empty
    assert bench.share_group.shown_state == "Empty"


def test_everything_survives_a_restart() -> None:
    bench = ready(2, "a", "b")
    before = (
        dict(bench.share_group.members.items()),
        dict(bench.share_group.targets.items()),
        bench.share_group.epochs,
    )
    bench.restart()
    group = bench.share_group
    assert (dict(group.members.items()), dict(group.targets.items()), group.epochs) == before
    assert group.partitions.initialised[topic_id("t")].partitions == {0, 1}


def test_deleted_topics_lose_their_state() -> None:
    bench = ready()
    bench.run("gone", lambda machine, _: machine.topics_deleted(["t"], [topic_id("t")]))
    assert bench.share_group.partitions.initialised == {}


def test_other_protocols_keep_away() -> None:
    bench = ready()
    assert bench.join("join", "x") is Errors.INCONSISTENT_GROUP_PROTOCOL
    assert bench.beat("x") is Errors.GROUP_ID_NOT_FOUND
    bench.heartbeat_share(epoch=-1)
    bench.run("delete", lambda machine, _: machine.delete_groups(["g"]))
    assert "g" not in bench.machine.groups


def test_a_share_group_is_not_made_of_another_kind() -> None:
    bench = ShareBench()
    bench.create("t", 1)
    bench.beat("x", topics=["t"])
    assert bench.heartbeat_share() is Errors.GROUP_ID_NOT_FOUND
