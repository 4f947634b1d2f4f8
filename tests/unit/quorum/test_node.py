from __future__ import annotations

import asyncio
from random import Random

import pytest

from kaa.log.dirs import LogDirectory
from kaa.log.errors import CorruptFileError
from kaa.log.quorum_state import QuorumStateData, write_quorum_state
from kaa.log.sim_files import SimFiles
from kaa.quorum import VoterSet
from kaa.quorum.control_state import ControlState
from kaa.quorum.driver import QuorumDriver
from kaa.quorum.metadata_log import MetadataLogConfig, open_metadata_log
from kaa.quorum.node import NotAVoterError, _without_a_vote, build_driver
from kaa.quorum.voters import Node, ReplicaKey, VoterNode
from kaa.records.build import BatchBuilder
from tests.unit.quorum.disk_replica import (
    FOLDER,
    ROOT,
    FixedClock,
    InlineExecutor,
    ValuesState,
    directory_id,
    new_disk,
    node,
    settle,
    voter,
)


def build(files: SimFiles, voters: VoterSet, *, linger_ms: int = 0) -> QuorumDriver:
    opened = open_metadata_log(LogDirectory(files, ROOT), MetadataLogConfig(), 0, Random(1))
    made = node(1, voters)
    return build_driver(
        opened,
        made._replace(config=made.config.replace(append_linger_ms=linger_ms)),
        state=ValuesState(),
        files=files,
        clock=FixedClock(),
        executor=InlineExecutor(),
        loop=asyncio.get_running_loop(),
        random=Random(1),
    )


@pytest.mark.parametrize("voters", [VoterSet(), VoterSet.of([voter(2)])])
def test_a_node_that_does_not_vote_is_told_what_to_do(voters: VoterSet) -> None:
    async def scenario() -> None:
        lost = r"controller\.quorum\.voters.*; if it has run before, .*cluster_metadata-0 was lost"
        with pytest.raises(NotAVoterError, match=lost):
            build(new_disk(), voters)

    asyncio.run(scenario())


def without_a_vote(voters: VoterSet, *bootstrap: Node, is_new: bool = False) -> str:
    asking = node(1, VoterSet())._replace(bootstrap=bootstrap)
    return _without_a_vote(asking, ControlState(voters), is_new=is_new)


def test_a_controller_without_a_vote_says_what_to_do() -> None:
    (own,) = node(1, VoterSet()).endpoints
    itself = Node(-2, own.host, own.port)
    other = Node(-3, "other", 9093)
    assert "kaa cluster quorum add" in without_a_vote(VoterSet.of([voter(2)]), itself, other)
    said = without_a_vote(VoterSet.of([voter(2)]), itself)
    assert f"{own.host}:{own.port} in controller.quorum.bootstrap.servers" in said
    assert "restore __cluster_metadata-0 from a backup" in said
    # Its directory.id is not the one that votes.
    elsewhere = VoterNode(ReplicaKey(1, directory_id(9)))
    said = without_a_vote(VoterSet.of([elsewhere]), itself, other)
    assert f"directory.id {directory_id(9)}" in said
    assert "put that id back" in said


def test_only_a_controller_with_a_log_may_have_voted() -> None:
    other = Node(-3, "other", 9093)
    assert "if it has voted before" in without_a_vote(VoterSet(), other)
    assert "if it has voted before" not in without_a_vote(VoterSet(), other, is_new=True)


def test_epochs_go_on_from_the_stored_one() -> None:
    async def scenario() -> None:
        files = new_disk()
        files.make_directory(FOLDER)
        stored = QuorumStateData(leader_id=2, leader_epoch=41, voted_id=1, version=0)
        write_quorum_state(files, FOLDER, stored)
        driver = build(files, VoterSet.of([voter(1)]))
        driver.start(None)
        await settle()
        assert driver.machine.epoch == 42

    asyncio.run(scenario())


def test_a_vote_with_its_directory_is_remembered() -> None:
    async def scenario() -> None:
        files = new_disk()
        files.make_directory(FOLDER)
        stored = QuorumStateData(
            leader_epoch=7, voted_id=2, voted_directory_id=directory_id(2), version=1
        )
        write_quorum_state(files, FOLDER, stored)
        driver = build(files, VoterSet.of([voter(1), voter(2)]))
        driver.start(None)
        election = driver.machine.election
        assert election is not None
        assert election.epoch == 7
        assert election.voted_key is not None
        assert (election.voted_key.id, election.voted_key.directory_id) == (2, directory_id(2))
        driver.close()

    asyncio.run(scenario())


def test_a_vote_that_cannot_be_read_is_not_forgotten() -> None:
    async def scenario() -> None:
        files = new_disk()
        files.make_directory(FOLDER)
        files.create(f"{FOLDER}/quorum-state").write([b"{"], 0)
        with pytest.raises(CorruptFileError):
            build(files, VoterSet.of([voter(1)]))

    asyncio.run(scenario())


def test_records_of_a_leader_linger_as_the_settings_say() -> None:
    async def scenario() -> None:
        driver = build(new_disk(), VoterSet.of([voter(1)]), linger_ms=60)
        driver.start(None)
        await settle()
        assert driver.machine.is_leader, "what opens an epoch does not linger"
        builder = BatchBuilder(partition_leader_epoch=driver.machine.epoch)
        builder.append(0, None, b"value")
        offset = driver.append(driver.machine.epoch, builder.build())
        assert offset is not None
        await settle()
        assert driver.machine.high_watermark == offset
        await asyncio.sleep(0.1)
        assert driver.machine.high_watermark == offset + 1
        driver.close()

    asyncio.run(scenario())
