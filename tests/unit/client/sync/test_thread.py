from __future__ import annotations

import asyncio
import threading
from typing import Self

import pytest

from kaa.client.errors import ClosedError
from kaa.client.sync.thread import ClientThread


class Twin:
    """Something asynchronous that may fail at either end."""

    def __init__(self, *, fails_to_start: bool = False, fails_to_end: bool = False) -> None:
        self.fails_to_start = fails_to_start
        self.fails_to_end = fails_to_end
        self.thread = 0

    async def __aenter__(self) -> Self:
        if self.fails_to_start:
            raise ValueError("start")
        self.thread = threading.get_ident()
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self.fails_to_end:
            raise ValueError("end")

    async def double(self, number: int) -> int:
        await asyncio.sleep(0)
        assert threading.get_ident() == self.thread
        return 2 * number


def test_calls_run_on_its_thread() -> None:
    with ClientThread(Twin) as client:
        twin = client.asynchronous
        assert twin.thread != threading.get_ident()
        assert client._call(twin.double(3)) == 6
        assert client._do(threading.get_ident) == twin.thread
    with pytest.raises(ClosedError, match="inside 'with'"):
        client._call(twin.double(3))
    with pytest.raises(ClosedError, match="inside 'with'"):
        _ = client.asynchronous


def test_failures_at_either_end_reach_the_caller() -> None:
    with pytest.raises(ValueError, match="start"), ClientThread(lambda: Twin(fails_to_start=True)):
        pass
    with pytest.raises(ValueError, match="end"), ClientThread(lambda: Twin(fails_to_end=True)):
        pass


def test_a_child_of_a_fork_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no thread that would answer."""
    with ClientThread(Twin) as client:
        twin = client.asynchronous
        with monkeypatch.context() as patched:
            patched.setattr("kaa.client.sync.thread.os.getpid", lambda: -1)
            with pytest.raises(ClosedError, match="after the fork"):
                client._call(twin.double(1))
        assert client._call(twin.double(1)) == 2
