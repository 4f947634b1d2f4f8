"""The control records of the metadata log and its snapshots.

A leader opens its epoch with one control batch. Its first record is the LeaderChange. Where the
quorum keeps its voters in the log (kraft.version 1) and the newest set stands only in the snapshot
that formatting wrote, or tells other addresses of the leader than it has now, the level and the set
follow in the same batch. Snapshots carry both after their header.

Kafka writes version 0 of every one of these messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.model.nodes import Endpoint, VersionRange
from kaa.quorum.voters import VoterNode, VoterSet, replica_key
from kaa.records.build import BatchBuilder
from kaa.records.control import ControlRecordType, decode_control_key, encode_control_key
from kaa.records.record import iter_records
from kaa.wire.messages import control
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaa.records.batch import RecordBatch

ControlMessage = (
    control.LeaderChangeMessage
    | control.SnapshotHeaderRecord
    | control.SnapshotFooterRecord
    | control.KRaftVersionRecord
    | control.VotersRecord
)

_MESSAGES: dict[ControlRecordType, type[ControlMessage]] = {
    ControlRecordType.LEADER_CHANGE: control.LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: control.SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: control.SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: control.KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: control.VotersRecord,
}
_TYPES = {message: record_type for record_type, message in _MESSAGES.items()}
_VERSION = 0


class ControlRecord(NamedTuple):
    """A control record that was read."""

    offset: int
    message: ControlMessage


def build_control_records(
    messages: Sequence[ControlMessage], *, timestamp: int, base_offset: int, epoch: int
) -> bytearray:
    """One batch with these records."""
    builder = BatchBuilder(base_offset=base_offset, partition_leader_epoch=epoch, is_control=True)
    for message in messages:
        key = encode_control_key(_TYPES[type(message)])
        builder.append(timestamp, key, message.encode(_VERSION))
    return builder.build()


def read_control_records(batch: RecordBatch) -> Iterator[ControlRecord]:
    """The control records that the quorum knows; others are passed over, as Kafka does."""
    for record in iter_records(batch):
        message = _MESSAGES.get(decode_control_key(record.key))
        if message is not None and record.value is not None:
            yield ControlRecord(record.offset, message.decode(record.value, _VERSION))


def leader_change(
    leader_id: int, voters: Sequence[int], granting_voters: Sequence[int]
) -> control.LeaderChangeMessage:
    return control.LeaderChangeMessage(
        version=_VERSION,
        leader_id=leader_id,
        voters=[control.LeaderChangeVoter(voter_id=voter) for voter in voters],
        granting_voters=[control.LeaderChangeVoter(voter_id=voter) for voter in granting_voters],
    )


def kraft_version_record(level: int) -> control.KRaftVersionRecord:
    return control.KRaftVersionRecord(version=_VERSION, kraft_version=level)


def voters_record(voters: VoterSet) -> control.VotersRecord:
    return control.VotersRecord(
        version=_VERSION, voters=[_voter_message(voter) for voter in voters.voters]
    )


def voter_set(record: control.VotersRecord) -> VoterSet:
    """The set that a record holds; ValueError if it is not one, such as with an id twice."""
    return VoterSet.of(_voter_node(voter) for voter in record.voters)


def _voter_message(voter: VoterNode) -> control.Voter:
    directory_id = voter.key.directory_id
    supported = voter.supported_kraft_version
    return control.Voter(
        voter_id=voter.key.id,
        voter_directory_id=UUID_ZERO if directory_id is None else directory_id,
        endpoints=[
            control.Endpoint(name=point.listener, host=point.host, port=point.port)
            for point in voter.endpoints
        ],
        kraft_version_feature=control.KRaftVersionFeature(
            min_supported_version=supported.min, max_supported_version=supported.max
        ),
    )


def _voter_node(voter: control.Voter) -> VoterNode:
    feature = voter.kraft_version_feature
    return VoterNode(
        replica_key(voter.voter_id, voter.voter_directory_id),
        tuple(Endpoint(point.name, point.host, point.port) for point in voter.endpoints),
        VersionRange(feature.min_supported_version, feature.max_supported_version),
    )
