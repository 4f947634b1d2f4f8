"""What the three calls about ACLs share on a node that has no authorizer.

A request that names an unknown kind of resource, pattern, operation or permission by its code 0 is
not answered: Kafka finds it malformed while reading it, and closes the connection.
"""

from __future__ import annotations

from typing import Final

from kaa.net.connection import CloseConnectionError

MESSAGE: Final = "this node has no authorizer"
_UNKNOWN: Final = 0


def check_codes(*codes: int) -> None:
    if _UNKNOWN in codes:
        raise CloseConnectionError("malformed request: an ACL with an unknown element")
