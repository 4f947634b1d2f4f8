from __future__ import annotations

import asyncio
import errno
import itertools
import os
import struct
from typing import TYPE_CHECKING

import pytest

from kaa import limits
from kaa.net.connection import CloseConnectionError
from tests.unit.net.support import (
    ECHO,
    ENCODE,
    FILE,
    FREE,
    HOLD,
    KEEP,
    PARK,
    REFUSE,
    SILENT,
    Region,
    running,
    sized,
)

if TYPE_CHECKING:
    from pathlib import Path


def frame(kind: int, text: str = "") -> bytes:
    return bytes([kind]) + text.encode()


def test_frames_are_cut_wherever_the_stream_is_split() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            stream = sized(frame(ECHO, "first")) + sized(frame(ECHO, "second"))
            for split in range(1, len(stream)):
                await client.send(stream[:split])
                await asyncio.sleep(0)
                await client.send(stream[split:])
                assert await client.answer() == frame(ECHO, "first")
                assert await client.answer() == frame(ECHO, "second")

    asyncio.run(main())


def test_large_frame_arrives_whole_and_leaves_no_buffer() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            large = frame(ECHO) + os.urandom(3 * limits.NET_SCRATCH_BYTES + 17)
            sending = asyncio.ensure_future(client.send(sized(large)))  # noqa: TID251
            assert await client.answer() == large
            await sending
            await system.until(lambda: system.connection.is_idle)

    asyncio.run(main())


def test_a_very_large_frame_is_not_copied_as_it_grows() -> None:
    """A copy of tens of megabytes holds the loop for tens of milliseconds."""

    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            part = os.urandom(limits.NET_RECEIVED_PER_TURN_BYTES_MAX)
            large = frame(ECHO) + part * 9 + b"end"
            sending = asyncio.ensure_future(client.send(sized(large)))  # noqa: TID251
            sizes: set[int] = set()

            answer = asyncio.ensure_future(client.answer())  # noqa: TID251
            while not answer.done():
                buffer = system.connection._buffer
                if buffer is not None and len(buffer) > len(part):
                    sizes.add(len(buffer))
                await asyncio.sleep(0)
            await sending
            assert answer.result() == large
            assert sizes == {len(sized(large))}
            await system.until(lambda: system.connection.is_idle)

    asyncio.run(main())


def test_announced_size_is_not_allocated() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            await client.send(struct.pack(">i", 100_000_000) + frame(ECHO))
            await system.until(lambda: system.connection._buffer is not None)
            buffer = system.connection._buffer
            assert buffer is not None
            assert len(buffer) <= limits.NET_FRAME_BUFFER_BYTES_MIN

    asyncio.run(main())


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1, 1001])
def test_impossible_size_cuts_the_client_off(size: int) -> None:
    async def main() -> None:
        async with running(frame_bytes_max=1000) as system:
            client = await system.connect()
            await client.send(struct.pack(">i", size))
            assert await client.is_cut_off()
            assert f"{size} bytes" in system.node.closed[0]

    asyncio.run(main())


def test_answers_leave_in_order_whatever_the_order_of_their_knowledge() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            frames = [frame(PARK, "a"), frame(PARK, "b"), frame(ECHO, "c")]
            await client.send(b"".join(map(sized, frames)))
            await system.until(lambda: len(system.node.frames) == 3)
            system.node.answer(frames[1])
            await asyncio.sleep(0.01)
            system.node.answer(frames[0])
            assert [await client.answer() for _ in frames] == frames

    asyncio.run(main())


def test_next_frame_waits_for_a_request_that_is_not_parked() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            await client.send(sized(frame(HOLD)) + sized(frame(ECHO)))
            await system.until(lambda: frame(HOLD) in system.node.waiting)
            await asyncio.sleep(0.02)
            assert system.node.frames == [frame(HOLD)]
            system.node.answer(frame(HOLD))
            assert await client.answer() == frame(HOLD)
            assert await client.answer() == frame(ECHO)

    asyncio.run(main())


