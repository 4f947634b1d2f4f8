"""What a command of the controller comes to: records and an answer, or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from kaa.limits import METADATA_RECORDS_PER_OPERATION_MAX
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Sized

    from kaa.wire.schema import MetadataRecord

R = TypeVar("R")

# The second is what the quorum says for the first.
_ELSEWHERE: Final = frozenset({Errors.NOT_CONTROLLER, Errors.NOT_LEADER_OR_FOLLOWER})


class FormatError(Exception):
    """Why nothing was formatted. It stands here, since formatting itself takes long to load."""


class ControllerError(Exception):
    """A command, or a part of one, that is refused; the sender gets the code and the message."""

    def __init__(
        self, error: Errors, message: str | None = None, *, is_silent: bool = False
    ) -> None:
        super().__init__(error.message if message is None else message)
        # Where Kafka sends the code alone.
        self.is_silent = is_silent
        self.error = error

    @property
    def is_elsewhere(self) -> bool:
        """Whether another node may be the controller that has to be asked."""
        return self.error in _ELSEWHERE

    @property
    def message(self) -> str | None:
        return None if self.is_silent else str(self)


class ControllerResult(NamedTuple, Generic[R]):
    """Records to write, and the answer that leaves when they are committed."""

    records: list[MetadataRecord]
    response: R
    # Whether the records must be in one batch; if not, they may be split at any place.
    is_atomic: bool = True
    # A new level of kraft.version, which the quorum writes ahead of the records.
    kraft_version: int | None = None
    # The broker that may stop when all others have applied the records.
    stopping_broker: int | None = None


def check_record_count(*parts: Sized) -> None:
    """Refuses an operation that would write more than a batch may hold."""
    if sum(map(len, parts)) > METADATA_RECORDS_PER_OPERATION_MAX:
        raise ControllerError(
            Errors.POLICY_VIOLATION,
            f"the operation would write more than {METADATA_RECORDS_PER_OPERATION_MAX} records;"
            " split it",
        )
