"""What happens to a member of a group, and what it wants done.

Both machines speak this language. A request is answered by `Answered` with the response, or
`Unanswered` if none came. `Revoke` and `Assign` are for the application: the machine waits
until they are `Done`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.client.errors import ClientError
    from kaa.model.topics import TopicPartition
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import Request


class MemberState(Enum):
    """How far a member is. Both machines have these; see their texts for the transitions."""

    # In no group, and it does not want to be in one.
    OUTSIDE = "outside"
    # It wants to join when the application polls.
    UNJOINED = "unjoined"
    # Its request to join is under way, and for a classic member what follows it.
    JOINING = "joining"
    # A member; what it is to have and what it has may differ, and the application works on it.
    RECONCILING = "reconciling"
    # A member that has what it is to have.
    STABLE = "stable"


# --- events


class Subscribe(NamedTuple):
    """The application wants these topics; with a pattern the broker finds more (KIP-848)."""

    topics: frozenset[str]
    pattern: str | None = None


class Poll(NamedTuple):
    """The application asks for records, so it is alive, and can be notified of changes."""


class Tick(NamedTuple):
    """Time has passed."""


class Answered(NamedTuple):
    """A response came to the request that is under way."""

    response: Any


class Unanswered(NamedTuple):
    """The request that was under way failed on its way."""

    error: ClientError


class Done(NamedTuple):
    """The application has done what the last `Revoke` or `Assign` says."""


class Topics(NamedTuple):
    """Partitions of topics as they are now: of those asked for, and when they change."""

    partitions: Mapping[str, int]
    names: Mapping[Uuid, str]


class Leave(NamedTuple):
    """The application is done with the group; a static member keeps its place."""


class Withdrawn(NamedTuple):
    """The application has not begun with the last `Revoke` or `Assign`, and will not."""


Event = Subscribe | Poll | Tick | Answered | Unanswered | Done | Topics | Leave | Withdrawn

# --- effects


class Send(NamedTuple):
    """A request for the coordinator; at most one is under way."""

    request: Request
    timeout_ms: int | None = None


class FindCoordinator(NamedTuple):
    """The coordinator that was known is not the one any more."""


class FindTopics(NamedTuple):
    """The partitions of these topics are wanted, or of all whose ids are not known (None)."""

    names: frozenset[str] | None


class Revoke(NamedTuple):
    """The application gives partitions up; `is_lost`: others may have them already."""

    partitions: tuple[TopicPartition, ...]
    is_lost: bool = False


class Assign(NamedTuple):
    """The application has just these partitions from now on; `added` are new to it."""

    partitions: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]


class Fail(NamedTuple):
    """The application gets an error that does not pass by itself."""

    error: ClientError


class Warn(NamedTuple):
    """The user should know of it, though the member goes on by itself."""

    text: str


class Withdraw(NamedTuple):
    """What the application was asked for is void, unless it has begun with it."""


Effect = Send | FindCoordinator | FindTopics | Revoke | Assign | Fail | Warn | Withdraw
