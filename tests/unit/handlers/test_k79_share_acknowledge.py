from __future__ import annotations

from typing import Any

import pytest

from kaa.wire.errors import Errors
from tests.unit.handlers.share_fetching import Said, acknowledge, fetch, held, ready
from tests.unit.handlers.share_requests import read, share_node


def error(response: object) -> Errors:
    (topic,) = response.responses  # type: ignore[attr-defined]
    return Errors.of(topic.partitions[0].error_code)


def test_what_was_said_is_written_when_it_is_answered() -> None:
    with share_node() as node:
        ready(node, 4)
        fetch(node, 0)
        answer = acknowledge(node, 1, (0, 1, [1]), (2, 3, [2, 3]))
        assert (error(answer), answer.acquisition_lock_timeout_ms) == (Errors.NONE, 30_000)
        written = [(one.first_offset, one.delivery_state) for one in read(node).state_batches]
        assert written == [(0, 2), (2, 0), (3, 4)]
        assert error(acknowledge(node, 2, (3, 3, [1]))) is Errors.INVALID_RECORD_STATE


def test_a_session_ends_with_what_it_says_last() -> None:
    with share_node() as node:
        ready(node, 4)
        fetch(node, 0)
        assert error(acknowledge(node, -1, (0, 1, [1]))) is Errors.NONE
        assert acknowledge(node, -1).error_code == Errors.SHARE_SESSION_NOT_FOUND
        # The rest is given back at once.
        assert held(fetch(node, 0, member_id="n")) == [(2, 3, 2)]


def test_sessions_that_do_not_fit() -> None:
    with share_node() as node:
        ready(node, 1)
        assert acknowledge(node, 1).error_code == Errors.SHARE_SESSION_NOT_FOUND
        fetch(node, 0)
        assert acknowledge(node, 0).error_code == Errors.INVALID_SHARE_SESSION_EPOCH
        assert acknowledge(node, 3).error_code == Errors.INVALID_SHARE_SESSION_EPOCH
        assert acknowledge(node, 1, member_id=None).error_code == Errors.INVALID_REQUEST


@pytest.mark.parametrize(
    "said",
    [
        ((1, 0, [1]),),
        ((2, 3, [1]), (0, 1, [1])),
        ((0, 1, []),),
        ((0, 1, [1, 1, 1]),),
        ((0, 1, [5]),),
        ((0, 1, [-1]),),
        ((0, 1, [4]),),
    ],
)
def test_acknowledgements_that_make_no_sense(said: tuple[Said, ...]) -> None:
    with share_node() as node:
        ready(node, 4)
        fetch(node, 0)
        assert error(acknowledge(node, 1, *said)) is Errors.INVALID_REQUEST


def test_a_stranger_holds_nothing() -> None:
    """W-S7: a member is known by its session, on every broker alike."""
    with share_node() as node:
        ready(node, 2)
        fetch(node, 0)
        fetch(node, 0, member_id="n", max_wait_ms=0)
        found = acknowledge(node, 1, (0, 1, [1]), member_id="n")
        assert error(found) is Errors.INVALID_RECORD_STATE


class _Unscanned(dict[Any, Any]):
    """Topics that are looked up, and never walked through."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("all topics were walked through")

    __iter__ = keys = values = items = _refuse


def test_topics_are_looked_up_in_one_step() -> None:
    """W-S11: neither a fetch nor an acknowledgement depends on how many topics there are."""
    with share_node() as node, pytest.MonkeyPatch.context() as patch:
        ready(node, 2, 2)
        fetch(node, 0)
        image = node.services.image
        for name in ("topics", "topics_by_id"):
            patch.setattr(image, name, _Unscanned(getattr(image, name)))
        assert held(fetch(node, 1, (0, 1, [1]), (2, 3, [2]))) == [(2, 3, 2)]
        assert error(acknowledge(node, 2, (2, 3, [1]))) is Errors.NONE
