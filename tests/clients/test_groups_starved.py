"""A node that gets no processor for longer than the sessions of its members."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

from kaa.wire.errors import Errors
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kaa.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kaa.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.clients.librdkafka import create_topic
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.raw import RawClient, request_frame

SESSION_MS = 3_000
HEARTBEAT_VERSION = 3


def test_anyone_who_wrote_in_time_keeps_its_place(tmp_path: Path) -> None:
    """Its heartbeat waits unread, behind commits, while the node stands still."""
    overrides = ("group.min.session.timeout.ms=1000", "group.initial.rebalance.delay.ms=0")
    with BrokerProcess(tmp_path, *overrides) as broker:
        create_topic(broker.bootstrap_servers, "topic", 1)
        with RawClient(broker.bootstrap_servers) as client:
            member_id, generation_id = _join(client)
            heartbeat = HeartbeatRequest(
                group_id="group", generation_id=generation_id, member_id=member_id
            )
            commit = OffsetCommitRequest(
                group_id="group",
                generation_id_or_member_epoch=generation_id,
                member_id=member_id,
                topics=[
                    OffsetCommitRequestTopic(
                        name="topic", partitions=[OffsetCommitRequestPartition(committed_offset=1)]
                    )
                ],
            )
            assert broker.process is not None
            broker.process.send_signal(signal.SIGSTOP)
            try:
                frames = [request_frame(commit, 8, number) for number in range(20)]
                frames.append(request_frame(heartbeat, HEARTBEAT_VERSION, 20))
                client.send(b"".join(frames))
                threading.Event().wait(1.5 * SESSION_MS / 1000)
            finally:
                broker.process.send_signal(signal.SIGCONT)
            answers = [client.receive_frame() for _ in frames]
            assert [int.from_bytes(answer[:4], "big") for answer in answers] == list(range(21))
            # The heartbeat's header has nothing but the correlation id.
            response = HeartbeatResponse.decode(answers[-1][4:], HEARTBEAT_VERSION)
            assert response.error_code == Errors.NONE


def _join(client: RawClient) -> tuple[str, int]:
    join = JoinGroupRequest(
        group_id="group",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    # Has the topic of the coordinator made.
    client.ask(FindCoordinatorRequest(coordinator_keys=["group"]))

    def is_known() -> bool:
        refused = client.ask(join, 5)
        join.member_id = refused.member_id
        return bool(refused.error_code == Errors.MEMBER_ID_REQUIRED)

    assert wait_until(is_known, 30)
    joined = client.ask(join, 5)
    assert joined.error_code == Errors.NONE
    sync = SyncGroupRequest(
        group_id="group",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")],
    )
    assert client.ask(sync, 3).error_code == Errors.NONE
    return joined.member_id, joined.generation_id
