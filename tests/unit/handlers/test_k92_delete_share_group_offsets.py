from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from kaa.handlers import k92_delete_share_group_offsets
from kaa.model.pieces import Pieces, mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from tests.unit.handlers.share_fetching import ready
from tests.unit.handlers.share_requests import set_offset, share_node
from tests.unit.handlers.support import Node


def forget(node: Node, *topics: str, group: str = "g") -> DeleteShareGroupOffsetsResponse:
    named = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    found: DeleteShareGroupOffsetsResponse = node.ask(
        DeleteShareGroupOffsetsRequest(group_id=group, topics=named)
    )
    return found


def test_a_group_forgets_a_topic() -> None:
    with share_node() as node:
        ready(node, 5)
        node.load_coordinators()
        assert forget(node, "t").error_code == Errors.GROUP_ID_NOT_FOUND
        assert forget(node, "t", group="").error_code == Errors.INVALID_GROUP_ID
        set_offset(node, 2)
        answer = forget(node, "t", "absent")
        errors = [one.error_code for one in answer.responses]
        assert errors == [Errors.NONE, Errors.UNKNOWN_TOPIC_OR_PARTITION]
        assert forget(node, "t").responses[0].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_very_many_topics_are_answered_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []

    def counted(function: Callable[[str], Any], items: list[str]) -> Pieces[list[Any]]:
        made = mapped(function, items)
        while True:
            try:
                next(made)
            except StopIteration as stop:
                return cast("list[Any]", stop.value)
            pieces.append(1)
            yield

    monkeypatch.setattr(k92_delete_share_group_offsets, "mapped", counted)
    with share_node() as node:
        ready(node, 5)
        node.load_coordinators()
        set_offset(node, 2)
        names = [f"absent-{number}" for number in range(1_000)]
        answer = forget(node, *names, "t")
        assert [one.topic_name for one in answer.responses] == [*names, "t"]
        assert answer.responses[-1].error_code == Errors.NONE
    assert len(pieces) == 10
