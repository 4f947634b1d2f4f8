from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaa.model.pieces import in_pieces
from kaa.serving.share.offsets import ShareOffset
from kaa.wire.errors import Errors
from tests.unit.handlers.share_fetching import acknowledge, fetch, ready
from tests.unit.handlers.share_requests import share_node, summary, topic_id

if TYPE_CHECKING:
    from kaa.coordinators.machine import CoordinatorError
    from kaa.model.pieces import Pieces
    from kaa.serving.share.offsets import Described
    from tests.unit.handlers.support import Node


Topics = dict[str, list[int]]


def refused(refusal: CoordinatorError) -> Errors:
    return refusal.error


def described(node: Node, topics: Topics | None) -> Any:
    """What is described, or why it is refused."""

    def respond(found: Described) -> Pieces[Described | Errors]:
        yield
        return found

    return node.run(node.services.share_offsets.describe("g", topics, refused, respond))


def test_the_lag_is_what_is_left() -> None:
    """W-S8: records that are done with after the start do not count, also after a reload."""
    with share_node() as node:
        ready(node, 10)
        fetch(node, 0)
        acknowledge(node, 1, (0, 1, [1]), (5, 6, [1]))
        acknowledge(node, -1, (7, 7, [3]))
        assert described(node, {"t": [0, 1], "absent": [0]}) == {
            "t": {0: ShareOffset(Errors.NONE, 2, 0, 5), 1: ShareOffset()},
            "absent": {0: ShareOffset()},
        }
        assert summary(node).delivery_complete_count == 3
        # The next leader of the share partition counts as this one did.
        fetch(node, 0, member_id="n")
        acknowledge(node, 1, (2, 2, [1]), member_id="n")
        assert described(node, {"t": [0]})["t"][0].lag == 4


def test_offsets_are_altered_and_deleted() -> None:
    with share_node() as node:
        ready(node, 10)
        node.load_coordinators()
        offsets = node.services.share_offsets
        assert described(node, None) is Errors.GROUP_ID_NOT_FOUND
        altered = node.run(offsets.alter("g", {"t": {0: 4, 9: 1}}, refused, in_pieces))
        assert altered == {topic_id(node): {0: Errors.NONE}}
        assert described(node, None) == {"t": {0: ShareOffset(Errors.NONE, 4, 0, 6)}}
        deleted = node.run(offsets.delete("g", ["t", "absent"], refused, in_pieces))
        assert deleted == {topic_id(node): Errors.NONE}
        assert described(node, None) == {}
        assert described(node, {"t": [0]})["t"][0] == ShareOffset()


def test_a_change_is_refused_as_a_whole() -> None:
    with share_node() as node:
        offsets = node.services.share_offsets
        altered = offsets.alter("g", {"t": {0: 4}}, refused, lambda _: in_pieces(Errors.NONE))
        assert node.run(altered) is Errors.NOT_COORDINATOR
        deleted = offsets.delete("g", ["t"], refused, lambda _: in_pieces(Errors.NONE))
        assert node.run(deleted) is Errors.NOT_COORDINATOR
        assert described(node, None) is Errors.NOT_COORDINATOR
