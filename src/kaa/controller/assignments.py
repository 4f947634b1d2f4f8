"""Rules for replicas that somebody has chosen by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.result import ControllerError
from kaa.model.words import count_text
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.controller.state import ControllerState


def check_assignment(
    state: ControllerState, replicas: Sequence[int], replication_factor: int | None
) -> None:
    """Refuses an assignment that no partition can have; INVALID_REPLICA_ASSIGNMENT."""
    if not replicas:
        raise ControllerError(
            Errors.INVALID_REPLICA_ASSIGNMENT, "an assignment must name at least one broker"
        )
    previous: int | None = None
    for replica in sorted(replicas):
        if replica not in state.image.brokers:
            raise ControllerError(
                Errors.INVALID_REPLICA_ASSIGNMENT, f"broker {replica} is not registered"
            )
        if replica == previous:
            raise ControllerError(
                Errors.INVALID_REPLICA_ASSIGNMENT, f"broker {replica} is named twice"
            )
        previous = replica
    if replication_factor is not None and len(replicas) != replication_factor:
        raise ControllerError(
            Errors.INVALID_REPLICA_ASSIGNMENT,
            f"{count_text(len(replicas), 'replica')} where the other partitions have "
            f"{replication_factor}",
        )
