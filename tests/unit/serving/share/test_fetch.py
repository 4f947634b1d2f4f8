from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from kaa.log.sim_files import Fault
from kaa.replication.partition import Awaited
from kaa.serving.delayed import LongPolls
from kaa.serving.share.fetch import FetchLimits, ShareFetch, ShareRead, fetch_some
from kaa.serving.share.machine import ACCEPT, RELEASE, Acknowledgement
from kaa.serving.share.sessions import ShareSession
from kaa.wire.errors import Errors
from kaa.wire.primitives import PartitionId
from tests.support.ids import uuid
from tests.unit.serving.share.leading import Leading, leading, turns

LIMITS = FetchLimits(1, 1_000_000, 500, 500, is_record_limit=False)


def fetch(
    at: Leading, *numbers: int, member: str = "m", turn: int = 0, **limits: Any
) -> ShareFetch:
    session = ShareSession("g", member, "connection")
    return ShareFetch(
        at.node.services.view,
        session,
        {at.ids[number]: at.lead(number) for number in numbers},
        LIMITS._replace(**limits),
        turn,
    )


def offsets(read: ShareRead) -> list[tuple[int, int]]:
    return [(one.first_offset, one.last_offset) for one in read.acquired]


def test_records_change_hands_and_only_once() -> None:
    with leading() as at:

        async def look() -> None:
            await at.loaded()
            found = fetch(at, 0).look(is_late=False)
            assert found is not None
            assert offsets(found[at.ids[0]]) == [(0, 9)]
            assert len(found[at.ids[0]].records) > 0
            other = fetch(at, 0, member="other")
            assert other.look(is_late=False) is None
            assert other.look(is_late=True) == {at.ids[0]: ShareRead()}

        at.node.run(look())


def test_what_is_not_enough_stays_where_it_is() -> None:
    with leading() as at:

        async def look() -> None:
            await at.loaded()
            waiting = fetch(at, 0, bytes_min=100_000)
            assert waiting.look(is_late=False) is None
            found = fetch(at, 0, member="other").look(is_late=False)
            assert found is not None
            assert offsets(found[at.ids[0]]) == [(0, 9)]

        at.node.run(look())


def test_those_who_wait_are_served_in_the_order_in_which_they_came() -> None:
    """No polling: a waiting fetch hears of what comes back, and the first gets it."""
    with leading() as at:

        async def wait() -> None:
            led = await at.loaded()
            assert fetch(at, 0).look(is_late=False)
            polls = at.node.services.polls
            waits = []
            for member in ("first", "second"):
                one = fetch(at, 0, member=member)
                waits.append(polls.wait(one.sources, 60_000, one.look))
            assert await led.acknowledge("m", [Acknowledgement(0, 4, [RELEASE])]) is Errors.NONE
            await turns()
            assert [done.done() for done in waits] == [True, False]
            assert await led.acknowledge("m", [Acknowledgement(5, 9, [RELEASE])]) is Errors.NONE
            assert offsets((await asyncio.wait_for(waits[1], 60))[at.ids[0]]) == [(5, 9)]

        at.node.run(wait())


def test_partitions_take_turns_and_share_the_limit_of_records() -> None:
    with leading() as at:

        async def look() -> None:
            await at.loaded(0)
            await at.loaded(1)
            found = fetch(at, 0, 1, turn=1, records_max=10).look(is_late=False)
            assert found is not None
            assert [(one.number, offsets(read)) for one, read in found.items()] == [
                (1, [(0, 9)]),
                (0, []),
            ]

        at.node.run(look())


def test_a_window_is_never_larger_than_its_limit() -> None:
    """W-S6: the limit of held records is one, however often members ask."""
    with leading("group.share.partition.max.record.locks=100") as at:

        async def look() -> None:
            for _ in range(30):
                at.node.append("t", 10)
            led = await at.loaded()
            held = 0
            for number in range(40):
                found = fetch(at, 0, member=f"m{number}", records_max=10).look(is_late=True)
                assert found is not None
                held += sum(one.record_count for one in found.get(at.ids[0], ShareRead()).acquired)
            assert held == led.machine.in_flight_count == 100

        at.node.run(look())


def test_a_session_that_ended_gets_nothing() -> None:
    with leading() as at:

        async def look() -> None:
            await at.loaded()
            one = fetch(at, 0)
            one._session.is_closed = True
            assert one.look(is_late=False) == {}
            assert fetch(at, 0, member="other").look(is_late=False)

        at.node.run(look())


