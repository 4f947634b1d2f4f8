from __future__ import annotations

from types import SimpleNamespace

from kaa.handlers.share_sessions import acknowledged, problem
from kaa.wire.errors import Errors
from kaa.wire.primitives import PartitionId
from tests.support.ids import uuid
from tests.unit.handlers.share_requests import share_node


def test_who_may_ask() -> None:
    with share_node() as node:
        assert problem(node.services, "g", "m" * 36) is None
        assert problem(node.services, "g", "m" * 37) is Errors.INVALID_REQUEST
        assert problem(node.services, None, "m") is Errors.INVALID_REQUEST
        node.services.image.features["share.version"] = 0
        assert problem(node.services, "g", "m") is Errors.UNSUPPORTED_VERSION


def test_partitions_without_acknowledgements_are_left_out() -> None:
    partitions = [
        SimpleNamespace(partition_index=0, acknowledgement_batches=["one"]),
        SimpleNamespace(partition_index=1, acknowledgement_batches=[]),
    ]
    topic = SimpleNamespace(topic_id=uuid(1), partitions=partitions)
    assert acknowledged([topic]) == {PartitionId(uuid(1), 0): ["one"]}
