from __future__ import annotations

from typing import Any

import pytest

from kaa.controller.machine import COMMANDS
from kaa.controller.refusals import error_response
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kaa.wire.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResource
from kaa.wire.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from kaa.wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kaa.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    RequestEntryData,
)
from kaa.wire.primitives import UUID_ZERO
from kaa.wire.schema import Request, Response, fields_of


@pytest.mark.parametrize("request_class", COMMANDS, ids=lambda each: each.__name__)
def test_every_command_has_an_answer_that_can_be_sent(request_class: type[Request]) -> None:
    low, high = request_class.valid_versions
    for version in range(low, high + 1):
        response = finish(
            error_response(request_class(), version, Errors.NOT_CONTROLLER, "elsewhere")
        )
        decoded: Any = type(response).decode(response.encode(version), version)
        fields = {each.name: each for each in fields_of(type(response))}
        if "error_code" in fields and version in fields["error_code"].versions:
            assert decoded.error_code == Errors.NOT_CONTROLLER


def items(response: Response, *path: str) -> list[int]:
    """The error codes at the end of a path of lists."""
    found: list[Any] = [response]
    for name in path:
        found = [each for parent in found for each in getattr(parent, name)]
    return [each.error_code for each in found]


def test_items_repeat_the_error() -> None:
    wanted: list[tuple[Request, tuple[str, ...]]] = [
        (CreateTopicsRequest(topics=[CreatableTopic(name="a")]), ("topics",)),
        (
            DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], topic_names=["b"]),
            ("responses",),
        ),
        (AlterConfigsRequest(resources=[AlterConfigsResource()]), ("responses",)),
        (IncrementalAlterConfigsRequest(resources=[IncrementalResource()]), ("responses",)),
        (CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a")]), ("results",)),
        (
            ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[0, 1])]),
            ("replica_election_results", "partition_result"),
        ),
        (
            AlterPartitionReassignmentsRequest(
                topics=[ReassignableTopic(name="a", partitions=[ReassignablePartition()])]
            ),
            ("responses", "partitions"),
        ),
        (
            AlterClientQuotasRequest(
                entries=[RequestEntryData(entity=[EntityData(entity_type="user")])]
            ),
            ("entries",),
        ),
    ]
    for request, path in wanted:
        response = finish(error_response(request, 1, Errors.NOT_CONTROLLER, "elsewhere"))
        codes = items(response, *path)
        assert codes
        assert set(codes) == {Errors.NOT_CONTROLLER}


def test_names_and_ids_come_back() -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], topic_names=["b"])
    response: Any = finish(error_response(request, 1, Errors.NOT_CONTROLLER, "elsewhere"))
    names = [(each.name, each.topic_id) for each in response.responses]
    assert names == [("a", UUID_ZERO), ("b", UUID_ZERO)]


def test_very_many_items_are_refused_in_pieces() -> None:
    """Whether they are topics, or partitions of many small ones."""
    count = 4 * RECORDS_PER_PIECE
    names = [str(number) for number in range(count)]
    several: list[Request] = [
        CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in names]),
        DeleteTopicsRequest(topic_names=names),
        ElectLeadersRequest(
            topic_partitions=[TopicPartitions(topic=name, partitions=[0]) for name in names]
        ),
        AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name="a",
                    partitions=[ReassignablePartition(partition_index=one) for one in range(count)],
                )
            ]
        ),
    ]
    for request in several:
        pieces = error_response(request, 1, Errors.NOT_CONTROLLER, "elsewhere")
        assert sum(1 for _ in pieces) >= 4, type(request)
