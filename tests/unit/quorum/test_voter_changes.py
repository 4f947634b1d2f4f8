"""Voters that come and go in clusters of real nodes."""

from __future__ import annotations

import asyncio

from kaa.controller.port import ControllerRequestContext
from kaa.quorum.messages import (
    AddVoterRequest,
    ErrorResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoterChangeResponse,
)
from kaa.quorum.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode
from kaa.wire.errors import Errors
from kaa.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.cluster import BOTH, CLUSTER_ID, Cluster, cluster
from tests.support.ids import uuid

CONTROLLERS = dict.fromkeys((1, 2, 3), "controller")
AUTO_JOIN = "controller.quorum.auto.join.enable=true"


def voters(made: Cluster, node_id: int) -> tuple[int, ...]:
    return made.nodes[node_id].services.quorum.machine.voter_set.ids()


async def add(made: Cluster, at: int, node_id: int, *, acknowledged: bool = True) -> Errors:
    answer = await made.nodes[at].services.quorum.serve(
        AddVoterRequest(
            CLUSTER_ID, made.key(node_id), (made.endpoint(node_id),), 2_000, acknowledged
        )
    )
    assert isinstance(answer, VoterChangeResponse | ErrorResponse)
    return answer.error


async def remove(made: Cluster, at: int, key: ReplicaKey) -> Errors:
    answer = await made.nodes[at].services.quorum.serve(RemoveVoterRequest(CLUSTER_ID, key))
    assert isinstance(answer, VoterChangeResponse | ErrorResponse)
    return answer.error


async def started(made: Cluster) -> None:
    async with asyncio.timeout(30):
        await made.start(1)
        await made.until(made.leader)
        await made.start(2, 3)


def test_a_quorum_of_one_grows_to_three_and_gives_its_first_leader_up() -> None:
    async def scenario() -> None:
        made = Cluster(CONTROLLERS, first_voters=(1,))
        try:
            await started(made)
            quorum = made.nodes[1].services.quorum

            def observers() -> int:
                found = quorum.describe()
                return 0 if found is None else len(found.observers)

            await made.until(lambda: observers() == 2)
            for node_id in (2, 3):
                # An observer is taken when it has followed the log to its end.
                await made.until(lambda: made.leader() == 1)
                while (  # noqa: ASYNC110
                    error := await add(made, 1, node_id)
                ) is Errors.REQUEST_TIMED_OUT:
                    await asyncio.sleep(0.05)
                assert error is Errors.NONE
            assert await add(made, 1, 3) is Errors.DUPLICATE_VOTER
            await made.until(lambda: all(voters(made, each) == (1, 2, 3) for each in made.nodes))
            assert await remove(made, 1, ReplicaKey(1, uuid(7))) is Errors.VOTER_NOT_FOUND
            assert await remove(made, 1, made.key(1)) is Errors.NONE
            await made.until(lambda: made.leader() in {2, 3})
            await made.until(lambda: all(voters(made, each) == (2, 3) for each in made.nodes))
        finally:
            await made.stop()

    asyncio.run(scenario())


def test_controllers_join_by_themselves_once() -> None:
    async def scenario() -> None:
        made = Cluster(CONTROLLERS, AUTO_JOIN, first_voters=(1,))
        try:
            await started(made)
            await made.until(lambda: all(voters(made, each) == (1, 2, 3) for each in made.nodes))
            # They do not ask again, and a restart finds them as voters.
            end = made.nodes[1].services.quorum.log.end().offset
            await asyncio.sleep(1)
            assert made.nodes[1].services.quorum.log.end().offset <= end + 3
            await made.stop(3)
            await made.start(3)
            assert voters(made, 3) == (1, 2, 3)
        finally:
            await made.stop()

    asyncio.run(scenario())


def test_kraft_version_is_raised_on_a_running_quorum_of_static_voters() -> None:
    async def scenario() -> None:
        async with cluster(dict.fromkeys((1, 2, 3), BOTH)) as made:
            leader = made.leader()
            assert leader is not None
            quorum = made.nodes[leader].services.quorum
            assert await add(made, leader, leader) is Errors.UNSUPPORTED_VERSION
            await made.until(lambda: quorum.machine.known_voters(1) is not None)
            update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
            answer = await made.nodes[leader].services.controller.submit(
                UpdateFeaturesRequest(feature_updates=[update]), ControllerRequestContext(2)
            )
            assert answer.error_code == Errors.NONE, answer.error_message
            drivers = [node.services.quorum for node in made.nodes.values()]
            await made.until(lambda: all(driver.kraft_version == 1 for driver in drivers))
            for driver in drivers:
                keys = [voter.key for voter in driver.machine.voter_set.voters]
                assert keys == [made.key(node_id) for node_id in (1, 2, 3)]
            # A snapshot tells the voters of its own offset.
            level, found = quorum.voters_at(0)
            assert (level, [voter.key.directory_id for voter in found.voters]) == (0, [None] * 3)
            gone = next(node_id for node_id in made.nodes if node_id != leader)
            assert await remove(made, leader, made.key(gone)) is Errors.NONE

    asyncio.run(scenario())


def test_strangers_change_nothing() -> None:
    async def scenario() -> None:
        made = Cluster({1: "controller"}, first_voters=(1,))
        try:
            await made.start()
            await made.until(made.leader)
            quorum = made.nodes[1].services.quorum
            stranger = await quorum.serve(RemoveVoterRequest("another", made.key(1)))
            assert isinstance(stranger, VoterChangeResponse)
            assert stranger.error is Errors.INCONSISTENT_CLUSTER_ID
            nobody = ReplicaKey(1)
            assert await remove(made, 1, nobody) is Errors.INVALID_REQUEST
            assert await remove(made, 1, made.key(1)) is Errors.VOTER_NOT_FOUND
            nowhere = AddVoterRequest(CLUSTER_ID, made.key(2), (), 100, True)
            answer = await quorum.serve(nowhere)
            assert isinstance(answer, VoterChangeResponse)
            assert answer.error is Errors.INVALID_REQUEST
            voter = VoterNode(made.key(2), (made.endpoint(2 - 1),), KRAFT_VERSIONS)
            for epoch, error in (
                (0, Errors.FENCED_LEADER_EPOCH),
                (99, Errors.UNKNOWN_LEADER_EPOCH),
                (quorum.machine.epoch, Errors.VOTER_NOT_FOUND),
            ):
                update = await quorum.serve(UpdateVoterRequest(CLUSTER_ID, epoch, voter))
                assert isinstance(update, UpdateVoterResponse)
                assert update.error is error
            assert quorum.machine.voter_set.ids() == (1,)
        finally:
            await made.stop()

    asyncio.run(scenario())
