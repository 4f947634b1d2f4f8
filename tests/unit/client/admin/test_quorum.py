from __future__ import annotations

import asyncio

import pytest

from kaa.client.admin.admin import Admin
from kaa.client.errors import KafkaError, RequestTimeoutError
from kaa.wire.errors import Errors
from kaa.wire.primitives import Uuid


def test_quorum(bootstrap: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            quorum = await admin.describe_quorum()
            assert [voter.node_id for voter in quorum.voters] == [quorum.leader_id]
            assert quorum.voters[0].log_end_offset >= quorum.high_watermark > 0

    asyncio.run(run())


def test_strangers_are_not_removed(bootstrap: str) -> None:
    async def run() -> None:
        async with Admin({"bootstrap.servers": bootstrap}) as admin:
            (voter,) = (await admin.describe_quorum()).voters
            assert voter.endpoints[0].listener == "CONTROLLER"
            with pytest.raises(KafkaError) as refused:
                await admin.remove_raft_voter(voter.node_id, Uuid(bytes(15) + b"\x07"))
            # Kafka's node of the tests has static voters, ours has not.
            assert refused.value.error in {Errors.VOTER_NOT_FOUND, Errors.UNSUPPORTED_VERSION}
            with pytest.raises(KafkaError):
                await admin.add_raft_voter(voter.node_id, voter.directory_id, voter.endpoints)

    asyncio.run(run())


def test_a_broker_that_does_not_answer_is_left_for_another(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have asked a controller that leads no more."""

    class Silent:
        address = "silent"

        async def request(self, request: object, *, timeout_ms: int) -> None:
            asked.append(timeout_ms)
            raise RequestTimeoutError("nothing came")

    async def silent() -> Silent:
        return Silent()

    asked: list[int] = []

    async def run() -> None:
        settings = {"bootstrap.servers": bootstrap, "default.api.timeout.ms": "60000"}
        async with Admin(settings) as admin:
            await admin.cluster.fetch_metadata([])
            monkeypatch.setattr(admin.cluster, "any_connection", silent)
            assert (await admin.describe_quorum()).leader_id in admin.cluster.metadata.brokers
        assert asked == [15_000]

    asyncio.run(run())
