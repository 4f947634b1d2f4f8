from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import pytest

from kaa.log.sim_files import Fault
from kaa.records.batch import iter_batches
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


class Crowd:
    """Members that wait for a partition; counts how often each looks."""

    def __init__(self, at: Leading, *limits: dict[str, Any]) -> None:
        self.looks = [0] * len(limits)
        self.waits = []
        for number, some in enumerate(limits):
            one = fetch(at, 0, member=f"m{number}", **some)
            look = self.counted(number, one)
            self.waits.append(at.node.services.polls.wait(one.sources, 60_000, look))

    def counted(self, number: int, one: ShareFetch) -> Callable[[bool], Any]:
        def look(is_late: bool) -> Any:
            self.looks[number] += 1
            return one.look(is_late)

        return look

    @property
    def served(self) -> list[bool]:
        return [wait.done() for wait in self.waits]


def test_those_who_would_get_nothing_do_not_look() -> None:
    """A hundred members wait for what three of them can have."""
    with leading() as at:

        async def wait() -> None:
            await at.loaded()
            assert fetch(at, 0).look(is_late=False)
            crowd = Crowd(at, *[{"records_max": 10}] * 100)
            for _ in range(3):
                at.node.append("t", 10)
            await turns()
            assert crowd.served == [True] * 3 + [False] * 97
            assert sum(crowd.looks) == 3
            at.node.append("t", 10)
            await turns()
            assert crowd.served == [True] * 4 + [False] * 96

        at.node.run(wait())


def test_one_who_wants_more_holds_nobody_up() -> None:
    with leading() as at:

        async def wait() -> None:
            await at.loaded()
            assert fetch(at, 0).look(is_late=False)
            crowd = Crowd(at, {"bytes_min": 100_000}, {}, {})
            at.node.append("t", 10)
            await turns()
            assert crowd.served == [False, True, False]
            assert crowd.looks == [1, 1, 0]
            assert list(crowd.waits[1].result()) == [at.ids[0]]

        at.node.run(wait())


def test_one_who_is_gone_passes_its_turn_on() -> None:
    with leading() as at:

        async def wait() -> None:
            await at.loaded()
            assert fetch(at, 0).look(is_late=False)
            crowd = Crowd(at, {}, {}, {})
            at.node.append("t", 10)
            crowd.waits[0].cancel()
            await turns()
            assert crowd.served == [True, True, False]
            assert crowd.waits[0].cancelled()

        at.node.run(wait())


def test_all_who_wait_hear_that_it_is_over() -> None:
    with leading() as at:

        async def wait() -> None:
            led = await at.loaded()
            assert fetch(at, 0).look(is_late=False)
            crowd = Crowd(at, {}, {}, {})
            led.drop(Errors.NOT_LEADER_OR_FOLLOWER)
            await turns()
            assert crowd.served == [True] * 3

        at.node.run(wait())


def test_nobody_who_waits_is_left_behind() -> None:
    """Progress while some are still looking counts for all of them."""
    with leading() as at:

        async def wait() -> None:
            await at.loaded()
            assert fetch(at, 0).look(is_late=False)
            crowd = Crowd(at, {"bytes_min": 100_000}, *[{"records_max": 10}] * 5)
            # One batch each turn, so that each comes while the one before is handed out.
            for _ in range(20):
                at.node.append("t", 10)
                await asyncio.sleep(0)
            assert crowd.served == [False] + [True] * 5
            assert crowd.looks[0] > 1

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
            at.node.partition("t").online_log().increment_log_start_offset(10)
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


