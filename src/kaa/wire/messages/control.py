"""Control records: transaction markers and what the metadata quorum writes into its own log."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Data, Int16, Int32, Int64, Struct, Uint16, field


class ControlRecordTypeSchema(Data, versions="0"):
    """The key of every control record."""

    type: Int16 = field("0+")


class EndTxnMarker(Data, versions="0"):
    """The value of a commit or abort marker."""

    coordinator_epoch: Int32 = field("0+")


class LeaderChangeVoter(Struct):
    voter_id: Int32 = field("0+")
    voter_directory_id: Uuid = field("1+")


class LeaderChangeMessage(Data, versions="0-1", flexible="0+"):
    """Written by a new leader of the metadata quorum as its first record."""

    version: Int16 = field("0+")
    leader_id: Int32 = field("0+")
    voters: list[LeaderChangeVoter] = field("0+")
    granting_voters: list[LeaderChangeVoter] = field("0+")


class SnapshotHeaderRecord(Data, versions="0", flexible="0+"):
    """The first record of a metadata snapshot."""

    version: Int16 = field("0+")
    last_contained_log_timestamp: Int64 = field("0+")


class SnapshotFooterRecord(Data, versions="0", flexible="0+"):
    """The last record of a metadata snapshot."""

    version: Int16 = field("0+")


class KRaftVersionRecord(Data, versions="0", flexible="0+"):
    """The level of `kraft.version`, in the metadata log and its snapshots."""

    version: Int16 = field("0+")
    kraft_version: Int16 = field("0+")


class Endpoint(Struct):
    name: str = field("0+")
    host: str = field("0+")
    port: Uint16 = field("0+")


class KRaftVersionFeature(Struct):
    min_supported_version: Int16 = field("0+")
    max_supported_version: Int16 = field("0+")


class Voter(Struct):
    voter_id: Int32 = field("0+")
    voter_directory_id: Uuid = field("0+")
    endpoints: list[Endpoint] = field("0+")
    kraft_version_feature: KRaftVersionFeature = field("0+")


class VotersRecord(Data, versions="0", flexible="0+"):
    """The voters of the metadata quorum (KIP-853)."""

    version: Int16 = field("0+")
    voters: list[Voter] = field("0+")
