"""Requests that are served at once, unless partitions they name have to be made first."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kaa.net.pending import Hold, Pending
from kaa.serving.applied import until_applied

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kaa.handlers.context import Answer
    from kaa.model.topics import PartitionName
    from kaa.replication.manager import ReplicaManager

R = TypeVar("R")


def once_applied(
    replicas: ReplicaManager,
    names: Collection[PartitionName],
    serve: Callable[[], Answer[R]],
    hold: Hold = Hold.CONNECTION,
) -> Answer[R]:
    """What `serve` gives: at once, or when the partitions of these names are made."""
    if replicas.has_unapplied and any(replicas.is_unapplied(*name) for name in names):
        return Pending(_served(replicas, names, serve), hold)
    return serve()


async def _served(
    replicas: ReplicaManager,
    names: Iterable[PartitionName],
    serve: Callable[[], Answer[R]],
) -> Answer[R]:
    await until_applied(replicas, names)
    return serve()
