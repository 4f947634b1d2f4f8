"""What can be known of a change of voters before it is asked for: why it cannot be done, and whom
it may leave alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.client.admin.admin import Admin
    from kaa.client.admin.quorum import QuorumDescription, QuorumReplica
    from kaa.wire.primitives import Uuid

_SERVERS: Final = "controller.quorum.bootstrap.servers"
_JOINS: Final = "controller.quorum.auto.join.enable"
_STATIC: Final = (
    "the voters are those of controller.quorum.voters, and cannot change before kraft.version is 1 "
    "(kafka-features.sh upgrade --feature kraft.version=1)"
)


def refusal_to_add(found: QuorumDescription, voter_id: int, directory_id: Uuid) -> str | None:
    """Why a controller cannot be made a voter; None if nothing is known against it."""
    if _is_static(found):
        return _STATIC
    known = voter(found, voter_id)
    if known is None:
        return None
    if known.directory_id == directory_id:
        return f"controller {voter_id} is a voter already"
    return (
        f"controller {voter_id} is a voter with the directory id {known.directory_id}; if that "
        f"directory is gone, remove it first (kaa cluster quorum remove {voter_id})"
    )


def refusal_to_remove(found: QuorumDescription, known: QuorumReplica, key: Uuid) -> str | None:
    """Why a voter cannot be removed; None if nothing is known against it."""
    if _is_static(found):
        return _STATIC
    if key != known.directory_id:
        return f"the directory id of controller {known.node_id} is {known.directory_id}, not {key}"
    if len(found.voters) == 1:
        return f"controller {known.node_id} is the last voter; add another first"
    return None


def voter(found: QuorumDescription, voter_id: int) -> QuorumReplica | None:
    return next((one for one in found.voters if one.node_id == voter_id), None)


def _is_static(found: QuorumDescription) -> bool:
    """Only a quorum whose voters are in the log knows their directories."""
    return not any(any(one.directory_id) for one in found.voters)


async def warnings_of_removal(admin: Admin, found: QuorumDescription, voter_id: int) -> list[str]:
    """What the brokers that run make of it, as far as their settings can be seen."""
    from kaa.client.errors import ClientError
    from kaa.model.kinds import ResourceType

    remaining = {
        f"{endpoint.host}:{endpoint.port}"
        for one in found.voters
        if one.node_id != voter_id
        for endpoint in one.endpoints
    }
    if admin.cluster.asks_controllers or not remaining:
        return []
    texts: list[str] = []
    for broker in (await admin.describe_cluster()).brokers:
        try:
            entries = await admin.describe_configs(
                ResourceType.BROKER, str(broker.node_id), [_SERVERS, _JOINS]
            )
        except ClientError:
            # Its settings may not be seen, or it does not answer: then nothing is known of it.
            continue
        settings = {entry.name: entry.value or "" for entry in entries}
        texts += warnings(
            broker.node_id, settings, remaining, is_removed=broker.node_id == voter_id
        )
    return texts


def warnings(
    broker_id: int, settings: Mapping[str, str], remaining: set[str], *, is_removed: bool
) -> list[str]:
    """What the settings of one broker say about a change after which `remaining` vote."""
    texts = []
    servers = {entry.strip() for entry in settings.get(_SERVERS, "").split(",") if entry.strip()}
    if servers and not servers & remaining:
        texts.append(
            f"{_SERVERS} of node {broker_id} will name no voter: name one of "
            f"{', '.join(sorted(remaining))} there, or it may not find the quorum again"
        )
    if is_removed and settings.get(_JOINS) == "true":
        texts.append(
            f"node {broker_id} has {_JOINS}=true and joins again by itself: stop it, or switch "
            "that off, first"
        )
    return texts
