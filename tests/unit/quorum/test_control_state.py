from __future__ import annotations

import asyncio

from kaa.quorum import OffsetAndEpoch, VoterSet
from kaa.quorum.control_records import (
    ControlMessage,
    build_control_records,
    kraft_version_record,
    voters_record,
)
from kaa.quorum.control_state import ControlState
from kaa.quorum.snapshots import SnapshotContent
from kaa.records.batch import RecordBatch
from tests.unit.quorum.disk_replica import DiskReplica, new_disk, settle, voter

STATIC = VoterSet.of([voter(1), voter(2)])
ONE = VoterSet.of([voter(1, with_directory=True)])
TWO = VoterSet.of([voter(1, with_directory=True), voter(2, with_directory=True)])


def batch(offset: int, level: int, voters: VoterSet) -> RecordBatch:
    records: list[ControlMessage] = [kraft_version_record(level), voters_record(voters)]
    return RecordBatch(build_control_records(records, timestamp=0, base_offset=offset, epoch=1))


def test_without_records_the_settings_count() -> None:
    state = ControlState(STATIC)
    assert (state.kraft_version, state.voters.last()) == (0, STATIC)


def test_records_count_from_where_they_stand_and_go_with_a_truncation() -> None:
    state = ControlState(VoterSet())
    assert state.take_batch(batch(5, 1, ONE)) == [(6, ONE)]
    assert state.kraft_version == 1
    state.truncate_to(6)
    assert state.kraft_version == 1
    state.truncate_to(5)
    assert state.kraft_version == 0


def test_a_snapshot_starts_anew() -> None:
    state = ControlState(VoterSet())
    state.take_batch(batch(5, 1, ONE))
    content = SnapshotContent(0, 1, TWO, [])
    assert state.take_snapshot(OffsetAndEpoch(100, 2), content) == (99, TWO)
    assert state.take_snapshot(OffsetAndEpoch(200, 2), SnapshotContent(0, 0, None, [])) is None
    assert state.kraft_version == 0


def test_it_is_read_from_snapshot_and_log() -> None:
    async def scenario() -> None:
        files = new_disk()
        replica = DiskReplica(files)
        await settle()
        replica.driver.raise_kraft_version(1, 1)
        replica.append(b"x")
        await settle()
        again = ControlState(VoterSet())
        again.read(replica.opened)
        assert (again.kraft_version, again.voters.last()) == (1, ONE)

    asyncio.run(scenario())
