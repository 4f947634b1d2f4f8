"""Requests about the quorum, by the way that commands go; handlers test what the answers say."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from kaa.client.connection import ConnectionSettings
from kaa.client.peer import Peers
from kaa.controller.channel import ControllerChannel
from kaa.controller.port import ControllerRequestContext
from kaa.controller.result import ControllerError
from kaa.wire.errors import Errors
from kaa.wire.messages.k55_describe_quorum import DescribeQuorumRequest
from kaa.wire.messages.k80_add_raft_voter import AddRaftVoterRequest, Listener
from kaa.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest
from tests.unit.controller.cluster import CLUSTER_ID, NODE_ID, uuid
from tests.unit.controller.replica_node import running
from tests.unit.quorum.disk_replica import new_disk

ADDITION = AddRaftVoterRequest(
    cluster_id=CLUSTER_ID,
    voter_id=5,
    voter_directory_id=uuid(5),
    listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=1)],
)
REMOVAL = RemoveRaftVoterRequest(
    cluster_id=CLUSTER_ID, voter_id=NODE_ID, voter_directory_id=uuid(NODE_ID)
)


def test_a_node_that_leads_by_now_answers_itself() -> None:
    """A request may leave for another leader than there was when it came in."""

    async def scenario() -> None:
        async with running(new_disk()) as node:
            channel = ControllerChannel(
                node.replica,
                Peers(ConnectionSettings(), Random(1)),
                Random(1),
                node_id=NODE_ID,
                timeout_ms=1_000,
            )
            described = await channel.submit(DescribeQuorumRequest(), ControllerRequestContext(2))
            assert described.error_code == Errors.NONE
            assert described.topics[0].partitions[0].leader_id == NODE_ID
            assert [found.node_id for found in described.nodes] == [NODE_ID]
            # Voters are in the settings here, and refused for that alone.
            added = await channel.submit(ADDITION, ControllerRequestContext(1))
            assert added.error_code == Errors.UNSUPPORTED_VERSION
            removed = await channel.submit(REMOVAL, ControllerRequestContext(0))
            assert removed.error_code == Errors.UNSUPPORTED_VERSION

    asyncio.run(scenario())


def test_another_replica_says_that_it_is_not_the_one() -> None:
    async def scenario() -> None:
        async with running(new_disk()) as node:
            node.replica.driver.resign(node.replica.driver.machine.epoch)
            for request in (DescribeQuorumRequest(), ADDITION, REMOVAL):
                with pytest.raises(ControllerError) as refused:
                    await node.replica.submit(request, ControllerRequestContext(0))
                assert refused.value.error is Errors.NOT_LEADER_OR_FOLLOWER
                assert refused.value.is_elsewhere
                assert refused.value.message

    asyncio.run(scenario())
