from __future__ import annotations

import asyncio

import pytest

from kaa.coordinators.share.batches import StateBatch
from kaa.serving.share.led import error_for_members
from kaa.serving.share.machine import ACCEPT, RELEASE, Acknowledgement, AcknowledgementError
from kaa.wire.errors import Errors
from tests.unit.serving.share.leading import Leading, leading, take, turns

ALL = (Acknowledgement(0, 9, [ACCEPT]),)


def test_it_is_loaded_from_what_was_written() -> None:
    with leading() as at:
        at.persister.start_offset = 4

        async def load() -> None:
            led = await at.loaded()
            assert at.persister.reads == [(led.key, led.leader_epoch)]
            assert led.machine.start_offset == 4

        at.node.run(load())


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (Errors.COORDINATOR_NOT_AVAILABLE, Errors.REPLICA_NOT_AVAILABLE),
        (Errors.NETWORK_EXCEPTION, Errors.REPLICA_NOT_AVAILABLE),
        (Errors.FENCED_LEADER_EPOCH, Errors.NOT_LEADER_OR_FOLLOWER),
        (Errors.INVALID_REQUEST, Errors.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_failed_load_is_an_error_and_no_empty_window(error: Errors, seen: Errors) -> None:
    """W-S1: state that could not be read is never taken for no state, and is not kept."""
    with leading() as at:

        async def load() -> None:
            at.persister.error = error
            led = at.lead()
            await turns()
            assert (led.is_loaded, led.error) == (False, seen)
            assert len(at.shares) == 0
            assert not at.persister.writes
            at.persister.error = None
            assert (await at.loaded()) is not led

        at.node.run(load())


def test_nothing_counts_before_it_is_written() -> None:
    """W-S4: an acknowledgement is answered when its state is written."""
    with leading() as at:

        async def acknowledge() -> None:
            led = await at.loaded()
            take(led)
            at.persister.is_open = False
            done = led.acknowledge("m", ALL)
            await turns()
            assert not done.done()
            assert led.machine.start_offset == 0
            await at.persister.answer()
            assert done.result() is Errors.NONE
            assert led.machine.start_offset == 10

        at.node.run(acknowledge())


def test_what_was_not_written_is_told_and_taken_back() -> None:
    """W-S4: nor is it answered as written if it was not."""
    with leading() as at:

        async def acknowledge() -> None:
            led = await at.loaded()
            take(led)
            at.persister.error = Errors.COORDINATOR_NOT_AVAILABLE
            assert await led.acknowledge("m", ALL) is Errors.COORDINATOR_NOT_AVAILABLE
            assert led.error is None
            at.persister.error = None
            # The member still holds them, and may try again.
            assert await led.acknowledge("m", ALL) is Errors.NONE

        at.node.run(acknowledge())


def test_a_fenced_write_drops_it() -> None:
    """W-S3, W-S10: somebody else has changed the state, here or on any other broker."""
    with leading() as at:

        async def acknowledge() -> None:
            led = await at.loaded()
            take(led)
            at.persister.error = Errors.FENCED_STATE_EPOCH
            assert await led.acknowledge("m", ALL) is Errors.NOT_LEADER_OR_FOLLOWER
            assert led.error is Errors.NOT_LEADER_OR_FOLLOWER
            assert len(at.shares) == 0
            at.persister.error = None
            assert (await at.loaded()) is not led

        at.node.run(acknowledge())


def test_nobody_waits_for_what_failed_unexpectedly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a load nor a write that raises what nobody foresaw leaves anybody without answer."""

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    with leading() as at:

        async def story() -> None:
            with monkeypatch.context() as patch:
                patch.setattr(at.persister, "read", fail)
                led = at.lead()
                await turns()
                assert (led.is_loaded, led.error) == (False, Errors.UNKNOWN_SERVER_ERROR)
            led = await at.loaded()
            take(led)
            with monkeypatch.context() as patch:
                patch.setattr(at.persister, "write", fail)
                assert await led.acknowledge("m", ALL) is Errors.UNKNOWN_SERVER_ERROR
            assert led.error is Errors.UNKNOWN_SERVER_ERROR
            assert (await at.loaded()) is not led

        at.node.run(story())


def test_a_group_that_was_deleted_takes_it_along() -> None:
    """W-S2: a group of the same name begins anew, also where a session outlived the group."""
    with leading() as at:

        async def acknowledge() -> None:
            led = await at.loaded()
            take(led)
            at.persister.error = Errors.INVALID_REQUEST  # There is no state.
            assert await led.acknowledge("m", ALL) is Errors.UNKNOWN_SERVER_ERROR
            assert len(at.shares) == 0
            at.persister.error, at.persister.start_offset = None, 7
            again = await at.loaded()
            assert again is not led
            assert again.machine.start_offset == 7

        at.node.run(acknowledge())


def test_changes_gather_while_one_is_written() -> None:
    with leading() as at:

        async def acknowledge() -> None:
            led = await at.loaded()
            take(led)
            at.persister.is_open = False
            answers = [
                led.acknowledge("m", [Acknowledgement(offset, offset, [ACCEPT])])
                for offset in range(10)
            ]
            await turns()
            assert [len(change.batches) for _, change in at.persister.writes] == [10]
            await at.persister.answer()
            assert all(done.result() is Errors.NONE for done in answers)
            assert len(at.persister.writes) == 1

        at.node.run(acknowledge())


def test_a_slow_coordinator_delays_one_share_partition_alone() -> None:
    """W-S5: locks of others run out, and their records are acknowledged, meanwhile."""
    with leading() as at:

        async def acknowledge() -> None:
            slow, quick = await at.loaded(0), await at.loaded(1)
            take(slow)
            take(quick)
            at.persister.is_open = False
            waiting = slow.acknowledge("m", ALL)
            await turns()
            at.persister.is_open = True
            assert await quick.acknowledge("m", ALL) is Errors.NONE
            assert not waiting.done()

        at.node.run(acknowledge())


def test_a_lock_runs_out_by_its_deadline() -> None:
    with leading() as at:

        async def expire() -> None:
            led = await at.loaded()
            woken = []
            led.wait(lambda: woken.append(True))
            # By the clock of the node it is 0, and stays so.
            take(led, now_ms=-30_000)
            assert led.machine.next_fetch_offset() == 10
            await at.node.services.loop.create_task(_later())
            assert woken
            assert led.machine.next_fetch_offset() == 0
            ((_, change),) = at.persister.writes
            assert list(change.batches) == [StateBatch(0, 9, 1, 0)]

        at.node.run(expire())


def test_a_lock_that_runs_out_needs_no_write() -> None:
    """The persister has tried again for long; what is lost with this leader is a count."""
    with leading() as at:

        async def expire() -> None:
            led = await at.loaded()
            at.persister.error = Errors.COORDINATOR_NOT_AVAILABLE
            take(led, now_ms=-30_000)
            await at.node.services.loop.create_task(_later())
            assert (led.error, led.is_idle, led.machine.next_fetch_offset()) == (None, True, 0)
            at.persister.error = None
            take(led, "other")
            assert await led.acknowledge("other", ALL) is Errors.NONE
            assert list(at.persister.writes[-1][1].batches) == [StateBatch(0, 9, 2, 2)]

        at.node.run(expire())


async def _later() -> None:
    for _ in range(5):
        await turns()


def test_those_who_wait_are_answered_when_it_is_dropped() -> None:
    with leading() as at:

        async def drop() -> None:
            led = await at.loaded()
            take(led)
            at.persister.is_open = False
            first = led.acknowledge("m", [Acknowledgement(0, 4, [ACCEPT])])
            await turns()
            second = led.acknowledge("m", [Acknowledgement(5, 9, [RELEASE])])
            led.drop(Errors.NOT_LEADER_OR_FOLLOWER)
            assert second.result() is Errors.NOT_LEADER_OR_FOLLOWER
            # It was on its way, and has been written.
            await at.persister.answer()
            assert first.result() is Errors.NONE

        at.node.run(drop())


def test_renewing_writes_nothing() -> None:
    with leading() as at:

        async def renew() -> None:
            led = await at.loaded()
            take(led)
            assert await led.acknowledge("m", [Acknowledgement(0, 9, [4])]) is Errors.NONE
            assert not at.persister.writes
            with pytest.raises(AcknowledgementError):
                led.acknowledge("other", ALL)

        at.node.run(renew())


def test_what_the_coordinator_says_means_something_to_members() -> None:
    assert error_for_members(Errors.NOT_COORDINATOR) is Errors.COORDINATOR_NOT_AVAILABLE
    assert error_for_members(Errors.MESSAGE_TOO_LARGE) is Errors.UNKNOWN_SERVER_ERROR


def test_the_last_session_takes_it_along() -> None:
    with leading() as at:
        at.node.run(_closing(at))


async def _closing(at: Leading) -> None:
    led = await at.loaded()
    take(led)
    at.persister.is_open = False
    closing = asyncio.get_running_loop().create_task(at.shares.close(at.session))
    await turns()
    # Not before what the member held is written: who loads next has to find it.
    assert len(at.shares) == 1
    assert led.error is None
    await at.persister.answer()
    await closing
    assert len(at.shares) == 0
