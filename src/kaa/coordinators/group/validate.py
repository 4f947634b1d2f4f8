"""Requests of group members that make no sense, or are larger than a group takes.

What is looked at here does not depend on the group. Streams groups have rules of their own
(`streams.validate`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.modern.group import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kaa.coordinators.machine import CoordinatorError
from kaa.limits import (
    CLASSIC_GROUP_METADATA_BYTES_MAX,
    CLASSIC_GROUP_PROTOCOLS_MAX,
    GROUP_SUBSCRIBED_CHARACTERS_MAX,
    GROUP_SUBSCRIBED_NAMES_MAX,
)
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.coordinators.group.settings import GroupSettings
    from kaa.wire.messages.k11_join_group import JoinGroupRequest
    from kaa.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest

# From this version of the heartbeat on, a new member makes its id itself.
_CLIENT_MADE_ID_VERSION: Final = 1


def validate_join(request: JoinGroupRequest, settings: GroupSettings) -> None:
    """CoordinatorError for a JoinGroup that makes no sense, or brings too much."""
    if not request.group_id:
        raise CoordinatorError(Errors.INVALID_GROUP_ID)
    shortest, longest = settings.session_timeout_ms_min, settings.session_timeout_ms_max
    if not shortest <= request.session_timeout_ms <= longest:
        raise CoordinatorError(Errors.INVALID_SESSION_TIMEOUT)
    # The record of a group with such a member could hardly be stored either.
    protocols = request.protocols
    if (
        len(protocols) > CLASSIC_GROUP_PROTOCOLS_MAX
        or sum(len(one.metadata) for one in protocols) > CLASSIC_GROUP_METADATA_BYTES_MAX
    ):
        raise CoordinatorError(Errors.INVALID_REQUEST)


def share_heartbeat_problem(request: ShareGroupHeartbeatRequest) -> str | None:
    """What is wrong with a request, whatever the group is."""
    if not request.group_id.strip():
        return "A group id is missing."
    if request.rack_id is not None and not request.rack_id.strip():
        return "The rack id is empty."
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        return "A member that joins must state what it subscribes to."
    if request.member_epoch < LEAVE_EPOCH:
        return f"{request.member_epoch} is not a valid member epoch."
    return _names_problem(request.subscribed_topic_names)


def validate_heartbeat(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]
) -> None:
    """CoordinatorError for a request that makes no sense, whatever the group is."""
    epoch = request.member_epoch
    needs_id = api_version >= _CLIENT_MADE_ID_VERSION or epoch > 0 or epoch == LEAVE_EPOCH
    problem = None
    if needs_id and not request.member_id.strip():
        problem = "A member id is missing."
    elif not request.group_id.strip():
        problem = "A group id is missing."
    elif request.instance_id is not None and not request.instance_id.strip():
        problem = "The instance id is empty."
    elif request.rack_id is not None and not request.rack_id.strip():
        problem = "The rack id is empty."
    elif epoch == JOIN_EPOCH:
        problem = _join_problem(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        problem = "Only a static member can leave temporarily."
    elif epoch < STATIC_LEAVE_EPOCH:
        problem = f"{epoch} is not a valid member epoch."
    problem = problem or _names_problem(request.subscribed_topic_names)
    if problem is not None:
        raise CoordinatorError(Errors.INVALID_REQUEST, problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise CoordinatorError(
            Errors.UNSUPPORTED_ASSIGNOR,
            f"There is no assignor {request.server_assignor}; there are {', '.join(assignors)}.",
        )


def _join_problem(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "A member that joins must state its rebalance timeout."
    if request.topic_partitions is None or request.topic_partitions:
        return "A member that joins must not own partitions."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "A member that joins must state what it subscribes to."
    return None


def _names_problem(names: list[str] | None) -> str | None:
    if names is None:
        return None
    if len(names) > GROUP_SUBSCRIBED_NAMES_MAX:
        return (
            f"A member can subscribe to at most {GROUP_SUBSCRIBED_NAMES_MAX:,} topics by name, not "
            f"to {len(names):,}."
        )
    if sum(map(len, names)) > GROUP_SUBSCRIBED_CHARACTERS_MAX:
        return (
            "The names of the topics that a member subscribes to can have at most "
            f"{GROUP_SUBSCRIBED_CHARACTERS_MAX:,} characters together."
        )
    return None
