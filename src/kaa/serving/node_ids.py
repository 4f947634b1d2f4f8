"""Names of resources that are ids of nodes."""

from __future__ import annotations

import re
from typing import Final

from kaa.controller.result import ControllerError
from kaa.wire.errors import Errors

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT32_MAX: Final = 2**31 - 1


def check_node_id(name: str, node_id: int) -> None:
    """Refuses a name that is not the id of this node, as Java reads integers."""
    number = int(name) if _INTEGER.fullmatch(name) else None
    if number is None or not -_INT32_MAX - 1 <= number <= _INT32_MAX:
        raise ControllerError(Errors.INVALID_REQUEST, f"{name!r} is not the id of a node")
    if number != node_id:
        raise ControllerError(Errors.INVALID_REQUEST, f"this is node {node_id}, not {number}")