@pytest.mark.parametrize("piece_bytes", [1, 100, 500, 65_536])
def test_as_much_is_read_as_is_handed_out(
    piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little of it is read at first."""
    monkeypatch.setattr("kaa.serving.share.fetch.SHARE_READ_PIECE_BYTES", piece_bytes)
    with leading() as at:

        async def look() -> None:
            for _ in range(20):
                at.node.append("t", 10)
            await at.loaded()
            for first, last, records_max in ((0, 9, 1), (10, 69, 55), (70, 209, 500)):
                found = fetch(at, 0, records_max=records_max).look(is_late=False)
                assert found is not None
                assert offsets(found[at.ids[0]]) == [(first, last)]
                batches = list(iter_batches(found[at.ids[0]].records))
                assert (batches[0].base_offset, batches[-1].last_offset) == (first, last)
                assert batches[-1].end == len(found[at.ids[0]].records)

        at.node.run(look())


# --- many parts of a session


class Part:
    """Some partitions of a session, which have something when a test says so."""

    def __init__(self, number: int) -> None:
        self.one = PartitionId(uuid(number), 0)
        self.has_records = self.is_made = False
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


async def made(parts: list[Part]) -> AsyncGenerator[ShareFetch, None]:
    for part in parts:
        part.is_made = True
        yield cast("ShareFetch", part)


async def some_of(parts: list[Part], wait_ms: int) -> dict[PartitionId, ShareRead]:
    polls = LongPolls(asyncio.get_running_loop())
    found = await fetch_some(polls, made(parts), wait_ms)
    await asyncio.sleep(0)
    assert not any(part.waiters for part in parts)
    assert len(polls) == 0
    return found


def test_the_first_part_with_something_answers() -> None:
    parts = [Part(number) for number in range(4)]
    parts[1].has_records = parts[3].has_records = True
    assert list(asyncio.run(some_of(parts, 1_000))) == [parts[1].one]
    assert [part.looks for part in parts] == [[False], [False], [], []]
    assert [part.is_made for part in parts] == [True, True, False, False]


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


def test_parts_that_get_something_at_once_give_one_answer() -> None:
    """Each of them takes as much as the whole answer may have."""

    async def main() -> None:
        parts = [Part(number) for number in range(4)]

        def fill() -> None:
            if parts[3].waiters:
                parts[2].fill()
                parts[1].fill()
            else:
                loop.call_soon(fill)

        loop = asyncio.get_running_loop()
        loop.call_soon(fill)
        assert list(await some_of(parts, 60_000)) == [parts[2].one]
        assert parts[1].looks == [False, False]

    asyncio.run(main())


def test_what_a_part_gets_before_it_is_waited_for_counts() -> None:
    async def main() -> None:
        parts = [Part(number) for number in range(4)]

        def fill() -> None:
            if parts[3].looks:
                parts[3].fill()
            else:
                loop.call_soon(fill)

        loop = asyncio.get_running_loop()
        loop.call_soon(fill)
        async with asyncio.timeout(30):
            assert list(await some_of(parts, 60_000)) == [parts[3].one]

    asyncio.run(main())


def test_a_fetch_that_is_given_up_waits_for_nothing() -> None:
    async def main() -> None:
        parts = [Part(number) for number in range(4)]
        polls = LongPolls(asyncio.get_running_loop())
        async with asyncio.TaskGroup() as tasks:
            work = fetch_some(polls, made(parts), 60_000)
            task = tasks.create_task(work)
            for _ in range(8):
                await asyncio.sleep(0)
            assert 0 < len(polls) < len(parts)
            task.cancel()
        await asyncio.sleep(0)
        assert not any(part.waiters for part in parts)
        assert len(polls) == 0

    asyncio.run(main())


@pytest.mark.parametrize("wait_ms", [0, 5])
def test_when_time_is_up_the_parts_add_what_there_is(wait_ms: int) -> None:
    parts = [Part(number) for number in range(3)]
    found = asyncio.run(some_of(parts, wait_ms))
    assert found == {part.one: ShareRead() for part in parts}
    assert all(part.looks[-1] for part in parts)


def test_without_parts_nobody_waits() -> None:
    """The session is over, or none of its partitions can be fetched."""
    assert asyncio.run(some_of([], 60_000)) == {}
