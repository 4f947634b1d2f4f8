"""Directory ids with a meaning of their own, as Kafka has them (KIP-858)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.wire.primitives import UUID_ZERO, Uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

MIGRATING: Final = UUID_ZERO
"""The directory of a replica that was placed before directories were known."""
UNASSIGNED: Final = Uuid((1).to_bytes(16, "big"))
"""The broker has not chosen a directory yet."""
LOST: Final = Uuid((2).to_bytes(16, "big"))
"""The directory failed, and the broker does not say which one it was."""

RESERVED: Final = frozenset(Uuid(number.to_bytes(16, "big")) for number in range(100))
"""No directory of a broker has one of these ids."""


def is_online(directory: Uuid, online: Sequence[Uuid]) -> bool:
    """Whether a replica in this directory can be used, given what its broker has online."""
    if directory in {UNASSIGNED, MIGRATING}:
        return True
    if directory == LOST:
        return False
    return not online or directory in online
