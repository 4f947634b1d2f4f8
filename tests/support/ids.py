"""Ids that are easy to tell apart."""

from __future__ import annotations

from kaa.wire.primitives import Uuid


def uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))
