from __future__ import annotations

from kaa.client.share.session import (
    AcknowledgeType,
    NodeSession,
    ShareFetchLimits,
    has_renewals,
    ranges,
)
from kaa.wire.primitives import PartitionId
from tests.support.ids import uuid

LIMITS = ShareFetchLimits(500, 1, 1_000, 10, is_record_limit=True)
ONE, TWO = PartitionId(uuid(1), 0), PartitionId(uuid(1), 1)


def test_requests_name_what_came_and_went() -> None:
    session = NodeSession("g", "m")
    first, sent = session.fetch([ONE], LIMITS)
    assert (first.share_session_epoch, first.share_acquire_mode, sent) == (0, 1, {})
    assert [one.partition_index for one in first.topics[0].partitions] == [0]
    session.answered()
    again, _ = session.fetch([ONE], LIMITS)
    assert (again.share_session_epoch, again.topics) == (1, [])
    session.answered()
    moved, _ = session.fetch([TWO], LIMITS)
    assert [one.partition_index for one in moved.topics[0].partitions] == [1]
    assert moved.forgotten_topics_data[0].partitions == [0]


def test_what_was_said_leaves_once() -> None:
    session = NodeSession("g", "m")
    session.fetch([ONE], LIMITS)
    session.answered()
    session.tell(ONE, 4, AcknowledgeType.ACCEPT)
    # Of a partition that is not fetched any more: it is named once more, and forgotten.
    session.tell(TWO, 7, AcknowledgeType.RELEASE)
    request, sent = session.fetch([ONE], LIMITS)
    assert sent == {ONE: {4: 1}, TWO: {7: 2}}
    named = [one.partition_index for one in request.topics[0].partitions]
    assert (named, request.forgotten_topics_data[0].partitions) == ([0, 1], [1])
    assert session.pending == {}


def test_a_lost_session_tells_what_nobody_hears() -> None:
    session = NodeSession("g", "m")
    session.fetch([ONE], LIMITS)
    session.answered()
    assert session.is_open
    session.tell(ONE, 4, AcknowledgeType.ACCEPT)
    assert session.reset() == {ONE: {4: 1}}
    assert not session.is_open


def test_the_last_request_ends_the_session() -> None:
    session = NodeSession("g", "m")
    session.fetch([ONE], LIMITS)
    session.answered()
    session.tell(ONE, 4, AcknowledgeType.RENEW)
    assert has_renewals(session.pending)
    request, sent = session.acknowledge(is_last=True)
    assert (request.share_session_epoch, request.is_renew_ack) == (-1, True)
    assert sent == {ONE: {4: 4}}


def test_offsets_leave_as_ranges() -> None:
    assert ranges({5: 1, 3: 1, 4: 1, 9: 2, 10: 3}) == [
        {"first_offset": 3, "last_offset": 5, "acknowledge_types": [1]},
        {"first_offset": 9, "last_offset": 10, "acknowledge_types": [2, 3]},
    ]
