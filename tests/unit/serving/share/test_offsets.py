from __future__ import annotations

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.serving.share.offsets import ShareOffset
from kaa.wire.errors import Errors
from tests.unit.handlers.share_fetching import acknowledge, fetch, ready
from tests.unit.handlers.share_requests import share_node, summary, topic_id


def test_the_lag_is_what_is_left() -> None:
    """W-S8: records that are done with after the start do not count, also after a reload."""
    with share_node() as node:
        ready(node, 10)
        fetch(node, 0)
        acknowledge(node, 1, (0, 1, [1]), (5, 6, [1]))
        acknowledge(node, -1, (7, 7, [3]))
        asked = node.services.share_offsets.describe("g", {"t": [0, 1], "absent": [0]})
        assert node.run(asked) == {
            "t": {0: ShareOffset(Errors.NONE, 2, 0, 5), 1: ShareOffset()},
            "absent": {0: ShareOffset()},
        }
        assert summary(node).delivery_complete_count == 3
        # The next leader of the share partition counts as this one did.
        fetch(node, 0, member_id="n")
        acknowledge(node, 1, (2, 2, [1]), member_id="n")
        found = node.run(node.services.share_offsets.describe("g", {"t": [0]}))
        assert found["t"][0].lag == 4


def test_offsets_are_altered_and_deleted() -> None:
    with share_node() as node:
        ready(node, 10)
        node.load_coordinators()
        offsets = node.services.share_offsets
        with pytest.raises(CoordinatorError, match="no group"):
            offsets.topics_of("g").result()
        altered = node.run(offsets.alter("g", {"t": {0: 4, 9: 1}}))
        assert altered == {topic_id(node): {0: Errors.NONE}}
        assert offsets.topics_of("g").result() == {"t": frozenset({0})}
        assert node.run(offsets.describe("g", {"t": [0]}))["t"][0].lag == 6
        assert node.run(offsets.delete("g", ["t", "absent"])) == {topic_id(node): Errors.NONE}
        assert offsets.topics_of("g").result() == {}
        assert node.run(offsets.describe("g", {"t": [0]}))["t"][0] == ShareOffset()
