"""A leader whose disk or memory spoils what it sends: its followers say so once, wait between tries
and go on with the next leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kaa import limits
from kaa.quorum import (
    BeginQuorumEpochRequest,
    FetchDamaged,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Node,
    OffsetAndEpoch,
    Report,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
    VoterSet,
)
from kaa.quorum.snapshots import build_snapshot
from kaa.quorum.states import Follower
from kaa.records.build import BatchBuilder
from kaa.wire.errors import Errors
from tests.simulation.quorum.node import address
from tests.unit.quorum.bench import Bench
from tests.unit.quorum.disk_replica import FOLDER, DiskReplica, new_disk, settle, voter
from tests.unit.quorum.test_replies import installing

SNAPSHOT_ID = OffsetAndEpoch(40, 5)
CONTENT = b"".join(
    build_snapshot(SNAPSHOT_ID, [b"state"], timestamp=0, last_contained_log_timestamp=0)
)
PAUSE_MS = limits.QUORUM_REFUSED_PAUSE_MS


def spoilt(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


class Leaders:
    """Those whom a replica follows: what it sends them is kept, and answered by the test."""

    def __init__(self) -> None:
        self.sent: list[tuple[Node, int, Request]] = []
        self.reports: list[str] = []
        voters = VoterSet.of([voter(node_id) for node_id in (1, 2, 3)])
        self.replica = DiskReplica(
            new_disk(), voters=voters, network=self, report=self.reports.append
        )

    def send(
        self,
        node: Node,
        correlation_id: int,
        request: Request,
        deliver: Callable[[int, int, Response], None],
    ) -> None:
        self.sent.append((node, correlation_id, request))

    async def lead(self, leader_id: int, epoch: int) -> None:
        self.leader_id, self.epoch = leader_id, epoch
        endpoints = voter(leader_id).endpoints
        begin = BeginQuorumEpochRequest("cluster", None, leader_id, epoch, endpoints)
        answer = await self.replica.driver.serve(begin)
        assert answer.error is Errors.NONE
        await settle()

    async def answer(self, request_type: type[Request], **facts: Any) -> None:
        node, correlation_id, request = self.sent.pop()
        assert isinstance(request, request_type), request
        kind = FetchResponse if request_type is FetchRequest else FetchSnapshotResponse
        endpoints = voter(self.leader_id).endpoints
        response = kind(Errors.NONE, self.leader_id, self.epoch, endpoints, **facts)
        self.replica.driver.received_response(node.id, correlation_id, response)
        await settle()

    async def give_snapshot(self, content: bytes) -> None:
        self.sent = self.sent[-1:]
        nothing: dict[str, Any] = {"high_watermark": None, "log_start_offset": 40}
        await self.answer(FetchRequest, **nothing, snapshot_id=SNAPSHOT_ID)
        piece: dict[str, Any] = {"size_bytes": len(content), "records": content}
        await self.answer(FetchSnapshotRequest, **piece, snapshot_id=SNAPSHOT_ID)

    def files(self) -> list[str]:
        names = self.replica.files.list_directory(FOLDER)
        return [name for name in names if name.startswith("0") and "checkpoint" in name]


def test_a_damaged_snapshot_is_left_and_that_of_the_next_leader_taken() -> None:
    async def scenario() -> None:
        leaders = Leaders()
        await leaders.lead(2, 6)
        await leaders.give_snapshot(spoilt(CONTENT))
        assert not leaders.replica.driver.is_stopped
        # It is not asked for again, and nothing is left of it.
        assert (leaders.sent, leaders.files()) == ([], [])
        (report,) = leaders.reports
        assert "leader 2" in report
        assert "00000000000000000040-0000000005.checkpoint is damaged" in report
        assert "Restart that controller" in report
        await leaders.lead(3, 7)
        await leaders.give_snapshot(CONTENT)
        assert leaders.replica.log.start_offset() == 40
        assert leaders.replica.state.values == [b"state"]
        assert len(leaders.reports) == 1
        leaders.replica.driver.close()

    asyncio.run(scenario())


def test_damaged_records_are_not_asked_for_at_once() -> None:
    builder = BatchBuilder(base_offset=0, partition_leader_epoch=6)
    builder.append(0, None, b"value")
    batch = bytes(builder.build())

    async def scenario() -> None:
        leaders = Leaders()
        await leaders.lead(2, 6)
        leaders.sent = leaders.sent[-1:]
        facts: dict[str, Any] = {"high_watermark": 1, "log_start_offset": 0}
        await leaders.answer(FetchRequest, **facts, records=spoilt(batch))
        assert leaders.sent == []
        (report,) = leaders.reports
        assert "the batch at offset 0 of the metadata log is damaged" in report
        await leaders.lead(3, 7)
        leaders.sent = leaders.sent[-1:]
        await leaders.answer(FetchRequest, **facts, records=batch)
        assert leaders.replica.log.end().offset == 1
        assert leaders.sent
        leaders.replica.driver.close()

    asyncio.run(scenario())


# --- the machine


def test_a_snapshot_that_stays_damaged_is_fetched_after_a_pause_each_and_reported_once() -> None:
    bench, three = installing()
    bench.forget()
    effects = bench.handle(FetchDamaged("the snapshot is damaged", 1))
    # As it was: the voters, the log, and that it may stand.
    assert bench.machine.voter_set == three
    stood = 0
    for _ in range(PAUSE_MS // 100):
        assert not bench.sent(FetchRequest)
        effects += bench.advance(100)
        # It hears nothing of the leader and asks for votes; that ends no pause.
        for send, _ in bench.sent(VoteRequest):
            stood += 1
            refusal = VoteResponse(Errors.NONE, 1, 3, (address(1),), False)
            effects += bench.answer(send, refusal)
        if bench.sent(VoteRequest):
            bench.forget()
    assert stood
    assert bench.is_in(Follower)
    assert len(bench.sent(FetchRequest)) == 1
    effects += bench.handle(FetchDamaged("the snapshot is damaged"))
    assert [type(effect) for effect in effects].count(Report) == 1


def test_the_leader_of_another_epoch_is_asked_at_once() -> None:
    bench = Bench.following(batches=())
    bench.forget()
    bench.handle(FetchDamaged("the snapshot is damaged"))
    bench.machine._replica.connections.reset()
    bench.advance(100)
    assert not bench.sent(FetchRequest)
    bench.ask(BeginQuorumEpochRequest(None, None, 2, 9, (address(2),)))
    assert [send.node.id for send, _ in bench.sent(FetchRequest)] == [2]


@pytest.mark.parametrize("write_id", [None, 1])
def test_one_that_does_not_follow_any_more_has_nothing_to_wait_for(write_id: int | None) -> None:
    bench = Bench()
    bench.start()
    bench.advance(10_000)
    assert not bench.is_in(Follower)
    if write_id is not None:
        bench.machine._replica.next_write_id()
    bench.forget()
    assert not bench.handle(FetchDamaged("the snapshot is damaged", write_id))
    assert bench.machine._replica.is_log_settled
