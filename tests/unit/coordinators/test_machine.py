from __future__ import annotations

from kaa.coordinators.machine import CoordinatorError, CoordinatorResult, error_for_clients
from kaa.wire.errors import Errors


def test_errors_of_the_log_mean_nothing_to_clients() -> None:
    assert error_for_clients(Errors.NOT_LEADER_OR_FOLLOWER) is Errors.NOT_COORDINATOR
    assert error_for_clients(Errors.REQUEST_TIMED_OUT) is Errors.COORDINATOR_NOT_AVAILABLE
    assert error_for_clients(Errors.RECORD_LIST_TOO_LARGE) is Errors.UNKNOWN_SERVER_ERROR
    assert error_for_clients(Errors.ILLEGAL_GENERATION) is Errors.ILLEGAL_GENERATION


def test_a_refusal_says_why() -> None:
    assert str(CoordinatorError(Errors.ILLEGAL_GENERATION)) == "ILLEGAL_GENERATION"
    assert str(CoordinatorError(Errors.ILLEGAL_GENERATION, "too old")) == "too old"


def test_a_result_may_be_nothing() -> None:
    result = CoordinatorResult()
    assert (tuple(result.records), result.response, tuple(result.replies)) == ((), None, ())
    assert result.is_replayed
    assert result.is_atomic
