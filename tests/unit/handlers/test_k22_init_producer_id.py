from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest
from tests.unit.handlers.support import Node

if TYPE_CHECKING:
    from kaa.serving.producer_ids import ProducerIds


class Ids:
    """Gives 7, 8, 9, ... or an error."""

    def __init__(self) -> None:
        self.last = 6
        self.error: Errors | None = None

    async def next_id(self) -> int | Errors:
        if self.error is not None:
            return self.error
        self.last += 1
        return self.last


@pytest.fixture
def ids(node: Node) -> Ids:
    found = Ids()
    node.services.producer_ids = cast("ProducerIds", found)
    return found


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_idempotent_producer_gets_an_id_of_its_own(node: Node, ids: Ids, version: int) -> None:
    answer = node.ask(InitProducerIdRequest(transactional_id=None), version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 7, 0)


def test_error_of_the_controller_is_passed_on(node: Node, ids: Ids) -> None:
    ids.error = Errors.COORDINATOR_LOAD_IN_PROGRESS
    answer = node.ask(InitProducerIdRequest(transactional_id=None), 5)
    assert answer.error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS
    assert answer.producer_id == -1


def test_half_an_id_is_refused(node: Node, ids: Ids) -> None:
    request = InitProducerIdRequest(transactional_id=None, producer_id=5)
    assert node.ask(request, 5).error_code == Errors.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "error"), [("x", Errors.COORDINATOR_NOT_AVAILABLE), ("", Errors.INVALID_REQUEST)]
)
def test_transactions_have_no_coordinator(node: Node, ids: Ids, name: str, error: Errors) -> None:
    request = InitProducerIdRequest(transactional_id=name)
    assert node.ask(request, 5).error_code == error
