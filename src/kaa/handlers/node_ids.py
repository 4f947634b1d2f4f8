"""Names of resources that are ids of nodes."""

from __future__ import annotations

import re
from typing import Final

from kaa.wire.errors import Errors

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT32_MAX: Final = 2**31 - 1


class RefusedError(Exception):
    """A part of a request that is answered with an error of its own."""

    def __init__(self, error: Errors, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def check_node_id(name: str, node_id: int) -> None:
    """Refuses a name that is not the id of this node, as Java reads integers."""
    number = int(name) if _INTEGER.fullmatch(name) else None
    if number is None or not -_INT32_MAX - 1 <= number <= _INT32_MAX:
        raise RefusedError(Errors.INVALID_REQUEST, f"{name!r} is no id of a node")
    if number != node_id:
        raise RefusedError(Errors.INVALID_REQUEST, f"this is node {node_id}, not {number}")
