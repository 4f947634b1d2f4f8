from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from kaa.limits import (
    NET_COPIED_REGION_BYTES_MAX,
    NET_PARTS_PER_TURN_MAX,
    NET_SENDS_PER_TURN_MAX,
    NET_SENT_PER_TURN_BYTES_MAX,
)
from kaa.net import pages
from kaa.net.outbox import Outbox
from kaa.net.pages import ColdPages
from tests.unit.net.support import Region

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kaa.net.transport import FileRegion


class SlowTransport:
    """Takes at most `step` bytes a call, and nothing at every second one."""

    may_hold_input = False
    wants_write = False

    def __init__(self, step: int) -> None:
        self.step = step
        self.sent = bytearray()
        # What was sent with the promise that a file follows.
        self.promised: list[bytes] = []
        self._calls = 0

    def fileno(self) -> int:
        return -1

    def recv_into(self, buffer: memoryview) -> int:
        return 0

    def send(
        self, parts: Sequence[bytes | bytearray | memoryview], *, is_more: bool = False
    ) -> int:
        self._calls += 1
        if self._calls % 2 == 0:
            raise BlockingIOError
        if is_more:
            self.promised.append(b"".join(parts))
        taken = b"".join(parts)[: self.step]
        self.sent += taken
        return len(taken)

    def send_file(self, region: FileRegion, offset: int) -> int:
        return self.send([region.read(self.step, offset)])

    def close(self) -> None:
        pass


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_partial_sends_lose_and_repeat_nothing(step: int) -> None:
    transport = SlowTransport(step)
    outbox = Outbox(transport)
    region = Region(b"from a file")
    answers: list[list[Any]] = [
        [b"one", bytearray(b"two")],
        [],
        [b"before ", region, b" after"],
        [memoryview(b"x")],
    ]
    places = [outbox.open() for _ in answers]
    for place, parts in reversed(list(zip(places, answers, strict=True))):
        assert not outbox.is_sendable
        outbox.fill(place, parts)
    for _ in range(200):
        if outbox.send():
            break
    assert transport.sent == b"onetwobefore from a file afterx"
    assert outbox.is_empty
    assert outbox.bytes_queued == 0
    assert region.released == 1
    assert all(b"onetwobefore ".endswith(promised) for promised in transport.promised)


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_an_answer_without_a_place_goes_before_those_that_have_one(step: int) -> None:
    transport = SlowTransport(step)
    outbox = Outbox(transport)
    region = Region(b"file")
    outbox.put([b"first ", region])
    assert (outbox.bytes_queued, outbox.is_empty, outbox.is_sendable) == (10, False, True)
    outbox.send()
    later, latest = outbox.open(), outbox.open()
    outbox.fill(latest, [b"last"])
    while not outbox.send():
        pass
    assert transport.sent == b"first file"
    outbox.fill(later, [b" then "])
    while not outbox.send():
        pass
    assert transport.sent == b"first file then last"
    assert (outbox.is_empty, outbox.bytes_queued, region.released) == (True, 0, 1)


def test_head_of_a_file_travels_with_it() -> None:
    transport = SlowTransport(1000)
    outbox = Outbox(transport)
    empty, full = Region(b""), Region(b"file")
    outbox.fill(outbox.open(), [b"a", empty, b"b", b"c", full, b"d"])
    while not outbox.send():
        pass
    assert transport.sent == b"abcfiled"
    assert transport.promised == [b"bc"], "nothing follows the empty one, nor the last part"


def _preadv(descriptor: int, buffers: list[bytearray], position: int, flags: int) -> int:
    """As Linux answers for what is in memory, on every system."""
    content = os.pread(descriptor, len(buffers[0]), position)
    buffers[0][:] = content
    return len(content)


