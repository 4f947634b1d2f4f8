"""An append whose bytes are being written by another thread.

A large write, or one that has to be flushed, would keep the loop from serving others. It is
prepared on the loop, which gives it its offsets; its system calls run on the writer thread of the
directory; and on the loop again it becomes part of the log.

A log has one such append at most. Until it is settled no other may begin, since offsets follow
each other, and nothing may roll, cut or close the segment. A caller that cannot wait for
its turn waits where it is (`settle`), for as long as one write takes. So there is one order,
no matter who asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.log.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from kaa.log.append import AppendPlan


class PendingAppend:
    """An append that has its offsets but is not in the log until its write is done. Made, settled
    and asked on the loop; only the write itself runs on a thread.
    """

    __slots__ = ("_now_ms", "_plan", "_waiters", "_work", "error", "is_settled")

    def __init__(self, plan: AppendPlan, now_ms: int) -> None:
        log = plan.log
        assert plan.segment is not None
        assert log.pending is None
        assert log.directory.writer is not None
        log.pending = self
        self._plan: AppendPlan | None = plan
        self._now_ms = now_ms
        self.is_settled = False
        self.error: StorageError | None = None
        self._waiters: list[Callable[[], None]] = []
        # The file stays open, whatever becomes of the segment.
        plan.segment.references += 1
        _ = plan.segment.file
        self._work: Future[None] | None = log.directory.writer.submit(plan.write)

    def when_written(self, call: Callable[[], object]) -> None:
        """Calls when the thread has done its work, from that thread."""
        assert self._work is not None
        self._work.add_done_callback(lambda _: call())

    def when_settled(self, call: Callable[[], None]) -> None:
        self._waiters.append(call)

    def settle(self) -> None:
        """Waits for the write, and makes it part of the log or takes the directory offline."""
        if self.is_settled:
            return
        assert self._work is not None
        assert self._plan is not None
        plan, error = self._plan, self._work.exception()
        assert plan.segment is not None
        self.is_settled = True
        plan.log.pending = None
        # The thread's future knows whom to call, who knows this: records must not wait for the
        # collector of garbage to find that circle.
        self._plan = self._work = None
        try:
            if error is None:
                plan.complete(self._now_ms)
            else:
                broken = error if isinstance(error, OSError) else OSError(repr(error))
                self.error = plan.fail(broken)
        except StorageError as failure:
            self.error = failure
        finally:
            plan.segment.release()
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter()
