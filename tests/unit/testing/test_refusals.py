from __future__ import annotations

from typing import Any

import pytest

from kaa.handlers.registry import BROKER_APIS
from kaa.testing.refusals import WRITTEN_OVER, merge, refuse, write_over
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kaa.wire.messages.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kaa.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kaa.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kaa.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kaa.wire.registry import ApiKey, api
from kaa.wire.schema import fields_of

ERROR = Errors.NOT_LEADER_OR_FOLLOWER


def everything(row: object, partition: int | None) -> bool:
    return True


def produce(*partitions: int) -> ProduceRequest:
    rows = [PartitionProduceData(index=number, records=b"x") for number in partitions]
    return ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=rows)], acks=-1)


def test_a_whole_request_is_refused_row_by_row() -> None:
    rest, answer = refuse(produce(0, 1), ProduceResponse, 9, ERROR, everything)
    assert rest is None
    assert answer == ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="t",
                partition_responses=[
                    PartitionProduceResponse(index=0, error_code=ERROR, base_offset=-1),
                    PartitionProduceResponse(index=1, error_code=ERROR, base_offset=-1),
                ],
            )
        ]
    )


def test_some_rows_are_refused_and_put_into_the_answer_of_the_rest() -> None:
    request = produce(0, 1)
    rest, answer = refuse(request, ProduceResponse, 9, ERROR, lambda _, number: number == 1)
    assert rest == produce(0)
    assert request == produce(0, 1)
    handled = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="t", partition_responses=[PartitionProduceResponse(index=0, base_offset=7)]
            )
        ]
    )
    assert answer is not None
    merged: Any = merge(handled, answer)
    assert [
        (row.index, row.error_code, row.base_offset)
        for row in merged.responses[0].partition_responses
    ] == [(0, 0, 7), (1, ERROR, -1)]


def test_nothing_that_matches_is_nothing_refused() -> None:
    request = produce(0)
    assert refuse(request, ProduceResponse, 9, ERROR, lambda *_: False) == (request, None)


def test_answers_without_rows_have_one_error() -> None:
    _, answer = refuse(JoinGroupRequest(), JoinGroupResponse, 9, ERROR, everything)
    assert answer == JoinGroupResponse(error_code=ERROR)


def test_rows_that_are_plain_names_or_numbers() -> None:
    request = DeleteTopicsRequest(topic_names=["a", "b"])
    rest, deleted = refuse(request, DeleteTopicsResponse, 4, ERROR, lambda row, _: row == "b")
    assert rest == DeleteTopicsRequest(topic_names=["a"])
    assert isinstance(deleted, DeleteTopicsResponse)
    assert [(row.name, row.error_code) for row in deleted.responses] == [("b", ERROR)]
    group = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[3])]
    )
    _, fetched = refuse(
        OffsetFetchRequest(groups=[group]), OffsetFetchResponse, 8, ERROR, everything
    )
    assert isinstance(fetched, OffsetFetchResponse)
    assert (fetched.groups[0].group_id, fetched.groups[0].error_code) == ("g", ERROR)
    assert OffsetFetchResponse.decode(fetched.encode(8), 8) == fetched


def test_rows_within_rows_of_topics() -> None:
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0, 1]) for name in ("t", "u")]
    one = AddPartitionsToTxnTransaction(transactional_id="x", topics=topics)
    rest, answer = refuse(
        AddPartitionsToTxnRequest(transactions=[one]),
        AddPartitionsToTxnResponse,
        4,
        ERROR,
        lambda row, number: getattr(row, "name", "") == "u" and number == 1,
    )
    assert isinstance(rest, AddPartitionsToTxnRequest)
    assert [topic.partitions for topic in rest.transactions[0].topics] == [[0, 1], [0]]
    assert isinstance(answer, AddPartitionsToTxnResponse)
    (result,) = answer.results_by_transaction
    (topic,) = result.topic_results
    (row,) = topic.results_by_partition
    assert (result.transactional_id, topic.name) == ("x", "u")
    assert (row.partition_index, row.partition_error_code) == (1, ERROR)


def test_writing_over_takes_the_records_away() -> None:
    rows = [PartitionData(partition_index=number, records=b"batch") for number in (0, 1)]
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])
    assert write_over(answer, ERROR, lambda _, number: number == 1, partitions=True) == 1
    assert [(row.error_code, row.records) for row in rows] == [(0, b"batch"), (ERROR, b"")]


def filled(struct: type[Any], version: int) -> Any:
    """A request with one row wherever it can have rows."""
    values = {}
    for field in fields_of(struct):
        if field.is_array and version in field.versions:
            plain = "name" if field.element is str else 0
            values[field.name] = [filled(field.element, version) if field.is_struct else plain]
    return struct(**values)


@pytest.mark.parametrize("key", [key for key in BROKER_APIS if key not in WRITTEN_OVER])
def test_every_api_can_be_refused_in_every_version(key: ApiKey) -> None:
    found = api(key)
    low, high = found.served_versions()
    for version in range(low, high + 1):
        request = filled(found.request, version)
        rest, answer = refuse(request, found.response, version, Errors.INVALID_REQUEST, everything)
        assert answer is not None, f"{key.name} v{version} was not refused"
        assert rest is None
        assert str(int(Errors.INVALID_REQUEST)) in repr(answer)
        assert found.response.decode(answer.encode(version), version) is not None
