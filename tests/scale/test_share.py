"""A member of a share group that asks for every partition of the node."""

from __future__ import annotations

from kaa.wire.errors import Errors
from tests.scale.requests import NAMES, NUMBERS, share_fetch
from tests.scale.steps import Scale

LAST_EPOCH = -1


def test_fetches_of_every_partition(scale: Scale) -> None:
    node = scale.node
    scale.wait_for_coordinator(0, "g")
    image = node.broker.services.image

    def fetch() -> None:
        for epoch in (0, 1, 2, LAST_EPOCH):
            answer = node.client.ask(share_fetch(image, NAMES, NUMBERS, epoch))
            assert answer.error_code == Errors.NONE

    scale.undisturbed("ShareFetch", fetch)
