"""Records from threads on their way to a producer that lives on a loop.

A thread puts a record into a queue and goes on; one task on the loop takes records out in order and
hands each to the producer, waiting where the producer waits: for metadata and for memory. So a
record costs no task and no change of threads of its own, and records keep their order.

The queue is bounded: a thread that is faster than the brokers waits at `put`, as Java's `send` does
when its buffer is full. Anyone who flushes or ends the producer waits for the queue first, so that
a record that was put is never lost in silence.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from kaa.limits import CLIENT_SYNC_SENDS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kaa.client.producer.delivery import Delivery, RecordMetadata

    Send = Callable[..., Coroutine[Any, Any, Delivery]]
    Waiting = concurrent.futures.Future[RecordMetadata]


class SendQueue:
    """Hands records from any thread to a producer on a loop. `put` is for any thread and waits
    while the queue is full; the rest is for the loop.
    """

    def __init__(self, send: Send, loop: asyncio.AbstractEventLoop) -> None:
        self._send = send
        self._loop = loop
        self._room = threading.BoundedSemaphore(CLIENT_SYNC_SENDS_MAX)
        # Guards the two fields below it.
        self._lock = threading.Lock()
        self._records: deque[tuple[Waiting, tuple[Any, ...], dict[str, Any]]] = deque()
        # Whether a task takes records out, or is about to.
        self._is_taking = False
        self._taking: concurrent.futures.Future[None] | None = None

    def put(self, *arguments: Any, **named: Any) -> Waiting:
        """Takes a record; the future tells what became of it."""
        waiting: Waiting = concurrent.futures.Future()
        self._room.acquire()
        with self._lock:
            self._records.append((waiting, arguments, named))
            is_first = not self._is_taking
            self._is_taking = True
        if is_first:
            self._taking = asyncio.run_coroutine_threadsafe(self._take(), self._loop)
        return waiting

    async def _take(self) -> None:
        while True:
            with self._lock:
                if not self._records:
                    self._is_taking = False
                    return
                waiting, arguments, named = self._records.popleft()
            try:
                delivery = await self._send(*arguments, **named)
            except asyncio.CancelledError:
                waiting.cancel()
                raise
            except Exception as error:  # noqa: BLE001  Anyone who asks for the outcome gets it.
                waiting.set_exception(error)
            else:
                delivery.add_done_callback(partial(_settle, waiting))
            finally:
                self._room.release()

    async def drain(self) -> None:
        """Waits until every record that was put before is with the producer."""
        while self._is_taking:
            # It may not have begun yet, or be the one before.
            if self._taking is not None:
                await asyncio.wait([asyncio.wrap_future(self._taking)])
            await asyncio.sleep(0)


def _settle(waiting: Waiting, delivery: Delivery) -> None:
    if not waiting.set_running_or_notify_cancel():
        return
    try:
        waiting.set_result(delivery.result())
    except Exception as error:  # noqa: BLE001  Anyone who asks for the outcome gets it.
        waiting.set_exception(error)
