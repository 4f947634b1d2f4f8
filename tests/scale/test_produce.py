"""One request with a batch for every partition of the node."""

from __future__ import annotations

from kaa.wire.errors import Errors
from tests.scale.requests import NAMES, NUMBERS, records_of
from tests.scale.steps import Scale


def test_batches_for_every_partition(scale: Scale) -> None:
    request = records_of(scale.node.broker.services.image, NAMES, NUMBERS)
    answer = scale.node.client.ask(request)
    errors = {one.error_code for topic in answer.responses for one in topic.partition_responses}
    assert errors == {Errors.NONE}
    scale.ask("Produce", request)