def test_a_dropped_share_partition_is_told_at_once() -> None:
    with leading() as at:

        async def look() -> None:
            led = await at.loaded()
            one = fetch(at, 0)
            led.drop(Errors.NOT_LEADER_OR_FOLLOWER)
            assert one.look(is_late=False) == {at.ids[0]: ShareRead(Errors.NOT_LEADER_OR_FOLLOWER)}

        at.node.run(look())


def test_records_that_the_log_lost_are_passed_over() -> None:
    with leading() as at:

        async def look() -> None:
            await at.loaded()
            at.node.append("t", 10)
            at.node.partition("t").leader_log().increment_log_start_offset(10)
            found = fetch(at, 0).look(is_late=False)
            assert found is not None
            assert offsets(found[at.ids[0]]) == [(10, 19)]

        at.node.run(look())


def test_accepted_records_make_room() -> None:
    with leading("group.share.partition.max.record.locks=100") as at:

        async def look() -> None:
            for _ in range(10):
                at.node.append("t", 10)
            led = await at.loaded()
            first = fetch(at, 0, records_max=500).look(is_late=False)
            assert first is not None
            assert fetch(at, 0, records_max=500).look(is_late=False) is None
            last = offsets(first[at.ids[0]])[-1][1]
            assert await led.acknowledge("m", [Acknowledgement(0, last, [ACCEPT])]) is Errors.NONE
            assert fetch(at, 0, records_max=500).look(is_late=False)

        at.node.run(look())


def test_records_that_cannot_be_read_cost_their_partition_alone() -> None:
    with leading() as at:

        async def look() -> None:
            led = await at.loaded()
            at.node.files.faults = [Fault("read", ".log", times=10**9)]
            found = fetch(at, 0).look(is_late=False)
            assert found == {at.ids[0]: ShareRead(Errors.KAFKA_STORAGE_ERROR)}
            at.node.files.faults = []
            assert led.partition.log is None or not led.partition.log.directory.is_online

        at.node.run(look())


# --- many parts of a session


class Part:
    """Some partitions of a session, which have something when a test says so."""

    def __init__(self, number: int) -> None:
        self.one = PartitionId(uuid(number), 0)
        self.has_records = False
        self.looks: list[bool] = []
        self.waiters: dict[Callable[[], None], None] = {}

    @property
    def sources(self) -> list[Part]:
        return [self]

    def wait(self, waiter: Callable[[], None], _: Awaited) -> None:
        self.waiters[waiter] = None

    def forget(self, waiter: Callable[[], None]) -> None:
        self.waiters.pop(waiter, None)

    def look(self, is_late: bool) -> dict[PartitionId, ShareRead] | None:
        self.looks.append(is_late)
        if self.has_records:
            return {self.one: ShareRead(Errors.CORRUPT_MESSAGE)}
        return {self.one: ShareRead()} if is_late else None

    def fill(self) -> None:
        self.has_records = True
        for waiter in tuple(self.waiters):
            waiter()


async def some_of(parts: list[Part], wait_ms: int) -> dict[PartitionId, ShareRead]:
    polls = LongPolls(asyncio.get_running_loop())
    found = await fetch_some(polls, cast("list[ShareFetch]", parts), wait_ms)
    await asyncio.sleep(0)
    assert not any(part.waiters for part in parts)
    assert len(polls) == 0
    return found


def test_the_first_part_with_something_answers() -> None:
    parts = [Part(number) for number in range(4)]
    parts[1].has_records = parts[3].has_records = True
    assert list(asyncio.run(some_of(parts, 1_000))) == [parts[1].one]
    assert [part.looks for part in parts] == [[False], [False], [], []]


def test_a_part_that_gets_something_answers() -> None:
    async def main() -> None:
        parts = [Part(number) for number in range(4)]

        def fill() -> None:
            if parts[3].waiters:
                parts[2].fill()
            else:
                loop.call_soon(fill)

        loop = asyncio.get_running_loop()
        loop.call_soon(fill)
        assert list(await some_of(parts, 60_000)) == [parts[2].one]

    asyncio.run(main())


@pytest.mark.parametrize("wait_ms", [0, 5])
def test_when_time_is_up_the_parts_add_what_there_is(wait_ms: int) -> None:
    parts = [Part(number) for number in range(3)]
    found = asyncio.run(some_of(parts, wait_ms))
    assert found == {part.one: ShareRead() for part in parts}
    assert all(part.looks[-1] for part in parts)