def test_answers_that_are_made_when_they_are_known() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            frames = [frame(ENCODE, "a"), frame(ENCODE, "b"), frame(ECHO, "c")]
            await client.send(b"".join(map(sized, frames)))
            await system.until(lambda: len(system.node.frames) == 3)
            system.node.waiting[frames[1]].set_exception(ValueError("late"))
            system.node.answer(frames[0])
            answers = [await client.answer() for _ in range(4)]
            assert answers == [frames[0], frames[0], b"late", frames[2]]
            await client.send(sized(frames[0]))
            await system.until(lambda: frames[0] in system.node.waiting)
            system.node.waiting[frames[0]].set_exception(LookupError())
            await system.until(lambda: system.node.closed == ["cannot be encoded"])

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (CloseConnectionError("malformed"), "malformed"),
        (ValueError("odd"), "a request could not be answered"),
    ],
)
def test_a_request_that_cannot_be_answered_closes_with_its_reason(
    error: Exception, reason: str
) -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            await client.send(sized(frame(HOLD)))
            await system.until(lambda: frame(HOLD) in system.node.waiting)
            system.node.waiting[frame(HOLD)].set_exception(error)
            await system.until(lambda: system.node.closed == [reason])

    asyncio.run(main())


def test_request_without_answer_takes_no_place() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            await client.send(sized(frame(SILENT)))
            assert await client.ask(frame(ECHO, "x")) == frame(ECHO, "x")

    asyncio.run(main())


def test_dispatcher_can_cut_the_client_off() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            await client.send(sized(frame(REFUSE)))
            assert await client.is_cut_off()
            assert system.node.closed == ["refused"]

    asyncio.run(main())


def test_failed_answer_cuts_the_client_off() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            await client.send(sized(frame(HOLD)))
            await system.until(lambda: frame(HOLD) in system.node.waiting)
            system.node.waiting[frame(HOLD)].set_exception(RuntimeError("lost"))
            assert await client.is_cut_off()

    asyncio.run(main())


def test_many_frames_at_once_leave_turns_for_others() -> None:
    async def main() -> None:
        async with running() as system:
            greedy, modest = await system.connect(), await system.connect()
            assert await modest.ask(frame(ECHO, "before")) == frame(ECHO, "before")
            count = 20 * limits.NET_FRAMES_PER_TURN_MAX
            turns: list[int] = []

            def turn() -> None:
                turns.append(len(system.node.frames))
                if turns[-1] <= count:
                    asyncio.get_running_loop().call_soon(turn)

            turn()
            await greedy.send(b"".join(sized(frame(ECHO, str(n))) for n in range(count)))
            for number in range(count):
                assert await greedy.answer() == frame(ECHO, str(number))
            steps = [after - before for before, after in itertools.pairwise(turns)]
            assert 0 < max(steps) <= limits.NET_FRAMES_PER_TURN_MAX

    asyncio.run(main())


def test_client_that_takes_no_answers_is_not_read_any_more() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            request = sized(frame(ECHO) + bytes(1 << 20))
            sending = asyncio.ensure_future(client.send(request * 64))  # noqa: TID251
            await system.until(
                lambda: bool(system.listener.connections) and not system.connection._may_dispatch()
            )
            queued = system.connection._outbox.bytes_queued
            assert queued <= limits.NET_QUEUED_BYTES_MAX + (1 << 20) + 5
            for _ in range(64):
                await client.answer()
            await sending
            assert len(system.node.frames) == 64

    asyncio.run(main())


def test_parked_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NET_PARKED_ANSWERS_MAX", 3)

    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            frames = [frame(PARK, str(index)) for index in range(5)]
            await client.send(b"".join(map(sized, frames)))
            await system.until(lambda: len(system.node.frames) == 3)
            await asyncio.sleep(0.02)
            assert len(system.node.frames) == 3
            for index in range(5):
                await system.until(lambda index=index: frames[index] in system.node.waiting)  # type: ignore[misc]
                system.node.answer(frames[index])
            assert [await client.answer() for _ in frames] == frames

    asyncio.run(main())


def test_frame_that_is_kept_is_not_overwritten() -> None:
    async def main() -> None:
        async with running() as system:
            first, second = await system.connect(), await system.connect()
            before = system.listener.scratch()
            await first.send(sized(frame(KEEP, "mine")))
            await system.until(lambda: bool(system.node.kept))
            assert system.listener.scratch() is not before
            await second.ask(frame(ECHO, "others"))
            assert bytes(system.node.kept[0]) == frame(KEEP, "mine")
            system.node.answer(frame(KEEP, "mine"))
            assert await first.answer() == frame(KEEP, "mine")

    asyncio.run(main())


