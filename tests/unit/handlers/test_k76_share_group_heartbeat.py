from __future__ import annotations

import asyncio
from typing import Any

from kaa.wire.errors import Errors
from kaa.wire.messages.k16_list_groups import ListGroupsRequest
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.handlers.share_requests import load_shares, share_node, summary
from tests.unit.handlers.support import Node


def heartbeat(**fields: Any) -> ShareGroupHeartbeatRequest:
    """A member that joins, unless fields say otherwise."""
    settings = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "subscribed_topic_names": ["t"],
        **fields,
    }
    return ShareGroupHeartbeatRequest(**settings)


async def _let_it_happen(node: Node) -> None:
    await asyncio.gather(*node.services.view.errands._under_way)


def joined(node: Node, **fields: Any) -> Any:
    """The heartbeat after the one that joins, when the partitions have their state."""
    node.load_coordinators()
    load_shares(node)
    first = node.ask(heartbeat(**fields))
    assert first.error_code == Errors.NONE, first.error_message
    node.run(_let_it_happen(node))
    epoch = first.member_epoch
    node.services.image.configs[32, "g"] = {"share.assignment.interval.ms": "0"}
    return node.ask(heartbeat(**fields | {"member_epoch": epoch}))


def test_a_member_gets_its_partitions() -> None:
    with share_node() as node:
        answer = joined(node)
        (topic,) = answer.assignment.topic_partitions
        assert sorted(topic.partitions) == [0, 1]
        assert answer.heartbeat_interval_ms == 5_000
        assert summary(node).state_epoch == 2
        (listed,) = node.ask(ListGroupsRequest(types_filter=["share"])).groups
        assert (listed.group_id, listed.group_state, listed.group_type) == ("g", "Stable", "share")
        assert listed.protocol_type == "share"


def test_deleting_the_group_deletes_its_state_first() -> None:
    with share_node() as node:
        joined(node)
        delete = DeleteGroupsRequest(groups_names=["g"])
        assert node.ask(delete).results[0].error_code == Errors.NON_EMPTY_GROUP
        assert summary(node).state_epoch == 2
        node.ask(heartbeat(member_epoch=-1))
        assert node.ask(delete).results[0].error_code == Errors.NONE
        assert summary(node).start_offset == -1
        assert not any(shard.machine.states for shard in node.services.shares.runtime)


def test_requests_that_make_no_sense() -> None:
    with share_node() as node:
        node.load_coordinators()
        wrong: list[dict[str, Any]] = [
            {"member_id": ""},
            {"group_id": " "},
            {"rack_id": ""},
            {"subscribed_topic_names": []},
            {"member_epoch": -2},
        ]
        for fields in wrong:
            assert node.ask(heartbeat(**fields)).error_code == Errors.INVALID_REQUEST, fields
        missing = node.ask(heartbeat(member_epoch=1))
        assert missing.error_code == Errors.GROUP_ID_NOT_FOUND


def test_without_the_feature() -> None:
    with share_node() as node:
        node.services.image.features["share.version"] = 0
        assert node.ask(heartbeat()).error_code == Errors.UNSUPPORTED_VERSION
