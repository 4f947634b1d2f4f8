"""Voters that come and go: what a leader answers, and clusters of real nodes."""

from __future__ import annotations

import asyncio

import pytest

from kaa import limits
from kaa.controller.port import ControllerRequestContext
from kaa.model.nodes import VersionRange
from kaa.quorum import Respond
from kaa.quorum.messages import (
    AddVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ErrorResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoterChangeResponse,
)
from kaa.quorum.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from kaa.wire.errors import Errors
from kaa.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.simulation.quorum.node import CLUSTER_ID as SIMULATED
from tests.simulation.quorum.node import address
from tests.support.cluster import BOTH, CLUSTER_ID, Cluster, cluster
from tests.support.ids import uuid
from tests.unit.quorum.bench import Bench, key
from tests.unit.quorum.test_serving import fetch

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


# --- a leader by itself


def leading(*voter_ids: int) -> Bench:
    """The leader of voters that its log names, with a record of its epoch committed."""
    voters = (VoterNode(key(each), (address(each),), KRAFT_VERSIONS) for each in voter_ids)
    bench = Bench.leading(voters=VoterSet.of(voters), kraft_version=1)
    end = bench.log.end()
    for voter_id in voter_ids[1:]:
        bench.ask(fetch(voter_id, offset=end.offset, epoch=end.epoch, last_epoch=end.epoch))
    assert bench.machine.high_watermark == end.offset
    return bench


def test_a_voter_that_moved_is_answered_before_its_change_is_committed() -> None:
    """It fetches again when it has the answer; with two voters nothing is committed until then."""
    bench = leading(0, 1)
    end = bench.log.end()
    moved = VoterNode(key(1), (address(7),), KRAFT_VERSIONS)
    answer = bench.reply(UpdateVoterRequest(SIMULATED, end.epoch, moved))
    assert isinstance(answer, UpdateVoterResponse)
    assert answer.error is Errors.NONE
    assert bench.machine.high_watermark == end.offset
    # One change at a time all the same.
    again = bench.reply(UpdateVoterRequest(SIMULATED, end.epoch, moved))
    assert isinstance(again, UpdateVoterResponse)
    assert again.error is Errors.REQUEST_TIMED_OUT
    bench.ask(fetch(1, offset=end.offset + 1, epoch=end.epoch, last_epoch=end.epoch))
    assert bench.machine.high_watermark == end.offset + 1
    assert bench.machine.voter_set.get(1) == moved
    final = bench.reply(UpdateVoterRequest(SIMULATED, end.epoch, moved))
    assert isinstance(final, UpdateVoterResponse)
    assert final.error is Errors.NONE


def answers(bench: Bench) -> list[Errors]:
    """To those who want voters added or removed."""
    responses = (effect.response for effect in bench.effects if isinstance(effect, Respond))
    return [each.error for each in responses if isinstance(each, VoterChangeResponse)]


def asked_to_add(timeout_ms: int) -> Bench:
    """A leader that was asked to add a voter, and has asked that one for its versions."""
    bench = leading(0, 1)
    bench.forget()
    bench.ask(AddVoterRequest(SIMULATED, key(2), (address(2),), timeout_ms, True))
    assert [send.node.id for send, _ in bench.sent(ApiVersionsRequest)] == [2]
    assert not answers(bench)
    return bench


def test_there_are_only_so_many_voters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUORUM_VOTERS_MAX", 2)
    bench = leading(0, 1)
    bench.forget()
    bench.ask(AddVoterRequest(SIMULATED, key(2), (address(2),), 1000, True))
    assert answers(bench) == [Errors.INVALID_REQUEST]
    assert not bench.sent(ApiVersionsRequest)


def test_a_voter_that_cannot_be_reached_is_refused_at_once() -> None:
    """The leader makes no other change as long as it tries."""
    bench = asked_to_add(2**31 - 1)
    ((send, _),) = bench.sent(ApiVersionsRequest)
    bench.answer(send, ErrorResponse(Errors.BROKER_NOT_AVAILABLE))
    assert answers(bench) == [Errors.REQUEST_TIMED_OUT]
    assert bench.ask(RemoveVoterRequest(SIMULATED, key(1)))
    assert bench.machine.voter_set.ids() == (0,)


def test_a_voter_that_does_not_answer_is_waited_for_as_long_as_any_request() -> None:
    bench = asked_to_add(2**31 - 1)
    bench.ask(fetch(1, offset=bench.log.end().offset, last_epoch=1))
    bench.advance(1999)
    assert not answers(bench)
    bench.advance(1)
    assert answers(bench) == [Errors.REQUEST_TIMED_OUT]
    bench.ask(RemoveVoterRequest(SIMULATED, key(1)))
    assert bench.machine.voter_set.ids() == (0,)


def test_a_voter_that_refuses_to_tell_its_versions_is_asked_for_again_later() -> None:
    bench = asked_to_add(1000)
    ((send, _),) = bench.sent(ApiVersionsRequest)
    bench.answer(send, ApiVersionsResponse(Errors.INVALID_REQUEST, VersionRange(0, 0)))
    assert answers(bench) == [Errors.REQUEST_TIMED_OUT]


def test_what_is_wrong_with_an_update_in_the_order_of_kafka() -> None:
    bench = leading(0, 1)
    epoch = bench.machine.epoch
    unknown = VoterNode(key(5), (address(5),), KRAFT_VERSIONS)
    unable = unknown.replace(supported_kraft_version=VersionRange(0, 0))
    nowhere = unknown.replace(endpoints=())
    reversed_range = unknown.replace(supported_kraft_version=VersionRange(2, 1))

    def error(voter: VoterNode) -> Errors:
        return bench.reply(UpdateVoterRequest(SIMULATED, epoch, voter)).error

    assert error(unable) is Errors.INVALID_REQUEST
    assert error(unknown) is Errors.VOTER_NOT_FOUND
    moved = VoterNode(key(1), (address(7),), KRAFT_VERSIONS)
    assert error(moved) is Errors.NONE
    # Whether there is a change under way is asked before who is meant.
    assert error(unknown) is error(unable) is Errors.REQUEST_TIMED_OUT
    assert error(nowhere) is error(reversed_range) is Errors.INVALID_REQUEST


def test_static_voters_tell_nothing_before_a_commit_of_the_epoch() -> None:
    bench = Bench.leading(voters=2)
    voter = VoterNode(key(1), (address(1),), KRAFT_VERSIONS)
    update = UpdateVoterRequest(SIMULATED, bench.machine.epoch, voter)
    assert bench.reply(update).error is Errors.REQUEST_TIMED_OUT
    bench.ask(fetch(1, offset=1, last_epoch=1))
    assert bench.reply(update).error is Errors.NONE
    assert bench.machine.known_voters(1) is not None


# --- clusters


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
            # Nobody keeps a connection to one that neither votes nor leads.
            for node_id in (2, 3):
                metadata = made.nodes[node_id]._metadata
                assert metadata is not None
                await made.until(lambda: 1 not in metadata.connected_ids)  # noqa: B023
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