def test_frame_that_is_freed_lets_later_ones_go_on() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            kept, later = frame(FREE, "kept"), frame(HOLD, "later")
            last = frame(ECHO, "last")
            await client.send(sized(kept) + sized(later) + sized(last))
            await system.until(lambda: kept in system.node.freed)
            await asyncio.sleep(0.02)
            assert system.node.frames == [kept]
            system.node.freed[kept].set_result(None)
            await system.until(lambda: later in system.node.waiting)
            # The answer to the first does not let go of the second, which is under way now.
            system.node.answer(kept)
            assert await client.answer() == kept
            await asyncio.sleep(0.02)
            assert system.node.frames == [kept, later]
            system.node.answer(later)
            assert [await client.answer(), await client.answer()] == [later, last]

    asyncio.run(main())


def test_views_of_the_scratch_buffer_are_released() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            await client.send(sized(frame(PARK)))
            await system.until(lambda: bool(system.node.waiting))
            buffer = system.listener._scratch.obj
            assert isinstance(buffer, bytearray)
            system.listener._scratch.release()
            # A bytearray can be resized only when nothing refers to its memory.
            buffer += b"x"
            system.listener.replace_scratch()
            system.node.answer(frame(PARK))
            assert await client.answer() == frame(PARK)

    asyncio.run(main())


@pytest.mark.parametrize("on_disk", [True, False])
def test_file_region_is_sent_and_released_once(tmp_path: Path, on_disk: bool) -> None:
    content = os.urandom(3_000_000)

    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            path = tmp_path / "segment" if on_disk else None
            system.node.region = lambda: Region(content, path)
            assert await client.ask(frame(FILE)) == content
            await system.until(lambda: system.node.regions[0].released == 1)

    asyncio.run(main())


def test_region_is_released_if_the_client_goes(tmp_path: Path) -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            system.node.region = lambda: Region(bytes(50_000_000), tmp_path / "segment")
            await client.send(sized(frame(FILE)))
            await system.until(lambda: bool(system.node.regions))
            client.socket.close()
            await system.until(lambda: system.node.regions[0].released == 1)

    asyncio.run(main())


def test_short_file_closes_because_its_length_was_promised(tmp_path: Path) -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            system.node.region = lambda: Region(b"short", tmp_path / "segment", promised=100)
            await client.send(sized(frame(FILE)))
            with pytest.raises(EOFError):
                await client.answer()
            assert system.node.regions[0].released == 1

    asyncio.run(main())


def test_cold_pages_are_read_off_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def is_cached(descriptor: int, position: int, length: int) -> bool:
        asked.append(position)
        return False

    monkeypatch.setattr("kaa.net.outbox.is_cached", is_cached)
    content = os.urandom(2_500_000)

    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            system.node.region = lambda: Region(content, tmp_path / "segment")
            assert await client.ask(frame(FILE)) == content
            assert len(asked) >= 3

    asyncio.run(main())


def test_cold_pages_that_cannot_be_read_cost_the_file_and_not_the_client_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The length stands in the frame, so that the client has to go; the owner of the file hears of
    it too.
    """

    def warm(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr("kaa.net.outbox.is_cached", lambda *_: False)
    monkeypatch.setattr("kaa.net.connection.warm", warm)

    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            system.node.region = lambda: Region(bytes(100_000), tmp_path / "segment")
            await client.send(sized(frame(FILE)))
            with pytest.raises(EOFError):
                await client.answer()
            (region,) = system.node.regions
            assert [error.errno for error in region.failures] == [errno.EIO]
            assert region.released == 1
            await system.until(lambda: bool(system.node.closed))
            assert "the disk is offline" in system.node.closed[0]
            assert await (await system.connect()).ask(frame(ECHO)) == frame(ECHO)

    asyncio.run(main())


def test_client_that_closes_within_a_frame_is_forgotten() -> None:
    async def main() -> None:
        async with running() as system:
            client = await system.connect()
            await client.send(sized(frame(ECHO, "unfinished"))[:-1])
            await system.until(lambda: bool(system.listener.connections))
            client.socket.close()
            await system.until(lambda: not system.listener.connections)
            assert "within a frame" in system.node.closed[0]

    asyncio.run(main())
