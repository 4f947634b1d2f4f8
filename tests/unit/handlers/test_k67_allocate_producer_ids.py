from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from tests.unit.handlers.support import NODE_ID, Node


def test_blocks_follow_each_other(node: Node) -> None:
    request = AllocateProducerIdsRequest(broker_id=NODE_ID, broker_epoch=node.lifecycle.epoch)
    blocks = [node.ask(request, listener="CONTROLLER") for _ in range(2)]
    assert [block.error_code for block in blocks] == [Errors.NONE] * 2
    assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [
        (0, 1_000),
        (1_000, 1_000),
    ]


def test_a_broker_that_was_replaced(node: Node) -> None:
    request = AllocateProducerIdsRequest(broker_id=NODE_ID, broker_epoch=-1)
    response = node.ask(request, listener="CONTROLLER")
    assert response.error_code == Errors.STALE_BROKER_EPOCH
