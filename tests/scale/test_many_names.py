"""Thousands of groups and of transactional ids, of which nobody does anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kaa.coordinators.group.machine import CleanupDue
from kaa.coordinators.shard import ShardState
from kaa.wire.errors import Errors
from kaa.wire.messages.k08_offset_commit import OffsetCommitRequest
from kaa.wire.messages.k16_list_groups import ListGroupsRequest
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.messages.k66_list_transactions import ListTransactionsRequest
from kaa.wire.schema import Request
from tests.scale import offsets
from tests.scale.node import Client
from tests.scale.requests import NAMES
from tests.scale.steps import Scale

COUNT = 10_000
SENT_TOGETHER = 500
PARTS = 4


def asked_in_a_row(client: Client, requests: Sequence[Request[Any]]) -> list[Any]:
    """The answers to requests of which many are sent before the first answer is read."""
    answers = []
    for start in range(0, len(requests), SENT_TOGETHER):
        some = requests[start : start + SENT_TOGETHER]
        for one in some:
            client.send(one)
        answers += [client.receive(one) for one in some]
    return answers


def test_groups(scale: Scale) -> None:
    client = scale.node.client
    scale.wait_for_coordinator(0, "g")
    names = [f"many-{number}" for number in range(COUNT)]
    topics = offsets.commit(scale.node.broker.services.image, NAMES[:1], [0]).topics
    commits = [OffsetCommitRequest(group_id=name, topics=topics) for name in names]
    answers = asked_in_a_row(client, commits)
    assert {one.topics[0].partitions[0].error_code for one in answers} == {Errors.NONE}
    assert len(client.ask(ListGroupsRequest()).groups) >= COUNT
    scale.ask("ListGroups of many", ListGroupsRequest())
    shard = scale.node.broker.services.groups.runtime.shard(0)
    assert shard is not None
    timers = shard.machine.timers

    def clean_up(_: int) -> None:
        """The search for what has expired, which is due every ten minutes."""
        scale.node.call(lambda: timers.schedule("cleanup", 0, CleanupDue()))
        # Any command has the deadlines looked at.
        client.ask(commits[0])
        scale.wait_until(lambda: scale.node.call(lambda: (timers.next_deadline_ms or 1) > 0))

    scale.repeated("search for expired offsets", clean_up, 3)

    def delete(part: int) -> None:
        some = names[COUNT // PARTS * part :][: COUNT // PARTS]
        answer = client.ask(DeleteGroupsRequest(groups_names=some))
        assert {one.error_code for one in answer.results} == {Errors.NONE}

    scale.repeated("DeleteGroups of many", delete, PARTS)


def test_transactional_ids(scale: Scale) -> None:
    client = scale.node.client
    scale.wait_for_coordinator(1, "id")
    services = scale.node.broker.services
    partitions = services.config.get_int("transaction.state.log.num.partitions")

    def are_all_active() -> bool:
        """The partitions of a topic are made in turns, and then loaded one by one."""
        states = [shard.state for shard in services.transactions.runtime]
        return states.count(ShardState.ACTIVE) == partitions

    scale.wait_until(lambda: scale.node.call(are_all_active))
    wishes = [
        InitProducerIdRequest(transactional_id=f"many-{number}", transaction_timeout_ms=60_000)
        for number in range(COUNT)
    ]
    answers = asked_in_a_row(client, wishes)
    assert {one.error_code for one in answers} == {Errors.NONE}
    assert len(client.ask(ListTransactionsRequest()).transaction_states) >= COUNT
    scale.ask("ListTransactions of many", ListTransactionsRequest())
