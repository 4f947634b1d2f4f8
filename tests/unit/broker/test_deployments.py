"""What goes wrong when a cluster is put on machines for the first time, or put there again.

Who votes is said by the settings or by the log, never by both: a node that starts again must come
to the same answer as the others, whatever its settings say by now.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from kaa.cli.broker import failures_of
from kaa.log.sim_files import SimFiles
from kaa.model.nodes import Endpoint
from tests.support.cluster import Cluster
from tests.support.pace import PATIENCE_SECONDS
from tests.support.ports import LOOPBACK, free_port

CONTROLLERS = dict.fromkeys((1, 2, 3), "controller")
ALL = (1, 2, 3)


@asynccontextmanager
async def quorum(*settings: str, is_dynamic: bool) -> AsyncIterator[Cluster]:
    """Three controllers that have elected a leader."""
    made = Cluster(CONTROLLERS, *settings, first_voters=ALL if is_dynamic else None)
    try:
        await made.start()
        await made.until(made.leader, PATIENCE_SECONDS)
        yield made
    finally:
        await made.kill()


def voters(made: Cluster, node_id: int) -> list[tuple[int, Endpoint]]:
    found = made.nodes[node_id].services.quorum.machine.voter_set.voters
    return [(voter.key.id, voter.endpoints[0]) for voter in found]


def has_caught_up(made: Cluster, node_id: int) -> bool:
    """Whether a node has followed the log to where the leader's ends."""
    leader = made.leader()
    if leader is None:
        return False
    end = made.nodes[leader].services.quorum.log.end().offset
    return made.nodes[node_id].services.metadata.committed_offset >= end - 1


async def agreed(made: Cluster) -> None:
    """Waits for a leader that all nodes follow, with the voters that they were formatted with."""
    expected = [(node_id, made.endpoint(node_id)) for node_id in ALL]
    await made.until(
        lambda: made.leader() and all(voters(made, each) == expected for each in ALL),
        PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_a_restart_finds_the_voters_again(is_dynamic: bool) -> None:
    """One after the other, by which each writes a snapshot; and all of them together."""

    async def scenario() -> None:
        async with quorum(is_dynamic=is_dynamic) as made:
            for node_id in ALL:
                await made.stop(node_id)
                await made.start(node_id)
            await made.kill()
            await made.start()
            await agreed(made)
            assert not any("has no vote" in line for each in ALL for line in made.reports[each])

    asyncio.run(scenario())


def test_an_address_that_changed_is_the_voters_after_a_restart() -> None:
    """Of those who led, one after the other: each tells the next leader."""

    async def scenario() -> None:
        async with quorum(is_dynamic=True) as made:
            for _ in ALL:
                leader = made.leader()
                assert leader is not None
                await made.stop(leader)
                made.move(leader)
                await made.start(leader)
                await agreed(made)

    asyncio.run(scenario())


def test_voters_in_the_settings_do_not_count_beside_those_in_the_log() -> None:
    async def scenario() -> None:
        async with quorum(is_dynamic=True) as made:
            await made.kill()
            # Of another time: the addresses are wrong, and so is the number.
            for node_id in ALL:
                static = f"controller.quorum.voters={node_id}@{LOOPBACK}:{free_port()}"
                made.own_settings[node_id] = (static,)
            await made.start()
            await agreed(made)

    asyncio.run(scenario())


def test_voters_that_were_lost_from_the_settings_are_asked_for() -> None:
    """Nobody can lead then; who starts such a node learns why."""

    async def scenario() -> None:
        async with quorum(is_dynamic=False) as made:
            await made.kill()
            servers = ",".join(f"{LOOPBACK}:{made.endpoint(each).port}" for each in ALL)
            for node_id in ALL:
                made.own_settings[node_id] = (
                    "controller.quorum.voters=",
                    f"controller.quorum.bootstrap.servers={servers}",
                )
            await made.start()
            for node_id in ALL:
                (said,) = [line for line in made.reports[node_id] if "has no vote" in line]
                assert "set controller.quorum.voters again" in said
                assert servers.replace(",", ", ") in said
            assert made.leader() is None
            await made.kill()
            made.own_settings.clear()
            await made.start()
            await agreed(made)

    asyncio.run(scenario())


def test_a_node_that_is_formatted_again_as_at_first_follows_the_others() -> None:
    """Its disk is new and its id is not, as after a script that formats whatever is empty."""

    async def scenario() -> None:
        async with quorum(is_dynamic=True) as made:
            for node_id in ALL:
                await made.stop(node_id)
                await made.until(made.leader, PATIENCE_SECONDS)
                made.files[node_id] = SimFiles()
                made.format(node_id)
                await made.start(node_id)
                await made.until(partial(has_caught_up, made, node_id), PATIENCE_SECONDS)
            await agreed(made)

    asyncio.run(scenario())


def test_a_full_disk_costs_its_controller_alone_and_only_while_it_is_full() -> None:
    """Below the leader first, then below a follower. Leaders write now and then, needed or not."""

    async def scenario() -> None:
        async with quorum(is_dynamic=True) as made:
            for is_leader in (True, False):
                leader = made.leader()
                assert leader is not None
                full = leader if is_leader else next(each for each in ALL if each != leader)
                disk = made.files[full]
                disk.capacity_bytes = disk.used_bytes()
                error = await made.ended(full, PATIENCE_SECONDS)
                assert isinstance(error, ExceptionGroup)
                said = "\n".join(failures_of(error) or [])
                assert f"/data/{full}" in said
                assert "No space left on device" in said
                await made.until(made.leader, PATIENCE_SECONDS)
                disk.capacity_bytes = None
                await made.start(full)
                await made.until(partial(has_caught_up, made, full), PATIENCE_SECONDS)
            await agreed(made)

    asyncio.run(scenario())


def test_an_address_that_nobody_reaches_costs_nothing_but_votes_for_it() -> None:
    """It is put right by a restart: the leader writes the new one into the log."""

    async def scenario() -> None:
        async with quorum(is_dynamic=True) as made:
            lost = next(each for each in ALL if each != made.leader())

            async def moved(host: str, port: int) -> None:
                await made.stop(lost)
                advertised = f"advertised.listeners=CONTROLLER://{host}:{port}"
                made.own_settings[lost] = (advertised,)
                await made.start(lost)
                wanted = (lost, Endpoint("CONTROLLER", host, port))
                await made.until(
                    lambda: all(wanted in voters(made, each) for each in ALL), PATIENCE_SECONDS
                )

            await moved(LOOPBACK, free_port())
            assert made.leader() != lost
            # The same place by another name.
            await moved("localhost", made.endpoint(lost).port)
            await made.until(made.leader, PATIENCE_SECONDS)

    asyncio.run(scenario())
