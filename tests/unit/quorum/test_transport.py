"""What fails on the way; broker/test_metadata.py has it carry the quorum of three nodes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from kaa.quorum.messages import (
    EndQuorumEpochRequest,
    ErrorResponse,
    FetchRequest,
    Request,
    Response,
)
from kaa.quorum.transport import QuorumTransport
from kaa.quorum.voters import Node
from kaa.wire.errors import Errors

NODE = Node(2, "b", 1)


class Peers:
    """One peer, whose answer is whatever the test says."""

    def __init__(self, outcome: object) -> None:
        self.outcome = outcome

    def at(self, *_: object) -> Any:
        return SimpleNamespace(request=self._request)

    async def _request(self, *_: object, **__: object) -> object:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


async def asked(peers: Peers, reports: list[str], *requests: Request) -> list[Response]:
    found: list[Response] = []
    async with asyncio.TaskGroup() as tasks:
        transport = QuorumTransport(
            cast("Any", peers),
            tasks,
            listener="CONTROLLER",
            timeout_ms=100,
            report=reports.append,
        )
        for request in requests:
            transport.send(NODE, 1, request, lambda *told: found.append(told[2]))
            await asyncio.sleep(0)
    return found


def test_a_fault_is_reported_once_and_counts_as_no_answer() -> None:
    reports: list[str] = []
    nonsense = Peers(SimpleNamespace())
    end = EndQuorumEpochRequest("cluster", 1, 1, (), ())
    broken = cast("FetchRequest", SimpleNamespace())
    answers = asyncio.run(asked(nonsense, reports, end, end, broken))
    assert answers == [ErrorResponse(Errors.BROKER_NOT_AVAILABLE)] * 3
    assert len(reports) == 2
    assert "EndQuorumEpochRequest to controller 2" in reports[0]


def test_a_node_that_is_not_there_is_not_reported() -> None:
    reports: list[str] = []
    end = EndQuorumEpochRequest("cluster", 1, 1, (), ())
    answers = asyncio.run(asked(Peers(ConnectionError("gone")), reports, end))
    assert answers == [ErrorResponse(Errors.BROKER_NOT_AVAILABLE)]
    assert reports == []
