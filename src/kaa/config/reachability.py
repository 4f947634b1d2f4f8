"""Whether controllers can reach each other, and who else can, as far as the settings tell.

Nothing is resolved or tried here: a name is what it looks like. So these are warnings, beside the
addresses that nobody can connect to, which `listeners` refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.config.addresses import is_loopback
from kaa.model.nodes import SecurityProtocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kaa.config.listeners import Listeners
    from kaa.model.nodes import HostPort


def controller_warnings(listeners: Listeners, controllers: Collection[HostPort]) -> Iterator[str]:
    """`controllers` are all that the settings name, this node perhaps among them."""
    elsewhere = [str(each) for each in controllers if not is_loopback(each.host)]
    advertised_by = {one.listener: one for one in listeners.advertised_controller}
    for bound in listeners.controller:
        advertised = advertised_by.get(bound.listener, bound)
        if not is_loopback(bound.host):
            if bound.security_protocol == SecurityProtocol.PLAINTEXT:
                yield (
                    f"Anyone who can connect to {bound} can control the cluster: let only its "
                    "nodes through to it."
                )
        elif elsewhere:
            yield (
                f"The listener {bound} is open to this machine alone, and controllers are expected "
                f"at {', '.join(elsewhere)}: set listeners to an address that they can connect to."
            )
        if elsewhere and is_loopback(advertised.host) and not is_loopback(bound.host):
            yield (
                f"The address for other controllers is {advertised}, which is their own machine, "
                f"and controllers are expected at {', '.join(elsewhere)}: set "
                "advertised.listeners to an address that they can connect to."
            )
