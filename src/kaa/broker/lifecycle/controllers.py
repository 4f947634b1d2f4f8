"""The registration of a controller, for tools that ask it directly (KIP-919)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kaa.client.backoff import Backoff
from kaa.controller.feature_table import supported_ranges
from kaa.controller.port import ControllerRequestContext
from kaa.limits import CONTROLLER_RETRY_PAUSE_MS, CONTROLLER_RETRY_PAUSE_MS_MAX
from kaa.wire.errors import Errors
from kaa.wire.messages.k70_controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaa.controller.port import ControllerPort
    from kaa.model.nodes import Endpoint
    from kaa.model.seams import RandomSource
    from kaa.wire.primitives import Uuid

_VERSION: Final = 0


async def register_controller(
    node_id: int,
    controller: ControllerPort,
    incarnation_id: Uuid,
    endpoints: Sequence[Endpoint],
    random: RandomSource,
    report: Callable[[str], None],
) -> None:
    """Tells the active controller where the controller of this node listens; tries until it can."""
    request = ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=incarnation_id,
        listeners=[
            Listener(
                name=endpoint.listener,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
            )
            for endpoint in endpoints
        ],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in supported_ranges().items()
        ],
    )
    backoff = Backoff(CONTROLLER_RETRY_PAUSE_MS, CONTROLLER_RETRY_PAUSE_MS_MAX, random)
    reported = Errors.NONE
    while True:
        response = await controller.submit(request, ControllerRequestContext(_VERSION))
        error = Errors.of(response.error_code)
        # A cluster with the metadata of an older release does without.
        if error in {Errors.NONE, Errors.UNSUPPORTED_VERSION}:
            return
        if error is not reported:
            reported = error
            report(f"the registration of this controller was refused: {error.message}")
        await asyncio.sleep(backoff.next_ms() / 1000)
