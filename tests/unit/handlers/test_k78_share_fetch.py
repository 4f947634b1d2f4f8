from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages import k78_share_fetch as k78
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.support.ids import uuid
from tests.unit.handlers.share_fetching import fetch, held, ready
from tests.unit.handlers.share_requests import (
    initialise,
    load_shares,
    read,
    share_node,
    topic_id,
)
from tests.unit.log.batches import batch


@pytest.mark.parametrize("version", [1, 2])
def test_records_are_handed_out_acknowledged_and_handed_out_again(version: int) -> None:
    with share_node() as node:
        ready(node, 3, 4)
        first = fetch(node, 0, version=version)
        assert held(first) == [(0, 6, 1)]
        assert first.acquisition_lock_timeout_ms == 30_000
        assert len(first.responses[0].partitions[0].records or b"") > 100
        again = fetch(node, 1, (0, 2, [1]), (3, 6, [2, 3, 1, 2]), version=version)
        assert held(again) == [(3, 3, 2), (6, 6, 2)]
        assert again.responses[0].partitions[0].acknowledge_error_code == Errors.NONE
        assert read(node).start_offset >= 0


def test_a_session_is_ended_and_gives_back() -> None:
    with share_node() as node:
        ready(node, 3)
        assert held(fetch(node, 0)) == [(0, 2, 1)]
        assert fetch(node, -1, named=False).error_code == Errors.NONE
        assert fetch(node, 1, named=False).error_code == Errors.SHARE_SESSION_NOT_FOUND
        assert held(fetch(node, 0, member_id="n")) == [(0, 2, 2)]


def test_a_lost_connection_gives_back_at_once() -> None:
    with share_node() as node:
        ready(node, 3)
        fetch(node, 0)
        node.run(_close(node.connection))
        assert held(fetch(node, 0, member_id="n")) == [(0, 2, 2)]


async def _close(connection: object) -> None:
    connection.close()  # type: ignore[attr-defined]


def test_a_connection_that_ends_while_its_first_fetch_begins_leaves_nothing() -> None:
    with share_node() as node:
        load_shares(node)
        node.create_topic("many", 120)
        for number in range(120):
            initialise(node, number, start=0, topic="many")
        many = [k78.FetchPartition(partition_index=number) for number in range(120)]
        topic = k78.FetchTopic(topic_id=node.services.image.topics["many"].id, partitions=many)
        request = k78.ShareFetchRequest(
            group_id="g", member_id="m", max_wait_ms=100, min_bytes=1, topics=[topic]
        )
        shares = node.services.share_partitions

        async def end() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(node.asked(request))
                for _ in range(2):
                    await asyncio.sleep(0)
                assert (len(shares.sessions), len(shares) < 120) == (1, True)
                await _close(node.connection)
            await asyncio.sleep(0.2)

        node.run(end())
        assert len(shares) == 0


def test_sessions_that_do_not_fit() -> None:
    with share_node("group.share.max.share.sessions=200", "group.share.max.size=200") as node:
        ready(node, 1)
        assert fetch(node, 5).error_code == Errors.SHARE_SESSION_NOT_FOUND
        assert fetch(node, 0, (0, 0, [1])).error_code == Errors.INVALID_REQUEST
        assert fetch(node, 0, group_id=None).error_code == Errors.INVALID_REQUEST
        assert fetch(node, 0, member_id="").error_code == Errors.INVALID_REQUEST
        fetch(node, 0)
        assert fetch(node, 7).error_code == Errors.INVALID_SHARE_SESSION_EPOCH
        for number in range(199):
            fetch(node, 0, member_id=f"m{number}", max_wait_ms=0)
        begun = time.monotonic()
        late = fetch(node, 0, member_id="late", max_wait_ms=300)
        assert late.error_code == Errors.SHARE_SESSION_LIMIT_REACHED
        # A client that is refused asks again at once: it is made to wait here.
        assert time.monotonic() - begun >= 0.3


def test_only_news_is_told_in_a_session() -> None:
    with share_node() as node:
        ready(node, 2)
        initialise(node, 1, start=0)
        assert held(fetch(node, 0)) == [(0, 1, 1)]
        assert fetch(node, 1, named=False, max_wait_ms=0).responses == []
        node.append("t", 1, 1)
        (topic,) = fetch(node, 2, number=1).responses
        assert [one.partition_index for one in topic.partitions] == [1]


def test_partitions_that_cannot_be_fetched() -> None:
    with share_node() as node:
        ready(node, 1)
        (topic,) = fetch(node, 0, topic_id=uuid(99)).responses
        assert topic.partitions[0].error_code == Errors.UNKNOWN_TOPIC_ID
        (topic,) = fetch(node, 0, number=9).responses
        assert topic.partitions[0].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
        # W-S9: nobody has said where the group begins, so nobody may guess it.
        (topic,) = fetch(node, 0, group_id="without state").responses
        assert topic.partitions[0].error_code == Errors.UNKNOWN_SERVER_ERROR


def test_a_leader_elsewhere_is_named() -> None:
    with share_node() as node:
        ready(node, 1)
        assert held(fetch(node, 0)) == [(0, 0, 1)]

        async def move() -> None:
            node.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id(node), leader=2))

        node.run(move())
        ((partition,),) = [topic.partitions for topic in fetch(node, 1, (0, 0, [1])).responses]
        assert partition.error_code == Errors.NOT_LEADER_OR_FOLLOWER
        assert partition.acknowledge_error_code == Errors.NOT_LEADER_OR_FOLLOWER
        assert partition.current_leader.leader_id == 2


def test_a_group_begins_by_its_setting() -> None:
    """W-S9: state without an offset begins by share.auto.offset.reset, which is latest here."""
    with share_node() as node:
        ready(node, 3)
        initialise(node, epoch=1, start=-1)
        assert held(fetch(node, 0, max_wait_ms=50)) == []
        node.append("t", 2)
        assert held(fetch(node, 1, named=False)) == [(3, 4, 1)]


def test_bytes_are_limited() -> None:
    """W-S9: a limit of bytes is one; a first batch that is larger still comes."""
    with share_node() as node:
        ready(node, 10, 10, 10)
        size = len(batch(10))
        assert held(fetch(node, 0, max_bytes=2 * size)) == [(0, 19, 1)]
        assert held(fetch(node, 1, named=False, max_bytes=1)) == [(20, 29, 1)]


def test_locks_are_renewed_without_a_fetch() -> None:
    with share_node() as node:
        ready(node, 2)
        fetch(node, 0)
        wrong = fetch(node, 1, (0, 1, [4]), is_renew_ack=True)
        assert wrong.error_code == Errors.INVALID_REQUEST
        nothing: dict[str, Any] = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 0,
            "max_records": 0,
        }
        found = fetch(node, 1, (0, 1, [4]), is_renew_ack=True, **nothing)
        assert found.responses[0].partitions[0].acknowledge_error_code == Errors.NONE


def test_clusters_without_the_feature_refuse() -> None:
    with share_node() as node:
        ready(node, 1)
        node.services.image.features["share.version"] = 0
        assert fetch(node, 0).error_code == Errors.UNSUPPORTED_VERSION
