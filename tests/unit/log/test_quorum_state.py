"""quorum-state: both versions, and that a damaged file is never taken for no file."""

from __future__ import annotations

import pytest

from kaa.log.errors import CorruptFileError
from kaa.log.quorum_state import (
    QuorumStateData,
    decode_quorum_state,
    encode_quorum_state,
    read_quorum_state,
    write_quorum_state,
)
from kaa.log.sim_files import SimFiles
from tests.support.ids import uuid

KAFKA_V0 = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)
KAFKA_V1 = (
    b'{"leaderId":-1,"leaderEpoch":3,"votedId":2,'
    b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAABQ","data_version":1}'
)

INFINITE = KAFKA_V1.replace(b"3", b"Infinity", 1)
DEEP = b"[" * 100_000
# After this epoch there is none that a request could carry.
OVER = KAFKA_V1.replace(b"3", b"2147483646", 1)


def test_version_0_bytes_are_kafkas() -> None:
    state = QuorumStateData(leader_id=1, leader_epoch=1, current_voters=(1,), version=0)
    assert encode_quorum_state(state) == KAFKA_V0
    assert decode_quorum_state("q", KAFKA_V0) == state


def test_version_1_bytes_are_kafkas() -> None:
    state = QuorumStateData(leader_epoch=3, voted_id=2, voted_directory_id=uuid(5))
    assert encode_quorum_state(state) == KAFKA_V1
    assert decode_quorum_state("q", KAFKA_V1) == state


def test_written_state_survives_a_power_cut() -> None:
    files = SimFiles()
    files.make_directory("/d")
    files.sync_directory("/")
    assert read_quorum_state(files, "/d") is None
    write_quorum_state(files, "/d", QuorumStateData(leader_epoch=9))
    assert read_quorum_state(files.restart("lost"), "/d") == QuorumStateData(leader_epoch=9)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"data_version":2}',
        KAFKA_V1[:-1],
        KAFKA_V1.replace(b"AAB", b""),
        OVER,
        INFINITE,
        DEEP,
    ],
    ids=range(9),
)
def test_damaged_state_is_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptFileError):
        decode_quorum_state("q", content)
