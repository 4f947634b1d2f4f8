"""Messages inside fields of others, and in small files."""

from kaa.wire.primitives import Uuid
from kaa.wire.schema import Data, Int16, Int32, Int64, Struct, Uint32, field


class SubscriptionTopicPartition(Struct):
    topic: str = field("1+")
    partitions: list[Int32] = field("1+")


class ConsumerProtocolSubscription(Data, versions="0-3"):
    """What a member of a classic consumer group subscribes to; embedded in JoinGroup."""

    topics: list[str] = field("0+")
    user_data: bytes | None = field("0+", default=None)
    owned_partitions: list[SubscriptionTopicPartition] = field("1+", ignorable=True)
    generation_id: Int32 = field("2+", default=-1, ignorable=True)
    rack_id: str | None = field("3+", default=None, ignorable=True)


class AssignmentTopicPartition(Struct):
    topic: str = field("0+")
    partitions: list[Int32] = field("0+")


class ConsumerProtocolAssignment(Data, versions="0-3"):
    """What a member of a classic consumer group was assigned; embedded in SyncGroup."""

    assigned_partitions: list[AssignmentTopicPartition] = field("0+")
    user_data: bytes | None = field("0+", default=None)


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    """A principal as a broker passes it to the controller in an Envelope."""

    type: str = field("0+")
    name: str = field("0+")
    token_authenticated: bool = field("0+")


class ProducerEntry(Struct):
    producer_id: Int64 = field("1")
    epoch: Int16 = field("1")
    last_sequence: Int32 = field("1")
    last_offset: Int64 = field("1")
    offset_delta: Int32 = field("1")
    timestamp: Int64 = field("1")
    coordinator_epoch: Int32 = field("1")
    current_txn_first_offset: Int64 = field("1")


class ProducerSnapshot(Data, versions="1"):
    """The producers known to a partition at one offset: the body of a `.snapshot` file."""

    crc: Uint32 = field("1")
    producer_entries: list[ProducerEntry] = field("1")


class Voter(Struct):
    voter_id: Int32 = field("0")


class QuorumStateData(Data, versions="0-1", flexible="0+"):
    """The vote and epoch of a quorum member, kept as JSON in the file `quorum-state`."""

    cluster_id: str = field("0")
    leader_id: Int32 = field("0+", default=-1)
    leader_epoch: Int32 = field("0+", default=-1)
    voted_id: Int32 = field("0+", default=-1)
    voted_directory_id: Uuid = field("1+")
    applied_offset: Int64 = field("0")
    current_voters: list[Voter] | None = field("0")