@pytest.mark.parametrize("step", [3, 100_000])
def test_small_regions_travel_with_their_heads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(os, "preadv", _preadv)
    monkeypatch.setattr(pages, "_NOWAIT", 8)
    transport = SlowTransport(step)
    outbox = Outbox(transport)
    contents = [b"one", b"", b"x" * NET_COPIED_REGION_BYTES_MAX]
    large = b"y" * (NET_COPIED_REGION_BYTES_MAX + 1)
    regions = [Region(content, tmp_path / str(len(content))) for content in (*contents, large)]
    parts = [part for region in regions for part in (b"head", region)]
    outbox.fill(outbox.open(), parts)
    while not outbox.send():
        pass
    assert transport.sent == b"head" + b"head".join([*contents, large])
    assert [region.released for region in regions] == [1, 1, 1, 1]
    assert outbox.bytes_queued == 0
    expected = b"head" + b"head".join(contents) + b"head"
    assert all(expected.endswith(promised) for promised in transport.promised)
    if step == 100_000:
        assert transport.promised == [expected], "all in one call, and then the large one"


def test_a_small_region_that_is_cold_leaves_as_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = Outbox(SlowTransport(100))
    region = Region(b"cold", tmp_path / "file")

    def preadv(*_: object) -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", preadv)
    monkeypatch.setattr(pages, "_NOWAIT", 8)
    outbox.fill(outbox.open(), [b"head", region])
    with pytest.raises(ColdPages):
        outbox.send()
    assert region.released == 0
    outbox.release()
    assert region.released == 1


class QuickTransport(SlowTransport):
    """Takes all that it is given."""

    def send(
        self, parts: Sequence[bytes | bytearray | memoryview], *, is_more: bool = False
    ) -> int:
        self.sent += b"".join(parts)
        return sum(map(len, parts))


def test_an_answer_of_very_many_parts_leaves_turns_for_others() -> None:
    transport = QuickTransport(1)
    outbox = Outbox(transport)
    outbox.fill(outbox.open(), [b"x"] * 10_000)
    turns = 1
    while not outbox.send():
        turns += 1
    assert turns == 1 + 10_000 // NET_PARTS_PER_TURN_MAX
    assert len(transport.sent) == 10_000


def test_small_regions_are_read_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shared(Region):
        """Stands for many, and stays open."""

        def release(self) -> None:
            self.released += 1

    reads = 0

    def preadv(*arguments: Any) -> int:
        nonlocal reads
        reads += 1
        return _preadv(*arguments)

    monkeypatch.setattr(os, "preadv", preadv)
    monkeypatch.setattr(pages, "_NOWAIT", 8)
    outbox = Outbox(QuickTransport(1))
    region = Shared(b"one", tmp_path / "file")
    outbox.fill(outbox.open(), [b"head", region] * NET_PARTS_PER_TURN_MAX)
    for part in (1, 2):
        assert outbox.send() is (part == 2)
        assert reads == region.released == part * NET_PARTS_PER_TURN_MAX // 2
    Region.release(region)


def test_regions_that_leave_as_files_are_sent_in_turns() -> None:
    transport = QuickTransport(100)
    outbox = Outbox(transport)
    count = NET_SENDS_PER_TURN_MAX
    outbox.fill(outbox.open(), [Region(b"one") for _ in range(2 * count)])
    assert not outbox.send()
    assert len(transport.sent) == 3 * count
    assert outbox.send()


def test_a_large_answer_leaves_turns_for_others() -> None:
    """Also if its client takes all that it is given."""
    step = NET_SENT_PER_TURN_BYTES_MAX // 4
    transport = QuickTransport(step)
    outbox = Outbox(transport)
    region = Region(bytes(10 * step))
    outbox.fill(outbox.open(), [b"head", region])
    sent = []
    while not outbox.send():
        sent.append(len(transport.sent))
    assert sent == [4 * step, 8 * step] or sent == [4 * step + 4, 8 * step + 4]
    assert len(transport.sent) == 10 * step + 4
    assert region.released == 1


def test_release_gives_back_every_region() -> None:
    outbox = Outbox(SlowTransport(1))
    regions = [Region(b"a"), Region(b"b")]
    first, second = outbox.open(), outbox.open()
    outbox.fill(second, [regions[1]])
    outbox.fill(first, [b"unsent", regions[0]])
    outbox.send()
    outbox.release()
    assert [region.released for region in regions] == [1, 1]
    assert outbox.is_empty
