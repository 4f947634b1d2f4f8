"""What a command of the group coordinator decides, gathered while it decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kaa.coordinators.machine import CoordinatorResult, Reply

if TYPE_CHECKING:
    from kaa.coordinators.machine import NewRecord, Waiter


class Client(NamedTuple):
    """Who sent a request, as far as a group remembers it."""

    client_id: str
    client_host: str
    api_version: int


class Outcome:
    """A result that is being put together."""

    __slots__ = ("is_replayed", "records", "replies", "then")

    def __init__(self) -> None:
        self.records: list[NewRecord] = []
        self.replies: list[Reply] = []
        self.then: Any = None
        self.is_replayed = True

    def reply(self, waiter: Waiter | None, response: Any) -> None:
        """Answers a request that waits; nothing happens if there is none."""
        if waiter is not None:
            self.replies.append(Reply(waiter, response))

    def store(self, record: NewRecord, then: Any = None) -> None:
        """Appends a record of what memory already is, and goes on with `then` afterwards."""
        self.records.append(record)
        self.then = then
        self.is_replayed = False

    def result(self, response: Any = None) -> CoordinatorResult:
        return CoordinatorResult(self.records, response, self.replies, self.then, self.is_replayed)
