from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import (
    DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX,
    DIRECTORY_ASSIGNMENTS_RETRY_MS_MIN,
)
from kaa.replication.directory_assignments import DirectoryAssignments
from kaa.wire.errors import Errors
from kaa.wire.messages.k73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from tests.support.ids import uuid

if TYPE_CHECKING:
    from kaa.wire.primitives import Uuid

TOPIC, FIRST, SECOND = uuid(1), uuid(11), uuid(12)


def told(request: AssignReplicasToDirsRequest | None) -> dict[tuple[Uuid, int], Uuid]:
    assert request is not None
    return {
        (topic.topic_id, partition.partition_index): directory.id
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    }


def answer(
    request: AssignReplicasToDirsRequest, refused: dict[int, Errors] | None = None
) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(
        directories=[
            ResponseDirectoryData(
                id=directory.id,
                topics=[
                    ResponseTopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            ResponsePartitionData(
                                partition_index=partition.partition_index,
                                error_code=(refused or {}).get(
                                    partition.partition_index, Errors.NONE
                                ),
                            )
                            for partition in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


def send(machine: DirectoryAssignments, now_ms: int = 0) -> AssignReplicasToDirsRequest:
    request = machine.next_request(5, 7, now_ms)
    assert request is not None
    return request


def test_reports_go_in_batches_one_request_at_a_time() -> None:
    machine = DirectoryAssignments()
    count = DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX + 10
    for number in range(count):
        machine.note(TOPIC, number, FIRST if number % 2 else SECOND)
    request = send(machine)
    assert (request.broker_id, request.broker_epoch) == (5, 7)
    assert len(told(request)) == DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX
    assert told(request)[TOPIC, 1] == FIRST
    assert machine.next_request(5, 7, 0) is None
    machine.answered(answer(request), 0)
    rest = send(machine)
    assert len(told(rest)) == 10
    machine.answered(answer(rest), 0)
    assert machine.wait_ms(0) is None


def test_what_was_not_accepted_is_sent_again_with_growing_pauses() -> None:
    machine = DirectoryAssignments()
    machine.note(TOPIC, 0, FIRST)
    machine.note(TOPIC, 1, FIRST)
    machine.answered(answer(send(machine), {1: Errors.NOT_CONTROLLER}), 1_000)
    pauses = []
    now_ms = 1_000
    for _ in range(9):
        wait_ms = machine.wait_ms(now_ms)
        assert wait_ms is not None
        pauses.append(wait_ms)
        assert machine.next_request(5, 7, now_ms) is None
        now_ms += wait_ms
        assert told(send(machine, now_ms)) == {(TOPIC, 1): FIRST}
        machine.failed(now_ms)
    assert pauses == [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]


def test_refusal_of_the_whole_request_keeps_all_of_it() -> None:
    machine = DirectoryAssignments()
    machine.note(TOPIC, 0, FIRST)
    send(machine)
    machine.answered(AssignReplicasToDirsResponse(error_code=Errors.STALE_BROKER_EPOCH), 0)
    assert told(send(machine, 100)) == {(TOPIC, 0): FIRST}


def test_replica_that_is_gone_is_not_sent_again() -> None:
    machine = DirectoryAssignments()
    machine.note(TOPIC, 0, FIRST)
    machine.answered(answer(send(machine), {0: Errors.UNKNOWN_TOPIC_ID}), 0)
    machine.note(TOPIC, 1, FIRST)
    machine.forget(TOPIC, 1)
    assert machine.wait_ms(0) is None


def test_newer_report_replaces_the_one_under_way() -> None:
    machine = DirectoryAssignments()
    machine.note(TOPIC, 0, FIRST)
    request = send(machine)
    machine.note(TOPIC, 0, SECOND)
    machine.answered(answer(request), 0)
    assert told(send(machine)) == {(TOPIC, 0): SECOND}


def test_what_an_answer_leaves_out_is_sent_again_after_a_pause() -> None:
    assignments = DirectoryAssignments()
    assignments.note(TOPIC, 0, FIRST)
    assert assignments.next_request(1, 1, 100) is not None
    assignments.answered(AssignReplicasToDirsResponse(directories=[]), 100)
    assert len(assignments) == 1
    assert assignments.wait_ms(100) == DIRECTORY_ASSIGNMENTS_RETRY_MS_MIN
