from __future__ import annotations

import asyncio

import pytest

from kaa.serving.share import manager as manager_module
from kaa.wire.errors import Errors
from kaa.wire.messages.metadata_topics import PartitionChangeRecord, RemoveTopicRecord
from kaa.wire.primitives import PartitionId
from tests.support.ids import uuid
from tests.unit.serving.share.leading import leading, take, turns

# How long records are held by default.
LOCK_MS = 30_000


def test_concurrent_loaders_wait_for_one_load() -> None:
    with leading() as at:

        async def load() -> None:
            at.persister.is_open = False
            first = at.lead()
            assert at.lead() is first
            await turns()
            assert len(at.persister.reads) == 1
            await at.persister.answer()
            assert first.is_loaded
            assert at.lead() is first

        at.node.run(load())


def test_what_is_not_led_here_is_an_error() -> None:
    with leading() as at:
        unknown = PartitionId(uuid(77), 0)
        assert at.shares.lead("g", unknown) is Errors.UNKNOWN_TOPIC_ID


def test_it_goes_with_leadership_and_comes_back_from_what_was_written() -> None:
    """W-S2, W-S3: nothing is kept from the epoch before."""
    with leading() as at:

        async def move() -> None:
            led = await at.loaded()
            topic_id = at.ids[0].topic_id
            at.node.replay(
                PartitionChangeRecord(
                    partition_id=0, topic_id=topic_id, leader=at.node.config.node_id
                )
            )
            assert led.error is Errors.NOT_LEADER_OR_FOLLOWER
            again = await at.loaded()
            assert again is not led
            assert again.leader_epoch == led.leader_epoch + 1
            assert [epoch for _, epoch in at.persister.reads] == [
                led.leader_epoch,
                again.leader_epoch,
            ]

        at.node.run(move())


def test_it_goes_with_its_topic() -> None:
    """W-S2."""
    with leading() as at:

        async def remove() -> None:
            led = await at.loaded()
            at.node.replay(RemoveTopicRecord(topic_id=at.ids[0].topic_id))
            at.shares.topics_deleted([at.ids[0].topic_id])
            assert led.error is not None
            assert len(at.shares) == 0

        at.node.run(remove())


def test_a_lost_connection_ends_its_sessions() -> None:
    with leading() as at:

        async def lose() -> None:
            await at.loaded()
            other = at.shares.sessions.open("g", "other", at.ids, "another connection")
            at.shares.disconnected("connection")
            await turns()
            assert at.session.is_closed
            assert not other.is_closed
            assert len(at.shares) == 1
            at.shares.disconnected("another connection")
            await turns()
            assert len(at.shares) == 0

        at.node.run(lose())


def test_a_node_that_stops_answers_everybody() -> None:
    """W-S5: nothing is left waiting for a coordinator that does not answer."""
    with leading() as at:

        async def stop() -> None:
            led = await at.loaded()
            at.shares.stop()
            assert led.error is Errors.NOT_LEADER_OR_FOLLOWER
            assert len(at.shares) == 0

        at.node.run(stop())


def test_what_is_loaded_after_its_sessions_ended_is_not_kept() -> None:
    with leading() as at:

        async def load() -> None:
            at.persister.is_open = False
            led = at.lead()
            await turns()
            await at.shares.close(at.session)
            late = at.lead(1)
            await turns()
            await at.persister.answer()
            assert led.error is Errors.NOT_LEADER_OR_FOLLOWER
            assert late.error is Errors.NOT_LEADER_OR_FOLLOWER
            assert len(at.shares) == 0

        at.node.run(load())


def test_topics_with_many_partitions_go_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager_module, "SHARE_PARTITIONS_ENDED_PER_TURN_MAX", 1)
    with leading() as at:

        async def remove() -> None:
            both = [await at.loaded(number) for number in (0, 1)]
            at.shares.topics_deleted([at.ids[0].topic_id])
            assert [led.error is None for led in both] == [False, True]
            await turns()
            assert len(at.shares) == 0
            assert {led.error for led in both} == {Errors.UNKNOWN_TOPIC_OR_PARTITION}

        at.node.run(remove())


def test_locks_of_many_partitions_run_out_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that one fetch brought has the same deadline."""
    monkeypatch.setattr(manager_module, "SHARE_PARTITIONS_ENDED_PER_TURN_MAX", 1)
    with leading() as at:

        async def expire() -> None:
            both = [await at.loaded(number) for number in (0, 1)]
            for led in both:
                take(led, now_ms=-LOCK_MS)
            left = []
            for _ in range(20):
                await asyncio.sleep(0)
                left.append(sum(led.machine.next_deadline_ms is not None for led in both))
            assert sorted(set(left)) == [0, 1, 2]
            assert len(at.persister.writes) == 2

        at.node.run(expire())


def test_what_was_dropped_has_no_locks() -> None:
    with leading() as at:

        async def expire() -> None:
            led = await at.loaded()
            take(led, now_ms=-LOCK_MS)
            at.shares.due(led)
            led.drop(Errors.NOT_LEADER_OR_FOLLOWER)
            await turns()
            assert not at.persister.writes

        at.node.run(expire())
