from __future__ import annotations

import pytest

from kaa.controller.result import ControllerError, ControllerResult, check_record_count
from kaa.wire.errors import Errors
from kaa.wire.messages.metadata_cluster import NoOpRecord


def test_an_error_has_its_own_words_or_those_of_its_code() -> None:
    assert ControllerError(Errors.NOT_CONTROLLER).message == Errors.NOT_CONTROLLER.message
    assert ControllerError(Errors.NOT_CONTROLLER, "mine").message == "mine"


def test_an_operation_has_a_bounded_number_of_records() -> None:
    check_record_count([NoOpRecord()] * 10_000)
    with pytest.raises(ControllerError) as refused:
        check_record_count([NoOpRecord()] * 10_001)
    assert refused.value.error is Errors.POLICY_VIOLATION


def test_results_are_atomic_unless_they_say_otherwise() -> None:
    result = ControllerResult([], "answer")
    assert (result.is_atomic, result.kraft_version) == (True, None)
